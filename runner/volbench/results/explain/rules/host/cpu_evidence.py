"""Evidence on CPUs in sentences: how busy they are, who waits for them, what others and quotas take."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.records.named_metrics import PSI
from volbench.core.records.report import EvidenceRow
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.budget import LOCKS
from volbench.results.explain.evidence.layers import device_flow, server_flow
from volbench.results.explain.evidence.processors import (
    CLIENT,
    SERVER,
    CpuAccount,
    task_use,
)
from volbench.results.explain.rules.host.syncs_on_cpus import volume_part_of_syncs
from volbench.results.explain.rules.shared_evidence import busy_rows
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import mean, median


def waits_elsewhere(case: Case) -> float:
    """Share of the clients' time that is surely no wait for a CPU: reads and syncs at the device, locks, commits.

    What the cell's processes run and wait counts background threads as well, so that it may be more than the rest
    of the clients' time. Of a read as the server sees it, what the device takes for one is at the device, and so it
    is with a sync of a log. Others' commits count whole.
    """
    budget, reads = case.budget, server_flow(case.grid, "read", ("data",))
    device = None if case.device is None else device_flow(case.device, "read")
    if budget is None or not case.threads:
        return 0.0
    at_device = 0.0
    if reads is not None and device is not None and reads.each_ms and device.each_ms:
        at_device = min(1.0, device.each_ms / reads.each_ms)
    surely = budget.share("data_reads") * at_device + budget.share(*LOCKS, "binlog_group")
    surely += budget.share("redo_sync", "binlog_sync") * volume_part_of_syncs(case)
    return min(1.0, surely * (mean(budget.statement_s) or 0.0) / case.threads)


def lost_rows(account: CpuAccount) -> Iterator[EvidenceRow]:
    """What of the CPUs that the cell wanted others had."""
    if account.delay is None:
        return
    demanded, lost, delay = (mean(values) or 0.0 for values in (account.demanded, account.lost, account.delay))
    text = (
        f"alone, this load would keep {number(demanded)} CPUs busy; others have {number(lost)} of them, while its"
        f" tasks wait {number(delay)} s in each second for a CPU (schedstat)"
    )
    yield row("lost_cpus", lost, "1", text)


def quota_rows(case: Case) -> Iterator[EvidenceRow]:
    """That it is no quota of the server's own, where it has one."""
    throttled = case.server_throttled
    if throttled is not None:
        text = (
            f"the server's own CPU quota held it back in {percent(throttled)} of its periods: it is not the cause"
        )
        yield row("server_throttled_ratio", throttled, "1", text)


def host_rows(case: Case) -> Iterator[EvidenceRow]:
    """How busy CPUs are, and for how much of the time tasks waited for one."""
    busy, pressure = case.cpu_busy, median(case.at(PSI.cpu_some_ratio))
    if busy is not None:
        yield from busy_rows(case)
    if pressure is not None:
        yield row("cpu_some_ratio", pressure, "1", f"tasks waited for a CPU in {percent(pressure)} of the time")


def cpu_rows(case: Case, cpu_share: float | None) -> Iterator[EvidenceRow]:
    """How much of the time computing and waiting for a CPU take."""
    cycle = case.cpu_cycle_share
    if cycle is not None:
        text = f"{percent(cycle)} of the clients' time the cell's processes run or wait for a CPU (schedstat)"
        yield row("cpu_cycle_share", cycle, "1", text)
        yield from _side_rows(case)
    elif cpu_share is not None:
        text = "of the time nothing waits for the volume"
        if case.waiting_share is None:
            text = "of statement time is neither file nor lock waits"
        yield row("rest_share", cpu_share, "1", f"{percent(cpu_share)} {text}")


def bound_rows(case: Case, cpu_share: float | None) -> Iterator[EvidenceRow]:
    """That background threads are in it, where clients surely wait for something else meanwhile."""
    elsewhere = waits_elsewhere(case)
    if cpu_share is not None and cpu_share > 1 - elsewhere:
        text = (
            f"at most {percent(1 - elsewhere)} of the clients' time is on or before CPUs: in the rest they wait for"
            " the device or each other, while background threads use CPUs"
        )
        yield row("cpu_share_max", 1 - elsewhere, "1", text)


def _side_rows(case: Case) -> Iterator[EvidenceRow]:
    """How that time divides between server and load, where they were counted apart."""
    uses = [task_use(case.grid, side) for side in (SERVER, CLIENT)]
    shares = [(mean(use.used + use.delay) or 0.0) / (case.threads or 1) for use in uses if use is not None]
    if len(shares) == len(uses):
        text = (
            f"of the clients' time, {percent(shares[0])} are the server's and {percent(shares[1])} the load's own"
        )
        yield row("client_cycle_share", shares[1], "1", text)
