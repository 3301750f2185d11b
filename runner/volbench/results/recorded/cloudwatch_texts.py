"""CloudWatch's other forms: the console's CSV (`Download as .csv`), and the AWS CLI's `--output text`.

The console writes the times of its own time zone setting without naming it. `--output text` names neither a
counter's statistic nor which of several columns is which, so that only levels can be read of it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from volbench.results.recorded.cloudwatch import MetricDataResult, metric_of, named, series_of_metrics
from volbench.results.recorded.cloudwatch_metrics import LEVELS, SUPPORTED
from volbench.results.recorded.parsed import Recorded, first_lines, number, recorded_of_epochs

_ROWS = ("Full label", "Id", "Stat", "Period", "Label", "Unit", "Account ID", "Region")
_ROWS_MIN = 4
"""Rows of labels that no other CSV has, whatever its times are."""
_TIMES = ("%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d %H:%M", "%m/%d/%Y %H:%M:%S")
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:")
_DATAPOINT = re.compile(r"^DATAPOINTS\t", re.MULTILINE)
_RESULT = re.compile(r"^METRICDATARESULTS\t", re.MULTILINE)
_TABLE = re.compile(r"^\|\s+(?:GetMetricStatistics|GetMetricData)\s+\|", re.MULTILINE)


def looks_like_console_csv(text: str) -> bool:
    """Whether a file is the console's CSV: rows of labels, then a time and a column for each metric."""
    heads = {cells[0].strip() for cells in _cells(first_lines(text, 12)) if cells}
    rows = heads & set(_ROWS)
    return len(rows) >= _ROWS_MIN or (len(rows) >= 2 and any(_moment(head) is not None for head in heads))


def _cells(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the cells of each line. A spreadsheet of some languages writes `;`, and `,` in numbers."""
    begin = "\n".join(lines[:3])
    separator = max(",;\t", key=begin.count)
    for cells in csv.reader(lines, delimiter=separator):
        yield [cell.replace(",", ".") for cell in cells] if separator == ";" else cells


def parse_console_csv(text: str) -> Recorded:
    """Series of the console's CSV. Times are of a zone that the file may not name. Raises ValueError."""
    heads: dict[str, list[str]] = {}
    rows: list[tuple[datetime, list[str]]] = []
    for cells in _cells(text.splitlines()):
        if not cells:
            continue
        moment = _moment(cells[0])
        if moment is not None:
            rows.append((moment, cells[1:]))
        elif cells[0].strip() in _ROWS:
            heads[cells[0].strip()] = cells[1:]
    if not rows:
        raise ValueError(
            "no line begins with a time such as 2025/03/11 09:00:00; a spreadsheet writes others when it saves the"
            " file: give the CSV as the console made it"
        )
    zones = {moment.tzinfo is not None for moment, _ in rows}
    if len(zones) > 1:
        raise ValueError("some times name their zone and some do not")
    epoch = datetime(1970, 1, 1, tzinfo=UTC if zones == {True} else None)
    stamps = [(moment - epoch).total_seconds() for moment, _ in rows]
    width = max(len(cells) for _, cells in rows)
    metrics = [_column(at, heads, stamps, [cells for _, cells in rows]) for at in range(width)]
    series, notes = series_of_metrics(metrics)
    if not series:
        return Recorded(series={}, clocked=True, notes=notes)
    recorded = recorded_of_epochs(series, notes)
    if zones == {True}:
        return recorded
    day = epoch + timedelta(seconds=recorded.midnight_epoch_s or 0.0)
    return replace(
        recorded,
        midnight_epoch_s=None,
        dates=(day.date(),),
        notes=(*notes, "the console's CSV does not name the zone of its times (--timezone states it)"),
    )


def _column(
    at: int, heads: dict[str, list[str]], stamps: Sequence[float], rows: Sequence[list[str]]
) -> MetricDataResult:
    def head(name: str) -> str:
        values = heads.get(name, [])
        return values[at].strip() if at < len(values) else ""

    label = next(
        (head(row) for row in ("Label", "Full label", "Id") if named(head(row))[0] in SUPPORTED), head("Label")
    )
    pairs = [
        (stamp, value)
        for stamp, cells in zip(stamps, rows, strict=True)
        if at < len(cells) and (value := number(cells[at])) is not None
    ]
    metric = metric_of(label, [stamp for stamp, _ in pairs], [value for _, value in pairs])
    identity = " ".join(filter(None, (head("Account ID"), head("Region"), metric.entity)))
    period = number(head("Period"))
    return replace(
        metric, statistic=head("Stat") or metric.statistic, entity=identity, stated_period_s=period or None
    )


def _moment(cell: str) -> datetime | None:
    """Return a time, with its zone where the cell names one."""
    text = cell.strip()
    for form in _TIMES:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    try:
        return datetime.fromisoformat(text) if _ISO.match(text) else None
    except ValueError:
        return None


def looks_like_output_text(text: str) -> bool:
    """Whether a file is the AWS CLI's `--output text` or `--output table` of CloudWatch."""
    return any(form.search(text[:100_000]) for form in (_DATAPOINT, _RESULT, _TABLE))


def parse_output_text(text: str) -> Recorded:
    """Series of `--output text`. Raises ValueError for what it does not tell: a counter's statistic, a table."""
    if _TABLE.search(text):
        raise ValueError("the AWS CLI's `--output table` is for people: give `--output json`")
    metrics = list(_data_results(text) if _RESULT.search(text) else _statistics(text))
    series, notes = series_of_metrics(metrics)
    return recorded_of_epochs(series, notes) if series else Recorded(series={}, clocked=True, notes=notes)


def _data_results(text: str) -> Iterator[MetricDataResult]:
    """Yield the metrics of get-metric-data: a line of names, then lines of times and of values."""
    label, stamps, values = "", list[str](), list[float]()
    for line in [*text.splitlines(), "METRICDATARESULTS\t"]:
        cells = line.split("\t")
        if cells[0] == "METRICDATARESULTS":
            if label:
                yield metric_of(label, stamps, values)
            label = next(
                (cell for cell in cells[1:] if named(cell)[0] in SUPPORTED), cells[1] if len(cells) > 1 else ""
            )
            stamps, values = [], []
        elif cells[0] == "TIMESTAMPS":
            stamps += cells[1:]
        elif cells[0] == "VALUES":
            numbers = [number(cell) for cell in cells[1:]]
            if None in numbers:
                raise ValueError(f"{label} has a value that is no number")
            values += [value for value in numbers if value is not None]


def _statistics(text: str) -> Iterator[MetricDataResult]:
    """Yield the metrics of get-metric-statistics: a line with the label, then lines of one point each."""
    label, pairs = "", list[tuple[str, float]]()
    for line in [*text.splitlines(), ""]:
        cells = line.split("\t")
        if cells[0] != "DATAPOINTS":
            if pairs:
                yield _of_points(label, pairs)
            pairs = []
            label = line.strip() or label
            continue
        numbers = [value for cell in cells[1:] if (value := number(cell)) is not None]
        stamp = next((cell for cell in cells[1:] if "T" in cell and cell[:1].isdigit()), "")
        if len(numbers) != 1 or not stamp:
            raise ValueError(
                "`--output text` does not say which of several statistics is which: give --output json"
            )
        pairs.append((stamp, numbers[0]))


def _of_points(label: str, pairs: Sequence[tuple[str, float]]) -> MetricDataResult:
    name = named(label)[0]
    if name in SUPPORTED and name not in LEVELS:
        raise ValueError(f"`--output text` does not say which statistic of {name} it is: give --output json")
    return metric_of(label, [stamp for stamp, _ in pairs], [value for _, value in pairs])
