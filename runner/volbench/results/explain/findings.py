"""From one step's evidence to its causes, and from repeats to rows of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median as median_of
from typing import TypeVar

from volbench.core.records.report import EvidenceRow, FindingRow
from volbench.results.explain.accounts.purge import purge_notes
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause, confidence_rows
from volbench.results.explain.causes import CAUSES, RULES
from volbench.results.explain.rules.acquittal import NONE, acquit, missing_evidence, why_unexplained
from volbench.results.explain.rules.host.above_device import HOST_LIMIT, HOST_WAIT
from volbench.results.explain.rules.host.memory import RECLAIM
from volbench.results.explain.rules.host.processors import OTHERS, SATURATED, cpus_explain_fall, others_have_most
from volbench.results.explain.rules.network import shares_of_latency
from volbench.results.explain.rules.server import server_findings
from volbench.results.explain.rules.shared_evidence import Effect, effect_rows, loss_rows
from volbench.results.explain.rules.stretch import SAMPLES_MIN, longest_collapse, worst_stretch
from volbench.results.explain.rules.stretch import collapsed as collapsed_intervals
from volbench.results.explain.rules.volume.storage import SYNC_LATENCY, is_much, storage_findings
from volbench.results.explain.wording import number, row

INTERFERENCE = "interference.backup"
LIMITS = frozenset({"storage.iops_limit", "storage.throughput_limit"})
_LATENCIES = frozenset({"storage.read_latency", SYNC_LATENCY})
_BURST = "storage.burst_exhausted"
_MEETS_A_LIMIT = frozenset({_BURST, RECLAIM})
"""Causes because of which a limit is met: the level of an empty bucket, reads that memory had served."""
_CPUS = frozenset({SATURATED, OTHERS})
WITHIN_MIN = 0.8
"""Share of a limit's time that lies within another's."""
ALL_ALONG, EXPLAIN_A_FALL, BY_MEDIANS, CHANGES = (
    frozenset(name for name, cause in CAUSES.items() if getattr(cause, trait))
    for trait in ("all_along", "explains_fall", "by_medians", "is_change")
)
"""Causes by how findings weigh them; `CauseInfo` says what each means."""
_Finding = TypeVar("_Finding", Cause, FindingRow)
_LIKELY = 0.5
_UNKNOWN_SHARE = 0.2
"""Where a share cannot be said, for the order of findings only; it is never shown."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What one step showed. No finding at all means that the evidence does not carry one: `notes` says why."""

    findings: tuple[Cause, ...]
    notes: tuple[str, ...] = ()


def explain_case(case: Case) -> Explanation:
    """The causes of one step, the one that explains most first; `none` when the volume is not the problem."""
    if len(case.grid) < SAMPLES_MIN:
        return Explanation(findings=(), notes=(f"{len(case.grid)} samples are too few to name a cause",))
    notes = (*missing_evidence(case), *purge_notes(case))
    findings = shares_of_latency(case, _with_episode(case, _named(case)))
    explained = any(
        finding.explains_fall or finding.cause in EXPLAIN_A_FALL | CHANGES | LIMITS for finding in findings
    ) or (
        any(finding.cause in _CPUS for finding in findings) and cpus_explain_fall(case, collapsed_intervals(case))
    )
    collapsed = 0 if explained else longest_collapse(case)
    findings = _questioned(case, findings, collapsed)
    if not findings:
        acquitted = None if collapsed else acquit(case)
        findings = [acquitted] if acquitted is not None else []
        notes = notes if findings else (*notes, why_unexplained(case))
    findings, loss = [_weighed(finding) for finding in _attributed(findings)], _loss(findings)
    findings = [replace(finding, recorded=case.recorded) for finding in findings]
    ranked = _seconds(_ranked(findings, lambda finding: _weight(finding, loss)))
    with_confidence = (
        replace(finding, evidence=(*finding.evidence, *confidence_rows(finding))) for finding in ranked
    )
    return Explanation(findings=tuple(with_confidence), notes=notes)


def _named(case: Case) -> list[Cause]:
    storage = storage_findings(case)
    reads_named = any(is_much(finding) for finding in storage if finding.cause != SYNC_LATENCY)
    server = server_findings(case, reads_named=reads_named)
    return [*storage, *server, *(finding for rule in RULES for finding in rule(case))]


def _with_episode(case: Case, whole: list[Cause]) -> list[Cause]:
    """Findings of all of a step, and of its worst stretch by itself, where there is one.

    Medians of a step say little of a stretch of it. What is named only in the stretch is added, with its share of
    the time. What only the step's medians named, neither the stretch nor the rest, is left out if the stretch
    has a cause.
    """
    during = worst_stretch(case)
    if during is None:
        return whole
    inside, outside = (replace(case, grid=case.grid.where(mask)) for mask in (during, ~during))
    named = [finding for finding in _named(inside) if finding.cause not in CHANGES]
    causes = {finding.cause for finding in whole}
    falls = EXPLAIN_A_FALL | {_BURST} | {finding.cause for finding in whole if finding.explains_fall}
    added = [
        finding
        for finding in named
        if finding.cause not in causes and not _was_there_before(finding.cause, causes, falls, outside)
    ]
    if not named:
        return whole
    elsewhere = {finding.cause for finding in named} | {finding.cause for finding in _named(outside)}
    share = case.time_share_of(during)
    effects = [effect for effect in effect_rows(case, during) if effect.is_worse]
    rows = [effect.evidence for effect in effects]
    return [
        *(finding for finding in whole if finding.cause not in BY_MEDIANS or finding.cause in elsewhere),
        *(
            replace(
                finding,
                share=None if finding.share is None else finding.share * share,
                evidence=(*finding.evidence, *rows, *_lost_once(finding, effects)),
            )
            for finding in added
        ),
    ]


def _lost_once(finding: Cause, effects: Sequence[Effect]) -> list[EvidenceRow]:
    """What speed was lost meanwhile, where the finding does not say it yet."""
    return [] if any(piece.metric == "loss" for piece in finding.evidence) else [*loss_rows(effects)]


def _was_there_before(cause: str, named: Collection[str], falls: Collection[str], outside: Case) -> bool:
    """Whether a stretch's cause is no other one.

    It is none where it is the level of an empty bucket or of reads that memory had served, what waits for a limit
    above the device, the latency of an event, or CPUs that are as busy outside the stretch.
    """
    if cause in LIMITS and not _MEETS_A_LIMIT.isdisjoint(named):
        return True
    if cause == HOST_WAIT and HOST_LIMIT in named:
        return True
    if cause in _LATENCIES and any(name in falls for name in named):
        return True
    if cause == OTHERS:
        return outside.cpu_bound and outside.cpu_account is not None and others_have_most(outside.cpu_account)
    return cause == SATURATED and outside.cpu_bound


def _questioned(case: Case, findings: list[Cause], collapsed: int) -> list[Cause]:
    """Causes that are there all along are in doubt where a fall of the load is explained by none of them."""
    if not collapsed:
        return findings
    length_s = collapsed * case.grid.width_s
    text = (
        f"for {number(length_s)} s the load did less than a quarter of its usual: the cause of that, which"
        " no counter here shows, is the other of the two"
    )
    fall = row("unexplained_s", length_s, "s", text)
    return [
        replace(finding, one_of_two=True, evidence=(*finding.evidence, fall))
        if finding.cause in ALL_ALONG
        else finding
        for finding in findings
    ]


def finding_rows(
    volume: str, step: str, cells: Mapping[str, Explanation], *, left_out: int = 0
) -> tuple[FindingRow, ...]:
    """One row for each cause of a volume's step over its repeats.

    `none` stands only where no repeat found anything else. Evidence is of the repeat whose share is the median.

    Args:
        volume, step: their names.
        cells: what each repeat showed, by cell.
        left_out: repeats that are not among `cells`, since they are invalid.
    """
    by_cause: dict[str, dict[str, Cause]] = {}
    for cell, explanation in cells.items():
        for findings in explanation.findings:
            by_cause.setdefault(findings.cause, {}).setdefault(cell, findings)
    if len(by_cause) > 1:
        by_cause.pop(NONE, None)
    rows = [_row(volume, step, cause, findings, len(cells), left_out) for cause, findings in by_cause.items()]
    loss = _loss(rows)
    return tuple(_ranked(rows, lambda finding: len(finding.cell_ids) * _weight(finding, loss)))


def common_notes(explanations: Sequence[Explanation]) -> tuple[str, ...]:
    """Each note once, the most frequent first."""
    counted = Counter(note for finding in explanations for note in finding.notes)
    return tuple(note for note, _ in counted.most_common())


def _row(
    volume: str, step: str, cause: str, findings: Mapping[str, Cause], repeats: int, left_out: int
) -> FindingRow:
    shares = [finding.share for finding in findings.values() if finding.share is not None]
    middle = median_of(shares) if shares else None
    shown = min(findings, key=lambda cell: abs((findings[cell].share or 0.0) - (middle or 0.0)))
    typical = findings[shown]
    evidence = list(typical.evidence)
    if repeats > 1 or left_out:
        which = f"{repeats} valid cell{'s' if repeats > 1 else ''}; {left_out} invalid left out"
        text = f"found in {len(findings)} of {which if left_out else f'{repeats} cells'}"
        evidence.append(row("cells", len(findings), "1", text))
    return FindingRow(
        cause=cause,
        volume=volume,
        step=step,
        cell_ids=(shown, *(cell for cell in findings if cell != shown)),
        window_s=typical.window_s,
        share=middle,
        confidence=median_of(finding.confidence for finding in findings.values()) * len(findings) / repeats,
        evidence=tuple(evidence),
        advice=typical.advice,
    )


def _ranked(findings: Sequence[_Finding], weight: Callable[[_Finding], float]) -> list[_Finding]:
    """Findings by weight, descending, hints last.

    Of causes of the volume that cannot be told apart only the first has its whole weight: they explain one thing.
    """
    ranked = sorted(findings, key=weight, reverse=True)
    pair = [finding for finding in ranked if finding.cause.startswith("storage.") and _is_undecided(finding)]
    ranked.sort(key=lambda finding: weight(finding) / (2 if finding in pair[1:] else 1), reverse=True)
    return sorted(ranked, key=_is_hint)


def _seconds(ranked: Sequence[Cause]) -> list[Cause]:
    """Of causes that cannot be told apart, all but the first are marked."""
    undecided = [finding for finding in ranked if finding.one_of_two]
    return [replace(finding, is_second=finding in undecided[1:]) for finding in ranked]


def _is_undecided(finding: Cause | FindingRow) -> bool:
    """Whether it is one of two causes that the evidence does not tell apart."""
    return _kind(finding) == "one of two"


def _is_hint(finding: Cause | FindingRow) -> bool:
    """Whether a check of it failed and it is less likely than not: whatever is likelier comes before it."""
    return _kind(finding) == "some failed" and (finding.confidence or 0.0) < _LIKELY


def _kind(finding: Cause | FindingRow) -> str:
    """What its checks came to; of a row of a report, as its evidence says."""
    if isinstance(finding, Cause):
        return finding.kind
    return next((str(piece.value) for piece in finding.evidence if piece.metric == "checks"), "")


def _weight(findings: Cause | FindingRow, loss: float) -> float:
    """What findings are ranked by: what they explain.

    `loss` is the share of its speed that the load lost to something beside it: what was there before explains only
    the rest of the latency that it rose to. Confidences are no part of it: of two causes that cannot be told apart
    each has half, and both together explain no less.
    """
    share = _UNKNOWN_SHARE if findings.share is None else findings.share
    is_all_along = findings.cause in ALL_ALONG and not any(piece.metric == "loss" for piece in findings.evidence)
    return share * (1 - loss if is_all_along else 1)


def _weighed(findings: Cause) -> Cause:
    """With a check that could not be made, where it is not known how long queries wait for the volume named."""
    unknown = findings.cause.startswith("storage.") and findings.share is None
    return replace(findings, checks=(*findings.checks, None)) if unknown else findings


def _attributed(findings: Sequence[Cause]) -> list[Cause]:
    """A limit that is met only while something else runs is that one's doing, as far as it took speed."""
    backups = [finding for finding in findings if finding.cause == INTERFERENCE and finding.share is not None]
    attributed = []
    for finding in findings:
        meanwhile = [
            backup for backup in backups if finding.cause in LIMITS and _within(finding.window_s, backup.window_s)
        ]
        brought = _loss(meanwhile)
        attributed.append(
            finding if finding.share is None else replace(finding, share=finding.share * (1 - brought))
        )
    return attributed


def _loss(findings: Sequence[Cause | FindingRow]) -> float:
    """The most speed that something beside the load took while it ran, as a share; 0 where nothing did."""
    with_confidence = [piece.value for finding in findings for piece in finding.evidence if piece.metric == "loss"]
    return max((float(value) for value in with_confidence if isinstance(value, int | float)), default=0.0)


def _within(inner: tuple[float, float], outer: tuple[float, float]) -> bool:
    shared = min(inner[1], outer[1]) - max(inner[0], outer[0])
    return shared >= WITHIN_MIN * (inner[1] - inner[0])
