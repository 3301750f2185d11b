"""Forecasts of burst credits, calculated before the run from the suite alone, against measurements."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from volbench.core.base.text import change, duration, number
from volbench.core.records.cell import CellResult
from volbench.core.records.forecast import ForecastSpec
from volbench.core.records.report import CellRow, ForecastRow
from volbench.core.records.run import RunRecord
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import RunUnreadable
from volbench.results.credits.expected import Expected, expected

if TYPE_CHECKING:
    from volbench.results.store.loaded_run import LoadedRun

TOLERANCE = 0.05
"""A forecast is met when the median of the cells is within this share of it."""


def forecast_lines(spec: ForecastSpec, forecast: Expected) -> Iterator[str]:
    """Yield the sentences of a volume's forecast, for the plan."""
    if forecast.exhausted_after_s is None:
        yield f"{forecast.volume} ({forecast.profile}): {number(spec.iops or 0.0)} IOPS never use up its credits"
    else:
        after = "" if forecast.iops_after is None else f"; then {number(forecast.iops_after)} IOPS are left"
        yield (
            f"{forecast.volume} ({forecast.profile}): credits run out {duration(forecast.exhausted_after_s)} after "
            f"{spec.step} begins, at {number(forecast.iops_before)} IOPS{after}"
        )
    if spec.dump_size_bytes:
        now, later = _takes(forecast.dump_now_s), _takes(forecast.dump_exhausted_s)
        yield (
            f"{forecast.volume}: a dump of {spec.dump_size_bytes / 1e6:,.0f} MB {now} with full credits, "
            f"{later} once they are gone{_fits(spec, forecast.dump_exhausted_s)}"
        )
    if forecast.time_scale != 1:
        scale = number(forecast.time_scale)
        yield f"{forecast.volume}: the credit bucket is {scale} times smaller than the vendor's"


def forecast_rows(loaded: LoadedRun, cells: Sequence[CellRow]) -> tuple[ForecastRow, ...]:
    """Return a row for each volume and forecast quantity; none without a forecast in the suite."""
    run = loaded.run
    spec = run.suite.forecast
    if spec is None or spec.iops is None:
        return ()
    step_cells = [cell for cell in cells if cell.step == spec.step]
    valid = {cell.cell_id for cell in step_cells if cell.valid}
    measured = _exhausted_after_s(loaded, spec, valid)
    rows: list[ForecastRow] = []
    for volume in run.volumes:
        forecast = expected(spec, volume)
        if forecast is None:
            continue
        rows.append(
            _row(
                volume.name,
                "credits run out",
                f"after {spec.step} begins, under {number(forecast.iops_before)} IOPS",
                forecast.exhausted_after_s,
                measured.get(volume.name, ()),
                cells=sum(cell.volume == volume.name and cell.cell_id in valid for cell in step_cells),
            )
        )
        if spec.dump:
            dump_times_s = tuple(
                c.metrics["dump_s"].value
                for c in cells
                if (c.volume, c.step) == (volume.name, spec.dump) and c.valid and "dump_s" in c.metrics
            )
            time_s = median(dump_times_s) if dump_times_s else forecast.dump_exhausted_s
            condition = f"once the credits are gone{_fits(spec, time_s)}"
            rows.append(
                _row(
                    volume.name,
                    "the dump takes",
                    condition,
                    forecast.dump_exhausted_s,
                    dump_times_s,
                    cells=len(dump_times_s),
                )
            )
    return tuple(rows)


def forecast_text(row: ForecastRow) -> str:
    """Return one row as a sentence."""
    predicted = "never" if row.predicted_s is None else duration(row.predicted_s)
    if not row.measured_s:
        return f"{row.volume}: {row.event}: forecast {predicted}, {_absence(row)} ({row.text})"
    met = (
        ""
        if row.difference is None
        else f" ({change(1 + row.difference)}, {'met' if row.within_tolerance else 'missed'})"
    )
    measured = duration(median(row.measured_s))
    return f"{row.volume}: {row.event}: forecast {predicted}, measured {measured}{met}; {row.text}"


def _absence(row: ForecastRow) -> str:
    if not row.cells:
        return "not measured in a valid cell"
    cells = "the valid cell" if row.cells == 1 else f"any of {row.cells} valid cells"
    return f"did not happen within the step in {cells}"


def _row(
    volume: str, quantity: str, text: str, predicted_s: float | None, measured_s: Sequence[float], *, cells: int
) -> ForecastRow:
    difference = median(measured_s) / predicted_s - 1 if measured_s and predicted_s else None
    return ForecastRow(
        volume=volume,
        event=quantity,
        predicted_s=predicted_s,
        measured_s=tuple(measured_s),
        cells=cells,
        difference=difference,
        within_tolerance=None if difference is None else abs(difference) <= TOLERANCE,
        text=text,
    )


def _exhausted_after_s(
    loaded: LoadedRun, spec: ForecastSpec, valid: Collection[str]
) -> Mapping[str, tuple[float, ...]]:
    """Return, by volume, seconds from the start of the load to the end of the burst in each valid cell."""
    volume_of = {cell.cell_id: cell.volume for cell in loaded.run.cells}
    exhausted: dict[str, tuple[float, ...]] = {}
    for result in loaded.results:
        at_s = _exhaustion_s(loaded, result, spec.step) if result.cell_id in valid else None
        if at_s is not None:
            after_s = at_s - _begin_s(loaded.run, result, spec.step)
            exhausted[volume_of[result.cell_id]] = (*exhausted.get(volume_of[result.cell_id], ()), after_s)
    return exhausted


def _exhaustion_s(loaded: LoadedRun, result: CellResult, step: str) -> float | None:
    # Imported here: a plan, which has forecasts too, needs no series and not the library that reads them.
    from volbench.results.explain.run import cases_of  # noqa: PLC0415

    try:
        case = next((case for case in cases_of(loaded, result) if case.name == step), None)
    except RunUnreadable:  # the report names the damaged table where it explains
        return None
    return case.burst.exhausted_at_s if case is not None and case.burst is not None else None


def _begin_s(run: RunRecord, result: CellResult, step: str) -> float:
    window_s = next(step_result.window_s for step_result in result.steps if step_result.step == step)
    warmup_s = next((s.warmup_s for s in run.suite.steps if s.name == step and isinstance(s, OltpStep)), 0.0)
    return window_s[0] - warmup_s


def _takes(time_s: float | None) -> str:
    return "never ends" if time_s is None else f"takes {duration(time_s)}"


def _fits(spec: ForecastSpec, time_s: float | None) -> str:
    if spec.window_s is None:
        return ""
    fits = time_s is not None and time_s <= spec.window_s
    return f"; it {'fits' if fits else 'does not fit'} its window of {duration(spec.window_s)}"
