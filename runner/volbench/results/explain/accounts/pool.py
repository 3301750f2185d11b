"""A pool of disks behind one volume: what each disk does for the client, by the disks' own counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from volbench.core.records.named_metrics import Emulator, NamedMetric
from volbench.core.records.sources import sources_with
from volbench.results.explain import thresholds as limit
from volbench.results.explain.evidence.device import VIEWS
from volbench.results.explain.wording import number
from volbench.results.stats.grid import Floats, Grid, Mask


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Disks and their client over one step.

    Args:
        disks: how many there are.
        limit_per_s: operations a second that all disks together may do for long: the lowest limit that a disk
            showed, times their number, for they are alike, and credits that some have left do not last.
        limit_falls: whether a disk showed a higher limit, too: with burst credits, say.
        per_write: disk operations for one write of the client: copies, times the writes of a log on each disk.
        copied_share: of the disks' operations, those that are more than one for a write.
        client_writes_per_s, disk_per_s: medians over the same time.
        at_limit: when the busiest disk was at its limit, shape (buckets,).
    """

    disks: int
    limit_per_s: float
    limit_falls: bool
    per_write: float
    copied_share: float
    client_writes_per_s: float
    disk_per_s: float
    at_limit: Mask

    @property
    def writes_per_s_max(self) -> float:
        """Writes of the client that the disks can do, without reads."""
        return self.limit_per_s / self.per_write

    @property
    def at_which_limit(self) -> str:
        """Of limits that fell within the step, which one the figures rest on, to be added to a sentence."""
        return ", at the lowest limit that a disk had in this step" if self.limit_falls else ""

    @property
    def at_limit_share(self) -> float:
        """Share of the time in which the busiest disk was at its limit."""
        return float(self.at_limit.mean())


def pool_of(grid: Grid) -> Pool | None:
    """Return the pool that a source counts disk by disk; None without one, or where its client wrote nothing."""
    for source in sources_with(Emulator.disk_writes_per_s.name, *VIEWS):
        entities = grid.entities(*Emulator.disk_writes_per_s.of(source))
        writes, reads = (
            grid.column(*metric.of(source)) for metric in (Emulator.writes_per_s, Emulator.reads_per_s)
        )
        if len(entities) > 1 and writes is not None and reads is not None:
            return _pool(
                _stacked(grid, Emulator.disk_reads_per_s.of(source), entities),
                _stacked(grid, Emulator.disk_writes_per_s.of(source), entities),
                _stacked(grid, Emulator.disk_limit_per_s.of(source), entities),
                writes,
                reads,
            )
    return None


def _stacked(grid: Grid, metric: NamedMetric, entities: tuple[str, ...]) -> Floats:
    """Return a metric of all disks, shape (disks, buckets); NaN where a disk has none."""
    columns = (grid.column(*metric, entity) for entity in entities)
    return np.array([np.full(len(grid), np.nan) if column is None else column for column in columns])


def _pool(
    reads: Floats, writes: Floats, limits: Floats, client_writes: Floats, client_reads: Floats
) -> Pool | None:
    rates = reads + writes
    is_finite = np.isfinite(rates).all(axis=0) & np.isfinite(limits).all(axis=0)
    is_finite &= np.isfinite(client_writes) & np.isfinite(client_reads)
    written = float(client_writes[is_finite].sum())
    if not is_finite.any() or written <= 0:
        return None
    busy = np.zeros(is_finite.shape, dtype=np.bool_)
    busy[is_finite] = (rates[:, is_finite] >= limit.DISK_BUSY_MIN * limits[:, is_finite]).any(axis=0)
    when = busy if busy.any() else is_finite
    on_disks = float(writes[:, is_finite].sum())
    lowest_per_s, highest_per_s = (float(extreme(limits[:, is_finite])) for extreme in (np.min, np.max))
    return Pool(
        disks=len(rates),
        limit_per_s=lowest_per_s * len(rates),
        limit_falls=lowest_per_s < highest_per_s,
        per_write=on_disks / written,
        copied_share=max(0.0, on_disks - written) / float(rates[:, is_finite].sum()),
        client_writes_per_s=float(np.median(client_writes[when])),
        disk_per_s=float(np.median(rates[:, when].sum(axis=0))),
        at_limit=busy,
    )


def pool_difference(baseline: str, candidate: str, pools: Mapping[str, list[Pool]]) -> str | None:
    """Return what copies and disks make of the difference between two pools; None where both are alike.

    Args:
        pools: volume -> the pool of each of its cells.
    """
    both = [pools.get(name, []) for name in (baseline, candidate)]
    if not all(both):
        return None
    per_write = [median(pool.per_write for pool in side) for side in both]
    disks = [round(median(pool.disks for pool in side)) for side in both]
    fallen = [[pool for pool in side if pool.limit_falls] for side in both]
    limits = [median(pool.limit_per_s for pool in low or side) for low, side in zip(fallen, both, strict=True)]
    ceilings = [total / each for total, each in zip(limits, per_write, strict=True)]
    writes = max(pool.copied_share for side in both for pool in side) >= limit.SHARE_MIN
    differences = []
    if writes and abs(per_write[1] / per_write[0] - 1) >= limit.POOLS_ALIKE:
        differences.append(f"{number(per_write[1])} instead of {number(per_write[0])} disk writes for a write")
    if abs(limits[1] / limits[0] - 1) >= limit.POOLS_ALIKE:
        count = f"{disks[1]} disks" if disks[0] == disks[1] else f"{disks[1]} instead of {disks[0]} disks"
        may_do = [
            f"{total:,.0f}{' at their lowest limit' if low else ''}"
            for total, low in zip(limits, fallen, strict=True)
        ]
        differences.append(f"{count}, which may do {' instead of '.join(reversed(may_do))} operations a second")
    if not differences:
        return None
    at_limit = max(pool.at_limit_share for side in both for pool in side) >= limit.POOL_TIME_MIN
    met = "" if at_limit else "; no disk was at its limit in this step, so this does not explain its difference"
    allowed = f"; the disks' limits allow {ceilings[1]:,.0f} instead of {ceilings[0]:,.0f} writes a second"
    return f"{candidate} against {baseline}: {' and '.join(differences)}{allowed if writes else ''}{met}."
