"""A sweep of recordings, explained: whether the volume gives no more from some load on, and what shows it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.base.text import counted, part_of
from volbench.core.records.named_metrics import Diskstats
from volbench.core.records.report import EvidenceRow, FindingRow
from volbench.results.explain.calibration import ONE_OF_TWO_MAX, PRIOR_MAX
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.device import RESOURCES, Resource, device_of
from volbench.results.explain.evidence.limits import LARGE_KIB
from volbench.results.explain.findings import Explanation
from volbench.results.explain.pooling import finding_rows
from volbench.results.explain.recordings.recorded_case import case_of
from volbench.results.explain.recordings.sweep_levels import (
    LEVELS_MIN,
    QUEUE_FALL_MAX,
    SERVED_MAX,
    SweepLevel,
    SweepPlateau,
    is_alike,
    level_of,
    plateau_of,
    taken_by_queue,
)
from volbench.results.explain.rules.advice import raise_limit_advice
from volbench.results.explain.rules.volume.instance_figure import beside_instance
from volbench.results.explain.rules.volume.plateau_rows import LIMIT_CAUSE, operations_or_bytes
from volbench.results.explain.wording import amount, number, percent, row
from volbench.results.recorded.clocks import TOTAL
from volbench.results.recorded.one_volume import of_one_volume
from volbench.results.recorded.parsed import Recorded
from volbench.results.recorded.sar import merged_by_device
from volbench.results.recorded.sweeps import Sweep
from volbench.results.stats.grid import median

STEP = "sweep"
_COUNTED_ON = "such findings were counted on two devices only"
_LIMITS = {cause: resource for resource, cause in LIMIT_CAUSE.items()}


@dataclass(frozen=True, kw_only=True)
class SweepExplanation:
    """What a sweep tells: the level of each recording, the plateau (None: none), findings, and why there are none.

    `notes` say why nothing is named, where nothing is.
    """

    sweep: Sweep
    device: str
    levels: tuple[SweepLevel, ...]
    plateau: SweepPlateau | None = None
    findings: tuple[FindingRow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Host, device and names, in words."""
        host = f"{self.sweep.host}, " if self.sweep.host else ""
        return f"{host}{self.device}: a sweep of {counted(len(self.levels), 'recording')} ({self.sweep.pattern})"

    @property
    def at_plateau(self) -> frozenset[str]:
        """Names of the recordings at the limit that is named."""
        if self.plateau is None or not self.findings:
            return frozenset()
        return self.plateau.names


def explain_sweep(sweep: Sweep, *, device: str = "", instance: str = "") -> SweepExplanation:
    """Return what the recordings of a sweep tell together.

    Args:
        sweep: recordings of one host at several loads.
        device: kernel name of the volume's device; empty: the one with the most operations.
        instance: the vendor's type of the virtual machine; empty: not known.
    """
    cases = {member.name: _case_of(member.recorded, instance) for member in sweep.members}
    entity = device or _busiest(list(cases.values()))
    levels = [
        level
        for member in sweep.members
        if (level := level_of(cases[member.name], entity, member.name, member.load, member.tps)) is not None
    ]
    explained = SweepExplanation(sweep=sweep, device=entity or "no device", levels=tuple(levels))
    if len(levels) < LEVELS_MIN:
        return replace(explained, notes=(_too_few(explained),))
    plateau = plateau_of(levels, ordered=sweep.axis == "threads")
    if plateau is None or not plateau.is_limit:
        return replace(explained, plateau=plateau, notes=(_why_not(explained, plateau),))
    top = max(plateau.levels, key=lambda item: item.rate)
    case = replace(cases[top.name], disk=entity)
    causes = beside_instance(case, [*_causes(explained, plateau, case)])
    explanation = Explanation(
        findings=tuple(replace(item, evidence=(*item.evidence, _checks_row(item))) for item in causes)
    )
    rows = finding_rows(entity, STEP, {sweep.pattern: explanation})
    findings = tuple(item.model_copy(update={"window_s": None}) for item in rows)
    return replace(explained, plateau=plateau, findings=findings)


def without_exceeded(
    findings: Iterable[FindingRow], names: Container[str], sweeps: Iterable[SweepExplanation]
) -> tuple[tuple[FindingRow, ...], tuple[str, ...]]:
    """Findings of a recording without limits that its sweep exceeds with more load, and notes on those.

    Args:
        findings: of the recordings `names`.
        names: of the recordings.
        sweeps: all that were explained.
    """
    remaining, notes = [], []
    for finding in findings:
        reason = next((text for sweep in sweeps if (text := _exceeds(sweep, names, finding))), "")
        if reason:
            notes.append(reason)
        else:
            remaining.append(finding)
    return tuple(remaining), tuple(notes)


def _exceeds(sweep: SweepExplanation, names: Container[str], finding: FindingRow) -> str:
    """Say that a recording with more load has more than a limit that is named; empty where none has."""
    resource = _LIMITS.get(finding.cause)
    own = next((level for level in sweep.levels if level.name in names), None)
    if resource is None or own is None or own.load is None or sweep.sweep.axis != "threads":
        return ""
    if finding.volume != sweep.device:
        return ""
    for level in sweep.levels:
        served, before = _of(level, resource), _of(own, resource)
        more_load = level.load is not None and level.load > own.load
        if more_load and served and before and is_alike(level, own) and served > SERVED_MAX * before:
            return (
                f"{finding.cause} is not named: {amount(before, resource)} with {_load_text(sweep.sweep, own)} is"
                f" no limit, since the volume gives {amount(served, resource)} with"
                f" {_load_text(sweep.sweep, level)}"
            )
    return ""


def _of(level: SweepLevel, resource: Resource) -> float | None:
    return level.rate if resource == "iops" else level.mib_per_s


def _causes(explained: SweepExplanation, plateau: SweepPlateau, case: Case) -> Iterator[Cause]:
    """The limit that the plateau is: of operations or of bytes, which operations of one size do not tell apart."""
    sizes = [item.size_kib for item in plateau.levels if item.size_kib is not None]
    size_kib = float(np.median(sizes)) if sizes else None
    large = size_kib is not None and size_kib >= LARGE_KIB
    resources = sorted(RESOURCES, key=lambda item: (item == "iops") == large)
    either = [] if size_kib is None else [*operations_or_bytes(size_kib)]
    for resource in resources if either else resources[:1]:
        level = plateau.level if resource == "iops" else plateau.mib_per_s
        if level is None:
            continue
        yield Cause(
            cause=LIMIT_CAUSE[resource],
            window_s=case.window_s,
            share=None,
            checks=tuple(check.holds for check in plateau.checks),
            evidence=(
                *_limit_rows(explained, plateau, resource, level),
                *(_level_rows(explained, plateau) if resource == resources[0] else ()),
                *either,
            ),
            advice=raise_limit_advice(case, resource, level),
            one_of_two=bool(either),
            is_second=resource != resources[0],
            recorded=True,
            confidence_max=ONE_OF_TWO_MAX if either else PRIOR_MAX,
        )


def _limit_rows(
    explained: SweepExplanation, plateau: SweepPlateau, resource: Resource, level: float
) -> Iterator[EvidenceRow]:
    levels, sweep = plateau.levels, explained.sweep
    rates, waits, queues = ([getattr(item, name) for item in levels] for name in ("rate", "await_ms", "in_flight"))
    span = f"{_load_text(sweep, levels[0])} to {_load_text(sweep, levels[-1])}"
    text = (
        f"the volume gives {amount(level, resource)} and no more: from {span} it gives {number(min(rates))} to"
        f" {number(max(rates))} operations/s, while {number(min(queues))} to {number(max(queues))} are in flight"
        f" and one takes {number(min(waits))} to {number(max(waits))} ms"
    )
    yield row(resource, level, "1/s" if resource == "iops" else "MiB/s", text)


def _level_rows(explained: SweepExplanation, plateau: SweepPlateau) -> Iterator[EvidenceRow]:
    levels, sweep = plateau.levels, explained.sweep
    by_queue = taken_by_queue(levels) if sweep.axis == "threads" else None
    if by_queue is not None:
        text = f"of the clients that were added on the plateau, the volume's queue takes up {percent(by_queue)}"
        yield row("taken_by_queue", by_queue, "1", text)
    names = plateau.names
    for level in explained.levels:
        yield row("level", level.rate, "1/s", f"{_level_text(sweep, level)}{_position(level, levels, names)}")
    for check in plateau.checks:
        if check.holds is not None:
            yield row(f"check_{check.name.lower()}", check.value, "1", check.text)


def _position(level: SweepLevel, levels: Sequence[SweepLevel], names: Container[str]) -> str:
    """Where a level lies: at the plateau, below it, or beyond, where something else holds the clients."""
    if level.name in names:
        return ": at the plateau"
    last, first = levels[-1], levels[0]
    if level.load is not None and last.load is not None and first.load is not None and level.load > first.load:
        return ": less than at the plateau with more clients: something else holds them, not this limit"
    return ": below it"


def _level_text(sweep: Sweep, level: SweepLevel) -> str:
    tps = "" if level.tps is None else f", {number(level.tps)} transactions/s"
    return (
        f"{_load_text(sweep, level)}: {number(level.rate)} operations/s, {number(level.in_flight)} in flight,"
        f" {number(level.await_ms)} ms each{tps}"
    )


def _load_text(sweep: Sweep, level: SweepLevel) -> str:
    if sweep.axis == "threads" and level.load is not None:
        return counted(round(level.load), "client")
    return level.name


def _checks_row(cause: Cause) -> EvidenceRow:
    passed, unmade = sum(check is True for check in cause.checks), sum(check is None for check in cause.checks)
    text = part_of(passed, len(cause.checks), ("check", "checks"), ("holds", "hold"))
    text += f", {unmade} could not be made" if unmade else ""
    text += ", and it is one of two causes that fit this evidence equally well" if cause.one_of_two else ""
    return row("checks", cause.kind, "", f"{text}; {_COUNTED_ON}: at most {cause.confidence_max:g}")


def _too_few(explained: SweepExplanation) -> str:
    return (
        f"{counted(len(explained.sweep.members), 'recording')} ({explained.sweep.pattern}) may be a sweep, but"
        f" {explained.device} has waiting times in {len(explained.levels)} of them: whether its queue grows is not"
        " known"
    )


def _why_not(explained: SweepExplanation, plateau: SweepPlateau | None) -> str:
    sweep, levels = explained.sweep, explained.levels
    begin = f"{explained.title}: no limit of the volume shows, since"
    top = max(levels, key=lambda level: level.rate)
    if plateau is not None:
        span = f"{_load_text(sweep, plateau.levels[0])} to {_load_text(sweep, plateau.levels[-1])}"
        reasons = "; ".join(_REFUTED.get(check.name, "{}").format(check.text) for check in plateau.refuted_by)
        return f"{begin} from {span}, where the rate stays at {amount(top.rate, 'iops')}, {reasons}"
    queue = max(level.in_flight for level in levels)
    if top.in_flight >= QUEUE_FALL_MAX * queue:
        return f"{begin} the rate is the highest where the queue is the longest ({_level_text(sweep, top)})"
    return (
        f"{begin} no two recordings have the highest rate ({_level_text(sweep, top)}) with a queue that grows: with"
        " more load something else than the volume holds the clients"
    )


_REFUTED = {
    "queue": "{}, which is no longer queue for more load: something else holds the clients",
    "busy": "the device had time in which nothing was asked of it ({})",
    "CPUs": "the CPUs were saturated ({})",
    "mix": "the load differs ({})",
    "steady": "the rate is no level ({})",
    "served": "the volume served more ({})",
    "Little": "the figures contradict each other ({})",
}


def _case_of(recorded: Recorded, instance: str) -> Case:
    series, _ = of_one_volume(merged_by_device([recorded]), device="", volume="", take_busiest=False)
    return replace(case_of(series, clocked=recorded.clocked), instance=instance)


def _busiest(cases: Sequence[Case]) -> str:
    """The device of all recordings that has the highest rate in any of them; empty where none is in all."""
    rates: dict[str, list[float]] = {}
    for case in cases:
        reads = Diskstats.reads_per_s
        for entity in sorted({*case.cell_grid.entities(*reads), *case.cell_grid.entities(reads.source, TOTAL)}):
            device = device_of(case.cell_grid, entity)
            rates.setdefault(entity, []).append(0.0 if device is None else median(device.iops) or 0.0)
    in_all = {entity: max(values) for entity, values in rates.items() if len(values) == len(cases)}
    return max(sorted(in_all), key=lambda entity: in_all[entity], default="")
