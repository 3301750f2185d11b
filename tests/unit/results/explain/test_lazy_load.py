"""A restored volume: named where reads become fast as blocks are touched, and not for what only looks like it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kernel_throttle import case_of as recorded_run
from kernel_throttle import with_columns

from volbench.core.profile.resolve import resolve
from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.explain.rules.volume.few_operations import few_operations
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
    return Case(name="load", grid=grid, cell_grid=grid, disk="nvme1n1", threads=16, cpus=8, recorded=recorded)


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


REAL_STEPS = ("no-plan", "pool")
"""Of tests/fixtures/kernel-throttle/restored-volume: blocks that arrive at 4 MiB/s, and a pool that holds all."""


@pytest.mark.parametrize("step", REAL_STEPS)
def test_a_server_on_a_restored_volume_whose_pool_then_holds_all_is_named(step: str) -> None:
    """Reads end once the pool has all: fewer than at first, but many more for a while, each a hundredth as long."""
    findings = explain_case(recorded_run("restored-volume", step)).findings
    assert LAZY in {finding.cause for finding in findings}
    assert "storage.degraded" not in {finding.cause for finding in findings}


@pytest.mark.parametrize("step", REAL_STEPS)
def test_the_same_volume_is_degraded_where_its_writes_were_as_slow(step: str) -> None:
    """Real reads of a restored volume, with writes that take as long: slow whatever is touched."""
    case = recorded_run("restored-volume", step)
    device = case.device
    assert device is not None
    assert device.r_await_ms is not None
    assert device.w_await_ms is not None
    columns = {("diskstats", "w_await_ms", device.entity): np.fmax(device.r_await_ms, device.w_await_ms)}
    assert list(lazy_load_findings(with_columns(case, columns))) == []


@pytest.mark.parametrize("step", REAL_STEPS)
def test_no_read_that_becomes_faster_at_once_is_named(step: str) -> None:
    """Real reads, those before the volume was fast at one level, so that the fall is one step."""
    case = recorded_run("restored-volume", step)
    device = case.device
    assert device is not None
    assert device.r_await_ms is not None
    slow = device.r_await_ms > 20
    columns = {("diskstats", "r_await_ms", device.entity): np.where(slow, 200.0, device.r_await_ms)}
    assert list(lazy_load_findings(with_columns(case, columns))) == []


@pytest.mark.parametrize(("slow_writes", "asks"), [(False, True), (True, False)])
def test_a_degraded_volume_whose_reads_alone_are_slow_is_to_be_read_again(slow_writes: bool, asks: bool) -> None:
    """Whether a second read is fast is what tells a restored volume, where its reads have not become faster yet."""
    slow_ms = noisy(250.0)
    case = case_of(noisy(16.0), slow_ms, writes=4.0, w_await=slow_ms if slow_writes else 2.0)
    (finding,) = few_operations(case)
    assert ("a second time" in finding.advice) is asks


def hydrated(chunks: int, per_s: float, *, clients: float = 4.0, base_ms: float = BASE_MS) -> tuple[Floats, Floats]:
    """Reads and their mean time where the rate at which chunks arrive is the limit: clients wait for it."""
    random = np.random.default_rng(5)
    left, reads, waits = 1.0, [], []
    for _ in range(SECONDS):
        count = 0.0
        for _ in range(50):
            rate = min(per_s / max(left, 1e-9), clients / base_ms * 1000)
            left *= float(np.exp(-rate / 50 / chunks))
            count += rate / 50
        count *= random.lognormal(0, 0.05)
        reads.append(count)
        waits.append(clients / count * 1000)
    return np.array(reads), np.array(waits)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(("chunks", "per_s"), [(90, 8.0), (540, 40.0), (2000, 80.0)])
def test_blocks_that_arrive_at_a_fixed_rate_are_named(chunks: int, per_s: float, recorded: bool) -> None:
    """Reads fall at an even pace, and at last within two seconds: on a scale of logarithms that is one step."""
    assert LAZY in causes(case_of(*hydrated(chunks, per_s), writes=50.0, recorded=recorded))


@pytest.mark.parametrize("recorded", [False, True])
def test_a_fall_in_the_first_part_of_a_long_step_is_named(recorded: bool) -> None:
    """All is touched after a sixth of the step, and reads go on: data larger than the pool."""
    reads, waits = hydrated(180, 10.0)
    case = case_of(np.r_[reads, np.full(300, reads[-1])], np.r_[waits, np.full(300, waits[-1])], recorded=recorded)
    assert LAZY in causes(case)


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


def _reads_that_recover(waits: Floats) -> Case:
    """A closed loop of reads on a volume that becomes fast in a time of its own; writes are fast all along."""
    return case_of(12.0 / waits * 1000, waits)


def _recovers_by_halves() -> Case:
    return _reads_that_recover(noisy(16.0 * np.exp(-np.arange(SECONDS) / 30) + 0.8))


def _recovers_soon() -> Case:
    return _reads_that_recover(noisy(160.0 * np.exp(-np.arange(SECONDS) / 8) + 0.8))


def _recovers_more_and_more_slowly() -> Case:
    return _reads_that_recover(noisy(160.0 / (np.arange(SECONDS) + 8) + 0.8))


def _burst_begins() -> Case:
    """Reads waited for a meter of their own until credits came, and wait no longer."""
    return _reads_that_recover(noisy(np.where(np.arange(SECONDS) < 30, 80.0, 1.0)))


def _burst_begins_in_two_steps() -> Case:
    return _reads_that_recover(
        noisy(np.select([np.arange(SECONDS) < 20, np.arange(SECONDS) < 40], [100.0, 50.0], 4.0))
    )


def _pool_warms_up_on_a_disk() -> Case:
    """A cold pool on a disk whose writes go to its cache: the queue becomes shorter as pages are cached."""
    queue = np.maximum(12.0 * np.exp(-np.arange(SECONDS) / 25), 0.3)
    rate = 150.0 * queue / (1 + queue)
    return case_of(noisy(rate), noisy(queue / rate * 1000))


def _pool_warms_up_on_a_disk_within_seconds() -> Case:
    """Reads end; of the last ones each had the disk for itself."""
    queue = np.maximum(12.0 * np.exp(-np.arange(SECONDS) / 6), 0.02)
    rate = 150.0 * queue / (1 + queue)
    return case_of(noisy(rate), noisy(queue / rate * 1000))


def _scan_ends() -> Case:
    """Large reads of a scan become single pages little by little: operations are smaller, the volume no faster."""
    reads, waits = restored(80_000)
    return with_columns(case_of(reads, waits), {("diskstats", "read_mib_per_s", "nvme1n1"): reads * waits / 20})


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
        _recovers_by_halves,
        _recovers_soon,
        _recovers_more_and_more_slowly,
        _burst_begins,
        _burst_begins_in_two_steps,
        _pool_warms_up_on_a_disk,
        _pool_warms_up_on_a_disk_within_seconds,
        _scan_ends,
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


def _iostat(reads: Floats, r_await: Floats, w_await: Floats, writes: Floats | float = 200.0) -> str:
    """The text of `iostat -xt 1`, sysstat 12."""
    each_write = np.broadcast_to(np.asarray(writes, dtype=np.float64), reads.shape)
    heading = "Device r/s rkB/s r_await w/s wkB/s w_await f/s f_await aqu-sz %util"
    lines = ["Linux 6.1.0-28-amd64 (db) \t01/31/26 \t_x86_64_\t(4 CPU)", ""]
    columns = zip(reads, r_await, w_await, each_write, strict=True)
    for second, (count, read_ms, write_ms, per_s) in enumerate(columns):
        queue = (count * read_ms + per_s * write_ms) / 1000
        lines += [
            f"01/31/26 10:{second // 60:02d}:{second % 60:02d}",
            heading,
            f"nvme1n1 {count:.2f} {16 * count:.2f} {read_ms:.2f} {per_s:.2f} {16 * per_s:.2f} {write_ms:.2f}"
            f" 0 0 {queue:.2f} 90",
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


@pytest.mark.parametrize("step", REAL_STEPS)
def test_a_recording_of_a_real_restored_volume_is_named(tmp_path: Path, step: str) -> None:
    """The kernel's counters of a real step, as iostat would print them: no statements, and no client."""
    device = recorded_run("restored-volume", step).device
    assert device is not None
    columns = (device.reads, device.r_await_ms, device.w_await_ms, device.writes)
    finite = [np.nan_to_num(values) for values in columns if values is not None]
    (tmp_path / "iostat.txt").write_text(_iostat(*finite))
    named = {row.cause for timeline in explain_recorded(tmp_path).timelines for row in timeline.findings}
    assert LAZY in named
    assert "storage.degraded" not in named
