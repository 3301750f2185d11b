"""Cold reads on a real server: proven cold, or not called so."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable
from functools import partial

import pytest
from plain_server import DATASET, PlainServer, run, values

from volbench.core.records.metric import CPU_SYSTEM, CPU_USER
from volbench.core.records.steps.cold_read import ColdReadStep
from volbench.errors import StepFailed
from volbench.machine.host.blockstats import device_read_bytes
from volbench.machine.volume.facts.discovery import discover
from volbench.measure.workload.files import tree_bytes
from volbench.measure.workload.interface import StepContext

pytestmark = pytest.mark.mysqld


class TestColdRead:
    def test_a_cold_read_is_proven_by_pages_and_by_the_device(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """No page was resident, the device delivered the bytes: true-cold."""
        facts = discover(server.data_dir)
        if device_read_bytes(facts) is None:
            pytest.skip("no device counter for the temporary directory")
        ctx = make_context(volume_facts=facts, device_read_bytes=partial(device_read_bytes, facts))
        outcome = run(ColdReadStep(name="c", readers=2), ctx)
        assert outcome.invalid_reasons == ()
        assert [note.split(" (")[0] for note in outcome.notes] == [
            "reading files: true-cold",
            "table scan: true-cold",
        ]
        files, scan = outcome.details["files"], outcome.details["table_scan"]
        assert files["resident_pages_before"] == 0
        assert files["size_bytes"] == tree_bytes(server.data_dir / "sbtest")
        assert files["size_bytes"] >= files["read_bytes"] > DATASET.rows * DATASET.tables * 180
        assert files["device_bytes"] >= 0.95 * files["read_bytes"]
        assert {item["file"] for item in files["by_file"]} >= {"sbtest/sbtest1.ibd", "sbtest/sbtest2.ibd"}
        assert scan["device_bytes"] > 0.9 * scan["read_bytes"] > 5_000_000
        metrics = values(outcome)
        assert metrics["cold_read_mib_per_s"] == pytest.approx(files["read_bytes"] / 2**20 / metrics["cold_read_s"])
        for name in (
            "warm_read_mib_per_s",
            "first_query_ms",
            "server_start_s",
            "table_scan_s",
            "table_scan_mib_per_s",
        ):
            assert metrics[name] > 0
        assert server.alive()

    def test_cat_reads_the_same_files_through_a_pipe(self, make_context: Callable[..., StepContext]) -> None:
        """As people type it: the same metrics, and no time of single files."""
        outcome = run(ColdReadStep(name="c", reader="cat", table_scan=False), make_context())
        assert {"cold_read_mib_per_s", "warm_read_mib_per_s", "cold_read_files_per_s"} <= set(outcome.metrics)
        assert outcome.details["files"]["slowest_file_s"] is None

    def test_without_a_device_counter_cold_is_not_claimed(self, make_context: Callable[..., StepContext]) -> None:
        """The numbers are kept, labelled lukewarm, and invalid."""
        outcome = run(ColdReadStep(name="c", table_scan=False, warm_read=False), make_context())
        cpu_times = {CPU_USER.name, CPU_SYSTEM.name}  # absent where the program used less than a tick of the clock
        assert set(outcome.metrics) - cpu_times == {"cold_read_s", "cold_read_mib_per_s", "cold_read_files_per_s"}
        assert "reading files was not cold but lukewarm" in outcome.invalid_reasons[0]

    def test_pages_in_memory_are_found_out(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """Files that stay mapped in memory cannot be evicted: not cold, and invalid."""
        facts = discover(server.data_dir)
        with contextlib.ExitStack() as stack:
            for path in (server.data_dir / "sbtest").glob("*.ibd"):
                file = stack.enter_context(path.open("rb"))
                mapped = stack.enter_context(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
                sum(mapped[:: mmap.PAGESIZE])
                step = ColdReadStep(name="c", table_scan=False)
                ctx = make_context(volume_facts=facts, device_read_bytes=partial(device_read_bytes, facts))
            outcome = run(step, ctx)
        assert outcome.invalid_reasons
        assert outcome.details["files"]["resident_pages_before"] > 1000
        assert server.alive()

    def test_the_server_runs_again_after_a_failure(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """A cold read that fails in the middle leaves a running server behind."""
        ctx = make_context()
        ctx.cancelled.set()
        with pytest.raises(StepFailed, match="cancelled"):
            run(ColdReadStep(name="c"), ctx)
        assert server.alive()
