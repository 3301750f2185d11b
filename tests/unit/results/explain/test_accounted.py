"""Nothing is cleared whose time is not accounted for: streams above the device, a log on a device of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.acquittal import accounted_share, acquit
from volbench.results.stats.grid import Grid, align
from volbench.results.store.series import SeriesKey


def streams(*, in_flight: float, cpus: float, depth: int = 4) -> Case:
    """A step of fio, 4 operations deep, of whose operations so many are at the device."""
    values = {
        ("diskstats", "reads_per_s", "sda"): 1000 * in_flight / 0.675,
        ("diskstats", "writes_per_s", "sda"): 0.0,
        ("diskstats", "r_await_ms", "sda"): 0.675,
        ("diskstats", "w_await_ms", "sda"): float("nan"),
        ("diskstats", "aqu_sz", "sda"): in_flight,
        ("tasks", "cpus_used", "cell"): cpus,
        ("tasks", "run_delay_s_per_s", "cell"): 0.0,
    }
    columns = {SeriesKey(source=s, metric=m, entity=e): np.full(20, value) for (s, m, e), value in values.items()}
    grid = Grid(t_s=np.arange(1.0, 21.0), width_s=1.0, columns=columns)
    return Case(name="fio", kind="fio", grid=grid, cell_grid=grid, threads=depth)


@pytest.mark.parametrize(
    ("in_flight", "cpus", "cleared"), [(0.08, 0.05, False), (0.08, 1.5, False), (0.08, 2.2, True), (1.1, 1.0, True)]
)
def test_streams_that_are_neither_at_the_device_nor_on_a_cpu_clear_nothing(
    in_flight: float, cpus: float, cleared: bool
) -> None:
    """fio below io.max: 0.675 ms at the device with 0.08 in flight, beside fio's own 134 ms."""
    case = streams(in_flight=in_flight, cpus=cpus)
    assert accounted_share(case) == pytest.approx((in_flight + cpus) / 4)
    assert (acquit(case) is not None) is cleared
    causes = [finding.cause for finding in explain_case(case).findings]
    assert causes == (["none"] if cleared else ["host.io_limit"]), "the rate is even: something meters it"


@pytest.mark.parametrize(("at_device", "named"), [(1.9, True), (2.1, False)])
def test_streams_that_wait_above_the_device_for_half_of_their_time_are_named(at_device: float, named: bool) -> None:
    """Four streams: with 2 of them at the device or on a CPU, half of their time is accounted for."""
    rates = np.where(np.arange(20) % 3, 150.0, 375.0)
    values = {
        ("diskstats", "reads_per_s", "sda"): rates,
        ("diskstats", "r_await_ms", "sda"): 1000 * at_device / 4 / rates,
        ("diskstats", "aqu_sz", "sda"): np.full(20, at_device / 4),
        ("tasks", "cpus_used", "cell"): np.full(20, 0.75 * at_device),
    }
    case = streams(in_flight=0.1, cpus=0.1)
    columns = {SeriesKey(source=s, metric=m, entity=e): value for (s, m, e), value in values.items()}
    grid = replace(case.grid, columns={**case.grid.columns, **columns})
    uneven = replace(case, grid=grid, cell_grid=grid)
    causes = [finding.cause for finding in explain_case(uneven).findings]
    assert any(cause.startswith("host.") for cause in causes) is named


def test_streams_with_a_rate_of_their_own_wait_for_their_turn() -> None:
    case = replace(streams(in_flight=0.08, cpus=0.05), rate=100.0)
    assert not any(finding.cause.startswith("host.") for finding in explain_case(case).findings)


def test_a_log_on_a_device_of_its_own_clears_nobody_who_syncs() -> None:
    """xfs with logdev: the data device is idle and fast, and commits wait for the other one."""
    case = case_of("clean")
    syncing = with_columns(
        case,
        {
            ("performance_schema", "wait_s_per_s", "file_binlog"): 4.0,
            ("performance_schema", "file_sync_s_per_s", "binlog"): 4.0,
            ("performance_schema", "file_syncs_per_s", "binlog"): 400.0,
            ("performance_schema", "statement_s_per_s", ""): 15.0,
        },
    )
    elsewhere = replace(syncing, mount_options=("rw", "logdev=/dev/sdb1"))
    assert acquit(elsewhere) is None
    for finding in explain_case(elsewhere).findings:
        assert "faster volume changes" not in f"{finding.advice} {finding.volume_advice}"


@pytest.mark.parametrize(
    ("queue", "options", "counted", "says"),
    [
        (0.4, ("rw",), True, True),
        (1.0, ("rw",), True, True),
        (2.0, ("rw",), True, False),
        (0.4, ("rw", "logdev=/dev/sdb1"), True, False),
        (0.4, ("rw", "journal_path=/dev/sdc"), True, False),
        (0.4, ("rw",), False, False),
    ],
)
def test_that_a_faster_volume_is_no_help_needs_the_time_of_waits_for_it(
    queue: float, options: tuple[str, ...], counted: bool, says: bool
) -> None:
    """Sessions wait for a metadata lock; files take about 4, 11 and 21 % of the statements' time."""
    series = {
        ("innodb", "metadata_lock_current_waits", ""): 4.0,
        ("innodb", "threads_running", ""): 8.0,
        ("performance_schema", "wait_s_per_s", "binlog_group"): 0.01,
    }
    load = Load(queue=queue, threads=8, cpu_s_per_s=5.5, cpu_busy=0.7)
    storage = Storage(latency_ms=0.4, extra={key: np.full(load.seconds, value) for key, value in series.items()})
    grid = align(
        {key: item for key, item in columns(load, storage).items() if counted or key.metric != "wait_s_per_s"}
    )
    case = Case(name="load", grid=grid, cell_grid=grid, threads=8, cpus=8, mount_options=options)
    (lock,) = (finding for finding in explain_case(case).findings if finding.cause == "lock.metadata_contention")
    assert (lock.volume_advice != "") is says


@pytest.mark.parametrize(("writes", "named"), [(11.0, True), (15.0, False)])
def test_streams_are_looked_at_in_the_direction_that_they_have_mostly(writes: float, named: bool) -> None:
    """118.5 reads a second: 11 writes are 8.5 % of all operations, 15 are 11.2 %."""
    values = {
        ("diskstats", "writes_per_s", "sda"): np.full(20, writes),
        ("diskstats", "w_await_ms", "sda"): np.full(20, 0.1),
    }
    case = streams(in_flight=0.08, cpus=0.05)
    columns = {SeriesKey(source=s, metric=m, entity=e): value for (s, m, e), value in values.items()}
    grid = replace(case.grid, columns={**case.grid.columns, **columns})
    causes = [finding.cause for finding in explain_case(replace(case, grid=grid, cell_grid=grid)).findings]
    assert any(cause.startswith("host.") for cause in causes) is named
