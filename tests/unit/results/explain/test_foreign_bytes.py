"""Others' I/O is counted by bytes: what is split or written back is nobody else's, what is real is enough."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns

from volbench.core.records.named_metrics import Client
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.foreign import ForeignFlow
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.host.foreign import foreign_findings, foreign_intervals
from volbench.results.stats.grid import Floats

NEIGHBOUR = "interference.io"


def device_with(case: Case, **factors: Floats | float) -> Case:
    """A real run whose device counts so many times as much, by metric."""
    assert case.device is not None
    columns = {}
    for metric, factor in factors.items():
        known_values = case.grid.column("diskstats", metric, case.device.entity)
        assert known_values is not None
        columns["diskstats", metric, case.device.entity] = known_values * factor
    return with_columns(case, columns)


def neighbour(case: Case, *, reads: Any, kib: float, tps: Any = 1.0) -> Case:
    """A real run beside somebody who reads so often, `kib` each, while clients do `tps` of what they did."""
    assert case.device is not None
    disk, done = case.device.entity, case.at(Client.tps)
    rate, bytes_ = case.device.reads, case.device.read_mib_per_s
    assert rate is not None
    assert bytes_ is not None
    assert done is not None
    return with_columns(
        case,
        {
            ("diskstats", "reads_per_s", disk): rate + reads,
            ("diskstats", "read_mib_per_s", disk): bytes_ + np.asarray(reads) * kib / 1024,
            ("client", "tps", ""): done * tps,
        },
    )


def named(case: Case) -> list[str]:
    return [finding.cause for finding in explain_case(case).findings]


@pytest.mark.parametrize("name", ["clean", "device-read-800", "device-write-300"])
@pytest.mark.parametrize("pieces", [2, 4, 8])
def test_operations_that_the_kernel_splits_are_not_somebody_elses(name: str, pieces: int) -> None:
    """max_sectors_kb, or chunks of a RAID: more operations, the same bytes."""
    split = device_with(case_of(name), reads_per_s=pieces, writes_per_s=pieces)
    assert NEIGHBOUR not in named(split)


@pytest.mark.parametrize(("reads", "kib"), [(6000.0, 16.0), (9000.0, 4.0), (300.0, 512.0)])
def test_real_others_are_seen_by_their_bytes(reads: float, kib: float) -> None:
    case = case_of("clean")
    begin = np.arange(len(case.grid)) >= len(case.grid) // 2
    finding = foreign_findings(neighbour(case, reads=begin * reads, kib=kib, tps=np.where(begin, 0.4, 1.0)))
    assert [finding.cause for finding in finding] == [NEIGHBOUR]
    stated = {row.metric: row.value for row in finding[0].evidence}
    assert stated["foreign_mib_per_s"] == pytest.approx(reads * kib / 1024, rel=0.1)


def test_what_others_do_must_be_enough_for_the_loss() -> None:
    """A third of the device's operations cannot take 97 % of the speed: the loss has another cause."""
    case = case_of("device-read-800")
    assert case.device is not None
    third = 0.5 * float(np.nanmean(case.device.iops))
    begin = np.arange(len(case.grid)) >= len(case.grid) // 2
    finding = foreign_findings(neighbour(case, reads=begin * third, kib=16.0, tps=np.where(begin, 0.03, 1.0)))
    assert [item.kind for item in finding] in ([], ["some failed"])
    assert all(item.share is not None and item.share <= 0.85 for item in finding)


@pytest.mark.parametrize(
    ("part", "least", "most", "kind"),
    [(0.05, 0.85, 1.0, "all held"), (0.65, 0.25, 0.45, "all held"), (0.85, 0.05, 0.25, "some failed")],
)
def test_what_transactions_wait_longer_for_cpus_is_not_taken_by_others_io(
    part: float, least: float, most: float, kind: str
) -> None:
    """Others read much from a disk that does not mind, and use the CPUs: half of the speed is lost there."""
    case = case_of("clean")
    begin = np.arange(len(case.grid)) >= len(case.grid) // 2
    slower = neighbour(case, reads=begin * 6000.0, kib=16.0, tps=np.where(begin, 0.4, 1.0))
    tps = slower.at(Client.tps)
    assert tps is not None
    assert case.threads is not None
    rate_before, rate_now = (float(np.nanmean(tps[mask])) for mask in (~begin, begin))
    before_s, now_s = case.threads / rate_before, case.threads / rate_now
    cpus_before_s = 0.05 * before_s
    cpus_now_s = cpus_before_s + part * (now_s - before_s)
    runnable = np.where(begin, cpus_now_s * rate_now, cpus_before_s * rate_before)

    def beside_cpus(times: float) -> Case:
        used, delay = (("tasks", metric, "cell") for metric in ("cpus_used", "run_delay_s_per_s"))
        return with_columns(slower, {used: 0.1 * times * runnable, delay: 0.9 * times * runnable})

    (free,), (finding,) = (foreign_findings(beside_cpus(times)) for times in (0.0, 1.0))
    assert free.share is not None
    assert finding.share is not None
    assert least <= finding.share / free.share <= most
    assert finding.kind == kind
    assert ("cpu_of_rise" in [row.metric for row in finding.evidence]) is (part > 0.15)


def test_a_few_intervals_with_others_are_not_all_of_the_time_between() -> None:
    """Three intervals of a second with others and four without: the finding has the part that it states."""
    case = case_of("clean")
    at = np.arange(len(case.grid))
    begin = np.isin(at, (4, 5, 6)) | np.isin(at, (len(at) - 4, len(at) - 3, len(at) - 2))
    for finding in foreign_findings(neighbour(case, reads=begin * 9000.0, kib=16.0, tps=np.where(begin, 0.3, 1.0))):
        share = next(
            float(row.text.split("that is ")[1].split(" %")[0])
            for row in finding.evidence
            if row.metric == "foreign_mib_per_s"
        )
        assert share >= 25


def test_what_a_cache_writes_back_from_before_the_step_is_the_servers() -> None:
    """Files written without a sync in the 35 s before: their bytes reach the device within the step."""
    case = case_of("clean")
    assert case.device is not None
    assert case.device.write_mib_per_s is not None
    half = len(case.grid) // 2
    later = np.arange(len(case.grid)) >= half
    extra = np.where(later, 20.0, 0.0)
    written = case.device.writes
    assert written is not None
    disk = case.device.entity
    earlier = np.where(later, 0.0, 40.0)
    grid = with_columns(
        case,
        {
            ("diskstats", "write_mib_per_s", disk): case.device.write_mib_per_s + extra,
            ("diskstats", "writes_per_s", disk): written + 2 * extra,
            ("performance_schema", "file_write_mib_per_s", "temp"): earlier,
            ("performance_schema", "file_writes_per_s", "temp"): earlier * 64,
            ("performance_schema", "file_syncs_per_s", "temp"): 0.0,
        },
    ).grid
    step = replace(case, grid=grid.where(later), cell_grid=grid)
    assert foreign_findings(step) == []


@pytest.mark.parametrize(("reads", "first"), [(500.0, "storage.iops_limit"), (4000.0, NEIGHBOUR)])
def test_others_who_are_there_all_along_come_before_a_limit_only_with_most_of_the_device(
    reads: float, first: str
) -> None:
    """A limit of 800 reads a second that this server meets: 500 more beside it fill it not, 4,000 do."""
    case = neighbour(case_of("device-read-800"), reads=reads, kib=16.0)
    storage = [cause for cause in named(case) if cause.startswith(("storage.", "interference.io"))]
    assert storage[0] == first


@pytest.mark.parametrize("written_mib", [0.0, 200.0])
def test_what_the_server_may_yet_write_pays_for_no_read_of_others(written_mib: float) -> None:
    """A neighbour with 41 % of a device was not seen next to a server that writes through the page cache."""
    case = case_of("clean")
    assert case.device is not None
    others = neighbour(case, reads=np.full(len(case.grid), 6000.0), kib=16.0)
    key = ("performance_schema", "file_write_mib_per_s", "data")
    columns = case.grid.column(*key)
    assert columns is not None
    writing = with_columns(others, {key: columns + written_mib})
    assert foreign_intervals(writing, flow_of(writing)) is not None


def flow_of(case: Case) -> ForeignFlow:
    assert case.foreign is not None
    return case.foreign
