"""Rules that name what lies between the server and the device, and who else uses the device.

Layer by layer the same operations are counted: the server's reads of data files (performance_schema), the device's
requests (diskstats). Operations a second times their time is their number in flight (Little's law). Where a layer
holds operations that the layer below it does not, the time is lost between the two; where a layer has operations
that no layer above it sent, somebody else sent them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.analysis.explain import thresholds as limit
from volbench.analysis.explain.align import Floats, mean, median
from volbench.analysis.explain.case import Case
from volbench.analysis.explain.cliffs import cliffs
from volbench.analysis.explain.device import FILE_LAYER, data_file_reads
from volbench.analysis.explain.found import Found
from volbench.analysis.explain.shared_evidence import context, hardly_waited_for
from volbench.analysis.explain.wording import amount, before_and_after, clock, number, percent, row
from volbench.records.report import EvidenceRow

HOST_LIMIT, HOST_WAIT, NEIGHBOUR = "host.io_limit", "host.io_wait", "interference.io"
_LOOK_ABOVE = (
    "Look above the volume: limits of the server's control group (docker inspect: BlkioDevice*; systemctl show -p"
    " IOReadIOPSMax; io.max or blkio.throttle.* of the pod's cgroup), the filesystem, the device's queue. A faster"
    " volume changes nothing."
)
_FIND_WHO = (
    "Find who else uses this device (iotop, pidstat -d, other volumes on the same disk, a backup or a snapshot) and"
    " move that I/O, or give the database a volume of its own."
)


def host_findings(case: Case) -> list[Found]:
    """Time lost above the device: a limit where the server's reads are metered, else a wait without a name."""
    above_ms, files = case.waits_above_device, data_file_reads(case.grid)
    if above_ms is None or files is None or hardly_waited_for(case):
        return []
    share = None if case.budget is None else case.budget.share("data_reads")
    if share is not None and share < limit.SHARE_MIN:
        return []
    limits = case.host_limits
    if not limits and case.cpu_bound:  # a read that is done waits for a CPU, too
        return []
    rows = [*_layers(case, above_ms)]
    checks: list[bool | None] = [True]
    if limits:
        plateau = max(limits, key=lambda one: one.last - one.first)
        size_kib = files.size_kib
        bytes_ = "" if size_kib is None else f" ({number(plateau.level * size_kib / 1024)} MiB/s)"
        level = amount(plateau.level, plateau.resource)
        text = (
            f"the server's reads are held at {level}{bytes_ if plateau.resource == 'iops' else ''} above the device"
        )
        rows.insert(0, row(f"read_{plateau.resource}", plateau.level, plateau.unit, text))
        rows += [row(check.name, check.value, "1", check.text) for check in plateau.checks if check.holds]
        checks += [check.holds for check in plateau.checks]
    return [
        Found(
            cause=HOST_LIMIT if limits else HOST_WAIT,
            window_s=case.window_s if not limits else plateau.window_s,
            share=share,
            checks=tuple(checks),
            evidence=(*rows, *context(case)),
            advice=_LOOK_ABOVE,
        )
    ]


def _layers(case: Case, above_ms: float) -> Iterator[EvidenceRow]:
    """The same reads at both layers."""
    files, device = data_file_reads(case.grid), case.device
    reads = None if device is None else device.only("read")
    if files is None or reads is None:
        return
    sent, arrived = mean(files.iops) or 0.0, mean(reads.iops) or 0.0
    above, below = median(files.await_ms) or 0.0, median(reads.await_ms) or 0.0
    text = (
        f"a read takes the server {number(above)} ms and the device {number(below)} ms, at {number(sent)} and"
        f" {number(arrived)} reads a second: {number(above_ms)} ms are lost above the device"
    )
    yield row("above_device_ms", above_ms, "ms", text)
    queued, served = mean(files.in_flight) or 0.0, mean(reads.in_flight) or 0.0
    yield row(
        "reads_in_flight", queued, "1", f"{number(queued)} reads wait in the server, {number(served)} at the device"
    )


def neighbour_findings(case: Case) -> list[Found]:
    """I/O of others on the same device, where the server's reads suffer while it lasts."""
    foreign = foreign_reads(case)
    if foreign is None or case.device is None or hardly_waited_for(case):
        return []
    operations, mib_per_s = foreign
    measure = operations if mib_per_s is None else mib_per_s
    steps = [one for one in cliffs(case.grid.t_s, measure + _floor(measure)) if one.ratio >= limit.FOREIGN_RISE]
    start = steps[0].index if steps else 0
    during = slice(start, None)
    total, own_share = _own_share(case, operations, during)
    if own_share is None or own_share > 1 - limit.FOREIGN_SHARE_MIN:
        return []
    at_s = float(case.grid.t_s[start]) - case.grid.width_s
    when = f"from {clock(at_s, case.clock_zero_s)} on" if steps else "all the time"
    sent = amount(median(operations[during]) or 0.0, "iops")
    if mib_per_s is not None:
        sent += f" and {amount(median(mib_per_s[during]) or 0.0, 'throughput')}"
    text = f"{when} the device serves {sent} of reads that this server never sent"
    rows = [
        row("foreign_reads_per_s", median(operations[during]), "1/s", text),
        row("own_share", own_share, "1", f"the server's own reads are {percent(own_share)} of {number(total)}/s"),
    ]
    rose = _rise(case, start) if steps else None
    if rose is not None:
        rows.append(rose)
    return [
        Found(
            cause=NEIGHBOUR,
            window_s=(at_s, case.window_s[1]),
            share=case.storage_share,
            checks=(True, True if steps else None, None if not steps else rose is not None),
            evidence=(*rows, *context(case)),
            advice=_FIND_WHO,
        )
    ]


def foreign_reads(case: Case) -> tuple[Floats, Floats | None] | None:
    """Reads of the device that the server did not send: operations a second, and MiB/s where both sides count.

    The server's reads are those of all its files. Shape (buckets,); None where either side is not known.
    """
    device = case.device
    if device is None or device.source == "mountstats" or device.reads is None:
        return None
    own = _all_files(case, "file_reads_per_s")
    if own is None:
        return None
    own_mib = _all_files(case, "file_read_mib_per_s")
    operations = np.maximum(0.0, device.reads - own)
    if device.read_mib_per_s is None or own_mib is None:
        return operations, None
    return operations, np.maximum(0.0, device.read_mib_per_s - own_mib)


def _all_files(case: Case, metric: str) -> Floats | None:
    """A metric summed over all classes of files; NaN where one of them is not known."""
    grid = case.grid
    columns = [grid.column(FILE_LAYER, metric, kind) for kind in grid.entities(FILE_LAYER, metric)]
    known = [column for column in columns if column is not None]
    return np.sum(known, axis=0) if known else None


def _floor(values: Floats) -> float:
    """What is added before a ratio is taken, so that a rise from nothing is not infinite."""
    return max(1.0, 0.02 * float(np.nanmax(values))) if np.isfinite(values).any() else 1.0


def _own_share(case: Case, foreign: Floats, during: slice) -> tuple[float, float | None]:
    """All reads of the device a second, and the server's share of them."""
    device = case.device
    total = None if device is None or device.reads is None else mean(device.reads[during])
    others = mean(foreign[during])
    return (0.0, None) if not total or others is None else (total, max(0.0, 1 - others / total))


def _rise(case: Case, index: int) -> EvidenceRow | None:
    """How the server's own reads got slower when the others began; None where they did not."""
    files = data_file_reads(case.grid)
    waits = files.await_ms if files is not None else None
    levels = None if waits is None else before_and_after(waits, index)
    if levels is None or levels[1] < limit.FOREIGN_SLOWDOWN * levels[0]:
        return None
    text = f"a read took the server {number(levels[0])} ms before and {number(levels[1])} ms since"
    return row("file_read_ms", levels[1], "ms", text)
