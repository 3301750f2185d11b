"""Findings of a step over its equal cells: what is found in some of them is looked at in all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median as median_of

from volbench.core.records.report import FindingRow, RefutedRow
from volbench.results.explain.calibration import without_rounding_error
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.check.cells import comes_and_goes, served_later
from volbench.results.explain.check.response import without_response
from volbench.results.explain.evidence.device import RESOURCES, Resource
from volbench.results.explain.findings import Explanation
from volbench.results.explain.objection import Objection
from volbench.results.explain.ranking import loss_of, ranked_by, weight_of
from volbench.results.explain.rules.acquittal import NONE
from volbench.results.explain.shares import HINT_BELOW, share_alone
from volbench.results.explain.wording import row

_TELLING = frozenset({"counted", "before and after"})
_QUESTION = "This is a question and no answer: measure again, or longer, before you change or buy anything for it."


def finding_rows(
    volume: str,
    step: str,
    cells: Mapping[str, Explanation],
    *,
    left_out: int = 0,
    volume_share_max: float | None = None,
    other_causes: Iterable[str] = (),
) -> tuple[FindingRow, ...]:
    """One row for each cause of a volume's step over its repeats, which are equal cells.

    What comes and goes between them is no cause of the step (`against`). `none` stands only where no repeat found
    anything else. Evidence is of the repeat whose share is the median. That a faster volume changes little is said
    only where it helps none of the causes, in whichever repeat they were found: readers see them on one page.

    Args:
        volume, step: their names.
        cells: what each repeat showed, by cell, in the order in which they ran.
        left_out: repeats that are not among `cells`, since they are invalid.
        volume_share_max: the part of the latency that waits of the volume take at most, by the load's response.
        other_causes: causes of the layout's other volumes in this step.
    """
    by_cause = {
        cause: findings_of_cells
        for cause, findings_of_cells in _by_cause(cells).items()
        if against(cause, findings_of_cells, cells, volume_share_max=volume_share_max) is None
    }
    if len(by_cause) > 1:
        by_cause.pop(NONE, None)
    helped = any(CAUSES[name].is_helped_by_volume for name in (*by_cause, *other_causes) if name in CAUSES)
    rows = [
        _row(volume, step, cause, findings, len(cells), left_out, helped=helped)
        for cause, findings in by_cause.items()
    ]
    loss = loss_of(rows)
    return tuple(ranked_by(rows, lambda finding: len(finding.cell_ids) * weight_of(finding, loss)))


def with_components(rows: Sequence[FindingRow], of_components: Iterable[FindingRow]) -> tuple[FindingRow, ...]:
    """Return the findings of a volume and of its layout's other volumes, the one of most first.

    The volume is not acquitted where one of the others has a cause.
    """
    added = tuple(of_components)
    if not added:
        return tuple(rows)
    together = [*(finding for finding in rows if finding.cause != NONE), *added]
    loss = loss_of(together)
    return tuple(ranked_by(together, lambda finding: len(finding.cell_ids) * weight_of(finding, loss)))


def against(
    cause: str,
    by_cell: Mapping[str, Cause],
    cells: Mapping[str, Explanation],
    *,
    volume_share_max: float | None = None,
) -> Objection | None:
    """What all cells of a step have against a cause that some of them show; None where nothing is.

    Args:
        cause: its name.
        by_cell: the cause as each cell shows it that does.
        cells: what each cell showed, in the order in which they ran.
        volume_share_max: of the latency, by the load's response; None: not known.

    A cause with a time of its own (a stall, somebody else's I/O) may be there in one cell only; so may what
    explains a fall of the load, where a counter or the time before and after tells it and no threshold does.
    """
    info = CAUSES.get(cause)
    if info is None or cause == NONE:
        return None
    if "limit" in info.claims:
        for resource in RESOURCES:
            levels = [_level(by_cell.get(cell), resource) for cell in cells]
            later = served_later(levels, [cells[cell].served.get(resource) for cell in cells], resource)
            if later is not None:
                return later
    if _has_a_time(info, by_cell.values()):
        return None
    if "at the device" in info.claims and "episode" not in info.claims:
        shares = [share for finding in by_cell.values() if (share := share_alone(finding)) is not None]
        unmoved = without_response(median_of(shares) if shares else None, volume_share_max)
        if unmoved is not None:
            return unmoved
    return comes_and_goes([cell in by_cell for cell in cells])


def _has_a_time(info: CauseInfo, findings: Iterable[Cause]) -> bool:
    return info.is_change or (info.explains_fall and any(finding.decided_by in _TELLING for finding in findings))


def _level(cause: Cause | None, resource: Resource) -> float | None:
    """The limit that a finding states of one resource; None where it states none, or that of one direction."""
    rows = () if cause is None else cause.evidence
    values = (item.value for item in rows if item.metric == resource)
    return next((float(value) for value in values if isinstance(value, int | float)), None)


def _by_cause(cells: Mapping[str, Explanation]) -> dict[str, dict[str, Cause]]:
    by_cause: dict[str, dict[str, Cause]] = {}
    for cell, explanation in cells.items():
        for finding in explanation.findings:
            by_cause.setdefault(finding.cause, {}).setdefault(cell, finding)
    return by_cause


def refuted_rows(
    volume: str, step: str, cells: Mapping[str, Explanation], *, volume_share_max: float | None = None
) -> Iterator[RefutedRow]:
    """Yield one row for each cause that would have been named, by cell or over all cells, and is not.

    Args:
        volume, step: their names.
        cells: what each repeat showed, by cell.
        volume_share_max: as for `finding_rows`.
    """
    named = _by_cause(cells)
    refuted = {
        cause: (objection, tuple(of_cause))
        for cause, of_cause in named.items()
        if (objection := against(cause, of_cause, cells, volume_share_max=volume_share_max)) is not None
    }
    for cell, explanation in cells.items():
        for single in explanation.refuted:
            cause = single.cause.cause
            if cause not in named:
                objection, shown_by = refuted.get(cause, (single.objections[0], ()))
                refuted[cause] = (objection, (*shown_by, cell))
    for cause, (objection, shown_by) in refuted.items():
        yield RefutedRow(
            cause=cause,
            volume=volume,
            step=step,
            cell_ids=shown_by,
            law=objection.law,
            text=objection.text,
            claimed=objection.claimed,
            recorded=objection.recorded,
        )


def common_notes(explanations: Sequence[Explanation]) -> tuple[str, ...]:
    """Each note once, the most frequent first."""
    counted = Counter(note for finding in explanations for note in finding.notes)
    return tuple(note for note, _ in counted.most_common())


def _row(
    volume: str,
    step: str,
    cause: str,
    findings: Mapping[str, Cause],
    repeats: int,
    left_out: int,
    *,
    helped: bool,
) -> FindingRow:
    shares = [finding.share for finding in findings.values() if finding.share is not None]
    middle = median_of(shares) if shares else None
    chosen = min(findings, key=lambda cell: abs((findings[cell].share or 0.0) - (middle or 0.0)))
    typical = findings[chosen]
    evidence = list(typical.evidence)
    if repeats > 1 or left_out:
        which = f"{repeats} valid cell{'s' if repeats > 1 else ''}; {left_out} invalid left out"
        text = f"found in {len(findings)} of {which if left_out else f'{repeats} cells'}"
        evidence.append(row("cells", len(findings), "1", text))
    of_cells = median_of(finding.confidence for finding in findings.values())
    confidence = without_rounding_error(of_cells * len(findings) / repeats)
    cell_ids = (chosen, *(cell for cell in findings if cell != chosen))
    advice = typical.advice if helped else f"{typical.advice} {typical.volume_advice}".strip()
    return FindingRow(
        cause=cause,
        volume=volume,
        step=step,
        cell_ids=cell_ids,
        window_s=typical.window_s,
        share=middle,
        share_of=typical.share_of,
        share_by_cell=tuple(findings[cell].share for cell in cell_ids),
        confidence=confidence,
        counted=typical.is_counted,
        evidence=tuple(evidence),
        advice=advice if confidence >= HINT_BELOW else _QUESTION,
    )
