"""Which predictions of a suite's forecast a run can meet: those of volumes that it has."""

from __future__ import annotations

from collections.abc import Collection

from volbench.core.records.run import ResolvedSuite


def known_predictions(suite: ResolvedSuite, volumes: Collection[str]) -> tuple[ResolvedSuite, tuple[str, ...]]:
    """Return the suite with the predictions of these volumes alone, and the names that the others have, sorted.

    A suite predicts for its own volumes; `--volume` may name others, and a sweep that is left out makes fewer.
    """
    forecast = suite.forecast
    named = [{row.volume, row.against} - {""} for row in forecast.predictions] if forecast else []
    unknown = sorted(set().union(*named).difference(volumes))
    if forecast is None or not unknown:
        return suite, ()
    predictions = tuple(
        row for row, names in zip(forecast.predictions, named, strict=True) if names.isdisjoint(unknown)
    )
    left = forecast.model_copy(update={"predictions": predictions}) if predictions or forecast.step else None
    return suite.model_copy(update={"forecast": left}), tuple(unknown)
