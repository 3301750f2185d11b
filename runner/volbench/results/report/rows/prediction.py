"""Metrics that a suite predicts in its forecast, against what the run measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from volbench.core.base.text import change, change_range, change_words, number, part_of, quantity
from volbench.core.records.forecast import ForecastSpec, Prediction
from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.report import CellRow, ComparisonRow, ForecastRow, PredictionRow
from volbench.results.report.rows.forecast import forecast_text
from volbench.results.report.wording import label

TOLERANCE = 0.20
"""A prediction that states no interval is met when the median of the cells is within this share of it."""
PREDICTION_RULE = "A prediction is met within the interval that it states; without one, within 20 % of its value."


def prediction_rows(
    spec: ForecastSpec | None, cells: Sequence[CellRow], comparisons: Sequence[ComparisonRow] = ()
) -> tuple[PredictionRow, ...]:
    """Return a row for each prediction of a suite, in its order.

    Args:
        cells: of the run. Valid ones count; where a side has none, its disturbed ones do, and the row says so.
        comparisons: of the run. The measured ratio of a pair is that of its comparison, as everywhere; of a pair
            that is not compared it is that of the medians.
    """
    return () if spec is None else tuple(_row(prediction, cells, comparisons) for prediction in spec.predictions)


def prediction_lines(spec: ForecastSpec) -> Iterator[str]:
    """Yield a sentence for each prediction, for the plan."""
    for prediction in spec.predictions:
        text = f"{_subject(prediction)}: {_value(prediction, prediction.value)}"
        stated = "" if prediction.interval is None else f" [{accepted_text(prediction)}]"
        yield f"{text}{stated}{' (input)' if prediction.input else ''}: {prediction.derivation}"


def prediction_text(row: PredictionRow) -> str:
    """Return one row as a sentence."""
    range_text = "" if row.input else f" [{accepted_text(row)}]"
    text = f"{_subject(row)}: forecast {_value(row, row.predicted)}{range_text}"
    if row.measured is None:
        text += ", not measured"
    else:
        difference = change(1 + row.difference) if row.difference is not None else ""
        text += f", measured {_value(row, row.measured)} ({difference}, {mark_text(row)})"
    return text + ("" if row.reported is None else f"; reported {_value(row, row.reported)}")


def subject(row: PredictionRow | Prediction) -> str:
    """Return volume, step and parameters of a prediction in words."""
    return _subject(row)


def value_text(row: PredictionRow, value: float | None) -> str:
    """Return a figure of a row with its unit, a ratio as a change; a dash where it is missing."""
    return "–" if value is None else _value(row, value)


def mark_text(row: PredictionRow) -> str:
    """Return whether a prediction was met, in a word or two."""
    if row.measured is None:
        return "not measured"
    text = "input" if row.input else "met" if row.within_tolerance else "missed"
    text = text if row.valid else f"{text}, of disturbed cells"
    return f"{text}; {far}" if (far := _far_from_reported(row)) else text


def judged(row: PredictionRow) -> PredictionRow:
    """Return the row with whether it was met: by its interval where it states one, else by the tolerance."""
    if row.input or row.measured is None or row.difference is None:
        return row
    low, high = _accepted(row)
    within = low <= row.measured <= high
    return row.model_copy(update={"within_tolerance": within})


def accepted_text(row: PredictionRow | Prediction) -> str:
    """Return the range in which a prediction is met, with its unit: `85.0 to 95.0 s`."""
    low, high = _accepted(row)
    if row.against:
        return change_range((low, high), _predicted(row))
    return f"{number(low)} to {_value(row, high)}"


def _accepted(row: PredictionRow | Prediction) -> tuple[float, float]:
    predicted = _predicted(row)
    return row.interval or (predicted * (1 - TOLERANCE), predicted * (1 + TOLERANCE))


def _predicted(row: PredictionRow | Prediction) -> float:
    return row.predicted if isinstance(row, PredictionRow) else row.value


def missed_sentences(predictions: Sequence[PredictionRow], forecasts: Sequence[ForecastRow]) -> Iterator[str]:
    """Yield what a reader of the verdict has to know of the predictions: how many missed, and the largest miss."""
    rows: list[PredictionRow | ForecastRow] = [*predictions, *forecasts]
    rated = [row for row in rows if row.within_tolerance is not None]
    missed = [row for row in rated if not row.within_tolerance]
    if missed:
        head = part_of(len(missed), len(rated), ("prediction", "predictions"), ("was missed", "were missed"))
        farthest = max(missed, key=_distance)
        yield f"{head}{'' if len(missed) == 1 else '; the farthest'}: {_miss_text(farthest)}."


def _distance(row: PredictionRow | ForecastRow) -> float:
    """Return how far a figure is from its prediction; what has no figure is farther than all that have."""
    if row.difference is None or row.difference <= -1:
        return math.inf
    return abs(math.log1p(row.difference))


def _miss_text(row: PredictionRow | ForecastRow) -> str:
    """Return what was predicted and missed, without a full stop."""
    range_text = ""
    if isinstance(row, PredictionRow):
        text = f"{_subject(row)}{'' if row.valid else ' of disturbed cells'} was"
        range_text = f": {value_text(row, row.measured)}, asked {accepted_text(row)}"
    elif row.difference is None:
        return forecast_text(row)
    else:
        text = f"{row.volume}, {row.event}: the time was"
    return f"{text} {change_words(1 + (row.difference or 0.0), 'predicted')}{range_text}"


def _far_from_reported(row: PredictionRow) -> str:
    """Return `4.60 times as high as the reported figure`; empty within the tolerance."""
    if row.reported is None or row.measured is None or abs(row.measured / row.reported - 1) <= TOLERANCE:
        return ""
    return change_words(row.measured / row.reported, "the reported figure")


def _row(prediction: Prediction, cells: Sequence[CellRow], comparisons: Sequence[ComparisonRow]) -> PredictionRow:
    values, valid = _measured(prediction, prediction.volume, cells)
    measured = median(values) if values else None
    if prediction.against and measured is not None:
        references, references_valid = _measured(prediction, prediction.against, cells)
        measured = measured / median(references) if references and median(references) else None
        valid = valid and references_valid
        measured = _compared_ratio(prediction, comparisons) or measured
    row = PredictionRow(
        volume=prediction.volume,
        step=prediction.step,
        parameters=prediction.parameters,
        metric=prediction.metric,
        unit="1" if prediction.against else CATALOGUE[prediction.metric].unit,
        against=prediction.against,
        predicted=prediction.value,
        interval=prediction.interval,
        measured=measured,
        cells=len(values),
        valid=valid,
        difference=None if measured is None else measured / prediction.value - 1,
        input=prediction.input,
        reported=prediction.reported,
        derivation=prediction.derivation,
    )
    return judged(row)


def _compared_ratio(prediction: Prediction, comparisons: Sequence[ComparisonRow]) -> float | None:
    """Return the ratio that the comparison of the predicted pair states; None without one."""
    about = (prediction.step, prediction.metric, prediction.against, prediction.volume)
    ratios = [
        row.ratio
        for row in comparisons
        if (row.step, row.metric, row.baseline, row.candidate) == about
        and prediction.parameters.items() <= row.parameters.items()
    ]
    return ratios[0] if len(ratios) == 1 else None


def _measured(prediction: Prediction, volume: str, cells: Sequence[CellRow]) -> tuple[list[float], bool]:
    """Return the metric of each valid cell of a volume, or of its disturbed ones; and whether they are valid."""
    rows = [
        cell
        for cell in cells
        if (cell.volume, cell.step) == (volume, prediction.step)
        and prediction.metric in cell.metrics
        and prediction.parameters.items() <= cell.parameters.items()
    ]
    valid = [cell for cell in rows if cell.valid]
    return [cell.metrics[prediction.metric].value for cell in valid or rows], bool(valid) or not rows


def _subject(row: PredictionRow | Prediction) -> str:
    parameters = "".join(f" {key}={value}" for key, value in row.parameters.items())
    against = f" against {row.against}" if row.against else ""
    return f"{row.volume}{against}, {row.step}{parameters}, {label(row.metric)}"


def _value(row: PredictionRow | Prediction, value: float) -> str:
    return change(value) if row.against else quantity(value, CATALOGUE[row.metric].unit)
