"""Labels of metrics, and texts of rows that several report formats share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from volbench.core.base.text import (
    ABSENT,
    change,
    counted,
    duration,
    interval,
    number,
    percent,
    quantity,
    size,
    upper_first,
)
from volbench.core.records.base import Scalar
from volbench.core.records.metrics import CATALOGUE, PRIMARY_METRICS
from volbench.core.records.report import (
    BackupRow,
    CellRow,
    ComparisonRow,
    DataRow,
    DurabilityRow,
    EffectRow,
    FigureRow,
    SpeedRow,
)
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.losses import event_text
from volbench.results.stats.covariates import CPU, LABELS, Adjustment
from volbench.results.stats.sequential import confidence_of_all

BOX_MAX = 4
"""Sentences on times and responses that stand below a headline: more of them hide what follows."""
SHARED_MIN = 0.1
"""Share of the CPUs that other work took in every cell, from which on no cell shows the idle machine."""


_OF_STEP = "steps."
ADJUSTED = ", adjusted for other work"
"""After a figure that is not of the cells as they ran, where the medians next to it point the other way."""
UNADJUSTED = "with other work"
"""After an interval of cells as they ran, where the bounds of what disturbed them leave none."""


def is_adjusted(row: Comparison | ComparisonRow) -> bool:
    """Return whether a change is that of cells with equal shares of other work."""
    return any(adjustment.slopes != (None, None) for adjustment in row.adjustments)


def is_turned(row: Comparison | ComparisonRow) -> bool:
    """Return whether a change that is adjusted for other work goes the other way than that of the medians."""
    return is_adjusted(row) and _points_away(row)


def label(metric: str) -> str:
    """Return the label of a metric; its name if another version of volbench made it."""
    return CATALOGUE[metric].label if metric in CATALOGUE else metric


def confidence_text(rows: Sequence[ComparisonRow]) -> str:
    """Return what the rows' intervals hold with: `95 %`, of a run with several looks for all of them together."""
    return _span_text([confidence_of_all(row.confidence) for row in rows])


def _span_text(shares: Sequence[float]) -> str:
    """Return `95 %`, or `97 to 99.2 %`."""
    lowest, highest = percent(min(shares)), percent(max(shares))
    return lowest if lowest == highest else f"{lowest.removesuffix(' %')} to {highest}"


def parameter_text(parameters: Mapping[str, Scalar]) -> str:
    """Return parameters on one line: threads=8 rate=200."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def load_text(parameters: Mapping[str, Scalar]) -> str:
    """Return the load of a step in words: `64 threads at 100/s`, `16 deep`, or nothing."""
    clauses = []
    if (threads := parameters.get("threads")) is not None:
        clauses.append(f"{threads} thread{'' if threads == 1 else 's'}")
    if isinstance(rate := parameters.get("rate"), int | float):
        clauses.append(f"at {rate:,.6g}/s")
    if (depth := parameters.get("iodepth")) is not None:
        clauses.append(f"{depth} deep")
    return " ".join(clauses)


def setting_text(factor: str, value: Scalar) -> str:
    """Return a factor of a sweep with a value: `mode=async`, of a step's parameter `tree.jobs=16`."""
    name = factor.removeprefix(_OF_STEP) if factor.startswith(_OF_STEP) else factor.rpartition(".")[2]
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"


def joined(texts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def measured_text(runs: tuple[int, int], sides: tuple[str, str], alike: str) -> str:
    """Return `measured 3 times each`, `measured once on a and twice on b`: what a decision rests on.

    Args:
        sides: where, of the base and of what is compared with it.
        alike: where, of both together.
    """
    base, level = map(_times, runs)
    return f"measured {base} {alike if runs[0] == runs[1] else f'{sides[0]} and {level} {sides[1]}'}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def settings_measured(row: EffectRow) -> str:
    """Return `measured 4 times with jobs=1 and 3 times with jobs=16`, `measured 5 times with each setting`."""
    base, level = (
        "with " + joined([setting_text(name, value) for name, value in zip(row.factors, values, strict=True)])
        for values in (row.bases, row.levels)
    )
    return measured_text(row.runs, (base, level), "with each setting")


def level_cells(row: EffectRow) -> str:
    """Return what a change rests on: `one cell of each setting`, `2 cells with jobs=1 and 4 with jobs=16`."""
    base, level = row.runs
    if base == level:
        return "one cell of each setting" if base == 1 else f"{base} cells of each setting"
    ends = (
        " ".join(setting_text(name, value) for name, value in zip(row.factors, values, strict=True))
        for values in (row.bases, row.levels)
    )
    return f"{counted(base, 'cell')} with {next(ends)} and {level} with {next(ends)}"


def comparison_text(row: ComparisonRow, *, steps: bool) -> str:
    """Return one comparison within a sentence: `tps +38 % [+31 %, +45 %]`, with its step if `steps`."""
    step_text = f" ({row.step})" if steps else ""
    return f"{label(row.metric)} {change_text(row)}{step_text}"


def change_text(row: ComparisonRow) -> str:
    """Return a comparison's change with its interval: `+38 % [+31 %, +45 %]`; without one, the change alone."""
    has_interval = row.ci is not None or row.plain_ci is not None
    return f"{change(row.ratio)} {interval_text(row)}" if has_interval else change(row.ratio)


def interval_text(row: ComparisonRow) -> str:
    """Return a comparison's interval; where bounds of disturbed cells leave none, that of the cells as they ran."""
    if row.ci is None and row.plain_ci is not None:
        return f"{interval(row.plain_ci, row.ratio)}, {UNADJUSTED}"
    return interval(row.ci, row.ratio)


def table_notes(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return what a reader of a table of comparisons may stumble over: unlike medians, absent bounds."""
    notes = []
    looks = [row.confidence for row in rows if confidence_of_all(row.confidence) != row.confidence]
    if looks:
        notes.append(
            f"An interval is of {_span_text(looks)} by itself: cells are compared after each block until a pair has"
            f" a verdict, and all these looks at a pair together hold with {percent(confidence_of_all(looks[0]))}."
        )
    if any(_differs_from_medians(row) for row in rows):
        notes.append(
            "Figures of volumes are medians of valid cells, or of others where none is valid, and a change is not"
            " their ratio: it is that of the geometric means. Where cells ran on several nodes, or disturbed ones"
            " count within bounds, it is the median of the ratios of all pairs of cells."
        )
    if any(map(_points_away, rows)):
        notes.append(
            "Where the medians point the other way, the verdict is that of the change: it weighs each cell that"
            " counts, and a median is of the middle ones alone."
        )
    if any(map(is_adjusted, rows)):
        notes.append("A change that is adjusted for other work is that of cells with equal shares of such work.")
    if any(row.ci is None and row.plain_ci is not None for row in rows):
        notes.append(
            f"{upper_first(UNADJUSTED)}: the bounds of what disturbed these cells leave the change without an"
            " interval. The interval shown takes their figures as they are. It holds only with as much other work,"
            " is wider for it, and no verdict rests on it."
        )
    if any(row.ratio is not None and row.ci is None and row.plain_ci is None for row in rows):
        notes.append("No interval: so few cells do not bound the change.")
    if any((row.baseline_value is None) != (row.candidate_value is None) for row in rows):
        notes.append(
            "A dash: no cell of that volume gave the figure. A percentile has none where more transactions were"
            " without an answer than may lie above it, or where a part of a load had too few (p95 needs 20, p99"
            " 100)."
        )
    return notes


def decides_text(row: ComparisonRow | EffectRow) -> str:
    """Return `about 12 cells a side would decide`; of cells too few to show their spread, how many can at all."""
    if row.runs_needed is None:
        return ""
    if min(row.runs) < 2:
        return f"at least {row.runs_needed} cells a side are needed"
    return f"about {row.runs_needed} cells a side would decide"


def cells_text(row: ComparisonRow) -> str:
    """Return how many cells a change is of: `5 / 5, 3 of them disturbed`; the medians beside are of valid ones."""
    disturbed = sum(row.within_bounds)
    return f"{row.runs[0]} / {row.runs[1]}{f', {disturbed} of them disturbed' if disturbed else ''}"


def open_reason(row: ComparisonRow | EffectRow) -> str:
    """Return why a row is open although its interval leaves out no change; empty for all other rows."""
    if row.verdict != "inconclusive" or row.ci is None or row.ci[0] <= 1 <= row.ci[1]:
        return ""
    return row.reason


def open_text(rows: Sequence[ComparisonRow]) -> str:
    """Return what would decide, where that is the same for all of several open rows; empty elsewhere."""
    texts = [decides_text(row) for row in rows if row.primary and row.verdict == "inconclusive" and row.runs_needed]
    return texts[0] if len(texts) > 1 and len(set(texts)) == 1 else ""


def _differs_from_medians(row: Comparison | ComparisonRow) -> bool:
    if not (row.ratio and row.baseline_value and row.candidate_value):
        return False
    of_medians = row.candidate_value / row.baseline_value
    return change(row.ratio) != change(of_medians)


def _points_away(row: Comparison | ComparisonRow) -> bool:
    """Whether the medians that are printed differ the other way than the change."""
    if not _differs_from_medians(row) or not (row.ratio and row.baseline_value and row.candidate_value):
        return False
    return (row.ratio - 1) * (row.candidate_value - row.baseline_value) < 0


def fault_text(row: DurabilityRow) -> str:
    """Return `2 power cuts (volume: async)`, `1 kill of the server`."""
    durability_text = f" (volume: {row.volume_durability.replace('_', '-')})" if row.volume_durability else ""
    return f"{row.cuts} {event_text(row, row.cuts)}{durability_text}"


def damage_text(row: DurabilityRow) -> str:
    """Return how much is torn or damaged; a dash where no recovery let it be checked."""
    unchecked = row.failed_recoveries
    if unchecked >= row.cuts and not row.torn_or_damaged:
        return ABSENT if unchecked else "0"
    return f"{row.torn_or_damaged:,}{f', {unchecked} of {row.cuts} cuts not checked' if unchecked else ''}"


def speed_text(speed: SpeedRow) -> str:
    """Return `208/s`, or `208/s (disturbed)` where no cell is valid."""
    return quantity(speed.value, speed.unit) + ("" if speed.standing == "valid" else f" ({speed.standing})")


def recovery_text(row: DurabilityRow) -> str:
    """Return `2.1 s`; `failed after 1 of 6 cuts, else 2.1 s`; a server that never recovered has no time."""
    took = quantity(row.recovery_s, "s")
    if not row.failed_recoveries:
        return took
    if row.cuts == 1:
        return "failed"
    failed = f"failed after {row.failed_recoveries} of {row.cuts} cuts"
    return failed if row.recovery_s is None else f"{failed}, else {took}"


_LEFT = {
    "cpu_taken": "CPU time for MySQL",
    "cpu_wanted": "CPU time for MySQL",
    "io_taken": "of the device for MySQL",
}
"""What other work leaves to the cell."""


def adjustment_text(row: Comparison, adjustment: Adjustment) -> str:
    """Return what a comparison is adjusted for, and what that work did to each volume."""
    if adjustment.slopes == (None, None):
        took = f"took {percent(adjustment.low)} to {percent(adjustment.high)}, alike in all cells"
        return (
            f"{row.candidate} against {row.baseline} ({row.step}): {LABELS[adjustment.covariate]} {took}, which are"
            f" compared as they ran.{_of_busy_machines(adjustment)}"
        )
    slopes = dict(zip((row.baseline, row.candidate), adjustment.slopes, strict=True))
    effects = " and ".join(
        f"by {change(0.9**slope)} on {name}" for name, slope in slopes.items() if slope is not None
    )
    alike = "".join(f"; on {name} such work hardly varied" for name, slope in slopes.items() if slope is None)
    differ = "; the two volumes differ in that" if adjustment.differ else ""
    if 0.0 in slopes.values():
        differ += "; where that is 0 %, the cells with more other work were no worse, and it is taken to do nothing"
    return (
        f"{row.candidate} against {row.baseline} ({row.step}) is adjusted for {LABELS[adjustment.covariate]}, which"
        f" took {percent(adjustment.low)} to {percent(adjustment.high)}: a tenth less {_LEFT[adjustment.covariate]}"
        f" changes {label(row.metric)} {effects}{alike}{differ}.{_of_busy_machines(adjustment)}"
    )


def has_busy_machine(adjustment: Adjustment) -> bool:
    """Return whether every cell had to share the CPUs."""
    return adjustment.low >= SHARED_MIN and adjustment.covariate in CPU


def _of_busy_machines(adjustment: Adjustment) -> str:
    """Return what a verdict is about where every cell had to share the CPUs; empty where one hardly did."""
    if not has_busy_machine(adjustment):
        return ""
    return " All cells had to share the CPUs: the verdict is about a machine as busy as that."


def figure_text(row: FigureRow, varied: Collection[str] = ()) -> str:
    """Return `disk (read-write): transactions/s 739 from 3 valid cells; 421 to 681 in 2 disturbed ones`.

    Args:
        varied: parameters that tell the row from others of its volume and step; their last word is named.
    """
    levels = [f"{name.rpartition('.')[2]} {row.parameters[name]}" for name in varied if name in row.parameters]
    texts = dict.fromkeys((row.step, *levels))  # a factor of a sweep may be a parameter of the step, too
    return f"{row.volume} ({', '.join(texts)}): {label(row.metric)} {figure_clauses(row)}"


def figure_clauses(row: FigureRow) -> str:
    """Return `739 from 3 valid cells; 421 to 681 in 2 disturbed ones`."""
    clauses = [
        f"{_measured(row.value, row.unit)} from {row.cells} {row.standing} cell{'s' if row.cells > 1 else ''}"
    ]
    for side in row.excluded:
        to_high = f" to {_measured(side.high, row.unit)}" if side.cells > 1 else ""
        cells = f"{side.cells} {side.standing} {'ones' if side.cells > 1 else 'one'}"
        clauses.append(f"{_measured(side.low, row.unit)}{to_high} in {cells}")
    return "; ".join(clauses)


def _measured(value: float, unit: str) -> str:
    return number(value) if unit == "1/s" else quantity(value, unit)


def window_text(row: BackupRow) -> str:
    """Return `fits 10 min; recommended 3 min`; of a suite without a window only the recommended one."""
    verdict = "" if row.window_s is None else f"{'fits' if row.fits else 'does not fit'} {duration(row.window_s)}; "
    return f"{verdict}recommended {duration(row.recommended_window_s)}"


def p95_during_text(row: BackupRow) -> str:
    """Return the load's p95 during it; of too few transactions the slowest, and how many there were."""
    if row.latency_ms_max_during is None or row.transactions_during is None:
        return quantity(row.latency_ms_p95_during, "ms")
    count = counted(row.transactions_during, "transaction")
    return f"at most {quantity(row.latency_ms_max_during, 'ms')} ({count})"


def data_text(data: DataRow) -> str:
    """Return `229 MiB of data, buffer pool 32 MiB (7.2 times)`."""
    text = f"{size(data.bytes)} of data"
    if data.buffer_pool_bytes is None or data.data_to_pool_ratio is None:
        return text
    return f"{text}, buffer pool {size(data.buffer_pool_bytes)} ({number(data.data_to_pool_ratio)} times)"


def why_invalid(cell: CellRow) -> str:
    """Return the reasons of an invalid step, and the bounds of its figures when comparisons use them."""
    reasons = "; ".join(cell.invalid_reasons)
    used = [name for name in cell.used_within_bounds if name in PRIMARY_METRICS.get(cell.kind, ())]
    if not cell.used_within_bounds:
        return reasons
    bounds = ", ".join(bounds_text(cell, name) for name in used)
    return f"{reasons}; compared within its bounds{f': {bounds}' if bounds else ''}"


def bounds_text(cell: CellRow, name: str) -> str:
    """Return the bounds of a figure without the disturbance: `tps 61.2 to 70.4`, `p95 at most 250 ms`."""
    low, high = cell.bounds[name]
    unit = cell.metrics[name].unit
    if low == 0 and high is not None:
        return f"{label(name)} at most {number(high) if unit == '1/s' else quantity(high, unit)}"
    ends = [number(end) if unit == "1/s" else quantity(end, unit) for end in (low, high) if end is not None]
    return f"{label(name)} {' to '.join(ends)}" if high is not None else f"{label(name)} {ends[0]} or more"
