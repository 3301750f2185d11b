"""The forecast of burst credits beside what came: predicted before the run from the suite alone, met or not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median

from volbench.analysis.credits.expected import Expected, expected
from volbench.analysis.explain.run import cases_of
from volbench.errors import RunUnreadable
from volbench.records.cell import CellResult
from volbench.records.forecast import ForecastSpec
from volbench.records.report import CellRow, ForecastRow
from volbench.records.run import RunRecord
from volbench.records.steps import OltpStep
from volbench.report.wording import duration, number
from volbench.store.run_directory import RunDirectory

TOLERANCE = 0.05
"""A forecast is met when the median of the cells is as near as this."""


def forecast_lines(spec: ForecastSpec, found: Expected) -> Iterator[str]:
    """What is said before a run."""
    if found.exhausted_after_s is None:
        yield f"{found.volume} ({found.profile}): {number(spec.iops)} IOPS never use up its credits"
    else:
        after = "" if found.iops_after is None else f"; then {number(found.iops_after)} IOPS are left"
        yield (
            f"{found.volume} ({found.profile}): credits run out {duration(found.exhausted_after_s)} after "
            f"{spec.step} begins, at {number(found.iops_before)} IOPS{after}"
        )
    if spec.dump_size_bytes:
        now, later = _takes(found.dump_now_s), _takes(found.dump_exhausted_s)
        yield (
            f"{found.volume}: a dump of {spec.dump_size_bytes / 1e6:,.0f} MB {now} with full credits, "
            f"{later} once they are gone{_fits(spec, found.dump_exhausted_s)}"
        )
    if found.time_scale != 1:
        yield f"{found.volume}: its credit bucket is {number(found.time_scale)} times smaller than the vendor's"


def forecast_rows(directory: RunDirectory, cells: Sequence[CellRow]) -> tuple[ForecastRow, ...]:
    """A row for each volume and thing that was forecast; none without a forecast in the suite."""
    run = directory.run
    spec = run.suite.forecast
    if spec is None:
        return ()
    valid = {cell.cell_id for cell in cells if cell.step == spec.step and cell.valid}
    measured = _exhausted_after_s(directory, spec, valid)
    rows: list[ForecastRow] = []
    for volume in run.volumes:
        found = expected(spec, volume)
        if found is None:
            continue
        rows.append(
            _row(
                volume.name,
                "credits run out",
                f"after {spec.step} begins, under {number(found.iops_before)} IOPS",
                found.exhausted_after_s,
                measured.get(volume.name, ()),
            )
        )
        if spec.dump:
            took = tuple(
                c.metrics["dump_s"].value
                for c in cells
                if (c.volume, c.step) == (volume.name, spec.dump) and c.valid and "dump_s" in c.metrics
            )
            what = f"once the credits are gone{_fits(spec, median(took) if took else found.dump_exhausted_s)}"
            rows.append(_row(volume.name, "the dump takes", what, found.dump_exhausted_s, took))
    return tuple(rows)


def forecast_text(row: ForecastRow) -> str:
    """One row as a sentence."""
    predicted = "never" if row.predicted_s is None else duration(row.predicted_s)
    if not row.measured_s:
        return f"{row.volume}: {row.what}: forecast {predicted}, not seen in a valid cell ({row.text})"
    met = "" if row.difference is None else f" ({100 * row.difference:+.1f} %, {'met' if row.met else 'missed'})"
    return (
        f"{row.volume}: {row.what}: forecast {predicted}, came {duration(median(row.measured_s))}{met}; {row.text}"
    )


def _row(volume: str, what: str, text: str, predicted_s: float | None, measured_s: Sequence[float]) -> ForecastRow:
    difference = median(measured_s) / predicted_s - 1 if measured_s and predicted_s else None
    return ForecastRow(
        volume=volume,
        what=what,
        predicted_s=predicted_s,
        measured_s=tuple(measured_s),
        difference=difference,
        met=None if difference is None else abs(difference) <= TOLERANCE,
        text=text,
    )


def _exhausted_after_s(
    directory: RunDirectory, spec: ForecastSpec, valid: Collection[str]
) -> Mapping[str, tuple[float, ...]]:
    """Volume -> of each valid cell, seconds from the load's begin to the fall that ended the burst."""
    volume_of = {cell.cell_id: cell.volume for cell in directory.run.cells}
    found: dict[str, tuple[float, ...]] = {}
    for result in directory.results():
        at_s = _fall_s(directory, result, spec.step) if result.cell_id in valid else None
        if at_s is not None:
            after_s = at_s - _begin_s(directory.run, result, spec.step)
            found[volume_of[result.cell_id]] = (*found.get(volume_of[result.cell_id], ()), after_s)
    return found


def _fall_s(directory: RunDirectory, result: CellResult, step: str) -> float | None:
    try:
        case = next((case for case in cases_of(directory, result) if case.name == step), None)
    except RunUnreadable:  # the report names the damaged table where it explains
        return None
    return case.burst.exhausted_at_s if case is not None and case.burst is not None else None


def _begin_s(run: RunRecord, result: CellResult, step: str) -> float:
    window_s = next(one.window_s for one in result.steps if one.step == step)
    warmup_s = next((s.warmup_s for s in run.suite.steps if s.name == step and isinstance(s, OltpStep)), 0.0)
    return window_s[0] - warmup_s


def _takes(time_s: float | None) -> str:
    return "never ends" if time_s is None else f"takes {duration(time_s)}"


def _fits(spec: ForecastSpec, time_s: float | None) -> str:
    if spec.window_s is None:
        return ""
    fits = time_s is not None and time_s <= spec.window_s
    return f"; it {'fits' if fits else 'does not fit'} its window of {duration(spec.window_s)}"
