"""Rules that compare what this host sent with what the volume counted: whose I/O it is, and in what pieces.

A volume serves what its hosts send, so both counts are of the same operations. Bytes are conserved: splitting and
merging change how many operations carry them, and not how many there are. Hence

    bytes(volume) > bytes(host)                                  somebody else uses the volume
    bytes(volume) = bytes(host), operations(volume) > operations(host)    operations are split
    bytes(volume) unknown, operations(volume) > operations(host) + bytes(host) / PIECE_KIB
                                                                 somebody else, for pieces that small are made by
                                                                 no volume and no stripe

The volume's own counters: the NVMe log page and the EBS CSI driver, an emulated volume, CloudWatch. The host's: the
kernel's account of the device or mount, or of the server's control group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.records.named_metrics import EbsNvme, NamedMetric
from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.device import Device, Direction
from volbench.results.explain.evidence.foreign import FOREIGN_OPERATIONS_MIN
from volbench.results.explain.evidence.layers import cgroup_flow, stretches
from volbench.results.explain.rule import PIECES, SHARED_VOLUME, Rule
from volbench.results.explain.rules.host.above_device import GAP_S
from volbench.results.explain.rules.shared_evidence import effect_rows, explains_little, loss_rows
from volbench.results.explain.wording import clock, number, percent, row
from volbench.results.stats.grid import Floats, Mask, mean, quantile

CAUSES = (
    CauseInfo(
        name="storage.split_operations",
        group="the volume is at a limit",
        title="The volume counts an operation of this host as several",
        panels=("iops", "exceeded"),
        meaning="The volume counts one operation of this host as several, and each counts for its limit.",
        signs=(
            "Host and volume count the same bytes (within 15 %), the volume at least 1.5 times as many"
            " operations, and a limit of operations is met or credits are gone. The volume's own counters with"
            " bytes are needed (NVMe log page, CloudWatch's `VolumeReadBytes` and `VolumeWriteBytes`)."
        ),
        advice=(
            "Send operations of at most the volume's piece (EBS SSD: 256 KiB), and align partition and file"
            " system to it."
        ),
    ),
    CauseInfo(
        name="interference.shared_volume",
        waits_for_volume=True,
        group="something else uses the disk or the CPUs",
        title="Somebody else uses the same volume",
        panels=("iops", "throughput_mib"),
        explains_fall=True,
        is_change=True,
        moment="I/O of others on the volume begins",
        meaning=(
            "The volume serves operations that this host never sent: another host, a snapshot or a copy uses the"
            " same volume."
        ),
        signs=(
            "The volume's own counters (NVMe log page, EBS CSI driver, CloudWatch, an emulated volume) show at"
            " least 20 operations/s and a quarter of all beyond the host's. Splitting does not explain them: they"
            " carry more bytes, or pieces would be smaller than 16 KiB. `explain --from DIR` compares sar or"
            " iostat with CloudWatch's metrics of the volume. The rule was checked against our own constructions"
            " only: no lab condition makes this cause yet."
        ),
        advice=(
            "Look at the volume's attachments, mounts on other hosts and snapshots. Check that volume and device"
            " are the same one."
        ),
    ),
)


SHARED, SPLIT = "interference.shared_volume", "storage.split_operations"
VOLUME_SOURCES = ("ebs_nvme", "ebs_csi", "emulator", "cloudwatch")
_OF_VOLUME: dict[Direction, tuple[NamedMetric, NamedMetric]] = {
    "read": (EbsNvme.reads_per_s, EbsNvme.read_mib_per_s),
    "write": (EbsNvme.writes_per_s, EbsNvme.write_mib_per_s),
}
SAME_BYTES = 0.15
"""Bytes of both sides are the same within this share: the two are not read at the same moment."""
SPLIT_MIN = 1.5
"""Operations of the volume for one of the host's, from which operations are split."""
PIECE_KIB = 16.0
"""The smallest piece that a volume, or an array over several, makes of an operation: the vendor's is 256 KiB, a
stripe is seldom below 64."""
_PEAK = 1.5
"""A highest rate is worth a word where it is so many times the mean."""
_KIB_PER_MIB = 1024.0


@dataclass(frozen=True, kw_only=True)
class Count:
    """Operations/s and MiB/s (None: not known) of one direction, host and volume, arrays of shape (buckets,)."""

    noun: str
    host: Floats
    volume: Floats
    host_mib: Floats | None
    volume_mib: Floats | None

    @property
    def beyond(self) -> Floats:
        """Operations/s of the volume that nothing of the host explains, at least; shape (buckets,)."""
        allowed = self.host * (1 + SAME_BYTES)
        if self.volume_mib is None:
            if self.host_mib is None:
                return np.zeros(len(self.host))
            allowed = allowed + self.host_mib * _KIB_PER_MIB / PIECE_KIB
        elif self.host_mib is not None:
            extra = np.nan_to_num(self.volume_mib - self.host_mib * (1 + SAME_BYTES))
            share = np.divide(extra, self.volume_mib, out=np.zeros(len(extra)), where=self.volume_mib > 0)
            allowed = np.fmax(allowed, self.volume * (1 - np.clip(share, 0.0, 1.0)))
        return np.clip(np.nan_to_num(self.volume - allowed), 0.0, None)

    @property
    def by_others(self) -> Floats:
        """Operations/s of others, shape (buckets,): the difference; without bytes what is beyond any pieces."""
        if self.volume_mib is None:
            return self.beyond
        return np.where(self.beyond > 0, np.nan_to_num(self.volume - self.host), 0.0)

    @property
    def is_split(self) -> bool:
        """Whether the volume counts the same bytes in clearly more operations."""
        sent, counted = _total(self.host_mib), _total(self.volume_mib)
        operations = _total(self.volume)
        if (
            not sent
            or not counted
            or not operations
            or operations / max(len(self.host), 1) < FOREIGN_OPERATIONS_MIN
        ):
            return False
        return abs(counted / sent - 1) <= SAME_BYTES and operations >= SPLIT_MIN * (_total(self.host) or np.inf)


def shared_findings(case: Case) -> Iterator[Cause]:
    """I/O on the volume that this host never sent."""
    counts = [*_counts(case)]
    shared = None if not counts or explains_little(case) else _shared(case, counts)
    if shared is not None:
        yield shared


def split_findings(case: Case) -> Iterator[Cause]:
    """Operations that the volume counts in pieces, which cost something where a limit of operations is met."""
    split = next((count for count in _counts(case) if count.is_split), None)
    if split is not None and not explains_little(case):
        yield _split(case, split)


def _shared(case: Case, counts: list[Count]) -> Cause | None:
    beyond = sum((count.beyond for count in counts), start=np.zeros(len(case.grid)))
    total = sum((np.nan_to_num(count.volume) for count in counts), start=np.zeros(len(case.grid)))
    share = np.divide(beyond, total, out=np.zeros(len(total)), where=total > 0)
    large = (beyond >= FOREIGN_OPERATIONS_MIN) & (share >= limit.FOREIGN_SHARE_MIN)
    spans = stretches(large, gap=max(2, round(GAP_S / case.grid.width_s)), least=limit.FOREIGN_SAMPLES)
    if not spans:
        return None
    active = np.zeros(len(case.grid), dtype=np.bool_)
    for first, last in spans:
        active[first:last] = True
    bounded = int((~active).sum()) >= limit.FOREIGN_SAMPLES
    effects = [*effect_rows(case, active)] if bounded else []
    worst = max((effect.slowdown for effect in effects if effect.is_worse), default=None)
    indices = np.flatnonzero(active)
    window_s = float(case.grid.t_s[indices[0]]) - case.grid.width_s, float(case.grid.t_s[indices[-1]])
    bytes_known = all(count.volume_mib is not None for count in counts)
    return Cause(
        cause=SHARED,
        decided_by="counted",
        window_s=window_s,
        share=None if worst is None else (1 - 1 / worst) * case.time_share_of(active),
        checks=(True, True if bytes_known else None, None if not effects else worst is not None),
        evidence=(
            *_shared_rows(case, counts, active, share, window_s, bounded=bounded),
            *(effect.evidence for effect in effects if effect.is_worse),
            *loss_rows(effects),
        ),
        advice="Find who else uses this volume: another instance that has it attached or mounted, a snapshot or"
        " copy that reads it, a process outside this system. If there is none, compare the volume's id with the id"
        " of the device that the host's figures are of.",
    )


def _shared_rows(
    case: Case, counts: list[Count], active: Mask, share: Floats, window_s: tuple[float, float], *, bounded: bool
) -> Iterator[EvidenceRow]:
    when = "all the time"
    if bounded:
        start, end = (clock(bound_s, case.clock_zero_s) for bound_s in window_s)
        when = f"from {start} to {end}"
    for count in counts:
        beyond, most = mean(count.by_others[active]) or 0.0, quantile(count.by_others[active], 1.0) or 0.0
        if beyond < FOREIGN_OPERATIONS_MIN:
            continue
        highest = f", at times {number(most)}," if most >= _PEAK * beyond else ""
        sent, least = mean(count.host[active]) or 0.0, "at least " if count.volume_mib is None else ""
        yield row(
            "foreign_operations_per_s",
            beyond,
            "1/s",
            f"{when} the volume served {least}{number(beyond)} {count.noun}/s{highest} that this host never sent;"
            f" this host sent {number(sent)}/s",
        )
    text = f"that is {percent(mean(share[active]) or 0.0)} of what the volume did then"
    yield row("foreign_share", mean(share[active]), "1", text)


def of_what_others_leave(case: Case, causes: Sequence[Cause]) -> list[Cause]:
    """Return the causes, limits as what the volume leaves this host where others use it at the same time."""
    windows = [cause.window_s for cause in causes if cause.cause == SHARED]
    return [
        _of_what_others_leave(case, cause) if cause.cause in _LIMITS and _meets(cause, windows) else cause
        for cause in causes
    ]


_LIMITS = frozenset({"storage.iops_limit", "storage.throughput_limit"})


def _meets(cause: Cause, windows: Sequence[tuple[float, float]]) -> bool:
    return any(cause.window_s[0] < end_s and begin_s < cause.window_s[1] for begin_s, end_s in windows)


def _of_what_others_leave(case: Case, cause: Cause) -> Cause:
    middle = case.grid.t_s - case.grid.width_s / 2
    during = (middle > cause.window_s[0]) & (middle <= cause.window_s[1])
    served, sent = (
        sum(mean(values[during]) or 0.0 for values in of_side)
        for of_side in zip(*((count.volume, count.host) for count in _counts(case)), strict=True)
    )
    text = (
        f"the volume served {number(served)} operations/s to all that use it, this host's {number(sent)} among"
        " them: its own limit is no lower than that, and this host gets what others leave"
    )
    rows = tuple(
        each.model_copy(update={"text": each.text.replace(_GIVES, f"{_GIVES} this host", 1)})
        for each in cause.evidence
    )
    return replace(
        cause,
        evidence=(*rows[:1], row("served_to_all_per_s", served, "1/s", text), *rows[1:]),
        advice="First find who else uses this volume (interference.shared_volume): more for the volume is more for"
        f" them as well. {cause.advice}",
    )


_GIVES = "the volume gives"


def _split(case: Case, count: Count) -> Cause:
    host, volume = mean(count.host) or 0.0, mean(count.volume) or 0.0
    piece = _KIB_PER_MIB * (mean(count.volume_mib) or 0.0) / volume
    size = _KIB_PER_MIB * (mean(count.host_mib) or 0.0) / host
    text = (
        f"the host sent {number(host)} {count.noun}/s of {number(size)} KiB, the volume counted {number(volume)}/s:"
        f" each is split in pieces of {number(piece)} KiB"
    )
    return Cause(
        cause=SPLIT,
        decided_by="counted",
        window_s=case.window_s,
        share=None,
        checks=(True, True),
        evidence=(
            row("pieces_per_operation", volume / host, "1", text),
            row("piece_kib", piece, "KiB", _BYTES_AGREE),
        ),
        advice="Each piece counts for a limit of operations. Send operations of at most its piece (EBS: 256"
        " KiB on SSD), align partition and file system to it, or choose a volume with larger pieces.",
    )


_BYTES_AGREE = "host and volume count the same bytes, so the further operations are pieces of this host's"


def _counts(case: Case) -> Iterator[Count]:
    """Each direction that both sides count, on buckets that are whole periods of the volume's counters."""
    device, source = case.device, _volume_entity(case)
    if device is None or source is None or device.source in VOLUME_SOURCES:
        return
    pairs: list[tuple[str, Direction]] = [("reads", "read"), ("writes", "write")]
    found = [count for noun, direction in pairs if (count := _count(case, device, source, noun, direction))]
    yield from found or [count for count in [_both(case, device, source)] if count is not None]


def _count(case: Case, device: Device, source: tuple[str, str], noun: str, direction: Direction) -> Count | None:
    host = device.reads if direction == "read" else device.writes
    host_mib = device.read_mib_per_s if direction == "read" else device.write_mib_per_s
    counts, moved = _OF_VOLUME[direction]
    volume = case.at(counts.of(source[0]), source[1])
    if host is None or volume is None:
        return None
    group = cgroup_flow(case.grid, direction, device.entity)
    host = host if group is None else np.fmax(host, group.rate)  # a kernel may merge before the device counts
    volume_mib = case.at(moved.of(source[0]), source[1])
    return _in_periods(Count(noun=noun, host=host, volume=volume, host_mib=host_mib, volume_mib=volume_mib))


def _both(case: Case, device: Device, source: tuple[str, str]) -> Count | None:
    """Reads and writes together, for a host that counts only their sum."""
    rates = [case.at(counts.of(source[0]), source[1]) for counts, _ in _OF_VOLUME.values()]
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    sizes = [case.at(moved.of(source[0]), source[1]) for _, moved in _OF_VOLUME.values()]
    mib = [size for size in sizes if size is not None]
    whole = len(mib) == len(known)
    return _in_periods(
        Count(
            noun="operations",
            host=device.iops,
            volume=np.sum([np.nan_to_num(rate) for rate in known], axis=0),
            host_mib=device.mib_per_s,
            volume_mib=np.sum([np.nan_to_num(size) for size in mib], axis=0) if whole else None,
        )
    )


def _volume_entity(case: Case) -> tuple[str, str] | None:
    """Source and entity of the volume's own counters: the device's, or the only ones there are."""
    for source in VOLUME_SOURCES:
        entities = case.grid.entities(*EbsNvme.reads_per_s.of(source)) or case.grid.entities(
            *EbsNvme.writes_per_s.of(source)
        )
        if case.device is not None and case.device.entity in entities:
            return source, case.device.entity
        if len(entities) == 1:
            return source, entities[0]
    return None


def _in_periods(count: Count) -> Count:
    """With the host's figures averaged over the volume's periods: a sample of CloudWatch is about many buckets."""
    starts = np.flatnonzero(np.concatenate([[True], np.diff(np.nan_to_num(count.volume, nan=-1.0)) != 0]))
    period = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(count.volume))))

    def averaged(values: Floats | None) -> Floats | None:
        if values is None:
            return None
        known = np.isfinite(values)
        weights = np.bincount(period, known, minlength=len(starts))
        sums = np.bincount(period, np.where(known, values, 0.0), minlength=len(starts))
        means = np.divide(sums, weights, out=np.full(len(starts), np.nan), where=weights > 0)
        return np.asarray(means[period], dtype=np.float64)

    host = averaged(count.host)
    return replace(count, host=count.host if host is None else host, host_mib=averaged(count.host_mib))


def _total(values: Floats | None) -> float | None:
    return None if values is None else float(np.nansum(values))


RULES = (
    Rule(name=SHARED_VOLUME, causes=frozenset({SHARED}), subject="volume", find=shared_findings),
    Rule(
        name=PIECES,
        causes=frozenset({"storage.split_operations"}),
        subject="volume",
        find=split_findings,
        yields_to=frozenset({SHARED_VOLUME}),
        needs=frozenset({"storage.iops_limit", "storage.burst_exhausted", "instance.storage_limit"}),
    ),
)
