"""A restored volume: named where reads become fast as blocks are touched, and not for what only looks like it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from volbench.core.profile.resolve import resolve
from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.explain.rules.volume.lazy_load import lazy_load_findings
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

LAZY, BASE_MS, SECONDS = "storage.lazy_load", 0.8, 120
FETCH_MS = resolve("snapshot-lazy-load").model["first_touch"]["latency"]["parts"][0]["median_us"] / 1000


def case_of(
    reads: Floats,
    r_await: Floats,
    *,
    writes: float = 200.0,
    w_await: Floats | float = BASE_MS,
    balance: Floats | None = None,
    recorded: bool = False,
    width_s: float = 1.0,
) -> Case:
    """A load whose clients wait for reads, with statement times; figures are means over intervals."""
    size = len(reads)
    random = np.random.default_rng(4)
    w_ms = np.broadcast_to(np.asarray(w_await, dtype=np.float64), (size,)) * random.lognormal(0, 0.05, size)
    waited = np.minimum(reads * r_await / 1000, 15.0)
    values = {
        ("diskstats", "reads_per_s", "nvme1n1"): reads,
        ("diskstats", "writes_per_s", "nvme1n1"): np.full(size, writes),
        ("diskstats", "read_mib_per_s", "nvme1n1"): reads / 64,
        ("diskstats", "write_mib_per_s", "nvme1n1"): np.full(size, writes / 64),
        ("diskstats", "r_await_ms", "nvme1n1"): r_await,
        ("diskstats", "w_await_ms", "nvme1n1"): w_ms,
        ("diskstats", "aqu_sz", "nvme1n1"): (reads * r_await + writes * w_ms) / 1000,
        ("diskstats", "util_ratio", "nvme1n1"): np.full(size, 0.9),
    }
    if not recorded:
        values |= {
            ("client", "tps", ""): reads / 6,
            ("client", "latency_ms_p95", ""): 6 * r_await * 2,
            ("performance_schema", "statement_s_per_s", ""): np.full(size, 16.0),
            ("performance_schema", "wait_s_per_s", "file_data"): waited,
            ("performance_schema", "wait_s_per_s", "file_redo"): np.full(size, 0.1),
            ("performance_schema", "file_read_ms", "data"): r_await,
            ("cpu", "user_ratio", ""): np.full(size, 0.2),
            ("cpu", "system_ratio", ""): np.full(size, 0.05),
        }
    if balance is not None:
        values["cloudwatch", "balance_percent", "volume"] = balance
    columns = {
        SeriesKey(source=source, metric=metric, entity=entity): np.asarray(value, dtype=np.float64)
        for (source, metric, entity), value in values.items()
    }
    grid = Grid(t_s=np.arange(1.0, size + 1) * width_s, width_s=width_s, columns=columns)
    return Case(name="load", grid=grid, whole=grid, disk="nvme1n1", threads=16, cpus=8, recorded=recorded)


def restored(blocks: int, *, clients: float = 12.0, seed: int = 1, width_s: float = 1.0) -> tuple[Floats, Floats]:
    """Reads and their mean time in a closed loop: of random blocks, each is fetched once."""
    random = np.random.default_rng(seed)
    left, reads, waits = 1.0, [], []
    for _ in range(SECONDS):
        each_ms = (BASE_MS + left * FETCH_MS * 1.3) * random.lognormal(0, 0.05)
        count = clients / each_ms * 1000
        left *= float(np.exp(-count * width_s / blocks))
        reads.append(count)
        waits.append(each_ms)
    return np.array(reads), np.array(waits)


def noisy(values: Floats | float, seed: int = 2) -> Floats:
    random = np.random.default_rng(seed)
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (SECONDS,)) * random.lognormal(0, 0.08, SECONDS)


def causes(case: Case) -> set[str]:
    return {finding.cause for finding in explain_case(case).findings}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(("blocks", "seed"), [(50_000, 1), (80_000, 2), (120_000, 3)])
def test_a_restored_volume_is_named_and_nothing_else_of_the_volume(blocks: int, seed: int, recorded: bool) -> None:
    case = case_of(*restored(blocks, seed=seed), recorded=recorded)
    result = causes(case)
    assert LAZY in result
    assert not result & {
        "storage.read_latency",
        "storage.degraded",
        "storage.iops_limit",
        "storage.throughput_limit",
    }


def test_a_restored_volume_is_named_from_minutes_of_cloudwatch_with_full_credits() -> None:
    reads, waits = restored(5_000_000, width_s=60.0)
    case = case_of(reads, waits, recorded=True, width_s=60.0, balance=np.full(SECONDS, 99.0))
    (finding,) = lazy_load_findings(case)
    assert any("burst credits are left" in row.text for row in finding.evidence)


def _exhausted() -> Case:
    """Credits run out, and come again: reads and writes wait in one queue."""
    slow = np.r_[np.full(70, 1.0), np.full(50, 10.0)][::-1]
    return case_of(
        noisy(3000 / slow), noisy(4.0 * slow), w_await=4.0 * slow, balance=np.r_[np.zeros(50), np.full(70, 8.0)]
    )


def _credits_of_reads() -> Case:
    """Reads alone become slow and fast again, and the vendor says that the bucket was empty."""
    reads, waits = restored(120_000)
    return case_of(reads, waits, balance=np.linspace(0.0, 30.0, SECONDS))


def _cold_pool() -> Case:
    """A cold buffer pool on a sound volume: many reads, each fast, that become fewer."""
    return case_of(noisy(2500 * np.exp(-np.arange(SECONDS) / 40) + 100), noisy(0.9))


def _cold_pool_at_a_limit() -> Case:
    """A cold buffer pool at a limit of reads: the queue becomes shorter as pages are cached, and the rate stays."""
    waits = 12.0 * np.exp(-np.arange(SECONDS) / 50) + 0.8
    return case_of(noisy(1000.0) * 0 + 1000.0, noisy(waits))


def _slow_region() -> Case:
    """A part of the volume is slow, first and second touch alike."""
    return case_of(noisy(700.0), noisy(16.0))


def _slow_region_left() -> Case:
    """The load leaves a slow part of the volume from one second on."""
    waits = np.where(np.arange(SECONDS) < 55, 16.0, 0.9)
    return case_of(noisy(12.0 / waits * 1000), noisy(waits))


def _degraded_at_first() -> Case:
    """The whole volume is slow at first, and recovers little by little: writes too."""
    waits = 16.0 * np.exp(-np.arange(SECONDS) / 30) + 0.8
    return case_of(noisy(12.0 / waits * 1000), noisy(waits), w_await=waits)


def _slower_and_slower() -> Case:
    reads, waits = restored(120_000)
    return case_of(reads[::-1], waits[::-1])


def _idle() -> Case:
    """Hardly anything is read."""
    _, waits = restored(120_000)
    return case_of(np.full(SECONDS, 0.5), waits)


@pytest.mark.parametrize(
    "alternative",
    [
        _exhausted,
        _credits_of_reads,
        _cold_pool,
        _cold_pool_at_a_limit,
        _slow_region,
        _slow_region_left,
        _degraded_at_first,
        _slower_and_slower,
        _idle,
    ],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_what_only_looks_like_it_is_not_named(alternative: Callable[[], Case], recorded: bool) -> None:
    case = alternative()
    case = Case(**{**{name: getattr(case, name) for name in case.__dataclass_fields__}, "recorded": recorded})
    assert LAZY not in causes(case)
    assert list(lazy_load_findings(case)) == []


def test_reads_without_writes_beside_them_name_nothing() -> None:
    assert list(lazy_load_findings(case_of(*restored(120_000), writes=0.0))) == []


def test_a_fall_that_the_statements_do_not_feel_is_not_named() -> None:
    reads, waits = restored(120_000)
    case = case_of(reads / 400, waits)
    assert LAZY not in causes(case)


def _iostat(reads: Floats, r_await: Floats, w_await: Floats) -> str:
    """The text of `iostat -xt 1`, sysstat 12."""
    heading = "Device r/s rkB/s r_await w/s wkB/s w_await f/s f_await aqu-sz %util"
    lines = ["Linux 6.1.0-28-amd64 (db) \t01/31/26 \t_x86_64_\t(4 CPU)", ""]
    for second, (count, read_ms, write_ms) in enumerate(zip(reads, r_await, w_await, strict=True)):
        queue = (count * read_ms + 200 * write_ms) / 1000
        lines += [
            f"01/31/26 10:{second // 60:02d}:{second % 60:02d}",
            heading,
            f"nvme1n1 {count:.2f} {16 * count:.2f} {read_ms:.2f} 200 3200 {write_ms:.2f} 0 0 {queue:.2f} 90",
            "",
        ]
    return "\n".join(lines)


@pytest.mark.parametrize("is_restored", [True, False])
def test_a_recording_of_iostat_tells_a_restored_volume_from_one_that_was_slow_as_a_whole(
    tmp_path: Path, is_restored: bool
) -> None:
    reads, waits = restored(80_000)
    writes = np.full(SECONDS, BASE_MS) if is_restored else waits
    (tmp_path / "iostat.txt").write_text(_iostat(reads, waits, writes))
    explanation = explain_recorded(tmp_path)
    named = {row.cause for timeline in explanation.timelines for row in timeline.findings}
    assert (LAZY in named) is is_restored
