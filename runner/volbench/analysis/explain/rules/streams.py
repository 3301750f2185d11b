"""Rules for steps that read and write files themselves: what their few streams wait for, where no limit is met.

A stream has one operation under way, so that operations a second times their time is the share of the time that a
stream waits: Little's law. No statement and no client latency is needed for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.analysis.explain import thresholds as limit
from volbench.analysis.explain.case import Case
from volbench.analysis.explain.cause import Cause
from volbench.analysis.explain.evidence.align import Floats, mean, median
from volbench.analysis.explain.rules.shared_evidence import context
from volbench.analysis.explain.wording import number, percent, row

_ADVICE = {
    "read": "Storage with a lower read latency; more streams or a longer read-ahead, where the work allows it,"
    " until a limit of the volume is met.",
    "write": "Storage with a lower write and flush latency, or fewer syncs: every file or block that is synced by"
    " itself waits for the volume once more.",
}


def waiting_streams(case: Case) -> Iterator[Cause]:
    """Reads, and writes with their syncs, that streams wait for most of their time, each slow by itself."""
    device = case.device
    if device is None:
        return
    reads = ("read", "storage.read_latency", limit.READ_SLOW_MS)
    writes = ("write", "storage.sync_latency", limit.SYNC_SLOW_MS)
    for (noun, cause, slow_ms), rate, waited, mib_per_s in (
        (reads, device.reads, device.r_await_ms, device.read_mib_per_s),
        (writes, device.writes, device.w_await_ms, device.write_mib_per_s),
    ):
        each_ms, share = median(waited), _share(case, rate, waited)
        if rate is None or each_ms is None or share is None or each_ms < slow_ms or share < limit.STORAGE_SHARE_MIN:
            continue
        streams = case.threads or 1
        checks = [True, each_ms >= 2 * slow_ms, share >= 2 * limit.STORAGE_SHARE_MIN]
        text = (
            f"{'the one stream waits' if streams == 1 else f'{streams} streams wait'} for {noun}s in"
            f" {percent(share)} of the time: {number(mean(rate) or 0.0)} a second{_size(rate, mib_per_s)},"
            f" {number(each_ms)} ms each"
        )
        yield Cause(
            cause=cause,
            window_s=case.window_s,
            share=share,
            checks=tuple(checks),
            evidence=(row(f"{noun}_ms", each_ms, "ms", text), *context(case)),
            advice=_ADVICE[noun],
        )


def _share(case: Case, rate: Floats | None, waited: Floats | None) -> float | None:
    """Of the time that the streams wait."""
    if rate is None or waited is None:
        return None
    under_way = mean(np.nan_to_num(rate * waited / 1000)) or 0.0
    return min(1.0, under_way / (case.threads or 1))


def _size(rate: Floats, mib_per_s: Floats | None) -> str:
    """Mean size of one of them, in words; nothing where it is not known."""
    total = mean(rate)
    moved = mean(mib_per_s)
    return f" of {number(moved * 1024 / total)} KiB" if total and moved else ""
