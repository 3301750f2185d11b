"""Rules for steps that read and write files themselves: what their few streams wait for, where no limit is met.

A stream has one operation under way, so that operations a second times their time is the share of the time that a
stream waits: Little's law. No statement and no client latency is needed for it.

A small read-ahead: Linux reads ahead in windows. The reader who reaches a window starts the next one before the
first has arrived, so two windows are under way: a stream reads at most 2 windows per round trip, however fast the
volume is. A window is the read-ahead, or the program's own read() where that is larger (cat of coreutils 9 reads
256 KiB). Source: mm/filemap.c, where filemap_get_pages calls the read-ahead before it waits, and mm/readahead.c,
where a larger request raises the window; measured on emulated volumes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.rule import EXPLAINS_WAITS, LIMITS, OUTSIDE, READ_AHEAD, SLOWER, STREAMS, Rule
from volbench.results.explain.rules.shared_evidence import context
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import Floats, Mask, mean, median

READERS = ("cold_read", "sequential")
WINDOWS = 2
"""Under way at a time."""
UNDER_WAY = (0.5 * WINDOWS, 1.3 * WINDOWS)
"""Windows under way that are the reader's own: less and it waits for something else, more and others read too."""
SIZE = (0.75, 2.5)
"""A request's size against the read-ahead."""
SLOW_MS = 1.0
"""Below it a window of the kernel's default already gives 250 MiB/s."""
SECONDS_MIN = 1.0
LARGE_KIB = 15_360
"""What the EFS mount helper sets, and 15 times rsize as Linux did before 5.4."""
_ADVICE = {
    "read": "Storage with a lower read latency; more streams or a longer read-ahead, where the work allows it,"
    " until a limit of the volume is met.",
    "write": "Storage with a lower write and flush latency, or fewer syncs: every file or block that is synced by"
    " itself waits for the volume once more.",
}

CAUSES = (
    CauseInfo(
        name="storage.readahead_small",
        suppresses=frozenset({"storage.read_latency"}),
        group="the volume is slow",
        title="One reader waits for a small read-ahead",
        panels=("await", "throughput_mib"),
        accounts_for=frozenset({"reads of the volume", "queue of the volume", "traffic of the volume"}),
        meaning="One program reads large files from start to end, and the kernel asks for too little at a time.",
        signs=(
            "Reads of the size of the read-ahead, one to two and a half of them under way, each of 1 ms or more,"
            " and no limit of the volume. Linux has two read-aheads under way, so a stream gets at most 2 ×"
            " `read_ahead_kb` in a round trip (more only if the program itself reads more at a time): with the"
            " default of 128 KiB (NFS since Linux 5.4) and 3.8 ms, 66 MiB/s."
        ),
        advice=(
            "`echo 15360 > /sys/class/bdi/MAJOR:MINOR/read_ahead_kb`, with the numbers of `mountpoint -d"
            " DIRECTORY`; the EFS mount helper does it. Or read several files at the same time."
        ),
    ),
)


def waiting_streams(case: Case) -> Iterator[Cause]:
    """Reads, and writes with their syncs, that streams wait for most of their time, each slow by itself."""
    device = case.device
    if device is None or step_kind(case.kind).file_io == "server":
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
            of_clients=True,
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


def read_ahead_findings(case: Case) -> Iterator[Cause]:
    """One finding where a single reader waits for windows of the volume's read-ahead and no limit is met."""
    device, window_kib = case.device, case.read_ahead_kib
    if case.kind not in READERS or (case.threads or 1) > 1 or not window_kib or window_kib >= LARGE_KIB:
        return
    if device is None or device.reads is None or device.r_await_ms is None or device.read_mib_per_s is None:
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        size_kib = device.read_mib_per_s * 1024 / device.reads
        windows = device.reads * device.r_await_ms / 1000
    waiting: Mask = (
        (size_kib >= SIZE[0] * window_kib)
        & (size_kib <= SIZE[1] * window_kib)
        & (windows >= UNDER_WAY[0])
        & (windows <= UNDER_WAY[1])
        & (device.r_await_ms >= SLOW_MS)
    )
    seconds = float(waiting.sum()) * case.grid.width_s
    if seconds < SECONDS_MIN:
        return
    each_ms = median(device.r_await_ms[waiting]) or 0.0
    mib_per_s = median(device.read_mib_per_s[waiting]) or 0.0
    under_way = median(windows[waiting]) or 0.0
    request_kib = median(size_kib[waiting]) or 0.0
    bound = WINDOWS * request_kib / 1024 / (each_ms / 1000)
    share = float(waiting.sum()) / len(case.grid)
    yield Cause(
        cause="storage.readahead_small",
        decided_by="counted",
        window_s=case.window_s,
        share=share,
        of_clients=True,
        checks=(True, seconds >= 2 * SECONDS_MIN, bool(UNDER_WAY[0] * 1.4 <= under_way)),
        evidence=(
            row(
                "read_ahead_kib",
                float(window_kib),
                "KiB",
                f"one reader gets {number(mib_per_s)} MiB/s in {percent(share)} of the time: {number(under_way)}"
                f" reads of {number(request_kib)} KiB are under way (read-ahead: {window_kib} KiB),"
                f" {number(each_ms)} ms each",
            ),
            row(
                "bound_mib_per_s",
                bound,
                "MiB/s",
                f"{WINDOWS} x {number(request_kib)} KiB a round trip are at most {number(bound)} MiB/s, however"
                " fast the volume is",
            ),
            *context(case),
        ),
        advice=f"Read further ahead: echo {LARGE_KIB} > /sys/class/bdi/$(mountpoint -d DIRECTORY)/read_ahead_kb"
        " (for NFS; a udev rule or the EFS mount helper sets it for good); or read with several streams.",
    )


RULES = (
    Rule(
        name=STREAMS,
        causes=frozenset({"storage.read_latency", "storage.sync_latency"}),
        subject="volume",
        find=waiting_streams,
        yields_to=EXPLAINS_WAITS | LIMITS | {SLOWER},
        yields_to_much=OUTSIDE,
        sound_beside=OUTSIDE,
    ),
    Rule(
        name=READ_AHEAD,
        causes=frozenset({"storage.readahead_small"}),
        subject="volume",
        find=read_ahead_findings,
        yields_to=EXPLAINS_WAITS | LIMITS | {SLOWER},
        yields_to_much=OUTSIDE,
        sound_beside=OUTSIDE,
    ),
)
