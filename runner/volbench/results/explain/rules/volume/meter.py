"""A meter that nobody's wait shows: one stream that reads ahead, under a limit above the device.

A scan's reads are sent ahead and no instrument counts who waits for them. What is left is the account of the
stream's time: a second of it is computing, waiting for a CPU, waiting for what the server's instruments see, or at
most the time in which the device has an operation (N of the device, Little's law). What neither of them is, the
stream spent between the server and the device; where the bytes come as evenly as only a meter gives them, it is a
limit. A tool of this suite reads as fast as it is served: whoever limits the tool itself makes the same picture.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import VOLUME_CHANGES_LITTLE, Cause
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.evidence.limits import METERED_SAMPLES
from volbench.results.explain.evidence.plateau_checks import absorption, dispersion
from volbench.results.explain.rule import ABOVE, EXPLAINS_WAITS, METER, Rule
from volbench.results.explain.rules.shared_evidence import context
from volbench.results.explain.wording import amount, number, percent, row
from volbench.results.stats.grid import Floats, mean

SCANS = ("dump",)
"""Steps of one stream that reads whole tables; their tools are this suite's own and limit nothing."""
_ADVICE = (
    "Look above the volume: limits of the server's control group (docker inspect: BlkioDevice*; systemctl show -p"
    " IOReadBandwidthMax; io.max or blkio.throttle.* of the pod's cgroup)."
)


def metered_streams(case: Case) -> Iterator[Cause]:
    """A limit of the bytes that a scan reads, where its time is spent neither on CPUs nor at the device."""
    device = case.device
    if case.kind not in SCANS or device is None or device.read_mib_per_s is None or device.reads is None:
        return
    idle, queued = case.unseen_share, mean(device.in_flight)
    if idle is None or queued is None or queued >= 1:
        return
    share, spread = max(0.0, idle - queued), _spread(case, device.reads, device.read_mib_per_s)
    if idle < limit.STORAGE_SHARE_MIN or spread is None or spread > limit.EVENNESS_CAPPED:
        return
    if share < limit.STORAGE_SHARE_MIN and not _is_indifferent(device):
        return
    level = float(np.nanmedian(device.read_mib_per_s))
    yield Cause(
        cause="host.io_limit",
        window_s=case.window_s,
        share=idle,
        checks=(True, spread <= limit.REGULARITY_CAPPED or None),
        evidence=(
            row(
                "read_throughput",
                level,
                "MiB/s",
                f"the server reads {amount(level, 'throughput')} and no more, with {number(queued)} operations at"
                " the device: it is limited above the device",
            ),
            row("regularity", spread, "1", f"as regular as a meter: its variance is {number(spread)} of the mean"),
            row(
                "unseen_share",
                idle,
                "1",
                f"{percent(idle)} of statement time is neither an instrumented wait nor CPU time; the device"
                f" works in at most {percent(queued)} of the time",
            ),
            *context(case),
        ),
        advice=_ADVICE,
        volume_advice=VOLUME_CHANGES_LITTLE,
        decided_by="metered",
    )


def _is_indifferent(device: Device) -> bool:
    """Whether the rate stays as it is while the device takes longer and shorter: the device does not set it."""
    if device.read_mib_per_s is None or device.in_flight is None:
        return False
    value = absorption(device.read_mib_per_s, device.in_flight)
    return value is not None and value <= limit.ABSORPTION_CAPPED


def _spread(case: Case, reads: Floats, mib_per_s: Floats) -> float | None:
    """Variance against the mean of what is read in an interval, in operations of their mean size."""
    both = np.isfinite(reads) & np.isfinite(mib_per_s)
    if int(both.sum()) < METERED_SAMPLES or not mib_per_s[both].sum():
        return None
    size_mib = float(mib_per_s[both].sum()) / float(reads[both].sum())
    return dispersion(mib_per_s[both] * case.grid.width_s / size_mib)


RULES = (
    Rule(
        name=METER,
        causes=frozenset({"host.io_limit"}),
        subject="volume",
        find=metered_streams,
        yields_to=EXPLAINS_WAITS | {ABOVE},
    ),
)
