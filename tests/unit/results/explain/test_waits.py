"""Latencies, awaits and counts of a step, as the samplers and the client give them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from volbench.core.records.cell import StepResult
from volbench.core.records.modulation import DETAIL, modulation_of
from volbench.results.explain.accounts.interval_latencies import IntervalLatencies
from volbench.results.explain.accounts.waits import class_samples, samples_of, step_modulation
from volbench.results.explain.case import Case
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

SECONDS = 40


def key(source: str, metric: str, entity: str = "") -> SeriesKey:
    return SeriesKey(source=source, metric=metric, entity=entity)


def series_of(extra: dict[SeriesKey, float] | None = None) -> dict[SeriesKey, Series]:
    """Ten transactions a second with three reads of 2 ms each, on a volume that the kernel times."""
    values = {
        key("client", "tps"): 10.0,
        key("diskstats", "reads_per_s", "vda"): 30.0,
        key("diskstats", "writes_per_s", "vda"): 20.0,
        key("diskstats", "r_await_ms", "vda"): 2.0,
        key("diskstats", "w_await_ms", "vda"): 1.0,
        key("diskstats", "f_await_ms", "vda"): 0.5,
        key("diskstats", "flushes_per_s", "vda"): 10.0,
        key("innodb", "buffer_pool_reads_per_s"): 30.0,
        **(extra or {}),
    }
    times = np.arange(1.0, SECONDS + 1)
    return {name: Series(t_s=times, value=np.full(SECONDS, value)) for name, value in values.items()}


def case_of(series: dict[SeriesKey, Series], **options: Any) -> Case:
    grid = align(series)
    return Case(name="load", grid=grid, cell_grid=grid, disk="vda", **({"threads": 4} | options))


def samples(extra: dict[SeriesKey, float] | None = None, **options: Any):
    series = series_of(extra)
    return samples_of(case_of(series, **options), None, cell="01-v", volume="v", series=series)


def test_reads_are_the_devices_and_counted_by_the_server() -> None:
    result = samples()
    assert result is not None
    assert np.nanmean(result.awaits_ms["read"]) == pytest.approx(2.0)
    assert (result.counted["read"].low, result.counted["read"].high) == (pytest.approx(3.0), pytest.approx(3.0))
    assert set(result.awaits_ms) == {"read"}


def test_reads_of_background_threads_are_no_waits_of_a_transaction() -> None:
    """Purge requests pages as sessions do: of 19.8 reads that MySQL counted, sessions waited for 16.9."""
    result = samples(
        {
            key("performance_schema", "file_read_s_per_s", "data"): 0.060,
            key("performance_schema", "wait_s_per_s", "file_data"): 0.045,
        }
    )
    assert result is not None
    assert result.counted["read"].low == result.counted["read"].high == pytest.approx(0.75 * 3.0)


def test_without_the_servers_times_by_thread_a_load_that_writes_has_at_most_so_many_reads() -> None:
    result = samples({key("innodb", "log_writes_per_s"): 10.0})
    assert result is not None
    assert (result.counted["read"].low, result.counted["read"].high) == (0.0, pytest.approx(3.0))


def test_the_mean_latency_of_a_closed_loop_follows_from_its_threads() -> None:
    """Little's law; at a rate nobody knows how many transactions are under way."""
    result = samples()
    assert result is not None
    assert result.latency_ms == pytest.approx(np.full(SECONDS, 400.0))
    assert samples(rate=10.0) is None


def test_latencies_of_histograms_are_taken_as_they_are() -> None:
    latencies = IntervalLatencies(mean_ms=np.full(SECONDS, 6.0), quantiles_ms={0.95: np.full(SECONDS, 9.0)})
    series = series_of()
    result = samples_of(case_of(series), latencies, cell="01-v", volume="v", series=series)
    assert result is not None
    assert result.latency_ms is latencies.mean_ms
    assert result.latency_quantiles_ms == latencies.quantiles_ms


def test_a_commit_waits_for_its_own_sync_and_at_most_for_the_one_before() -> None:
    syncs = {
        key("performance_schema", "file_syncs_per_s", "redo"): 8.0,
        key("performance_schema", "file_sync_ms", "redo"): 3.0,
    }
    result = samples(syncs)
    assert result is not None
    assert np.nanmean(result.awaits_ms["redo_sync"]) == pytest.approx(3.0)
    assert (result.counted["redo_sync"].low, result.counted["redo_sync"].high) == (pytest.approx(0.8), 2.0)


def test_a_redo_log_without_an_instrument_has_the_devices_write_and_flush() -> None:
    result = samples({key("innodb", "log_writes_per_s"): 10.0})
    assert result is not None
    assert np.nanmean(result.awaits_ms["redo_sync"]) == pytest.approx(1.5)


def test_a_redo_log_that_nobody_waits_for_is_no_wait() -> None:
    extra = {key("innodb", "log_writes_per_s"): 10.0}
    result = samples(extra, variables={"innodb_flush_log_at_trx_commit": "2"})
    assert result is not None
    assert "redo_sync" not in result.awaits_ms


def a_step(details: dict[str, Any]) -> StepResult:
    construct: Any = StepResult.model_construct
    step: StepResult = construct(step="load", details=details)
    return step


def test_a_modulation_reaches_the_waits_that_it_acts_on() -> None:
    slots = [{"t0_s": 4.0 * n, "t1_s": 4.0 * n + 4, "slow": ["write"] if n % 2 else []} for n in range(10)]
    step = a_step({DETAIL: {"means": "emulator", "factor": 4.0, "slots": slots}})
    series = series_of({key("innodb", "log_writes_per_s"): 10.0})
    case = case_of(series)
    modulation = step_modulation([step], case)
    result = samples_of(case, None, cell="01-v", volume="v", series=series, modulation=modulation)
    assert result is not None
    assert set(result.signals) == {"redo_sync"}
    for side in (result.signals, result.seen_signals):
        assert side["redo_sync"][:8] == pytest.approx([0, 0, 0, 0, 1, 1, 1, 1])
    assert result.slots is not None
    assert result.slots[:9].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    assert step_modulation([a_step({})], case) is None


def test_a_sampler_that_is_half_a_second_late_sees_the_signal_half_a_second_late() -> None:
    slots = [{"t0_s": 4.0 * n, "t1_s": 4.0 * n + 4, "slow": ["read"] if n % 2 else []} for n in range(10)]
    modulation = modulation_of({DETAIL: {"means": "emulator", "factor": 4.0, "slots": slots}})
    series = series_of()
    late = {name: Series(t_s=result.t_s + 0.5, value=result.value) for name, result in series.items()}
    timed = {name: late[name] if name.source == "diskstats" else series[name] for name in series}
    entry = samples_of(case_of(series), None, cell="01-v", volume="v", series=timed, modulation=modulation)
    assert entry is not None
    assert entry.seen_signals["read"][4:9] == pytest.approx([0.75, 1, 1, 0.75, 0.25])
    assert entry.signals["read"][4:9] == pytest.approx([1, 1, 1, 1, 0])


def test_time_on_and_before_a_cpu_is_told_by_transaction() -> None:
    result = samples({key("tasks", "cpus_used", "cell"): 0.5, key("tasks", "run_delay_s_per_s", "cell"): 0.7})
    assert result is not None
    assert result.cpu_ms == pytest.approx(np.full(SECONDS, 120.0))


@pytest.mark.parametrize(
    ("query", "never"),
    [
        ("SELECT `c` FROM `sbtestN` WHERE `id` = ?", {"redo_sync", "binlog_sync"}),
        ("EXECUTE SELECT `c` FROM `sbtestN`", {"redo_sync", "binlog_sync"}),
        ("EXECUTE COMMIT", {"read"}),
        ("UPDATE `sbtestN` SET `k` = `k` + ?", set()),
        ("EXECUTE", set()),
    ],
)
def test_what_a_class_of_statements_never_waits_for_is_counted_as_none(query: str, never: set[str]) -> None:
    extra = {
        key("performance_schema", "query_per_s", query): 10.0,
        key("performance_schema", "query_s_per_s", query): 0.05,
    }
    series = series_of(extra)
    whole = samples(extra)
    assert whole is not None
    (of_class,) = class_samples(whole, case_of(series)).values()
    assert {term: (count.low, count.high) for term, count in of_class.counted.items()} == dict.fromkeys(
        never, (0.0, 0.0)
    )


def test_percentiles_of_the_whole_step_are_those_of_its_figures() -> None:
    result = samples(latency_ms={"latency_ms_p95": 60.0, "latency_ms_mean": 24.0})
    assert result is not None
    assert result.step_quantiles_ms == {0.95: 60.0}


def test_the_wait_for_cpus_is_of_server_and_client_without_the_sampler() -> None:
    """Ten transactions a second; the agent's tasks and work on a CPU are not in it."""
    delays = {"server": 0.02, "client": 0.015, "sampler": 0.005, "cell": 0.5}
    timed = {key("tasks", "run_delay_s_per_s", who): delay for who, delay in delays.items()}
    result = samples(timed)
    assert result is not None
    assert result.cpu_wait_ms is not None
    assert result.cpu_wait_ms == pytest.approx(np.full(SECONDS, 3.0))
    lacking = samples({name: delay for name, delay in timed.items() if name.entity != "client"})
    assert lacking is not None
    assert lacking.cpu_wait_ms is None
