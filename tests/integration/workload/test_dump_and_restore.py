"""Dump and restore on a real server: data is proven equal, and faults are named."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, cast

import pytest
from plain_server import DATASET, PlainServer, run, values

from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.restore import RestoreStep
from volbench.errors import MissingPrerequisite, StepFailed
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.registry import workload_for
from volbench.measure.workload.schema_data import table_names
from volbench.measure.workload.state import LAST_DUMP

pytestmark = pytest.mark.mysqld


class TestDumpAndRestore:
    @pytest.mark.parametrize(("dump_tool", "load_tool"), [("mysqldump", "mysql"), ("mydumper", "myloader")])
    @pytest.mark.parametrize("to", ["volume", "scratch"])
    def test_restored_data_is_proven_equal(
        self, server: PlainServer, make_context: Callable[..., StepContext], dump_tool: Any, load_tool: Any, to: Any
    ) -> None:
        """Dump, load into a fresh schema, compare all rows; the schema is gone afterwards."""
        if shutil.which(dump_tool) is None:
            pytest.skip(f"needs {dump_tool}")
        ctx = make_context()
        dumped = run(DumpStep(name="d", tool=dump_tool, to=to), ctx)
        remaining = ctx.state[LAST_DUMP]
        assert remaining.directory.parent == {"volume": ctx.volume_dir, "scratch": ctx.scratch_dir}[to]
        assert values(dumped)["dump_bytes"] == sum(path.stat().st_size for path in remaining.directory.iterdir())
        assert values(dumped)["dump_bytes"] > DATASET.rows * DATASET.tables * 180
        restored = run(RestoreStep(name="r", tool=load_tool), ctx)
        assert restored.details["equality"] == "proven"
        assert len(restored.details["source"]) == DATASET.tables
        assert values(restored)["restore_s"] > 0
        assert table_names(cast("Any", server), "sbtest_restored") == []

    def test_a_damaged_dump_is_found_out(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """One changed digit in one row fails the restore with the table's name, and leaves no schema behind."""
        ctx = make_context()
        run(DumpStep(name="d", tool="mysqldump"), ctx)
        sql = ctx.state[LAST_DUMP].directory / "dump.sql"
        head, separator, remainder = sql.read_text().rpartition("-")
        for digit in "0123456789":
            location = head.rfind(f"-{digit}")
            if location > 0:
                break
        changed = "1" if head[location + 1] == "0" else "0"
        sql.write_text(head[: location + 1] + changed + head[location + 2 :] + separator + remainder)
        with pytest.raises(StepFailed, match="differs from the dumped data") as caught:
            run(RestoreStep(name="r"), ctx)
        assert "sbtest2 has checksum" in caught.value.evidence
        assert table_names(cast("Any", server), "sbtest_restored") == []

    def test_a_dump_to_nowhere_counts_its_bytes(self, make_context: Callable[..., StepContext]) -> None:
        """As many as a kept dump has, to the byte but for its time stamp's length."""
        ctx = make_context()
        dump_bytes = values(run(DumpStep(name="d", tool="mysqldump"), ctx))["dump_bytes"]
        dropped = values(run(DumpStep(name="n", tool="mysqldump", to="nowhere"), ctx))["dump_bytes"]
        assert dropped == pytest.approx(dump_bytes, abs=10)

    def test_a_restore_without_a_dump_says_what_to_do(self, make_context: Callable[..., StepContext]) -> None:
        """Nothing is loaded, and the message names the step that is missing."""
        with pytest.raises(StepFailed, match="no dump of mysqldump to restore") as caught:
            run(RestoreStep(name="r"), make_context())
        assert "dump step" in caught.value.next_step

    def test_a_full_disk_is_foreseen(self, make_context: Callable[..., StepContext], monkeypatch: Any) -> None:
        """The check compares free space with the data's size."""
        real = os.statvfs

        def nearly_full(path: Any) -> os.statvfs_result:
            stat = list(real(path))
            stat[4] = 1000  # f_bavail
            return os.statvfs_result(stat)

        monkeypatch.setattr(os, "statvfs", nearly_full)
        step = DumpStep(name="d")
        with pytest.raises(MissingPrerequisite, match="not enough free space for the dump of step d"):
            workload_for(step).check(step, make_context())

    @pytest.mark.parametrize("tool", ["mysqldump", "mydumper"])
    def test_a_volume_that_fills_up_is_named(
        self, make_context: Callable[..., StepContext], tool: Any, children: Callable[[], set[str]]
    ) -> None:
        """The free space looked enough and was not: the cause is the volume, not the tool."""
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
        ctx = make_context()
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(ctx.volume_dir)]
        if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            pytest.skip("needs the right to mount a tmpfs")
        try:
            step = DumpStep(name="d", tool=tool)
            with pytest.raises(MissingPrerequisite) as caught:
                workload_for(step).run(step, ctx)
            assert caught.value.cause == "volume_full", caught.value
            assert tool in str(caught.value)
            assert children() == set()
        finally:
            subprocess.run(["umount", str(ctx.volume_dir)], check=True)

    def test_a_dump_that_takes_too_long_is_ended(
        self, server: PlainServer, make_context: Callable[..., StepContext], children: Callable[[], set[str]]
    ) -> None:
        """A table that somebody keeps locked: the step fails at its timeout, and the tool is gone."""
        with server.connect(DATASET.schema_name) as opened:
            opened.cursor().execute("LOCK TABLES sbtest1 WRITE")
            with pytest.raises(StepFailed, match="mysqldump did not finish within 1 s"):
                run(DumpStep(name="d", tool="mysqldump", timeout_s=1), make_context())
            assert children() == set()
