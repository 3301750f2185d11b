"""Rows of text for people and other programs: aligned, as CSV, as Markdown, or one value a line."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from volbench.cli import console
from volbench.cli.options import OutputFormat
from volbench.core.base.text import aligned, escape_controls
from volbench.results.report.formats.csv import without_formula

TableFormat = Literal["table", "vertical", "csv", "md"]
FORMATS: Mapping[OutputFormat, TableFormat] = {
    OutputFormat.TABLE: "table",
    OutputFormat.CSV: "csv",
    OutputFormat.MD: "md",
}
"""Of the values of `--output`, those that are rows of text."""
_MARKDOWN = str.maketrans({"\\": "\\\\", "|": "\\|", "&": "&amp;", "<": "&lt;", ">": "&gt;"})


def show_rows(
    columns: Sequence[str], rows: Sequence[Sequence[object]], output: OutputFormat, *, data: object
) -> None:
    """Print rows on stdout in the format of `--output`; `data` is what JSON has."""
    if output == OutputFormat.JSON:
        console.show_json(data)
        return
    width = console.out.width if console.out.is_terminal else None
    console.show_text(table_text(columns, rows, FORMATS[output], width=width))


def table_text(
    columns: Sequence[str], rows: Sequence[Sequence[object]], format_name: TableFormat, *, width: int | None = None
) -> str:
    """Return the rows in a format. No value is ever cut.

    Args:
        columns: names.
        rows: values, None for one that is absent.
        format_name: `table` becomes `vertical` where its lines are longer than `width`.
        width: of the terminal, characters; None: any.
    """
    rows = [tuple(map(_finite_or_none, row)) for row in rows]
    if format_name == "csv":
        stream = io.StringIO()
        values = (["" if value is None else without_formula(value) for value in row] for row in rows)
        csv.writer(stream, lineterminator="\n").writerows([map(without_formula, columns), *values])
        return stream.getvalue()
    columns = [escape_controls(name) for name in columns]
    texts = [tuple("" if value is None else escape_controls(str(value)) for value in row) for row in rows]
    if format_name == "md":
        return "".join(f"{line}\n" for line in _markdown(columns, texts))
    lines = list(aligned(columns, texts)) if format_name == "table" else []
    if format_name == "vertical" or (width is not None and max(map(len, lines)) > width):
        lines = list(_vertical(columns, texts))
    return "".join(f"{line}\n" for line in lines)


def _finite_or_none(value: object) -> object:
    """Return the value; None for a number that is not finite, which is no figure."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate((columns, *rows)):
        cells = (" ".join(value.split("\n")).translate(_MARKDOWN) for value in row)
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'---|' * len(columns)}"


def _vertical(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each value, as the mysql client does with \\G."""
    width = max(map(len, columns), default=0)
    for number, row in enumerate(rows, 1):
        yield f"{'*' * 10} {number} {'*' * 10}"
        for name, value in zip(columns, row, strict=True):
            yield f"{name.rjust(width)}: {value}"
