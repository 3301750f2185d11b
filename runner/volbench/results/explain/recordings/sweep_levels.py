"""A sweep of recordings: the level that each has of the volume, and the plateau at which more load brings nothing.

One recording cannot show why its rate is steady: a closed loop is. A sweep has what a control needs, the same load
with more clients. Clients that the volume holds up wait in its queue, so that at its plateau the queue takes up
what is added and the rate stays. Where anything else holds them (CPUs, locks, the client), the rate stays and the
volume's queue does, too. So the queue decides, and each check can refute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.records.named_metrics import Diskstats
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import LITTLE_TOLERANCE, Device, device_of, little_ratio
from volbench.results.explain.evidence.plateau_checks import PlateauCheck, not_made
from volbench.results.explain.wording import number, percent
from volbench.results.stats.grid import Floats, Grid, median

LEVELS_MIN = 3
"""Recordings of a sweep; two show a line and no bend."""
PLATEAU_MIN, UNORDERED_MIN = 2, 3
"""Recordings at the plateau, where the load is known to rise, and where only the queue says so."""
SAME = 0.95
"""Of the highest rate: the margin within which volbench calls volumes equivalent."""
QUEUE_RISE_MIN = 1.5
"""Times that the queue is longer at one end of the plateau: a rate within 5 % then follows it by 0.13 at most."""
QUEUE_FALL_MAX = 0.9
"""A queue that is shorter with more load: something else holds the clients, whatever the rate is."""
SAME_SIZE, SAME_MIX = 0.1, 0.05
"""How much the size of operations and the share of writes may differ: of one load they are within half of it."""
IDLE_BELOW = 0.9
"""Utilisation below which the device had time in which nothing was asked of it."""
SERVED_MAX, SERVED_SAMPLES = 1.1, 3
"""How many times its level, in so many intervals, a limit can have been exceeded (the level's own tolerance)."""
MEMBERS_WITHIN = 0.1
"""Reads of a stacked device against those of the disks below it: merges take some."""
_STACKED = ("md", "dm-", "bcache", "drbd")


@dataclass(frozen=True, kw_only=True)
class SweepLevel:
    """What the volume gave in one recording: medians over its intervals.

    `load`: clients, or another number of its place; None: not known. `in_flight` is by Little's law, rate times
    waiting time. `most` is the third highest rate of intervals with the same mix of operations.
    `steady`: share of intervals at it. `little`: the recorded queue against Little's law; None: no such queue.
    """

    name: str
    load: float | None
    rate: float
    in_flight: float
    await_ms: float
    mib_per_s: float | None = None
    size_kib: float | None = None
    writes: float | None = None
    util: float | None = None
    cpu_busy: float | None = None
    most: float = 0.0
    steady: float = 1.0
    little: float | None = None
    tps: float | None = None


@dataclass(frozen=True, kw_only=True)
class SweepPlateau:
    """The levels at the plateau, in order of the load, and the checks. `level` is the highest of their rates."""

    levels: tuple[SweepLevel, ...]
    checks: tuple[PlateauCheck, ...]

    @property
    def level(self) -> float:
        """Operations a second."""
        return max(item.rate for item in self.levels)

    @property
    def names(self) -> frozenset[str]:
        """Of the recordings at it."""
        return frozenset(level.name for level in self.levels)

    @property
    def mib_per_s(self) -> float | None:
        """Of the recording with the highest rate."""
        return max(self.levels, key=lambda level: level.rate).mib_per_s

    @property
    def is_limit(self) -> bool:
        """Whether nothing refutes it."""
        return all(check.holds is not False for check in self.checks)

    @property
    def refuted_by(self) -> tuple[PlateauCheck, ...]:
        """The checks that fail."""
        return tuple(check for check in self.checks if check.holds is False)


def level_of(case: Case, entity: str, name: str, load: float | None, tps: float | None) -> SweepLevel | None:
    """Return what a device gave in a recording; None where its waiting times or enough intervals are not known.

    Args:
        case: all of the recording.
        entity: the device.
        name: of the recording.
        load: its place in the sweep.
        tps: transactions a second by the client's log.
    """
    device = device_of(case.cell_grid, entity)
    if device is None or device.entity != entity:
        return None
    device = _with_members(case.cell_grid, device)
    if device.await_ms is None:
        return None
    finite = np.isfinite(device.served) & np.isfinite(device.await_ms) & (device.served > 0)
    if int(finite.sum()) < limit.PLATEAU_SAMPLES_MIN:
        return None
    rate, queue = device.served[finite], (device.iops * device.await_ms / 1000)[finite]
    typical, waiting = float(np.median(rate)), float(np.median(queue))
    writes = _shares(device.writes, device.iops, finite)
    sizes = _shares(device.mib_per_s, device.iops, finite)
    low, high = (typical * edge for edge in limit.FLAT_TOLERANCE)
    return SweepLevel(
        name=name,
        load=load,
        rate=typical,
        in_flight=waiting,
        await_ms=1000 * waiting / typical,
        mib_per_s=None if device.mib_per_s is None else median(device.mib_per_s[finite]),
        size_kib=None if sizes is None else 1024 * float(np.median(sizes)),
        writes=None if writes is None else float(np.median(writes)),
        util=None if device.util is None else median(device.util[finite]),
        cpu_busy=case.cpu_busy,
        most=_most(rate, writes, sizes),
        steady=float(((rate >= low) & (rate <= high)).mean()),
        little=little_ratio(device) if device.knows_queue and _has_queue(case.cell_grid, device) else None,
        tps=tps,
    )


def _has_queue(grid: Grid, device: Device) -> bool:
    return grid.column(*Diskstats.aqu_sz.of(device.source), device.entity) is not None


def _shares(values: Floats | None, total: Floats, finite: np.ndarray) -> Floats | None:
    return None if values is None else values[finite] / np.maximum(total[finite], 1e-9)


def _most(rate: Floats, writes: Floats | None, sizes: Floats | None) -> float:
    """The SERVED_SAMPLES-th highest rate of the intervals with the recording's own mix and size of operations."""
    alike = np.ones(len(rate), dtype=np.bool_)
    if writes is not None:
        alike &= np.abs(writes - np.median(writes)) <= SAME_MIX
    if sizes is not None:
        alike &= np.abs(sizes - np.median(sizes)) <= SAME_SIZE * np.median(sizes)
    ordered = np.sort(rate[alike & np.isfinite(rate)])
    return float(ordered[-SERVED_SAMPLES]) if len(ordered) >= SERVED_SAMPLES else 0.0


def _with_members(grid: Grid, device: Device) -> Device:
    """The device with the queue and the utilisation of the disks below it, where it counts no waiting times.

    md devices of old kernels have none. The disks below are those whose reads together are the device's, or whose
    writes are where it hardly reads: that is conserved on the way down. Else nothing is known of the queue.
    """
    if device.source != "diskstats" or device.await_ms is not None or not device.entity.startswith(_STACKED):
        return device
    waits = (Diskstats.await_ms, Diskstats.r_await_ms)
    names = {name for metric in waits for name in grid.entities(*metric)}
    disks = [device_of(grid, name) for name in sorted(names) if not name.startswith(_STACKED)]
    below = [disk for disk in disks if disk is not None and disk.await_ms is not None]
    reads, writes = (sum(_total(getattr(disk, name)) for disk in below) for name in ("reads", "writes"))
    passed, own = reads, _total(device.reads)
    if own < limit.DIRECTION_SHARE_MIN * (own + _total(device.writes)):
        passed, own = writes, _total(device.writes)
    if own <= 0 or abs(passed / own - 1) > MEMBERS_WITHIN:
        return device
    queues = [np.nan_to_num(disk.iops * disk.await_ms / 1000) for disk in below if disk.await_ms is not None]
    queue = np.sum(queues, axis=0)
    rate = np.where(device.iops > 0, device.iops, np.nan)
    utils = [disk.util for disk in below if disk.util is not None]
    return replace(
        device,
        await_ms=1000 * queue / rate,
        util=np.nanmax(utils, axis=0) if utils else None,
        knows_queue=False,
    )


def _total(values: Floats | None) -> float:
    return 0.0 if values is None else float(np.nansum(values))


def plateau_of(levels: Sequence[SweepLevel], *, ordered: bool) -> SweepPlateau | None:
    """Return the plateau of a sweep; None where there are too few levels, or the rate rises to the end.

    Args:
        levels: of all recordings.
        ordered: whether the load of each is known; else they are taken in order of their queues.
    """
    if len(levels) < LEVELS_MIN:
        return None
    rising = sorted(levels, key=lambda level: (level.load or 0.0) if ordered else level.in_flight)
    top = max(rising, key=lambda level: level.rate)
    at_top = _without_falls([level for level in rising if level.rate >= SAME * top.rate], top)
    if len(at_top) < (PLATEAU_MIN if ordered else UNORDERED_MIN):
        return None
    return SweepPlateau(levels=tuple(at_top), checks=_checks(at_top, rising))


def _without_falls(levels: Sequence[SweepLevel], top: SweepLevel) -> list[SweepLevel]:
    """The levels up to the first at which the queue is shorter than it was with less load.

    From there on something else than the volume holds the clients. The highest rate counts whatever came before.
    """
    longest, rising = 0.0, []
    for level in levels:
        if level.in_flight < QUEUE_FALL_MAX * longest:
            break
        longest = max(longest, level.in_flight)
        rising.append(level)
    return rising if top in rising else [top]


def _checks(levels: Sequence[SweepLevel], every: Sequence[SweepLevel]) -> tuple[PlateauCheck, ...]:
    queues = [level.in_flight for level in levels]
    rise = max(queues) / max(min(queues), 1e-9)
    return (
        PlateauCheck(
            name="queue",
            holds=rise >= QUEUE_RISE_MIN and max(queues) >= limit.QUEUE_MIN,
            value=rise,
            text=f"the queue goes from {number(min(queues))} to {number(max(queues))} operations in flight",
        ),
        _busy(levels),
        _cpus(levels),
        _mix(levels),
        _steady(levels),
        _served(levels, every),
        _little(levels),
    )


def _busy(levels: Sequence[SweepLevel]) -> PlateauCheck:
    utils = [level.util for level in levels if level.util is not None]
    if len(utils) < len(levels):
        return not_made("busy")
    text = f"the device was busy {percent(min(utils))} of the time or more"
    return PlateauCheck(name="busy", holds=min(utils) >= IDLE_BELOW, value=min(utils), text=text)


def _cpus(levels: Sequence[SweepLevel]) -> PlateauCheck:
    busy = [level.cpu_busy for level in levels if level.cpu_busy is not None]
    if len(busy) < len(levels):
        return not_made("CPUs")
    text = f"the host's CPUs were busy {percent(max(busy))} of the time at most"
    return PlateauCheck(name="CPUs", holds=max(busy) < limit.CPU_BUSY_MIN, value=max(busy), text=text)


def _mix(levels: Sequence[SweepLevel]) -> PlateauCheck:
    sizes = [level.size_kib for level in levels if level.size_kib is not None]
    writes = [level.writes for level in levels if level.writes is not None]
    if len(sizes) < len(levels) and len(writes) < len(levels):
        return not_made("mix")
    one_size = len(sizes) < len(levels) or max(sizes) <= (1 + SAME_SIZE) * min(sizes)
    one_mix = len(writes) < len(levels) or max(writes) - min(writes) <= SAME_MIX
    texts = [
        f"operations of {_span([number(size) for size in (min(sizes), max(sizes))])} KiB" if sizes else "",
        f"{_span([percent(share) for share in (min(writes), max(writes))])} of them writes" if writes else "",
    ]
    text = f"{', '.join(filter(None, texts))}: another load may have another limit"
    return PlateauCheck(name="mix", holds=one_size and one_mix, value=None, text=text)


def _span(ends: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys(ends))


def _steady(levels: Sequence[SweepLevel]) -> PlateauCheck:
    least = min(level.steady for level in levels)
    text = f"{percent(least)} of the intervals or more are at the rate of their recording"
    return PlateauCheck(name="steady", holds=least >= limit.FLAT_SHARE_MIN, value=least, text=text)


def _served(levels: Sequence[SweepLevel], every: Sequence[SweepLevel]) -> PlateauCheck:
    """Whether no recording of the sweep has a stretch, of the same operations, that a limit would have cut."""
    level = max(item.rate for item in levels)
    alike = [item for item in every if is_alike(item, levels[0])]
    most = max((item.most for item in alike), default=0.0)
    text = f"no {SERVED_SAMPLES} intervals of such operations have more than {number(most)} operations/s"
    return PlateauCheck(name="served", holds=most <= SERVED_MAX * level, value=most, text=text)


def is_alike(first: SweepLevel, second: SweepLevel) -> bool:
    """Whether the operations of two recordings are of one size and mix, as far as that is known."""
    if first.writes is not None and second.writes is not None and abs(first.writes - second.writes) > SAME_MIX:
        return False
    if first.size_kib is None or second.size_kib is None:
        return True
    return abs(math.log(max(first.size_kib, 1e-9) / max(second.size_kib, 1e-9))) <= math.log(1 + SAME_SIZE)


def _little(levels: Sequence[SweepLevel]) -> PlateauCheck:
    ratios = [level.little for level in levels if level.little is not None]
    if not ratios:
        return not_made("Little")
    worst = max(ratios, key=lambda ratio: abs(ratio - 1))
    text = f"the recorded queue is {worst:.2f} times rate x waiting time (Little's law)"
    return PlateauCheck(name="Little", holds=abs(worst - 1) <= LITTLE_TOLERANCE, value=worst, text=text)


def taken_by_queue(levels: Sequence[SweepLevel]) -> float | None:
    """Share of the clients that were added along the plateau that the volume's queue took up; None: not known."""
    loads = [level.load for level in levels if level.load is not None]
    if len(loads) < len(levels) or max(loads) <= min(loads):
        return None
    first, last = levels[0], max(levels, key=lambda level: level.in_flight)
    if last.load is None or first.load is None or last.load <= first.load:
        return None
    return (last.in_flight - first.in_flight) / (last.load - first.load)
