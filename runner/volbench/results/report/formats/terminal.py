"""The end of a run in the terminal: the verdict, its comparisons, and the failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from volbench.core.base.text import duration, number, percent, quantity
from volbench.core.records.report import CellRow, ComparisonRow, Report
from volbench.results.report.rows.cells import failure_text
from volbench.results.report.rows.forecast import forecast_text
from volbench.results.report.rows.prediction import prediction_text
from volbench.results.report.rows.saturation import curve_lines
from volbench.results.report.rows.storage_classes import class_lines
from volbench.results.report.rows.verdict.lead import cause_title
from volbench.results.report.rows.verdict.settings import with_setting_names
from volbench.results.report.terms import verdict_notes
from volbench.results.report.views.causes import groups_of, overlaps, unexplained
from volbench.results.report.views.cost_tables import correlation_sentences
from volbench.results.report.views.time_budget import budget_lines
from volbench.results.report.wording import change_text, decides_text, why_invalid

CAUSES_MAX, INVALID_MAX, OVERLAPS_MAX = 4, 3, 2
"""Lines of a kind; the reports have all of them."""
TERMINAL_CAUSES_MAX, LINES_MAX = 2, 12
"""Of `terminal_summary`: what a screen of 24 lines holds beside the verdict and the files."""


@dataclass(frozen=True, kw_only=True)
class TerminalSummary:
    """What a run ends with in a terminal: verdict and cause, then few lines; the report has the rest.

    Args:
        verdict: the headline, its sentence, and its notes in one line.
        causes: the strongest ones.
        lines: `LINES_MAX` at most: what went wrong, what a millisecond costs, where the time goes, then the rest.
        left_out: lines that only the report has.
    """

    verdict: tuple[str, ...]
    causes: tuple[str, ...]
    lines: tuple[str, ...]
    left_out: int


def terminal_summary(report: Report) -> TerminalSummary:
    """Return the end of a run for a terminal."""
    report = with_setting_names(report)
    causes, *sections = (list(lines) for lines in (cause_lines(report), *_sections(report)))
    comparisons, *accounts, invalid, failures, caveats, timing = sections
    leading = _leading_accounts(report)
    ordered = [*failures, *(f"  {text}" for text in leading), *comparisons, *caveats, *invalid]
    ordered += [line for lines in accounts for line in lines]
    ordered += [f"  {text}" for text in _accounts(report) if text not in leading]
    return TerminalSummary(
        verdict=tuple(_verdict(report)),
        causes=tuple(causes[:TERMINAL_CAUSES_MAX]),
        lines=(*ordered[: LINES_MAX - len(timing)], *timing),
        left_out=max(0, len(ordered) + len(timing) - LINES_MAX) + max(0, len(causes) - TERMINAL_CAUSES_MAX),
    )


def summary_lines(report: Report) -> list[str]:
    """Return all lines: the verdict, then causes, primary comparisons, invalid cells, failures and caveats."""
    report = with_setting_names(report)
    lines = ["", *_verdict(report), *_accounts(report), ""]
    lines += [f"  {text}" for text in cause_lines(report)]
    return lines + [line for section in _sections(report) for line in section]


def _accounts(report: Report) -> Iterable[str]:
    """Return where the time goes and what a millisecond costs, those of the headline's step first."""
    summary = report.summary
    return dict.fromkeys((*summary.sharing, *summary.box, *summary.response, *summary.time_difference))


def _leading_accounts(report: Report) -> Sequence[str]:
    """Return what no note may push off the screen: of the headline's step, else what a millisecond costs."""
    return report.summary.box or report.summary.response[:1]


def _verdict(report: Report) -> Iterator[str]:
    if report.summary.headline:
        yield f"{report.summary.headline}."
    yield report.summary.sentence
    if notes := verdict_notes(report.summary):
        yield " ".join(notes)


def _sections(report: Report) -> Iterator[Iterable[str]]:
    """Yield the lines below the causes by subject: comparisons, accounts, and then what a reader has to know."""
    yield comparison_lines([row for row in report.comparisons if row.primary])
    for texts in (
        budget_lines(report.time_budgets),
        correlation_sentences(report),
        curve_lines(report.curves),
        map(forecast_text, report.forecasts),
        map(prediction_text, report.predictions),
        class_lines(report.storage_classes),
        report.sweep.conclusions if report.sweep else (),
    ):
        yield [f"  {text}" for text in texts]
    yield _invalid_lines([cell for cell in report.cells if not cell.valid])
    yield (
        f"  {failure_text(failure, str(failure['cell_id']))}: {failure.get('message')}"
        for failure in report.failures
    )
    yield (f"  note: {caveat}" for caveat in report.summary.caveats)
    share = report.timing.measured_share
    measured, wall = duration(report.timing.measured_s), duration(report.timing.wall_s)
    yield [] if share is None else [f"  {measured} measured of {wall} ({percent(share)})"]


def _invalid_lines(invalid: Sequence[CellRow]) -> Iterator[str]:
    for cell in invalid[:INVALID_MAX]:
        kind = "disturbed" if cell.used_within_bounds else "invalid"
        yield f"  {kind}: {cell.cell_id} {cell.step}: {why_invalid(cell)}"
    if len(invalid) > INVALID_MAX:
        yield f"  {len(invalid) - INVALID_MAX} more are disturbed or invalid: see the report"


def cause_lines(report: Report) -> Iterator[str]:
    """Yield a line for each of the first causes: where, the cause, its size and sureness, and where else."""
    groups = groups_of(report)
    for group in groups[:CAUSES_MAX]:
        title = cause_title(group.strongest.cause)
        yield " ".join((f"{group.location}: {title}.", *group.sentences))
    yield from unexplained(report)
    yield from overlaps(report.findings)[:OVERLAPS_MAX]
    if len(groups) > CAUSES_MAX:
        yield f"{len(groups) - CAUSES_MAX} more causes are in the report"


def comparison_lines(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """Yield a line for each comparison; those without a test, for a reason that several share, have one line."""
    reasons = Counter(row.reason for row in rows if not _has_interval(row))
    for row in rows:
        if _has_interval(row) or reasons[row.reason] == 1:
            yield comparison_line(row)
    yield from (f"  {count} comparisons without a test: {text}" for text, count in reasons.items() if count > 1)


COMPARISON_COLUMNS = ("step", "metric", "against", "volume", "before", "now", "change", "p", "cells", "verdict")


def comparison_cells(row: ComparisonRow) -> tuple[str, ...]:
    """Return one comparison as the cells of a table with `COMPARISON_COLUMNS`."""
    p_value = row.p_adjusted if row.p_adjusted is not None else row.p_value
    return (
        row.step,
        row.metric,
        row.baseline,
        row.candidate,
        "" if row.baseline_value is None else number(row.baseline_value),
        "" if row.candidate_value is None else quantity(row.candidate_value, row.unit),
        change_text(row) if _has_interval(row) else row.reason,
        "" if p_value is None else f"{p_value:.3g}",
        f"{row.runs[0]} and {row.runs[1]}",
        row.verdict,
    )


def comparison_line(row: ComparisonRow) -> str:
    """Return one comparison in a line: values, change with interval, p, verdict."""
    head = f"  {row.step} {row.metric}: {row.candidate} against {row.baseline}"
    if not _has_interval(row):
        return f"{head}: {row.verdict} ({row.reason})"
    runs_needed = f", {decides_text(row)}" if row.runs_needed else ""
    p_value = row.p_adjusted if row.p_adjusted is not None else row.p_value
    p_text = "" if p_value is None or row.ci is None else f", p {p_value:.3g}"
    reason_text = f" ({row.reason})" if row.ci is None else ""
    return (
        f"{head}: medians {number(row.baseline_value)} -> {quantity(row.candidate_value, row.unit)},"
        f" change {change_text(row)}{p_text}: {row.verdict}{runs_needed}{reason_text}"
    )


def _has_interval(row: ComparisonRow) -> bool:
    return row.ratio is not None and (row.ci is not None or row.plain_ci is not None)
