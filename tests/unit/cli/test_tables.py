"""Rows as text: no value is cut, and each format can be read back."""

from __future__ import annotations

import csv
import io

import pytest

from volbench.cli.tables import table_text

COLUMNS = tuple(f"column_{number}" for number in range(16))
ROWS = [tuple(f"value {number} of a wide result" for number in range(16)), (None, "a|b", *["x"] * 14)]


@pytest.mark.parametrize("format_name", ["table", "vertical", "csv", "md"])
def test_every_value_is_whole_in_every_format(format_name: str) -> None:
    """Sixteen columns were cut to three characters each."""
    text = table_text(COLUMNS, ROWS, format_name)  # type: ignore[arg-type]
    assert all(value in text for value in ROWS[0] if value is not None)


def test_a_table_wider_than_the_terminal_is_vertical() -> None:
    assert table_text(COLUMNS, ROWS, "table", width=80) == table_text(COLUMNS, ROWS, "vertical")
    assert table_text(("a", "b"), [(1, 2)], "table", width=80) == "a  b\n1  2\n"


def test_csv_is_read_back() -> None:
    rows = [("a,b", 'c"d', "two\nlines"), ("", None, 1.5)]
    text = table_text(("x", "y", "z"), rows, "csv")
    assert list(csv.reader(io.StringIO(text))) == [["x", "y", "z"], ["a,b", 'c"d', "two\nlines"], ["", "", "1.5"]]


def test_no_text_of_a_csv_is_a_formula() -> None:
    """A name in a run of somebody else; numbers stay numbers."""
    text = table_text(("=x", "y"), [("=HYPERLINK(1)", -5), ("@SUM", -1.5), ("a-b", None)], "csv")
    assert text == "'=x,y\n'=HYPERLINK(1),-5\n'@SUM,-1.5\na-b,\n"


def test_markdown_escapes_its_bars() -> None:
    assert table_text(("x", "y"), [("a|b", "c\nd")], "md") == "| x | y |\n|---|---|\n| a\\|b | c d |\n"


@pytest.mark.parametrize("format_name", ["table", "vertical", "csv", "md"])
def test_no_row_is_no_fault(format_name: str) -> None:
    text = table_text(("x", "y"), [], format_name)  # type: ignore[arg-type]
    assert text == "" if format_name == "vertical" else text.startswith(("x", "| x"))
