"""A server on an emulated volume made from a snapshot, warmed by the list of its buffer pool."""

from __future__ import annotations

from pathlib import Path

import live_run
import pytest

pytestmark = pytest.mark.emulator
STEP = "{kind: restored, name: pool, plan: pool, dump_pct: 100, threads: 2, duration: 30s}"
NEARLY_ALL = 0.9
"""Of the listed pages: some are of tables that the server makes anew at its start, such as temporary ones."""


@pytest.mark.parametrize("bench", live_run.LOCAL_IF_SLOW, indirect=True)
def test_a_plan_of_the_whole_pool_brings_all_of_its_pages_back(bench: live_run.Bench, root: Path) -> None:
    """MySQL 9.7 in containers: the server counts its pages at the dump, and again before the load."""
    bench.volumes.clear()
    small = [setting for setting in live_run.SMALL if not setting.startswith("steps.")]
    chosen = [argument for setting in (*small, f"steps=[{STEP}]") for argument in ("--set", setting)]
    if bench.target == "local":
        chosen += ["--set", "engine.flavor=mariadb"]
    process = bench.volbench(
        *("run", str(live_run.SUITE), "--target", bench.target, *chosen),
        *("--volume", f"v=emulated:snapshot-lazy-load?base=local-nvme&size=5GiB&dir={root}"),
        *("--out", str(bench.results), "--yes"),
    )
    ended = bench.end(process, 2 * live_run.BOUND_S)
    assert ended.code in live_run.FINISHED, ended.output
    (result,) = bench.directory.results()
    (step,) = result.steps
    assert step.details["plan"] == "pool"
    assert step.details["dump_pct"] == 100
    at_dump = step.details["pool_pages_at_dump"]
    assert isinstance(at_dump, int)
    assert step.metrics["pool_pages"].value >= NEARLY_ALL * at_dump > 0
    assert step.metrics["plan_s"].value > 0
    assert "normal_p95_ms" in step.metrics
    assert not [note for note in step.notes if "dump_pct" in note]
    assert bench.leftovers() == []
