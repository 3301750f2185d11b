"""`volbench run` on an emulated gp2: MySQL lives through the end of the burst, and the samples show it."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import live_run
import pytest

from volbench.machine.volume.emulated.status import list_volumes
from volbench.results.store.histograms import load_histograms
from volbench.results.store.series import Series, SeriesKey, read_series

pytestmark = pytest.mark.emulator

BURST_IOPS, BASELINE_IOPS = 3000, 150
CREDITS = 5_400_000 / 20
# 5.4 million credits, a fifteenth of them, the bucket 20 times smaller: 18,000, about six seconds of burst.
SPEC = "emulated:ebs-gp2?size=50GiB&credits=0.0667&time_scale=20"
# Reads that miss a small buffer pool: what gives most I/O for the least CPU, on a machine that may be busy.
LOAD = (
    "dataset.tables=2",
    "dataset.rows=100000",
    "engine.config.innodb_buffer_pool_size=8M",
    "steps.0.test=select_random_points",
    live_run.AT_FULL_SPEED,
    "steps.0.threads=32",
    "steps.0.warmup=1s",
    "steps.0.duration=18s",
    "sampling.interval=1s",
)


def run_on(bench: live_run.Bench, spec: str, *settings: str) -> live_run.Ended:
    bench.volumes.clear()
    process = bench.start(*settings, options=["--volume", f"gp2={spec}"])
    return bench.end(process)


def total_iops(path: Path, window_s: tuple[float, float]) -> list[float]:
    """Reads and writes of the volume in each second, by the emulator's own counters."""
    samples = read_series(path, sources=["emulator"], window_s=window_s)
    reads, writes = (samples[SeriesKey(source="emulator", metric=name)] for name in ("reads_per_s", "writes_per_s"))
    return [float(value) for value in reads.value + writes.value]


def balance(path: Path, window_s: tuple[float, float]) -> Series:
    samples = read_series(path, sources=["emulator"], window_s=window_s)
    return samples[SeriesKey(source="emulator", metric="balance_percent", entity="volume.credits")]


@pytest.mark.parametrize("bench", live_run.LOCAL_IF_SLOW, indirect=True)
def test_a_burst_ends_in_the_middle_of_a_step_and_the_series_show_it(bench: live_run.Bench, root: Path) -> None:
    """3,000 IOPS while credits last, 150 afterwards; labelled as emulated and scaled in every report."""
    ended = run_on(bench, f"{SPEC}&dir={root}", *LOAD)
    assert ended.code in live_run.FINISHED, ended.output
    (result,) = bench.directory.results()
    (step,) = result.steps
    series = bench.directory.cell_dir(result.cell_id) / "series.parquet"
    iops = total_iops(series, step.window_s)
    left = balance(series, step.window_s).value.tolist()
    empty = [number for number, percent in enumerate(left) if percent < 0.02 * left[0]]
    assert empty, f"the burst did not end: {left}"
    spent = empty[0]
    before, after = iops[:spent], iops[spent + 2 :]
    # What is left at a second's end runs out as the model says: at the rate of use, less the rate of earning.
    due_s = left[0] / 100 * CREDITS / (statistics.mean(before[1:]) - BASELINE_IOPS)
    assert spent == pytest.approx(due_s, abs=2), f"due after {due_s:.1f} s: {left}"
    assert len(after) >= 5, f"the burst ended too late: {iops}"
    assert sorted(before)[-3] > 2000, f"no burst was seen: {iops}"
    # A counter that a busy machine reads late has the next second's operations: over three, that is little.
    assert max(map(statistics.mean, zip(before, before[1:], before[2:], strict=False))) <= 1.05 * BURST_IOPS
    assert statistics.median(after) == pytest.approx(BASELINE_IOPS, rel=0.05)
    assert not list_volumes(root)
    assert bench.leftovers() == []
    _is_labelled(bench.directory.path)


def _is_labelled(run: Path) -> None:
    report: dict[str, Any] = json.loads((run / "report.json").read_bytes())
    (volume,) = report["volumes"]
    assert (volume["emulated"], volume["profile"]) == (True, "ebs-gp2")
    assert volume["facts"]["emulated_parameters"]["time_scale"] == 20
    for text in ((run / "report.md").read_text(), (run / "report.html").read_text()):
        assert "is emulated (ebs-gp2)" in text
        assert "20 times smaller" in text
        assert "time_scale" in text


@pytest.mark.mysqld
def test_a_volume_that_falls_behind_its_model_makes_the_step_invalid(local: live_run.Bench, root: Path) -> None:
    """With a limit of no lateness at all, any machine falls behind; the reason is in every report."""
    spec = f"emulated:local-nvme?size=20GiB&dir={root}"
    ended = run_on(local, spec, live_run.AT_FULL_SPEED, "limits.emulator_late=0")
    assert ended.code in live_run.FINISHED, ended.output
    (result,) = local.directory.results()
    (step,) = result.steps
    assert not step.valid
    assert any("fell behind its model" in reason for reason in step.invalid_reasons), step.invalid_reasons
    assert "fell behind its model" in (local.directory.path / "report.md").read_text()
    merged = load_histograms(local.directory.cell_dir(result.cell_id) / "histograms.parquet").merged(measured=True)
    events = {key.source: int(table.events.sum()) for key, table in merged.items()}
    assert min(events["lateness write"], events["lateness flush"]) > 100, events  # reads may be of the pool
