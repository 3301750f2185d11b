"""Whole cases with stated physics: the cause that was put in must come out, and none when none was."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.calibration import LEFT_COUNTS, ONE_OF_TWO_MAX
from volbench.results.explain.case import Case
from volbench.results.explain.case_input import ConcurrentActivity
from volbench.results.explain.cause import Cause, confidence_rows
from volbench.results.explain.findings import Explanation, explain_case
from volbench.results.explain.pooling import finding_rows
from volbench.results.explain.wording import row
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

POOL = {"innodb_buffer_pool_size": str(64 << 20)}
CLEAN = Load(queue=1.2, threads=8, cpu_s_per_s=5.5, cpu_busy=0.7)


def case(
    load: Load, storage: Storage, *, counters: bool = False, without: tuple[str, ...] = (), **more: object
) -> Case:
    results = {
        key: item for key, item in columns(load, storage, counters=counters).items() if key.source not in without
    }
    grid = align(results)
    return Case(name="load", grid=grid, cell_grid=grid, threads=load.threads, cpus=8, **more)  # type: ignore[arg-type]


def causes(of: Case) -> list[str]:
    return [finding.cause for finding in explain_case(of).findings]


def falling(at: float, high: float, low: float) -> Storage:
    return Storage(iops=lambda t_s: np.where(t_s <= at, high, low))


@pytest.mark.parametrize("seed", range(5))
def test_clean(seed: int) -> None:
    assert causes(case(dataclasses.replace(CLEAN, seed=seed), Storage(latency_ms=0.4))) == ["none"]


@pytest.mark.parametrize("cap", [150.0, 1000.0, 3000.0])
@pytest.mark.parametrize("counters", [True, False])
def test_iops_limit(cap: float, counters: bool) -> None:
    explained = explain_case(case(Load(queue=24, threads=24), Storage(iops=cap), counters=counters))
    first = explained.findings[0]
    assert first.cause == "storage.iops_limit"
    assert first.share is not None
    assert first.share > 0.5
    named = next(row for row in first.evidence if row.metric == "iops")
    assert named.value == pytest.approx(cap, rel=0.05)
    assert named.unit == "1/s"


def test_throughput_limit() -> None:
    assert causes(case(Load(size_kib=256, queue=24), Storage(mib_per_s=60.0)))[0] == "storage.throughput_limit"


@pytest.mark.parametrize("size_kib", [16.0, 64.0])
def test_either_limit_is_said_to_be_one_of_two(size_kib: float) -> None:
    """Operations of one size, and no counter of the volume's own."""
    findings = explain_case(case(Load(size_kib=size_kib, queue=24), Storage(mib_per_s=40.0))).findings
    assert {finding.cause for finding in findings[:2]} == {"storage.iops_limit", "storage.throughput_limit"}
    for item in findings[:2]:
        assert any("only the volume's own counters can tell" in row.text for row in item.evidence)
        assert item.confidence < 0.95


def test_burst_exhausted_says_when_and_from_what_to_what() -> None:
    first = explain_case(case(Load(seconds=120, queue=31, threads=31), falling(70, 3000, 150))).findings[0]
    assert first.cause == "storage.burst_exhausted"
    text = first.evidence[0].text
    assert "p95 rose from" in text
    assert "at second 70" in text
    assert first.window_s[0] == pytest.approx(70, abs=2)
    assert any("transactions a second before" in row.text for row in first.evidence)


def test_instance_limit_only_by_its_own_counter() -> None:
    plain = columns(Load(queue=24, threads=24), Storage(iops=2000.0), counters=True)
    swapped = {}
    for key, item in plain.items():
        name = key.metric
        if name.startswith(("volume_exceeded", "instance_exceeded")):
            old, new = ("volume", "instance") if name.startswith("volume") else ("instance", "volume")
            name = name.replace(old, new)
        swapped[dataclasses.replace(key, metric=name)] = item
    grid = align(swapped)
    assert causes(Case(name="x", grid=grid, cell_grid=grid, threads=24))[0] == "instance.storage_limit"


@pytest.mark.parametrize("latency_ms", [5.0, 20.0])
def test_slow_reads_without_a_limit(latency_ms: float) -> None:
    result = causes(case(Load(queue=8, threads=8, read_part=0.9), Storage(latency_ms=latency_ms)))
    assert result[0] == "storage.read_latency"
    assert not {"storage.iops_limit", "storage.degraded"} & set(result)


def test_the_floor_at_depth_one_is_evidence_of_slow_reads() -> None:
    quiet = align(columns(Load(queue=0.9, seconds=30), Storage(latency_ms=5.0)))
    busy = case(Load(queue=8, threads=8, read_part=0.9), Storage(latency_ms=5.0))
    first = explain_case(dataclasses.replace(busy, cell_grid=quiet)).findings[0]
    floor = next(row for row in first.evidence if row.metric == "latency_floor_ms")
    assert floor.value == pytest.approx(5.0, rel=0.1)


def test_slow_syncs() -> None:
    result = causes(case(Load(queue=8, threads=8, read_part=0.1), Storage(latency_ms=8.0)))
    assert result[0] == "storage.sync_latency"


def test_commits_that_wait_unseen_do_not_clear_the_volume() -> None:
    """A server without an instrument for its redo log: most of its time is neither a seen wait nor CPU."""
    load = Load(queue=4, threads=8, read_part=0.3, cpu_busy=0.1, cpu_s_per_s=6.5)
    slow = case(load, Storage(latency_ms=6.0))
    hidden = {key: item for key, item in slow.grid.columns.items() if key.entity not in ("file_redo", "redo")}
    grid = dataclasses.replace(slow.grid, columns=hidden)
    first = explain_case(dataclasses.replace(slow, grid=grid, cell_grid=grid)).findings[0]
    assert first.cause == "storage.sync_latency"
    assert any(row.metric == "unseen_share" for row in first.evidence)
    idle = {key: item * 0.01 if key.metric.endswith("_ms") else item for key, item in hidden.items()}
    fast = dataclasses.replace(slow.grid, columns=idle)
    explained = explain_case(dataclasses.replace(slow, grid=fast, cell_grid=fast))
    assert "none" not in [finding.cause for finding in explained.findings]
    assert any("more than all CPU time" in note for note in explained.notes)


def test_stall() -> None:
    findings = explain_case(case(CLEAN, Storage(latency_ms=0.4, stall_s=(20, 26))))
    stall = next(finding for finding in findings.findings if finding.cause == "storage.stall")
    assert stall.share == pytest.approx(6 / 60)
    assert stall.window_s == (20.0, 26.0)


def test_degraded_is_below_every_known_limit() -> None:
    """400 ms an operation at three in a second: no volume has such a limit."""
    slow = Storage(latency_ms=lambda t_s: np.where(t_s <= 30, 1.0, 420.0))
    findings = explain_case(case(Load(queue=1.2, threads=4), slow))
    assert [finding.cause for finding in findings.findings if finding.cause.startswith("storage")] == [
        "storage.degraded"
    ]
    assert findings.findings[0].window_s[0] == pytest.approx(30, abs=1)


@pytest.mark.parametrize("counters", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_volume_that_gets_slower_with_the_same_queue_is_degraded(seed: int, counters: bool) -> None:
    slower = Storage(latency_ms=lambda t_s: np.where(t_s <= 40, 0.8, 12.0))
    findings = explain_case(case(Load(queue=8, threads=8, seed=seed), slower, counters=counters)).findings
    degraded = next(finding for finding in findings if finding.cause.startswith("storage"))
    assert degraded.cause == "storage.degraded"
    assert degraded.window_s[0] == pytest.approx(40, abs=1)


def test_small_pool_on_a_fast_volume() -> None:
    load = Load(queue=6, threads=8, read_part=0.95, cpu_busy=0.5, size_kib=16)
    assert causes(case(load, Storage(latency_ms=0.2), variables=POOL))[0] == "memory.buffer_pool_small"


def test_saturated_cpu() -> None:
    load = dataclasses.replace(CLEAN, cpu_busy=0.98, cpu_s_per_s=7.5)
    assert causes(case(load, Storage(latency_ms=0.2))) == ["cpu.server_saturated"]


def test_saturated_client() -> None:
    assert "cpu.client_saturated" in causes(case(CLEAN, Storage(latency_ms=0.4), client_cpu_ratio=0.97))


def test_row_locks() -> None:
    load = dataclasses.replace(CLEAN, row_lock_s_per_s=4.0, cpu_s_per_s=2.0)
    assert causes(case(load, Storage(latency_ms=0.2)))[0] == "lock.row_contention"


def test_several_at_once() -> None:
    load = Load(queue=24, threads=24, row_lock_s_per_s=8.0)
    result = causes(case(load, Storage(iops=500.0)))
    assert {"storage.iops_limit", "lock.row_contention"} <= set(result[:2])


@pytest.mark.parametrize(
    ("load", "named"), [(Load(queue=16, threads=16), False), (Load(queue=1, threads=16, cpu_s_per_s=12.0), True)]
)
def test_stolen_time_is_a_cause_as_far_as_the_load_is_on_the_cpus(load: Load, named: bool) -> None:
    """On a host that is 16 % busy, as runs of the lab: 6 % of CPU time stolen is a quarter of what it wanted."""
    steal = {("cpu", "steal_ratio", ""): np.full(60, 0.06)}
    of_host = case(dataclasses.replace(load, cpu_busy=0.16), Storage(latency_ms=0.4, extra=steal))
    shares = [finding.share for finding in explain_case(of_host).findings if finding.cause == "cpu.steal"]
    assert shares == ([pytest.approx(0.06 / 0.22, abs=0.1)] if named else [])


def test_a_backup_beside_the_load() -> None:
    t_s = np.arange(1.0, 61.0)
    tps = np.where((t_s > 20) & (t_s <= 40), 200.0, 400.0) + np.random.default_rng(1).normal(0, 4, 60)
    slower = Storage(latency_ms=0.4, extra={("client", "tps", ""): tps})
    during = explain_case(
        case(CLEAN, slower, concurrent=(ConcurrentActivity(name="mysqldump", t0_s=20.0, t1_s=40.0),))
    )
    backup = next(finding for finding in during.findings if finding.cause == "interference.backup")
    assert backup.share == pytest.approx(0.5 / 3, abs=0.02)  # half of the speed, for a third of the time
    assert next(item.value for item in backup.evidence if item.metric == "loss") == pytest.approx(0.5, abs=0.03)
    alone = case(CLEAN, slower, concurrent=(ConcurrentActivity(name="mysqldump", t0_s=0.0, t1_s=60.0),))
    assert "interference.backup" not in causes(alone)


def test_a_rate_that_is_the_same_with_a_backup_is_no_evidence_of_its_harm() -> None:
    """At 2 transactions offered a second, a second has 1, 2 or 3 of them, and the median is a whole number."""
    during = (np.arange(1.0, 61.0) > 20) & (np.arange(1.0, 61.0) <= 40)
    p95 = np.where(during, 1700.0, 13.0) + np.random.default_rng(1).normal(0, 0.5, 60)
    extra = {("client", "tps", ""): np.full(60, 2.0), ("client", "latency_ms_p95", ""): p95}
    beside = (ConcurrentActivity(name="mysqldump", t0_s=20.0, t1_s=40.0),)
    slow = explain_case(case(CLEAN, Storage(latency_ms=0.4, extra=extra), concurrent=beside))
    backup = next(finding for finding in slow.findings if finding.cause == "interference.backup")
    assert "ms p95 with it" in backup.evidence[0].text
    assert "tps with it" not in backup.evidence[0].text


def test_a_p95_of_two_transactions_is_not_stated_where_the_median_is() -> None:
    during = (np.arange(1.0, 61.0) > 20) & (np.arange(1.0, 61.0) <= 40)
    noise = np.random.default_rng(1).normal(0, 0.5, 60)
    beside = (ConcurrentActivity(name="mysqldump", t0_s=20.0, t1_s=40.0),)

    def text(tps: float) -> str:
        extra = {
            ("client", "tps", ""): np.full(60, tps),
            ("client", "latency_ms_p50", ""): np.where(during, 1200.0, 9.0) + noise,
            ("client", "latency_ms_p95", ""): np.where(during, 1700.0, 13.0) + noise,
        }
        slow = explain_case(case(CLEAN, Storage(latency_ms=0.4, extra=extra), concurrent=beside))
        return next(one for one in slow.findings if one.cause == "interference.backup").evidence[0].text

    assert ("ms p50 with it" in text(2.0), "p95" in text(2.0)) == (True, False)
    assert "ms p95 with it" in text(40.0)


def test_full_redo_log() -> None:
    t_s = np.arange(1.0, 61.0)
    full = (t_s % 10) >= 5
    extra = {
        ("innodb", "checkpoint_age_ratio", ""): np.where(full, 0.9, 0.5),
        ("client", "tps", ""): np.where(full, 100.0, 400.0),
    }
    assert "redo.checkpoint_stall" in causes(case(CLEAN, Storage(latency_ms=0.4, extra=extra)))
    steady = {("innodb", "checkpoint_age_ratio", ""): np.where(full, 0.9, 0.5)}
    assert "redo.checkpoint_stall" not in causes(case(CLEAN, Storage(latency_ms=0.4, extra=steady)))


@pytest.mark.parametrize("without", ["performance_schema", "innodb", "cpu", "psi", "client"])
def test_a_missing_source_still_explains_from_the_rest(without: str) -> None:
    limited = case(Load(queue=24, threads=24), Storage(iops=500.0), without=(without,))
    assert causes(limited)[0] == "storage.iops_limit"


def test_without_a_volumes_counters_the_servers_waits_speak() -> None:
    findings = explain_case(
        case(Load(queue=8, threads=8, read_part=0.9), Storage(latency_ms=9.0), without=("diskstats",))
    )
    first = findings.findings[0]
    assert first.cause == "storage.read_latency"
    assert any("queue at a limit cannot be told" in row.text for row in first.evidence)
    assert first.confidence <= ONE_OF_TWO_MAX
    assert "no counters of the volume" in findings.notes


def test_without_evidence_nothing_is_said() -> None:
    """Neither a cause nor `none`."""
    bare = case(CLEAN, Storage(), without=("performance_schema", "diskstats", "innodb", "cpu", "psi"))
    explained = explain_case(bare)
    assert explained.findings == ()
    assert explained.notes
    few = case(dataclasses.replace(CLEAN, seconds=3), Storage())
    assert explain_case(few).findings == ()


def made(cause: str, share: float | None) -> Explanation:
    result = Cause(cause=cause, window_s=(0.0, 1.0), share=share, checks=(True,), evidence=(), advice="")
    return Explanation(findings=(result,))


def test_what_slowed_a_load_for_a_while_comes_before_what_was_there_all_along() -> None:
    """The pool explains what latency was before the dump, not what it rose to; a small rise changes nothing."""
    pool = made("memory.buffer_pool_small", 0.5).findings
    for loss, first in ((0.7, "interference.backup"), (0.2, "memory.buffer_pool_small")):
        (dump,) = made("interference.backup", 0.3).findings
        dump = dataclasses.replace(dump, evidence=(row("loss", loss, "1", "slower"),))
        assert finding_rows("a", "load", {"1": Explanation(findings=(*pool, dump))})[0].cause == first


def test_a_hint_comes_after_what_is_likely_whatever_it_would_explain() -> None:
    """A stall of 4 s, and beside it a latency of syncs of which one check failed."""
    (hint,) = made("storage.sync_latency", 0.43).findings
    hint = dataclasses.replace(hint, checks=(True, True, False))
    assert hint.confidence < 0.5
    hint = dataclasses.replace(hint, evidence=confidence_rows(hint))
    (stall,) = made("storage.stall", 0.27).findings
    rows = finding_rows("a", "load", {"1": Explanation(findings=(hint, stall))})
    assert [row.cause for row in rows] == ["storage.stall", "storage.sync_latency"]


def test_a_slow_volume_that_hardly_any_query_waits_for_is_not_named() -> None:
    """A few background writes took 20 times as long for a while; statements compute."""
    load = dataclasses.replace(CLEAN, queue=0.02, cpu_busy=0.98, cpu_s_per_s=7.5)
    fulls = {
        ("performance_schema", "wait_s_per_s", name): np.full(60, 0.01) for name in ("file_redo", "binlog_group")
    }
    late = Storage(latency_ms=lambda t_s: np.where(t_s <= 30, 4.0, 80.0), extra=fulls)
    assert causes(case(load, late)) == ["cpu.server_saturated"]


def test_repeats_are_put_together_and_none_yields() -> None:
    rows = finding_rows(
        "gp2",
        "load",
        {
            "1": made("storage.stall", 0.1),
            "2": made("storage.iops_limit", 0.8),
            "3": made("storage.iops_limit", 0.6),
            "4": made("storage.iops_limit", 0.7),
            "5": made("none", None),
        },
    )
    assert [(row.cause, set(row.cell_ids)) for row in rows] == [
        ("storage.iops_limit", {"2", "3", "4"}),
        ("storage.stall", {"1"}),
    ]
    assert rows[0].share == pytest.approx(0.7)
    assert rows[0].confidence == pytest.approx(0.6 * LEFT_COUNTS.confidence("not known"))
    assert rows[0].evidence[-1].text == "found in 3 of 5 cells"
    assert [row.cause for row in finding_rows("a", "b", {"1": made("none", None)})] == ["none"]


def test_the_first_cell_of_a_row_is_the_one_of_its_evidence() -> None:
    """The page's link opens it, and its window is marked there."""
    shares = {"1": 0.9, "2": 0.5, "3": 0.1}
    cells = {cell: made("storage.iops_limit", share) for cell, share in shares.items()}
    (row,) = finding_rows("gp2", "load", cells)
    assert row.cell_ids[0] == "2"
    assert set(row.cell_ids) == set(shares)


def test_a_step_within_a_cell_knows_the_volume_from_before() -> None:
    """The waiting time without a queue comes from the quiet part of the cell, outside the step."""
    busy, quiet = Load(seconds=60, queue=20), Load(seconds=60, queue=0.7)
    before, during = columns(quiet, Storage(iops=600.0)), columns(busy, Storage(iops=600.0))
    both: dict[SeriesKey, Series] = {}
    for key, item in before.items():
        after = during[key]
        both[key] = Series(
            t_s=np.concatenate([item.t_s, 60 + after.t_s]), value=np.concatenate([item.value, after.value])
        )
    total = align(both)
    first = explain_case(Case(name="x", grid=total.within(60, 120), cell_grid=total, threads=20, cpus=8)).findings[
        0
    ]
    assert first.cause == "storage.iops_limit"
    assert any(row.metric == "inflation" for row in first.evidence)
