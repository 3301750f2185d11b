"""Changes within a step: their second, size and shape, on physics of our own and on recordings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kernel_throttle import case_of
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.episodes import find_change
from volbench.results.explain.findings import explain_case
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.explain.rules.volume.slowdowns import slowdowns
from volbench.results.stats.grid import Floats, align
from volbench.results.store.series import Series, SeriesKey

RECORDINGS = Path(__file__).parents[3] / "fixtures" / "recordings"
LOAD = Load(queue=8, threads=8)


def case(latency_ms: Callable[[Floats], Floats], seed: int, load: Load = LOAD) -> Case:
    grid = align(columns(dataclasses.replace(load, seed=seed), Storage(latency_ms=latency_ms)))
    return Case(name="load", grid=grid, cell_grid=grid, threads=load.threads, cpus=8)


def degraded(of: Case) -> Cause:
    return next(finding for finding in explain_case(of).findings if finding.cause == "storage.degraded")


def text(finding: Cause) -> str:
    return "\n".join(row.text for row in finding.evidence)


@pytest.mark.parametrize("times", [1.8, 3.0, 6.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_operations_that_take_longer_from_one_second_on(times: float, seed: int) -> None:
    finding = degraded(case(lambda t_s: np.where(t_s <= 38, 1.5, 1.5 * times), seed))
    assert finding.window_s == (pytest.approx(38, abs=1), 60.0)
    assert "from second 38 on" in text(finding) or "from second 37 on" in text(finding)
    assert finding.evidence[0].value == pytest.approx(1.5 * times, rel=0.1)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_rise_over_eighteen_seconds_is_a_ramp(seed: int) -> None:
    finding = degraded(case(lambda t_s: 1.5 * (1 + 3 * np.clip((t_s - 20) / 18, 0, 1)), seed))
    assert "after a rise from second" in text(finding)
    assert finding.window_s[0] == pytest.approx(21, abs=4)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_slow_episode_has_both_ends(seed: int) -> None:
    finding = degraded(case(lambda t_s: np.where((t_s > 20) & (t_s <= 34), 6.0, 1.5), seed))
    assert finding.window_s == pytest.approx((20, 34), abs=1)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_slowness_that_recurs_is_periodic(seed: int) -> None:
    finding = degraded(case(lambda t_s: np.where(t_s % 15 >= 9, 6.0, 1.5), seed))
    assert "each 15 s again" in text(finding)


@pytest.mark.parametrize("seed", range(6))
def test_a_steady_volume_has_no_change(seed: int) -> None:
    assert "storage.degraded" not in [
        finding.cause for finding in explain_case(case(lambda t_s: t_s * 0 + 1.5, seed)).findings
    ]


def test_a_heavier_load_is_no_slower_volume() -> None:
    """Operations take longer while there are more of them: the volume is what it was."""
    heavy = case(lambda t_s: np.where(t_s <= 30, 1.5, 4.5), 1)
    disk = {key: item for key, item in heavy.grid.columns.items() if key.source == "diskstats"}
    more = {
        key: item * np.where(heavy.grid.t_s <= 30, 1.0, 4.5)
        for key, item in disk.items()
        if key.metric in ("reads_per_s", "writes_per_s", "read_mib_per_s", "write_mib_per_s", "aqu_sz")
    }
    grid = dataclasses.replace(heavy.grid, columns={**heavy.grid.columns, **more})
    findings = explain_case(dataclasses.replace(heavy, grid=grid, cell_grid=grid)).findings
    assert "storage.degraded" not in [finding.cause for finding in findings]


@pytest.mark.parametrize("name", ["clean-1", "clean-2", "clean-3", "clean-4", "clean-reads-1", "clean-reads-4"])
def test_recorded_steady_volumes_have_no_change(name: str) -> None:
    """Recordings of sar and iostat beside MariaDB on a busy machine."""
    result = explain_recorded([RECORDINGS / name / "iostat.txt"], device="")
    assert "storage.degraded" not in [finding.cause for finding in result.findings]


def joined(first: Case, second: Case, at: int) -> Case:
    """One step that is the first case up to a bucket, and the second from there on."""
    size = min(len(first.grid), len(second.grid))
    columns = {
        key: np.concatenate([first.grid.columns[key][:at], second.grid.columns[key][at:size]])
        for key in first.grid.columns.keys() & second.grid.columns.keys()
    }
    grid = dataclasses.replace(first.grid, t_s=first.grid.t_s[:size], columns=columns)
    return dataclasses.replace(first, grid=grid, cell_grid=grid)


def test_a_limit_above_the_device_for_a_part_of_a_step_is_named_with_its_window() -> None:
    """Two real runs put together: no limit for 11 s, then 800 reads/s for the server's control group."""
    case = joined(case_of("clean"), case_of("above-read-800"), 11)
    finding = next(finding for finding in explain_case(case).findings if finding.cause == "host.io_limit")
    assert finding.window_s[0] == pytest.approx(float(case.grid.t_s[10]), abs=2)
    assert "transactions a second without it" in text(finding)


def seen_at_device(*, times: float, in_flight: float, busy: float, seed: int = 1) -> list[str]:
    """What is named of a recording of a device alone, whose operations take `times` as long from second 30 on."""
    latency = 1.0
    rates = Load(queue=in_flight, threads=8, seed=seed)
    of_all = columns(rates, Storage(latency_ms=lambda t_s: np.where(t_s <= 30, latency, latency * times)))
    grid = align({key: series for key, series in of_all.items() if key.source == "diskstats"})
    util = SeriesKey(source="diskstats", metric="util_ratio", entity="sda")
    grid = dataclasses.replace(grid, columns={**grid.columns, util: np.full(len(grid), busy)})
    recorded = Case(name="load", grid=grid, cell_grid=grid, recorded=True)
    return [finding.cause for finding in explain_case(recorded).findings]


@pytest.mark.parametrize(
    ("times", "in_flight", "busy", "named"),
    [
        (1.7, 0.43, 0.1, False),  # an almost idle disk: hgxl64's series16
        (1.7, 0.6, 0.4, False),
        (4.2, 0.6, 0.4, False),
        (6.0, 0.6, 0.4, True),
        (6.0, 0.6, 0.12, False),
        (6.0, 0.6, 0.19, True),
        (1.9, 8.0, 0.9, True),
    ],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_device_alone_is_called_slower_as_documented(
    times: float, in_flight: float, busy: float, named: bool, seed: int
) -> None:
    """Five times, or with a queue that ends fewer; never where the device is busy for under 15 % of the time."""
    result = seen_at_device(times=times, in_flight=in_flight, busy=busy, seed=seed)
    assert ("storage.degraded" in result) is named


READS = [572, 575, 769, 569, 787, 833, 765, 818, 653, 808, 817, 825, 753, 222, 221, 220, 181, 256]
QUEUE = [5.5, 4.7, 5.4, 5.2, 5.3, 5.8, 5.6, 5.7, 4.8, 5.4, 5.7, 5.7, 5.5, 5.8, 5.8, 5.7, 5.8, 5.4]
"""Recorded: a bucket of operations that is empty after 13 of 18 seconds, on a host whose CPUs are all busy."""


def short_step(reads: Floats, queue: Floats) -> Case:
    """A step of reads, with one transaction a read."""
    waits = 1000 * queue / reads
    figures = {
        ("diskstats", "reads_per_s", "sda"): reads,
        ("diskstats", "writes_per_s", "sda"): np.zeros(len(reads)),
        ("diskstats", "r_await_ms", "sda"): waits,
        ("diskstats", "r_size_kib", "sda"): np.full(len(reads), 16.0),
        ("diskstats", "read_mib_per_s", "sda"): reads / 64,
        ("diskstats", "aqu_sz", "sda"): queue,
        ("client", "tps", ""): reads,
        ("client", "latency_ms_p95", ""): 2 * waits,
    }
    t_s = np.arange(1.0, len(reads) + 1)
    grid = align(
        {
            SeriesKey(source=source, metric=metric, entity=entity): Series(t_s=t_s, value=values)
            for (source, metric, entity), values in figures.items()
        }
    )
    return Case(name="load", grid=grid, cell_grid=grid, threads=6, cpus=2)


def test_a_change_that_is_clear_is_seen_though_few_intervals_follow_it() -> None:
    """Ranks of 18 intervals leave chance possible where the last five are the slowest; their level does not."""
    slow = degraded(short_step(np.array(READS, dtype=np.float64), np.array(QUEUE)))
    assert slow.window_s == (pytest.approx(13, abs=0.1), 18.0)
    assert slow.one_of_two


@pytest.mark.parametrize(("scatter_ms", "is_seen"), [(1.3, True), (1.4, False)])
def test_ten_spreads_are_clear(scatter_ms: float, is_seen: bool) -> None:
    """20 ms more: 10.4 and 9.6 of the scaled median deviations of both levels."""
    scatter = np.concatenate([np.linspace(2, -2, 13), np.linspace(2, -2, 5)])
    waits = np.repeat([10.0, 30.0], [13, 5]) + scatter_ms * scatter
    case = short_step(5000 / waits, np.full(18, 5.0))
    assert find_change(case.grid, waits) is None
    assert case.device is not None
    assert bool(slowdowns(case, case.device)) is is_seen
