"""DDL phases and idle steps on a real server."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import pytest
from plain_server import DATASET, Kept, PlainServer, run, values

from volbench.core.records.steps.ddl import DdlStep
from volbench.core.records.steps.idle import IdleStep
from volbench.errors import MissingPrerequisite
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.schema_data import data_bytes

pytestmark = pytest.mark.mysqld


class TestDdl:
    def test_every_phase_is_a_row_and_the_schema_is_gone_afterwards(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """Tables are opened on a server with small caches that has just started, and its caches are as before."""
        caches = "SELECT @@table_open_cache, @@innodb_open_files"
        before, remaining = server.query(caches), Kept()
        step = DdlStep(
            name="d",
            tables=12,
            altered_tables=3,
            temporary_tables=4,
            threads=2,
            table_open_cache=20,
            phases=("create", "open", "alter_inplace", "alter_copy", "temporary", "drop"),
        )
        outcome = run(step, make_context(record=remaining))
        done = {"create": 12, "open": 12, "alter_inplace": 3, "alter_copy": 3, "temporary": 4, "drop": 12}
        assert [piece.suffix for piece in outcome.sub_results] == list(done)
        for section in outcome.sub_results:
            metrics = values(section.outcome)
            count = done[section.suffix]
            assert metrics["ddl_per_s"] == pytest.approx(count / metrics["ddl_s"])
            assert sum(row.events for row in remaining.histograms if row.step == f"d/{section.suffix}") == count
        assert outcome.sub_results[1].outcome.metrics["server_start_s"].value > 0
        assert server.query(caches) == before
        assert server.query("SHOW DATABASES LIKE 'volbench_ddl'") == []

    def test_binary_logs_are_rotated_and_a_server_without_one_is_refused(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """Each rotation makes a file."""
        step = DdlStep(name="d", tables=1, rotations=5, phases=("create", "binlog_rotation"))
        server.stop()
        server.start({"skip-log-bin": 1})
        with pytest.raises(MissingPrerequisite, match="no binary log to rotate"):
            run(step, make_context())
        server.stop()
        server.start({"log-bin": "binlog", "server-id": 1})
        before = len(server.query("SHOW BINARY LOGS"))
        run(step, make_context())
        assert len(server.query("SHOW BINARY LOGS")) == before + 5


class TestIdle:
    def test_idle_lasts_as_long_as_it_says(self, make_context: Callable[..., StepContext]) -> None:
        """Its window is its duration, and it has no metrics of its own."""
        outcome = run(IdleStep(name="i", duration_s=1), make_context())
        assert math.isclose(outcome.window_s[1] - outcome.window_s[0], 1, abs_tol=0.2)
        assert outcome.metrics == {}

    def test_data_size_is_the_servers_estimate(self, server: PlainServer) -> None:
        """Within a factor of two of 190 bytes a row."""
        assert data_bytes(cast("Any", server), "sbtest") == pytest.approx(
            DATASET.rows * DATASET.tables * 230, rel=0.5
        )
