"""What the accounts of layers did not see: gauges within an interval, locks before commits, a journal's copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_throttle import case_of
from numpy.typing import NDArray
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import Device, conserved_resource
from volbench.results.explain.evidence.foreign import (
    allowed_own_writes,
    foreign_flow,
    reads_directly,
    written_copies,
)
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.host.above_device import set_and_free
from volbench.results.explain.rules.host.syncs_on_cpus import sync_by_volume
from volbench.results.stats.grid import Grid, align
from volbench.results.store.series import SeriesKey

Floats = NDArray[np.float64]
NAN = np.nan


def test_a_limit_that_was_set_within_an_interval_belongs_to_neither_side() -> None:
    """Read at the ends of intervals: taken away within the third, set again within the fifth."""
    all_along, free = set_and_free(np.array([10.0, 10.0, NAN, NAN, 10.0, 10.0]))
    assert all_along.tolist() == [True, True, False, False, False, True]
    assert free is not None
    assert free.tolist() == [False, False, False, True, False, False]
    assert set_and_free(np.array([10.0, 10.0]))[1] is None


def device(
    queue: float, before: tuple[float, float], after: tuple[float, float]
) -> tuple[Device, NDArray[np.bool_]]:
    """Twelve intervals, operations/s and MiB/s of both halves."""
    late = np.arange(12) >= 6
    iops, mib_per_s = (np.where(late, after[location], before[location]) for location in (0, 1))
    return (
        Device(
            source="diskstats",
            entity="sda",
            iops=iops,
            mib_per_s=mib_per_s,
            await_ms=None,
            in_flight=np.full(12, queue),
        ),
        late,
    )


@pytest.mark.parametrize(
    ("queue", "before", "after", "resource"),
    [
        (8.0, (700.0, 10.9), (45.0, 10.6), "throughput"),
        (8.0, (700.0, 10.9), (690.0, 86.0), "iops"),
        (8.0, (700.0, 10.9), (350.0, 44.0), None),  # a volume ruled by its latency: neither stays
        (8.0, (700.0, 10.9), (690.0, 10.8), None),  # nothing changed: both may be the limit
        (1.0, (700.0, 10.9), (45.0, 10.6), None),  # no queue: as much was asked for
    ],
)
def test_what_stays_while_the_rest_changes_is_what_is_limited(
    queue: float, before: tuple[float, float], after: tuple[float, float], resource: str | None
) -> None:
    conserved = conserved_resource(*device(queue, before, after))
    assert (None if conserved is None else conserved[0]) == resource


def with_columns(case: Case, values: dict[tuple[str, str, str], float]) -> Case:
    fulls = {
        SeriesKey(source=s, metric=m, entity=e): np.full(len(case.grid), value)
        for (s, m, e), value in values.items()
    }
    return replace(case, grid=replace(case.grid, columns={**case.grid.columns, **fulls}))


def test_commits_of_lock_holders_are_measured_against_the_time_that_is_no_lock_wait() -> None:
    """16 sessions: 12 wait for row locks; of the 4 others 3 are in commits without an instrument (MariaDB)."""
    load = Load(queue=8, threads=16, cpu_s_per_s=0.1, read_part=0.05, row_lock_s_per_s=12.0)
    series = columns(load, Storage(latency_ms=30.0))
    dropped = {("performance_schema", "wait_s_per_s", "file_redo"), ("performance_schema", "file_sync_ms", "redo")}
    grid = align({key: item for key, item in series.items() if (key.source, key.metric, key.entity) not in dropped})
    case = Case(name="load", grid=grid, cell_grid=grid, threads=16, cpus=8)
    case = with_columns(
        case,
        {
            ("performance_schema", "wait_s_per_s", "file_binlog"): 0.7,
            ("performance_schema", "wait_s_per_s", "file_data"): 0.1,
            ("performance_schema", "file_read_s_per_s", "data"): 0.1,
            ("tasks", "cpus_used", "cell"): 0.2,
            ("tasks", "run_delay_s_per_s", "cell"): 0.2,
        },
    )
    assert [finding.cause for finding in explain_case(case).findings] == [
        "lock.row_contention",
        "storage.sync_latency",
    ]


def test_a_sync_is_starved_of_cpus_only_as_far_as_tasks_waited_for_cpus() -> None:
    """0.5 s in each second are syncs, of which the device takes little: 0.3 s of waiting are not the rest."""
    values = {
        ("performance_schema", "file_sync_ms", "binlog"): 500.0,
        ("performance_schema", "file_sync_s_per_s", "binlog"): 0.5,
        ("performance_schema", "file_syncs_per_s", "binlog"): 1.0,
        ("diskstats", "w_await_ms", "loop0"): 0.7,
        ("diskstats", "f_await_ms", "loop0"): 0.2,
        ("cpu", "user_ratio", ""): 0.8,
        ("cpu", "system_ratio", ""): 0.2,
        ("psi", "cpu_some_ratio", ""): 1.0,
    }
    clean = case_of("clean")
    assert clean.device is not None
    disk = clean.device.entity
    named = {(s, m, disk if e == "loop0" else e): value for (s, m, e), value in values.items()}
    starved = with_columns(clean, {**named, ("tasks", "run_delay_s_per_s", "cell"): 0.6})
    blocked = with_columns(clean, {**named, ("tasks", "run_delay_s_per_s", "cell"): 0.3})
    assert sync_by_volume(starved) is not None
    assert sync_by_volume(blocked) is None


def test_a_file_system_that_journals_data_writes_it_twice_and_reads_through_the_page_cache() -> None:
    """ext4 with data=journal: twice the bytes of the files, and direct I/O is none: no foreign I/O."""
    options = ("rw", "relatime", "data=journal")
    assert written_copies(options) == 2
    assert written_copies(("rw",)) == 1
    assert not reads_directly({"innodb_flush_method": "O_DIRECT"}, options)
    assert reads_directly({"innodb_flush_method": "O_DIRECT"})
    values = {
        ("performance_schema", "file_reads_per_s", "data"): 200.0,
        ("performance_schema", "file_read_mib_per_s", "data"): 3.1,
        ("performance_schema", "file_writes_per_s", "data"): 400.0,
        ("performance_schema", "file_write_mib_per_s", "data"): 6.0,
    }
    named = {SeriesKey(source=s, metric=m, entity=e): np.full(20, value) for (s, m, e), value in values.items()}
    grid = Grid(t_s=np.arange(1.0, 21.0), width_s=1.0, columns=named)
    once = allowed_own_writes(grid, "sda", direct=True)
    twice = allowed_own_writes(grid, "sda", direct=True, copies=2.0)
    assert once is not None
    assert twice is not None
    assert twice[1][0] == pytest.approx(2 * once[1][0])
    served = Device(
        source="diskstats",
        entity="sda",
        iops=np.full(20, 1000.0),
        mib_per_s=np.full(20, 19.0),
        await_ms=None,
        in_flight=None,
        reads=np.full(20, 150.0),
        writes=np.full(20, 850.0),
        read_mib_per_s=np.full(20, 6.0),
        write_mib_per_s=np.full(20, 13.0),
    )
    plain = foreign_flow(grid, served, direct=True)
    journal = foreign_flow(grid, served, direct=False, copies=2.0)
    assert plain is not None
    assert journal is not None
    assert plain.mib_per_s[0] > 4
    assert journal.mib_per_s[0] == 0
