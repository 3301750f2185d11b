"""Forecasts of burst credits, calculated before the run from the suite alone, against measurements."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    from volbench.results.explain.case import Case
    from volbench.results.store.loaded_run import LoadedRun

TOLERANCE = 0.05
FORECAST_RULE = "A forecast is met when the median of the cells is within 5 % of it."


@dataclass(frozen=True, kw_only=True)
class _Bursts:
    """Of a volume's valid cells, from the begin of the load: when bursts ended, how long others lasted at least."""

    ended_s: list[float] = field(default_factory=list)
    lasted_s: list[float] = field(default_factory=list)


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
    bursts = _bursts(loaded, spec, {cell.cell_id for cell in cells if cell.step == spec.step and cell.valid})
    rows: list[ForecastRow] = []
    for volume in run.volumes:
        forecast = expected(spec, volume)
        if forecast is None:
            continue
        measured = bursts.get(volume.name, _Bursts())
        rows.append(
            _row(
                volume.name,
                "credits run out",
                f"after {spec.step} begins, under {number(forecast.iops_before)} IOPS",
                forecast.exhausted_after_s,
                measured.ended_s,
                endured_s=measured.lasted_s,
                cells=len(measured.ended_s) + len(measured.lasted_s),
            )
        )
        if spec.dump and spec.dump_size_bytes:
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
    mark = "" if row.within_tolerance is None else "met" if row.within_tolerance else "missed"
    if not row.measured_s:
        return (
            f"{row.volume}: {row.event}: forecast {predicted}, {_absence(row)}{mark and f', {mark}'} ({row.text})"
        )
    marks = ", ".join(filter(None, ("" if row.difference is None else change(1 + row.difference), mark)))
    measured = f"measured {_measured_text(row)}{f' ({marks})' if marks else ''}"
    return f"{row.volume}: {row.event}: forecast {predicted}, {measured}; {row.text}"


def _measured_text(row: ForecastRow) -> str:
    """Return the median of the cells; where it did not happen in some, in how many, and of most cells no time."""
    middle = _median_s(row.measured_s, row.endured_s)
    if not row.endured_s:
        return duration(middle)
    cells = f"in {len(row.measured_s)} of {len(row.measured_s) + len(row.endured_s)} cells"
    return f"{cells} only" if math.isinf(middle) else f"{duration(middle)}, {cells}"


def _absence(row: ForecastRow) -> str:
    if not row.cells:
        return "not measured in a valid cell"
    cells = "the valid cell" if row.cells == 1 else f"any of {row.cells} valid cells"
    lasted = f", whose load lasted {duration(min(row.endured_s))}" if row.endured_s else ""
    return f"did not happen within the step in {cells}{lasted}"


def _row(
    volume: str,
    quantity: str,
    text: str,
    predicted_s: float | None,
    measured_s: Sequence[float],
    *,
    cells: int,
    endured_s: Sequence[float] = (),
) -> ForecastRow:
    difference, within = judged(predicted_s, measured_s, endured_s)
    return ForecastRow(
        volume=volume,
        event=quantity,
        predicted_s=predicted_s,
        measured_s=tuple(measured_s),
        endured_s=tuple(endured_s),
        cells=cells,
        difference=difference,
        within_tolerance=within,
        text=text,
    )


def judged(
    predicted_s: float | None, measured_s: Sequence[float], endured_s: Sequence[float]
) -> tuple[float | None, bool | None]:
    """Return the error of a forecast, and whether it was met; None where that is not known.

    What was to happen and did not, within a load that lasted beyond that time, is missed; so is what was never to
    happen and did. A load that ended before says neither.
    """
    if predicted_s is None:
        return None, False if measured_s else None
    if not predicted_s or not (measured_s or endured_s):
        return None, None
    middle = _median_s(measured_s, endured_s)
    if math.isinf(middle):
        return None, False if min(endured_s) > predicted_s * (1 + TOLERANCE) else None
    difference = middle / predicted_s - 1
    return difference, abs(difference) <= TOLERANCE


def _median_s(measured_s: Sequence[float], endured_s: Sequence[float]) -> float:
    """Return the median over all cells; in those that endured it came later than in all others, if ever."""
    return median([*measured_s, *(math.inf for _ in endured_s)])


def _bursts(loaded: LoadedRun, spec: ForecastSpec, valid: Collection[str]) -> Mapping[str, _Bursts]:
    """Return, by volume, what became of the burst in each valid cell whose volume's counters tell it."""
    volume_of = {cell.cell_id: cell.volume for cell in loaded.run.cells}
    bursts: dict[str, _Bursts] = {}
    for result in loaded.results:
        case = _case(loaded, result, spec.step) if result.cell_id in valid else None
        if case is None or case.active_device is None:
            continue
        begin_s, end_s = _load_s(loaded.run, result, spec.step)
        of_volume = bursts.setdefault(volume_of[result.cell_id], _Bursts())
        if case.burst is not None:
            of_volume.ended_s.append(case.burst.exhausted_at_s - begin_s)
        elif not is_emptied(case):
            of_volume.lasted_s.append(end_s - begin_s)
    return bursts


def _case(loaded: LoadedRun, result: CellResult, step: str) -> Case | None:
    # Imported here: a plan, which has forecasts too, needs no series and not the library that reads them.
    from volbench.results.explain.run_cases import cases_of  # noqa: PLC0415

    try:
        return next((case for case in cases_of(loaded, result) if case.name == step), None)
    except RunUnreadable:  # the report names the damaged table where it explains
        return None


def is_emptied(case: Case) -> bool:
    """Return whether the volume says that its credits ran out, where its operations show no end of a burst."""
    from volbench.results.explain.rules.volume.credits import first_empty  # noqa: PLC0415

    return case.balance_percent is not None and first_empty(case.balance_percent) is not None


def _load_s(run: RunRecord, result: CellResult, step: str) -> tuple[float, float]:
    """Return the begin of a step's load, warm-up included, and its end."""
    window_s = next(step_result.window_s for step_result in result.steps if step_result.step == step)
    warmup_s = next((s.warmup_s for s in run.suite.steps if s.name == step and isinstance(s, OltpStep)), 0.0)
    return window_s[0] - warmup_s, window_s[1]


def _takes(time_s: float | None) -> str:
    return "never ends" if time_s is None else f"takes {duration(time_s)}"


def _fits(spec: ForecastSpec, time_s: float | None) -> str:
    if spec.window_s is None:
        return ""
    fits = time_s is not None and time_s <= spec.window_s
    return f"; it {'fits' if fits else 'does not fit'} its window of {duration(spec.window_s)}"
