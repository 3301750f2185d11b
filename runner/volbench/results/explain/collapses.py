"""Collapses of a load, in which it does next to nothing for a while: what is there all along does not explain them.

What explains a collapse is data (`CauseInfo`): a cause of a fall or of a change does, a limit that holds whatever
waits, and one of CPUs where waiting for these is what became longer. Where no finding does and the volume was not
busy meanwhile, something that no counter shows stopped the load, and each cause that is there all along is one of
two. Where the volume was busy, so are those of CPUs: it was not these that the load waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo, ExplainsCollapse
from volbench.results.explain.rules.host.processors import cpus_explain_fall
from volbench.results.explain.rules.stretch import collapsed, longest_collapse
from volbench.results.explain.wording import number, row
from volbench.results.stats.grid import mean

BUSY_MIN = 0.9
"""Of the time in which a load had collapsed: with an operation in flight for so long, clients waited for it."""


def unexplained_collapse(case: Case, findings: Sequence[Cause], descriptors: Mapping[str, CauseInfo]) -> int:
    """Return how many intervals in a row the longest collapse has that no finding explains; 0 without one.

    Args:
        case: the step.
        findings: those that stand.
        descriptors: by name of a cause.
    """
    if any(_explains(case, finding, descriptors.get(finding.cause)) for finding in findings):
        return 0
    return longest_collapse(case)


def doubt_findings(
    case: Case, findings: Sequence[Cause], collapse: int, descriptors: Mapping[str, CauseInfo]
) -> list[Cause]:
    """Return findings, those that are there all along in doubt where a collapse is explained by none of them.

    Args:
        case: the step.
        findings: those that stand.
        collapse: as of `unexplained_collapse`.
        descriptors: by name of a cause.
    """
    if not collapse:
        return [*findings]
    length_s, at_device = collapse * case.grid.width_s, _fell_at_the_device(case)
    cause = "which no counter here shows" if not at_device else "for which the volume was busy"
    text = (
        f"for {number(length_s)} s the load did less than a quarter of its usual: the cause of that, {cause}, is"
        " the other of the two"
    )
    fall = row("unexplained_s", length_s, "s", text)
    return [
        replace(finding, one_of_two=True, evidence=(*finding.evidence, fall))
        if (info := descriptors.get(finding.cause)) is not None
        and info.all_along
        and (info.wait_time == "CPUs" or not at_device)
        else finding
        for finding in findings
    ]


def _explains(case: Case, finding: Cause, info: CauseInfo | None) -> bool:
    if finding.explains_fall or info is None:
        return finding.explains_fall
    return info.explains_fall or info.is_change or _COLLAPSES[info.explains_collapse](case)


def _cpus_became_longer(case: Case) -> bool:
    return cpus_explain_fall(case, collapsed(case))


_COLLAPSES: Mapping[ExplainsCollapse, Callable[[Case], bool]] = {
    "": lambda _: False,
    "always": lambda _: True,
    "where CPUs are what became longer": _cpus_became_longer,
}


def _fell_at_the_device(case: Case) -> bool:
    """Whether the volume was busy while the load had collapsed, with as much under way as else: it waited there."""
    device, fallen = case.device, collapsed(case)
    if device is None or device.util is None or device.in_flight is None or not fallen.any() or fallen.all():
        return False
    now, usual = mean(device.in_flight[fallen]), mean(device.in_flight[~fallen])
    busy = mean(device.util[fallen])
    return busy is not None and busy >= BUSY_MIN and now is not None and usual is not None and now >= usual
