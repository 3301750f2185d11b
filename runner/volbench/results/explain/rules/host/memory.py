"""The rule that names a page cache that was taken back, from the balance of bytes.

Bytes are conserved downwards: what the server's files read and the device did not, a page cache had (`layers`).
Where the device suddenly serves what the page cache served before, for no more reads of the server, the cache is
gone. The kernel's pressure stall information says why: tasks waited for memory (Documentation/accounting/psi.rst),
or they did not, and the cache was dropped, or read over by others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.core.records.named_metrics import PSI
from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.evidence.layers import Flow, device_flow, server_flow
from volbench.results.explain.rule import CACHE_TAKEN, Rule
from volbench.results.explain.rules.shared_evidence import context, effect_rows, loss_rows
from volbench.results.explain.rules.stretch import worst_stretch
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import Floats, Mask, mean, median

CAUSES = (
    CauseInfo(
        name="memory.reclaim",
        suggested_as="memory reclaim",
        waits_for_volume=True,
        group="the server or the client",
        title="The page cache was taken back, and the volume is read instead",
        panels=("iops", "throughput_mib"),
        accounts_for=frozenset({"reads of the volume", "queue of the volume", "traffic of the volume", "memory"}),
        explains_fall=True,
        meaning=(
            "The kernel took back the page cache that the server reads through; the volume now serves what"
            " memory served. Or tasks wait at a memory limit of the server's control group."
        ),
        signs=(
            "From some second on the device reads at least half of the bytes that the server's files read (or"
            " over 30 %, where these take at least half of the time of the server's reads), before at most 30 %,"
            " and the server does not read more. Tasks wait for memory (`/proc/pressure/memory`); where they do"
            " not, the cache was dropped or read over, and the finding is less sure. Only servers"
            " that read through the page cache (not `O_DIRECT`). Or a memory limit of the server's control group,"
            " or of one around it, is met (`memory.events`) in most of the time in which tasks wait for memory,"
            " which is at least 15 % of the step; it is one of two where those times in which all of them wait"
            " are less. A limit that is met while nobody waits is not named."
        ),
        advice=(
            "Raise the memory limit of the server's group (container, pod), or find what else uses the host's"
            " memory, or drops its page cache. `innodb_flush_method=O_DIRECT` with a larger buffer pool does not"
            " depend on the page cache."
        ),
    ),
)


RECLAIM = "memory.reclaim"
CACHED_MIN, UNCACHED_MIN = 0.7, 0.5
"""Share of the bytes read that the page cache had before, and that the device serves since, or of their time."""
READS_RISE_MAX = 1.1
PRESSURE_MIN, PRESSURE_RISE_MIN = 0.005, 3.0
"""Share of time in which tasks waited for memory, and how many times that of before: a cache that is dropped by
hand or read over makes nobody wait. It is gone all the same, which the balance of bytes says by itself."""


def memory_findings(case: Case) -> Iterator[Cause]:
    """A page cache that the kernel took back in the worst stretch of a step."""
    reads = server_flow(case.grid, "read", ("data",))
    served = None if case.device is None else device_flow(case.device, "read")
    during = worst_stretch(case)
    if case.device is None or reads is None or served is None or during is None or case.reads_directly:
        return
    since, before = (_device_share(reads, served, mask) for mask in (during, ~during))
    warmed = int(np.flatnonzero(during)[0]) < limit.FOREIGN_SAMPLES
    if since is None or before is None or warmed or before > 1 - CACHED_MIN or since <= 1 - CACHED_MIN:
        return
    if since < UNCACHED_MIN and _time_at_device(reads, served, during) < UNCACHED_MIN:
        return
    if (mean(reads.rate[during]) or 0.0) > READS_RISE_MAX * (mean(reads.rate[~during]) or 0.0):
        return
    pressure = _pressure(case, during)
    waited = None if pressure is None else _rose(*pressure)
    effects = [effect for effect in effect_rows(case, during) if effect.is_worse]
    share = None if case.budget is None else case.budget.share("data_reads") * case.time_share_of(during)
    yield Cause(
        cause=RECLAIM,
        window_s=case.grid.window_of(during),
        share=share,
        checks=(True, waited, bool(effects) or None),
        one_of_two=pressure is None,
        evidence=(
            *_balance_rows(reads, case.device, during, since, before),
            *_pressure_rows(pressure, waited=bool(waited)),
            *(effect.evidence for effect in effects),
            *loss_rows(effects),
            *context(case),
        ),
        advice="Give the server's group its memory back (memory.max or memory.limit_in_bytes, the container's or"
        " pod's limit), or find what else uses this host's memory. A buffer pool with O_DIRECT does not depend on"
        " the page cache. A faster volume only makes the misses cheaper.",
        decided_by="before and after",
    )


def _device_share(reads: Flow, served: Flow, mask: Mask) -> float | None:
    """Bytes that the device reads against those that the server's files read, median over some intervals.

    The intervals in which the cache goes and comes back are partly both, and have the most reads: in a sum they
    would hide the others.
    """
    if reads.mib_per_s is None or served.mib_per_s is None:
        return None
    both = mask & np.isfinite(served.mib_per_s) & (np.nan_to_num(reads.mib_per_s) > 0)
    return median(served.mib_per_s[both] / reads.mib_per_s[both]) if both.any() else None


def _time_at_device(reads: Flow, served: Flow, mask: Mask) -> float:
    """Reads in flight at the device against those of the server's files, in some intervals; 0 where not known.

    By Little's law the share of the time of the server's reads that the device takes: a cache that is left for most
    bytes does not help where the others take the time.
    """
    if reads.in_flight is None or served.in_flight is None:
        return 0.0
    both = mask & np.isfinite(reads.in_flight) & np.isfinite(served.in_flight)
    waiting = float(reads.in_flight[both].sum())
    return float(served.in_flight[both].sum()) / waiting if waiting > 0 else 0.0


def _pressure(case: Case, during: Mask) -> tuple[float, float] | None:
    """Share of time in which tasks waited for memory, then and before, medians; None: not known."""
    some: Floats | None = case.at(PSI.memory_some_ratio)
    now, before = (None, None) if some is None else (median(some[during]), median(some[~during]))
    return None if now is None or before is None else (now, before)


def _rose(now: float, before: float) -> bool:
    return now >= PRESSURE_MIN and now >= PRESSURE_RISE_MIN * before


def _balance_rows(reads: Flow, device: Device, during: Mask, since: float, before: float) -> Iterator[EvidenceRow]:
    of_server = mean(reads.rate[during]) or 0.0
    done = None if device.reads is None else mean(device.reads[during])
    text = (
        f"the device serves {percent(min(1.0, since))} of the bytes that the server's files read, before"
        f" {percent(before)}: what the page cache had is read from the volume ({number(done or 0.0)} reads/s for"
        f" {number(of_server)} of the server)"
    )
    yield row("device_share", since, "1", text)


def _pressure_rows(pressure: tuple[float, float] | None, *, waited: bool) -> Iterator[EvidenceRow]:
    if pressure is not None:
        text = f"tasks waited for memory in {percent(pressure[0])} of the time, before in {percent(pressure[1])}"
        text += "" if waited else ": the cache was dropped (drop_caches, posix_fadvise), or others read over it"
        yield row("memory_some_ratio", pressure[0], "1", text)


RULES = (Rule(name=CACHE_TAKEN, causes=frozenset({RECLAIM}), subject="volume", find=memory_findings),)
