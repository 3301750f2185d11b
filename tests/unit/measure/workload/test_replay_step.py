"""The replay step: names of classes, latencies from when a statement was due, and logs that do not fit."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from volbench.core.records.steps.replay import ReplayStep
from volbench.core.sql.fingerprint import fingerprint
from volbench.errors import UsageError
from volbench.measure.workload.replay import step as step_module
from volbench.measure.workload.replay.schedule import Schedule, ScheduledStatement, schedule
from volbench.measure.workload.replay.sending import ExecutedStatement
from volbench.measure.workload.replay.slowlog import SlowLog
from volbench.measure.workload.replay.step import _metrics, class_name, plan_replay

LOG = """/usr/sbin/mariadbd, Version: 10.11.19-MariaDB. started with:
Tcp port: 0  Unix socket: /s
Time		    Id Command	Argument
# Time: 261122  9:34:43
# User@Host: root[root] @ localhost []
# Thread_id: 7  Schema: shop  QC_hit: No
# Query_time: 0.002000  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 1
SET timestamp=1795340083;
SELECT title FROM film WHERE film_id = 3;
"""


def test_a_class_has_one_name_whatever_its_literals_are() -> None:
    """Verb and table, to be read; part of a hash, since several classes have both in common."""
    statements = ("SELECT a FROM `shop`.`rental` WHERE id = 1", "SELECT a FROM `shop`.`rental` WHERE id = 99")
    names = {class_name(fingerprint(sql)) for sql in statements}
    (name,) = names
    assert name.startswith("select-rental-")
    assert class_name(fingerprint("SELECT b FROM rental WHERE id = 1")) != name
    assert class_name(fingerprint("COMMIT")).startswith("commit-")


def test_a_latency_counts_from_when_the_statement_was_due_without_the_clients_own_delay() -> None:
    """Due at 1 s on a connection that was busy until 1.5 s: half a second of waiting counts, 0.1 s of ours not."""
    statement = ScheduledStatement(at_s=1.0, connection=1, schema="s", sql="SELECT 1", class_index=0, logged_s=0.1)
    execution = ExecutedStatement(statement=statement, free_s=1.5, started_s=1.6, ended_s=1.8)
    metrics = _metrics([execution], length_s=1.0)
    assert metrics["latency_ms_p95"].value == pytest.approx(700)
    assert metrics["qps"].value == 1


def test_a_log_of_another_schema_says_what_it_has_instead(tmp_path: Path) -> None:
    path = tmp_path / "slow.log"
    path.write_text(LOG)
    step = ReplayStep(name="replay", log=str(path))
    assert plan_replay(step, "shop").statements == 1
    with pytest.raises(UsageError, match="no statement to replay") as refused:
        plan_replay(step, "other")
    assert "1 of other schemas" in refused.value.evidence
    assert "dataset.schema" in refused.value.next_step


def test_what_a_server_appends_while_a_log_is_planned_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "slow.log"
    path.write_text(LOG * 2)

    def schedule_meanwhile(log: SlowLog, **options: Any) -> Schedule:
        statements = iter(log)
        first = next(statements)
        with path.open("a") as server:
            server.write(LOG)
        return schedule(chain([first], statements), **options)

    monkeypatch.setattr(step_module, "schedule", schedule_meanwhile)
    planned = plan_replay(ReplayStep(name="replay", log=str(path)), "shop")
    assert planned.statements == 2
    assert planned.notes == (
        f"of the log: left out: {len(LOG):,} bytes that the server appended while the log was read",
    )
