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

from collections.abc import Iterator

import numpy as np

from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.foreign import FOREIGN_OPERATIONS_MIN
from volbench.results.explain.evidence.layers import stretches
from volbench.results.explain.evidence.volume_counts import KIB_PER_MIB, Count, volume_counts
from volbench.results.explain.rule import PIECES, SHARED_VOLUME, Rule
from volbench.results.explain.rules.host.above_device import GAP_S
from volbench.results.explain.rules.shared_evidence import CLIENT_FIGURES, effect_rows, explains_little, loss_rows
from volbench.results.explain.topics import USE_OF_VOLUME
from volbench.results.explain.wording import clock, number, percent, row
from volbench.results.stats.grid import Floats, Mask, mean, quantile

CAUSES = (
    CauseInfo(
        name="storage.split_operations",
        group="the volume is at a limit",
        title="The volume counts an operation of this host as several",
        panels=("iops", "exceeded"),
        accounts_for=USE_OF_VOLUME,
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
        accounts_for=USE_OF_VOLUME,
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
_PEAK = 1.5
"""A highest rate is worth a word where it is so many times the mean."""


def shared_findings(case: Case) -> Iterator[Cause]:
    """I/O on the volume that this host never sent."""
    counts = [*volume_counts(case.grid, case.device)]
    shared = None if not counts or explains_little(case) else _shared(case, counts)
    if shared is not None:
        yield shared


def split_findings(case: Case) -> Iterator[Cause]:
    """Operations that the volume counts in pieces, which cost something where a limit of operations is met."""
    split = next((count for count in volume_counts(case.grid, case.device) if count.is_split), None)
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
    worse = [effect for effect in effects if effect.is_worse]
    worst = max(worse, key=lambda effect: effect.slowdown, default=None)
    of_clients = worst is not None and worst.evidence.metric in CLIENT_FIGURES
    time_share = case.clients_share_of(active) if of_clients else case.time_share_of(active)
    window_s = case.grid.window_of(active)
    bytes_known = all(count.volume_mib is not None for count in counts)
    return Cause(
        cause=SHARED,
        decided_by="counted",
        window_s=window_s,
        share=None if worst is None else (1 - 1 / worst.slowdown) * time_share,
        of_clients=of_clients,
        checks=(True, True if bytes_known else None, None if not effects else worst is not None),
        evidence=(
            *_shared_rows(case, counts, active, share, window_s, bounded=bounded),
            *(effect.evidence for effect in worse),
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


def _split(case: Case, count: Count) -> Cause:
    host, volume = mean(count.host) or 0.0, mean(count.volume) or 0.0
    piece = KIB_PER_MIB * (mean(count.volume_mib) or 0.0) / volume
    size = KIB_PER_MIB * (mean(count.host_mib) or 0.0) / host
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
