"""What a headline's figure is of: the step, the load and the metric that a run is about."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from volbench.core.records.base import Scalar
from volbench.core.records.report import ComparisonRow, EffectRow
from volbench.results.report.rows.verdict.reason import is_step
from volbench.results.report.wording import load_text

FIO = "fio_"
"""Metrics of the volume alone; a page for a DBA is about the server where it was measured."""

_Row = TypeVar("_Row", ComparisonRow, EffectRow)
Subject = tuple[str, str, str]
"""Step, its load in words, metric: what a headline's figure is of."""


def subject_of(rows: Sequence[ComparisonRow], about: Sequence[str] = ()) -> Subject | None:
    """Return what the run is about: step, load and metric of the headline's figure; None without a figure.

    Of the first step of `about` with a figure (itself, else its phases), of half of the volumes if any has, else
    of all steps, the leading metric with a verdict, of at least half of the volumes, of a step before its phases,
    with the largest difference; fio's where nothing else has one.
    """
    leading = [row for row in leading_rows(rows) if row.ratio]
    of_all = [row for row in leading if not row.metric.startswith(FIO)] or leading
    matches = ((step, is_of) for step in about for is_of in (str.__eq__, is_step))
    of_steps = [[row for row in leading if is_of(row.step, step)] for step, is_of in matches]
    many = max(1, len({row.candidate for row in rows}) / 2)
    of_many = [of_step for of_step in of_steps if len({row.candidate for row in of_step}) >= many]
    measured = next(filter(None, (*of_many, *of_steps)), of_all)
    subjects = {subject: rows_of(measured, subject) for subject in map(subject_at, measured)}
    steps = {step for step, *_ in subjects}
    return max(
        subjects,
        key=lambda subject: (
            any(row.verdict in ("better", "worse") for row in subjects[subject]),
            len(subjects[subject]) >= many,
            subject[0].rpartition("/")[0] not in steps,
            max(map(size_of, subjects[subject])),
        ),
        default=None,
    )


def leading_rows(rows: Sequence[ComparisonRow]) -> Iterator[ComparisonRow]:
    """Yield the rows of each step's leading metric: the one tested first; at a given rate that is the latency."""
    first: dict[tuple[str, str, str], str] = {}
    for row in rows:
        key = (row.step, load_text(row.parameters), row.candidate)
        is_given = row.metric == "tps" and bool(row.parameters.get("rate"))
        if key not in first or (first[key] == "tps" and row.parameters.get("rate")):
            first[key] = row.metric
        elif is_given:
            continue
    yield from (row for row in rows if first[row.step, load_text(row.parameters), row.candidate] == row.metric)


def subject_at(row: ComparisonRow) -> Subject:
    """Return what one row is of."""
    return row.step, load_text(row.parameters), row.metric


def rows_of(rows: Iterable[ComparisonRow], subject: Subject) -> list[ComparisonRow]:
    """Return the rows of a subject that have a ratio, one a candidate.

    Of a sweep these are of one setting: with a verdict if any has one, then of most candidates, then the largest.
    """
    of_settings: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        if row.ratio and subject_at(row) == subject:
            of_settings.setdefault(str(setting_of(row.parameters)), []).append(row)
    return max(
        of_settings.values(),
        key=lambda rows: (
            any(row.verdict in ("better", "worse") for row in rows),
            len(rows),
            max(map(size_of, rows)),
        ),
        default=[],
    )


def setting_of(parameters: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the factors of a sweep among parameters: a step's own parameters have no dot."""
    return {name: value for name, value in parameters.items() if "." in name}


def largest_of(rows: Sequence[_Row]) -> _Row:
    """Return the row with the largest difference."""
    return max(rows, key=size_of)


def size_of(row: ComparisonRow | EffectRow) -> float:
    """Return how large a difference is, as a logarithm; 0 without a ratio."""
    return abs(math.log(row.ratio)) if row.ratio else 0.0
