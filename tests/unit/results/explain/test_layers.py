"""Layer accounting: its arithmetic, and what it names in real recordings, some with one layer changed by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_throttle import case_of

from volbench.core.records.named_metrics import Client
from volbench.results.explain.case import Case
from volbench.results.explain.case_input import ConcurrentActivity
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.layers import (
    Flow,
    operations_above,
    stretches,
    time_above_ms,
)
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Floats
from volbench.results.store.series import SeriesKey

READS, WRITES = "read", "write"


def flow(rate: float, each_ms: float, mib_per_s: float | None = None) -> Flow:
    rates = np.full(10, rate)
    return Flow(
        layer="x",
        rate=rates,
        in_flight=rates * each_ms / 1000,
        mib_per_s=None if mib_per_s is None else np.full(10, mib_per_s),
    )


def changed(case: Case, columns: dict[tuple[str, str, str], Floats | float]) -> Case:
    """A case with some columns set, for the step and for the whole cell."""
    grid = case.grid
    new = {
        SeriesKey(source=source, metric=metric, entity=entity): np.broadcast_to(
            np.asarray(values, float), len(grid)
        )
        for (source, metric, entity), values in columns.items()
    }
    return replace(case, grid=replace(grid, columns={**grid.columns, **new}))


def first_named(case: Case, prefixes: tuple[str, ...] = ("storage.", "host.", "interference.")) -> Cause | None:
    return next((finding for finding in explain_case(case).findings if finding.cause.startswith(prefixes)), None)


def test_littles_law_gives_the_time_between_two_layers() -> None:
    """800/s at 25 ms are 20 in flight; the device has 0.8 of them at 1 ms: 24 ms of each lie above it."""
    server, device = flow(800, 25), flow(800, 1)
    above = operations_above(server, device)
    assert above is not None
    assert above == pytest.approx(np.full(10, 19.2))
    assert time_above_ms(server, device) == pytest.approx(24)


def test_foreign_operations_at_the_device_only_lessen_the_bound() -> None:
    assert (time_above_ms(flow(800, 25), flow(4000, 3)) or 0) < (time_above_ms(flow(800, 25), flow(800, 1)) or 0)
    assert time_above_ms(flow(800, 1), flow(4000, 3)) == 0


def test_hits_of_a_page_cache_take_nothing_away() -> None:
    """Half of the server's reads never reach the device: the time in flight is the same."""
    assert time_above_ms(flow(1600, 12.5), flow(800, 1)) == pytest.approx(12)


def test_stretches_close_short_gaps_and_drop_short_ones() -> None:
    active = np.array([0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0], dtype=bool)
    assert stretches(active, gap=2, least=3) == ((1, 6),)


@pytest.mark.parametrize("name", ["clean", "device-read-800", "device-read-12mib", "device-write-300"])
def test_a_device_without_others_has_no_foreign_io(name: str) -> None:
    """Real servers and devices: the slack for journals and blocks covers what the kernel adds."""
    case = case_of(name)
    assert case.foreign is not None
    assert float(np.median(case.foreign.share)) < 0.1
    assert "interference.io" not in [finding.cause for finding in explain_case(case).findings]


def test_a_configured_limit_that_is_met_is_sure() -> None:
    """The kernel's limit was 800 reads/s; its account is set by hand here, since the recording has none."""
    case = case_of("above-read-800")
    finding = first_named(changed(case, {("cgroup_io", "read_iops_max", "server"): 800.0}))
    assert finding is not None
    assert (finding.cause, finding.decided_by, finding.kind) == ("host.io_limit", "counted", "all held")
    assert "may read 800 IOPS" in finding.evidence[0].text
    assert "blkio.throttle.read_" in finding.advice


def test_a_configured_limit_far_away_names_nothing() -> None:
    far: dict[tuple[str, str, str], Any] = {
        ("cgroup_io", f"{method}_iops_max", "server"): 50_000.0 for method in (READS, WRITES)
    }
    assert first_named(changed(case_of("clean"), far)) is None
    finding = first_named(changed(case_of("device-read-800"), far))
    assert finding is not None
    assert finding.cause.startswith("storage.")


def test_a_limit_that_the_device_keeps_too_is_not_the_cgroups() -> None:
    """Nobody waits above the device, and the configured limit is twice what the load does."""
    case = case_of("clean")
    rate = float(np.median(case.device.reads))  # type: ignore[union-attr, arg-type]
    assert first_named(changed(case, {("cgroup_io", "read_iops_max", "server"): 2 * rate})) is None


def test_syncs_that_wait_above_the_device_are_named() -> None:
    """The device takes 1.6 ms for a write, a sync of the log 90: neither is a slow volume."""
    case = case_of("clean")
    rate = case.grid.column("performance_schema", "file_syncs_per_s", "binlog")
    assert rate is not None
    slow: dict[tuple[str, str, str], Any] = {
        ("performance_schema", "file_sync_s_per_s", "binlog"): rate * 0.09,
        ("performance_schema", "file_sync_ms", "binlog"): 90.0,
        ("performance_schema", "wait_s_per_s", "file_binlog"): rate * 0.09,
        ("cpu", "user_ratio", ""): 0.2,
    }
    finding = first_named(changed(case, slow))
    assert finding is not None
    assert finding.cause == "host.io_wait"
    assert "sync of a log takes the server 90 ms" in finding.evidence[0].text


def foreign_writes(case: Case, start: int, mib_per_s: float) -> Case:
    """More writes at the device from a bucket on, of 512 KiB each, as cp makes them."""
    assert case.device is not None
    rate, bytes_ = case.device.writes, case.device.write_mib_per_s
    assert rate is not None
    assert bytes_ is not None
    on = np.arange(len(case.grid)) >= start
    disk = case.device.entity
    tps = case.at(Client.tps)
    assert tps is not None
    return changed(
        case,
        {
            ("diskstats", "writes_per_s", disk): rate + on * mib_per_s * 2,
            ("diskstats", "write_mib_per_s", disk): bytes_ + on * mib_per_s,
            ("client", "tps", ""): np.where(on, tps / 3, tps),
        },
    )


def test_writes_that_this_server_never_sent_are_named_with_their_start() -> None:
    case = foreign_writes(case_of("clean"), 12, 300.0)
    finding = next(finding for finding in explain_case(case).findings if finding.cause == "interference.io")
    assert finding.window_s[0] == pytest.approx(float(case.grid.t_s[11]), abs=1)
    assert finding.share is not None
    assert finding.share > 0.15
    assert "writes/s (" in finding.evidence[0].text
    assert finding.kind == "all held"


@pytest.mark.parametrize(("slow_from", "stands"), [(12, False), (0, True)])
def test_syncs_that_wait_only_while_others_write_are_their_doing(slow_from: int, stands: bool) -> None:
    """A sync waits for the journal's commit, which has what others wrote: no time of its own at the device."""
    case = foreign_writes(case_of("clean"), 12, 300.0)
    names = ("file_syncs_per_s", "file_sync_s_per_s", "file_sync_ms")
    rate, spent, each_ms = (case.grid.column("performance_schema", name, "binlog") for name in names)
    assert rate is not None
    assert spent is not None
    assert each_ms is not None
    slow = np.arange(len(case.grid)) >= slow_from
    columns: dict[tuple[str, str, str], Any] = {
        ("performance_schema", "file_sync_s_per_s", "binlog"): np.where(slow, rate * 0.09, spent),
        ("performance_schema", "file_sync_ms", "binlog"): np.where(slow, 90.0, each_ms),
        ("performance_schema", "wait_s_per_s", "file_binlog"): np.where(slow, rate * 0.09, spent),
        ("cpu", "user_ratio", ""): 0.2,
    }
    result = explain_case(changed(case, columns))
    causes = [finding.cause for finding in result.findings]
    assert "interference.io" in causes
    assert ("host.io_wait" in causes) is stands
    assert ("host.io_wait" in [refuted.cause.cause for refuted in result.refuted]) is not stands


def test_a_physical_backup_of_this_run_is_no_neighbour() -> None:
    case = foreign_writes(case_of("clean"), 12, 300.0)
    own = replace(
        case,
        concurrent=(
            ConcurrentActivity(name="physical", t0_s=float(case.grid.t_s[11]), t1_s=float(case.grid.t_s[-1])),
        ),
    )
    assert "interference.io" not in [finding.cause for finding in explain_case(own).findings]


def test_a_neighbour_is_named_beside_a_dump_of_this_run() -> None:
    """mysqldump reads through the server: reads that the server never sent are not its."""
    case = case_of("neighbour")
    start, end = case.window_s
    dumped = replace(case, concurrent=(ConcurrentActivity(name="mysqldump", t0_s=start, t1_s=end),))
    assert "interference.io" in [finding.cause for finding in explain_case(dumped).findings]


def test_commits_without_an_instrument_are_not_taken_for_cpu_time() -> None:
    """MariaDB 10.11 shows no wait for its redo log; writes were limited, and other work filled the CPUs."""
    findings = explain_case(case_of("device-write-300")).findings
    assert findings[0].cause == "storage.iops_limit"
    cpu = next(finding for finding in findings if finding.cause == "cpu.server_saturated")
    assert cpu.one_of_two
