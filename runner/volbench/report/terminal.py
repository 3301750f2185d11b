"""The end of a run in the terminal: the verdict, what it rests on, and what went wrong."""

from __future__ import annotations

from volbench.records.report import ComparisonRow, Report
from volbench.report.explained import association_sentences
from volbench.report.forecast import forecast_text
from volbench.report.knees import curve_lines
from volbench.report.rows import failure_text
from volbench.report.time_budget import budget_lines
from volbench.report.wording import why_invalid


def summary_lines(report: Report) -> list[str]:
    """Lines to print: the verdict first, then the primary comparisons, invalid cells, failures and caveats."""
    lines = ["", report.summary.sentence, *report.summary.time_difference, ""]
    lines += [comparison_line(row) for row in report.comparisons if row.primary]
    lines += [f"  {text}" for text in budget_lines(report.time_budgets)]
    lines += [f"  {text}" for text in association_sentences(report.associations)]
    lines += [f"  {text}" for text in curve_lines(report.curves)]
    lines += [f"  {forecast_text(row)}" for row in report.forecasts]
    lines += [f"  {text}" for text in (report.sweep.said if report.sweep else ())]
    invalid = [cell for cell in report.cells if not cell.valid]
    lines += [
        f"  {'disturbed' if cell.used_within_bounds else 'left out'}: "
        f"{cell.cell_id} {cell.step}: {why_invalid(cell)}"
        for cell in invalid
    ]
    lines += [
        f"  {failure_text(failure, str(failure['cell_id']))}: {failure.get('what')}" for failure in report.failures
    ]
    lines += [f"  note: {caveat}" for caveat in report.summary.caveats]
    share = report.timing.measured_share
    if share is not None:
        lines.append(
            f"  {report.timing.measured_s:.0f} s measured of {report.timing.wall_s:.0f} s in all ({share:.0%})"
        )
    return lines


def comparison_line(row: ComparisonRow) -> str:
    """One comparison in a line: values, change with interval, p, verdict."""
    what = f"  {row.step} {row.metric}: {row.candidate} against {row.baseline}"
    if row.ratio is None or row.ci is None:
        return f"{what}: {row.verdict} ({row.reason})"
    low, high = row.ci
    needed = f", about {row.runs_needed} cells a side would decide" if row.runs_needed else ""
    p_value = row.p_adjusted if row.p_adjusted is not None else row.p_value
    shown = "" if p_value is None else f", p {p_value:.3g}"
    return (
        f"{what}: {_value(row.baseline_value)} -> {_value(row.candidate_value)} {row.unit},"
        f" {row.ratio - 1:+.1%} [{low - 1:+.1%}, {high - 1:+.1%}]{shown}: {row.verdict}{needed}"
    )


def _value(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}"
