"""Caveats on other work: for which comparisons it changes the answer, and how many it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from volbench.core.base.text import counted, percent, upper_first
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import PairSummary
from volbench.results.report.wording import adjustment_text, has_busy_machine, is_adjusted, is_turned, joined
from volbench.results.stats.covariates import LABELS, Adjustment

LISTED_MAX = 2
"""So many adjustments have a sentence each, with their effects; of more, those of one kind share a line."""
_Adjusted = tuple[Comparison, Adjustment]


def adjustment_caveats(pairs: Iterable[PairSummary]) -> Iterator[str]:
    """Yield what the first comparison of each step of each pair is adjusted for, where that changes the answer.

    The others share a sentence: report.json has what each is adjusted for, or why it is not.
    """
    rows = _first_rows(pairs)
    notable = [row for row in rows if is_turned(row) or any(map(has_busy_machine, row.adjustments))]
    yield from _of_notable(notable)
    further = [row for row in rows if row not in notable]
    yield from _of_further(sum(map(is_adjusted, further)), sum(bool(row.not_adjusted) for row in further))


def _of_further(adjusted: int, unadjusted: int) -> Iterator[str]:
    """Yield how many comparisons are adjusted without another answer, and how many are not."""
    go = "goes" if adjusted == 1 else "go"
    clauses = (
        f"{counted(adjusted, 'comparison is', 'comparisons are')} adjusted for it and {go} the same way as without"
        if adjusted
        else "",
        f"{counted(unadjusted, 'comparison is', 'comparisons are')} not adjusted" if unadjusted else "",
    )
    if any(clauses):
        listed = ", and ".join(filter(None, clauses))
        yield f"Other work varied from cell to cell: {listed} (report.json has the effect or the reason)."


def _of_notable(rows: Sequence[Comparison]) -> Iterator[str]:
    adjusted = [(row, adjustment) for row in rows for adjustment in row.adjustments]
    kinds: dict[tuple[str, bool], list[_Adjusted]] = {}
    for row, adjustment in adjusted:
        kinds.setdefault((adjustment.covariate, _is_as_it_ran(adjustment)), []).append((row, adjustment))
    for of_kind in kinds.values():
        if len(adjusted) <= LISTED_MAX or len(of_kind) == 1:
            yield from (adjustment_text(row, adjustment) for row, adjustment in of_kind)
        else:
            yield _together(of_kind)


def pairs_text(rows: Sequence[Comparison]) -> str:
    """Return `b against a (load)`, of several `b (load, dump) and c (load) against a`."""
    if len(rows) == 1:
        return f"{rows[0].candidate} against {rows[0].baseline} ({rows[0].step})"
    steps: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        steps.setdefault(row.baseline, {}).setdefault(row.candidate, []).append(row.step)
    texts = []
    for baseline, by_candidate in steps.items():
        candidates = [
            f"{candidate} ({', '.join(of_candidate)})" for candidate, of_candidate in by_candidate.items()
        ]
        texts.append(f"{joined(candidates)} against {baseline}")
    return "; ".join(texts)


def _first_rows(pairs: Iterable[PairSummary]) -> list[Comparison]:
    rows: dict[tuple[str, str, str], Comparison] = {}
    for pair in pairs:
        for row in (*pair.better, *pair.worse, *pair.equivalent, *pair.inconclusive, *pair.alone):
            rows.setdefault((pair.baseline, pair.candidate, row.step), row)
    return list(rows.values())


def _is_as_it_ran(adjustment: Adjustment) -> bool:
    """Return whether such work was alike in all cells, which are compared as they ran."""
    return adjustment.slopes == (None, None)


def _together(adjusted: Sequence[_Adjusted]) -> str:
    """Return a line on several adjustments of one kind."""
    rows, adjustments = [row for row, _ in adjusted], [adjustment for _, adjustment in adjusted]
    covariate = adjustments[0].covariate
    low, high = min(each.low for each in adjustments), max(each.high for each in adjustments)
    took = f"took {percent(low)} to {percent(high)}"
    if _is_as_it_ran(adjustments[0]):
        alike = f"{LABELS[covariate]} {took}, alike in all cells of each, which are compared as they ran"
        return f"{pairs_text(rows)}: {alike}.{_busy_text(adjustments)}"
    idle = sum(0.0 in adjustment.slopes for adjustment in adjustments)
    differ = sum(adjustment.differ for adjustment in adjustments)
    clauses = (
        f"{counted(len(rows), 'comparison')} are adjusted for {LABELS[covariate]}, which {took}:"
        f" {pairs_text(rows)}",
        "report.json has the effect in each",
        f"in {differ} of them it is not the same on both volumes" if differ else "",
        f"in {idle} of them it is taken to do nothing on a volume, whose cells were no worse" if idle else "",
    )
    return f"{'; '.join(filter(None, clauses))}.{_busy_text(adjustments)}"


def _busy_text(adjustments: Sequence[Adjustment]) -> str:
    """Return of how many comparisons the verdict is about a busy machine; empty of none."""
    busy = sum(map(has_busy_machine, adjustments))
    if not busy:
        return ""
    where = "" if busy == len(adjustments) else f"In {busy} of them, "
    text = "all cells had to share the CPUs: such a verdict is about a machine as busy as that."
    return f" {where}{text if where else upper_first(text)}"
