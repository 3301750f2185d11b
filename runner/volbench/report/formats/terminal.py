"""The end of a run in the terminal: the verdict, its comparisons, and the failures."""

from __future__ import annotations

from volbench.base.text import change, duration, interval, number, percent, quantity
from volbench.records.report import ComparisonRow, Report
from volbench.report.rows.cells import failure_text
from volbench.report.rows.forecast import forecast_text
from volbench.report.rows.saturation import curve_lines
from volbench.report.wording import why_invalid


def summary_lines(report: Report) -> list[str]:
    """Return the lines to print: the verdict, then primary comparisons, invalid cells, failures and caveats."""
    lines = ["", report.summary.sentence, ""]
    lines += [comparison_line(row) for row in report.comparisons if row.primary]
    lines += [f"  {text}" for text in curve_lines(report.curves)]
    lines += [f"  {forecast_text(row)}" for row in report.forecasts]
    lines += [f"  {text}" for text in (report.sweep.said if report.sweep else ())]
    invalid = [cell for cell in report.cells if not cell.valid]
    lines += [
        f"  {'disturbed' if cell.used_within_bounds else 'invalid'}: "
        f"{cell.cell_id} {cell.step}: {why_invalid(cell)}"
        for cell in invalid
    ]
    lines += [
        f"  {failure_text(failure, str(failure['cell_id']))}: {failure.get('what')}" for failure in report.failures
    ]
    lines += [f"  note: {caveat}" for caveat in report.summary.caveats]
    share = report.timing.measured_share
    if share is not None:
        measured, wall = duration(report.timing.measured_s), duration(report.timing.wall_s)
        lines.append(f"  {measured} measured of {wall} ({percent(share)})")
    return lines


def comparison_line(row: ComparisonRow) -> str:
    """Return one comparison in a line: values, change with interval, p, verdict."""
    head = f"  {row.step} {row.metric}: {row.candidate} against {row.baseline}"
    if row.ratio is None or row.ci is None:
        return f"{head}: {row.verdict} ({row.reason})"
    runs_needed = f", about {row.runs_needed} cells a side would decide" if row.runs_needed else ""
    p_value = row.p_adjusted if row.p_adjusted is not None else row.p_value
    p_text = "" if p_value is None else f", p {p_value:.3g}"
    return (
        f"{head}: {number(row.baseline_value)} -> {quantity(row.candidate_value, row.unit)},"
        f" {change(row.ratio)} {interval(row.ci)}{p_text}: {row.verdict}{runs_needed}"
    )
