"""What findings of a limit say of its level, and limits that may as well be a slow volume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from volbench.core.records.report import EvidenceRow
from volbench.results.explain.calibration import PRIOR_MAX, Evidence
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.device import Device, Resource
from volbench.results.explain.evidence.levels_elsewhere import LevelElsewhere
from volbench.results.explain.evidence.limits import Plateau
from volbench.results.explain.evidence.size_contrasts import ContrastOutcome, Reason
from volbench.results.explain.rules.advice import other_threads, raise_limit_advice
from volbench.results.explain.rules.shared_evidence import context, explains_little, queue_holds
from volbench.results.explain.wording import amount, clock, number, row
from volbench.results.stats.grid import median

LIMIT_CAUSE: dict[Resource, str] = {"iops": "storage.iops_limit", "throughput": "storage.throughput_limit"}
_OTHER_SIZE = (
    "fio --name=decide --filename=FILE_ON_THE_VOLUME --size=1g --direct=1 --ioengine=libaio --iodepth=32"
    " --runtime=30 --time_based --rw=rand{verb} --bs=4k, then with --bs=64k; a limit of operations keeps the"
    " operations, a limit of bytes keeps the MiB/s"
)
DECIDED_ELSEWHERE_MAX = PRIOR_MAX
"""Confidence of a limit that another time of the cell decides, at most: in the lab a limit lasts for one step."""
_UNDECIDED: dict[Reason, str] = {
    "decided": "",
    "remains": "",
    "neither": "neither is the level of this step, so that it decides nothing",
    "both": "one size keeps the operations and another one the bytes, so that it decides nothing",
    "less": "less of both than in this step, which contradicts either limit; something else held it back then",
    "more": "more of both than in this step, which contradicts either limit: it was higher then, or there is none",
    "each": "one size had more operations than this step and another one more bytes, which contradicts either",
}
"""Why a contrast of sizes does not tell a limit of operations from one of bytes."""
COUNTED_FULL = 0.8
"""Share of an interval above the limit from which its value is about the limit."""


def likely_limits(case: Case, share: float | None) -> Iterator[Cause]:
    """Limits that may as well be a volume that takes this long for each operation: one of the two, never sure.

    Args:
        case: the step.
        share: of the latency, that the slow volume would explain.
    """
    text = "a volume that takes this long for each operation would look alike: it is one of the two"
    for resource, cause in LIMIT_CAUSE.items():
        named = [level for level in case.likely_limits if level.resource == resource]
        if not named or explains_little(case):
            continue
        plateau = max(named, key=lambda level: level.last - level.first)
        yield Cause(
            cause=cause,
            window_s=plateau.window_s,
            share=share,
            checks=(queue_holds(case), *(check.holds for check in plateau.checks)),
            one_of_two=True,
            evidence=(
                *plateau_rows(case, plateau),
                row("one_of_two", "limit or latency", "1", text),
                row("decide", None, "1", f"this decides: {other_threads(case)}"),
                *either_rows(case, case.likely_limits),
                *context(case),
            ),
            advice=raise_limit_advice(case, resource, plateau.level),
        )


def operations_or_bytes(size_kib: float, verb: str = "read") -> Iterator[EvidenceRow]:
    """Say that operations of one size do not tell a limit of operations from one of bytes, and what does."""
    text = (
        f"operations are of one size ({number(size_kib)} KiB): either the IOPS or the throughput is limited; only"
        " the volume's own counters can tell which"
    )
    yield row("size_kib", size_kib, "KiB", text)
    yield row("decide", None, "1", f"this decides: {_OTHER_SIZE.format(verb=verb)}")


def either_rows(case: Case, levels: Sequence[Plateau]) -> Iterator[EvidenceRow]:
    """Says so where operations and bytes are flat together and nothing tells which of them is limited."""
    iops, throughput = ([level for level in levels if level.resource == kind] for kind in LIMIT_CAUSE)
    together = any(level.first < rival.last and rival.first < level.last for level in iops for rival in throughput)
    size_kib = case.device.size_kib if case.device is not None else None
    if together and size_kib is not None:
        direction = next((level.direction for level in levels if level.direction is not None), None)
        yield from operations_or_bytes(size_kib, direction or "read")


def elsewhere_rows(case: Case, level: LevelElsewhere | None) -> Iterator[EvidenceRow]:
    """Says so where another time of the cell decides between operations and bytes."""
    if level is None or level.is_contrast:
        return
    begin, end = (clock(t_s, case.clock_zero_s) for t_s in level.window_s)
    limited, free = ("operations", "bytes") if level.resource == "iops" else ("bytes", "operations")
    sizes = "of sizes that varied" if level.sizes_vary else f"of {number(level.size_kib)} KiB"
    text = (
        f"from {begin} to {end} it was {amount(level.level, level.resource)} as well, with operations {sizes} in"
        f" place of {number(level.size_now_kib)} KiB: {limited} are limited, and not {free}"
    )
    yield row("elsewhere", level.level, "1/s" if level.resource == "iops" else "MiB/s", text)


def contrast_rows(contrast: ContrastOutcome | None) -> Iterator[EvidenceRow]:
    """Says what a contrast of sizes tells of operations and bytes, or why it does not."""
    if contrast is None:
        return
    level = contrast.level
    iops, moved = (amount(level.of(resource), resource) for resource in LIMIT_CAUSE)
    when = "after the step" if level.follows else "after the last step of the volume's first cell"
    with_sizes = (
        f"with operations of {number(level.size_kib)} KiB in place of {number(contrast.size_now_kib)} KiB, {when}"
    )
    if contrast.decided is not None:
        resource = contrast.decided.resource
        limited, free = ("operations", "bytes") if resource == "iops" else ("bytes", "operations")
        same, changed = (iops, moved) if resource == "iops" else (moved, iops)
        if contrast.reason == "remains":
            text = (
                f"{with_sizes}, the volume gave {changed}, which is more than in this step, and with neither larger"
                f" nor smaller operations more {limited}: {limited} are limited, and not {free}"
            )
            yield row("size_contrast", contrast.decided.level, "1/s" if resource == "iops" else "MiB/s", text)
            return
        text = f"{with_sizes}, the volume gave {same} as well, and {changed}: {limited} are limited, and not {free}"
        yield row("size_contrast", contrast.decided.level, "1/s" if resource == "iops" else "MiB/s", text)
        return
    yield row(
        "size_contrast",
        None,
        "1",
        f"{with_sizes}, the volume gave {iops} and {moved}: {_UNDECIDED[contrast.reason]}",
    )


def plateau_rows(case: Case, plateau: Plateau) -> Iterator[EvidenceRow]:
    """The level, and what shows that it is one."""
    level, in_bursts = amount(plateau.level, plateau.resource), is_mean_of_bursts(case, plateau)
    waited = f", an operation takes {number(plateau.await_ms)} ms" if plateau.await_ms is not None else ""
    which = "" if plateau.direction is None else f" of {plateau.direction}s"
    device = case.device
    if device is not None and plateau.direction is not None:
        device = device.only(plateau.direction)
    size_kib = None if device is None else _size_kib(device, plateau)
    if plateau.resource == "iops" and size_kib is not None:
        level += f" ({number(plateau.level * size_kib / 1024)} MiB/s)"
    met = "on average, in bursts that meet its limit, which is higher," if in_bursts else "and no more,"
    text = f"the volume gives {level}{which} {met} with {plateau.in_flight:.0f} operations in flight{waited}"
    yield row(plateau.resource, plateau.level, plateau.unit, text)
    for check in plateau.checks:
        if check.holds:
            yield row(check.name, check.value, "1", check.text)


def _size_kib(device: Device, plateau: Plateau) -> float | None:
    """Mean size of an operation at the plateau: elsewhere in the step they may be of another size."""
    inside = slice(plateau.first, plateau.last)
    mib_per_s = None if device.mib_per_s is None else device.mib_per_s[inside]
    return replace(device, iops=device.iops[inside], mib_per_s=mib_per_s).size_kib


def is_mean_of_bursts(case: Case, plateau: Plateau) -> bool:
    """Whether most intervals are at the volume's limit for a part of their time only, by its own counter.

    The limit is then higher than the plateau's level, which is the load's own rate. A meter's even rate is a limit.
    """
    if decided_by(plateau) != "counted" or {"regularity", "evenness"} & {
        check.name for check in plateau.checks if check.holds
    }:
        return False
    counted = case.exceeded.of(plateau.resource)
    share = None if counted is None else median(counted[plateau.first : plateau.last])
    return share is not None and share < COUNTED_FULL


def decided_by(plateau: Plateau) -> Evidence:
    """What shows that a plateau is a limit."""
    passed = {check.name for check in plateau.checks if check.holds}
    if "exceeded" in passed:
        return "counted"
    return "metered" if passed & {"regularity", "evenness"} else "level"
