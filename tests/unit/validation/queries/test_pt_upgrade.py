"""What pt-upgrade prints, as version 3.2.1 printed it, and what becomes of it."""

from __future__ import annotations

import pytest

from volbench.validation.queries.classes import QueryClass
from volbench.validation.queries.comparison import QueryComparison, Result
from volbench.validation.queries.pt_upgrade import SubmittedQuery, row_of
from volbench.validation.queries.pt_upgrade_report import parse_classes, parse_stats

BAR = "#" * 72
HEAD = "\n#" + "-" * 71 + "\n# Logs\n#" + "-" * 71 + "\n\nFile: /dev/fd/9\nSize: 1456\n"
ORDERED = "SELECT id, total FROM orders WHERE id > 1999 ORDER BY id"
OPEN = "SELECT id FROM orders WHERE state = 'paid'"


def section(sql: str, *pieces: str) -> str:
    return (
        f"\n{BAR}\n# Query class 4E59EBEB7A0E6B92\n{BAR}\n\nReporting class because it has diffs.\n\n"
        f"Total queries      1\nUnique queries     1\nDiscarded queries  0\n\n{sql.lower()}\n" + "".join(pieces)
    )


def piece(kind: str, message: str, sql: str) -> str:
    return f"\n##\n## {kind}: 1\n##\n\n-- 1.\n\n{message}\n\n{sql}\n"


def stats(**counts: int) -> str:
    known_values = {
        "failed_queries": 0,
        "not_select": 0,
        "queries_no_diffs": 0,
        "queries_read": 1,
        "queries_with_diffs": 0,
        "queries_with_errors": 0,
        **counts,
    }
    bar = "#" + "-" * 71
    return f"\n{bar}\n# Stats\n{bar}\n\n" + "".join(
        f"{name:<20}  {count}\n" for name, count in known_values.items()
    )


def requested(sql: str, result: Result = "equal") -> list[SubmittedQuery]:
    query = QueryClass(fingerprint="the shape", schema="shop", samples=(sql,), count=1, total_s=1.0)
    return [SubmittedQuery(compared=QueryComparison(query=query, result=result), sql=sql)]


ROWS = "@ first 1 of 1 missing rows\n< 2003,223.50\n\n@ row 2\n< 2001,184.50\n> 2002,223.50"


def test_rows_that_are_missing_are_a_no_go_with_the_first_of_them() -> None:
    printed = HEAD + section(ORDERED, piece("Row diffs", ROWS, ORDERED)) + stats(queries_with_diffs=1)
    row = row_of(printed, 4, requested(ORDERED))
    assert row.decision == "no-go"
    assert row.text == "1 query: among the classes 1 with other rows"
    assert row.details == (
        "other rows: the shape: @ first 1 of 1 missing rows < 2003,223.50 @ row 2 < 2001,184.50 > 2002,223.50",
    )
    assert row_of(printed, 4, requested(ORDERED), values=False).details == ("other rows: the shape",)


SWAPPED = "@ row 1\n< 7\n> 9\n\n@ row 2\n< 9\n> 7"
PRINTED = "@ row 1\n< 1e15,x\n> 1e+15,x"


@pytest.mark.parametrize(
    ("sql", "rows", "result", "decision"),
    [
        (OPEN, SWAPPED, "equal", "go"),  # of an order that the query leaves open
        (OPEN, SWAPPED, "differs", "no-go"),
        (ORDERED, SWAPPED, "equal", "no-go"),
        (OPEN, "@ row 1\n< 7\n> 9", "equal", "no-go"),  # one row alone is not in another order
        (ORDERED, PRINTED, "equal", "go"),
        (ORDERED, "@ row 1\n< a,b\n> a", "equal", "no-go"),
        (OPEN, ROWS, "equal", "no-go"),
    ],
)
def test_what_may_only_be_order_or_print_is_told(sql: str, rows: str, result: Result, decision: str) -> None:
    printed = HEAD + section(sql, piece("Row diffs", rows, sql)) + stats(queries_with_diffs=1)
    row = row_of(printed, 4, requested(sql, result))
    assert row.decision == decision
    assert row.details[0].startswith("note: rows may differ only" if decision == "go" else "other rows")


def test_an_error_of_one_side_is_a_no_go_and_shows_no_literal_of_the_query() -> None:
    output = f'No error\n\nvs.\n\nDBD::mysql::st execute failed: Unknown column [for Statement "{OPEN}"]'
    printed = HEAD + section(OPEN, piece("Query errors diffs", output, OPEN)) + stats(queries_with_errors=1)
    row = row_of(printed, 0, requested(OPEN))
    assert row.decision == "no-go"
    assert row.details == (
        "an error on one side: the shape: No error vs. DBD::mysql::st execute failed: Unknown column",
    )


def test_warnings_and_times_are_told_only_and_errors_of_both_prove_nothing() -> None:
    warning = "   Code: 1292\n  Level: Warning\nMessage: Truncated\n\nvs.\n\nNo warning 1292"
    printed = HEAD + section(
        OPEN,
        piece("SQL errors", "On both hosts:\n\nno such table", OPEN),
        piece("Query time diffs", "0.000100 vs. 0.010000 seconds (100.0x increase)", OPEN),
        piece("Warning diffs", warning, OPEN),
    )
    row = row_of(printed + stats(queries_with_diffs=1), 4, requested(OPEN))
    assert (row.decision, row.details[0]) == (
        "undecided",
        "an error on both sides: the shape: On both hosts: no such table",
    )
    assert row.details[1] == (
        "note: other warnings: the shape: Code: 1292 Level: Warning Message: Truncated vs. No warning 1292"
    )
    assert "1 with another order of magnitude of time" in row.text
    assert len(row.details) == 3


@pytest.mark.parametrize(
    ("printed", "code", "message"),
    [
        ("", 255, "exit code 255"),
        (HEAD, 0, "without a report in the documented form"),
        (HEAD + stats(queries_read=0), 8, "the time was over"),
        (HEAD + stats(), 1, "pt-upgrade had errors"),
        (HEAD + stats(queries_read=3), 0, "pt-upgrade read 3 of 1 query"),
        (HEAD + stats(not_select=1), 0, "pt-upgrade skipped 1 query"),
        (HEAD + stats(queries_with_diffs=1), 4, "not in the documented form"),
    ],
)
def test_what_is_not_finished_or_not_as_documented_is_never_a_go(printed: str, code: int, message: str) -> None:
    row = row_of(printed, code, requested(OPEN))
    assert row.decision == "undecided"
    assert message in "\n".join((row.text, *row.details))


def test_values_of_rows_cannot_pose_as_its_counts() -> None:
    posing = "@ row 1\n< " + stats(queries_read=9) + "\n> x"
    printed = HEAD + section(OPEN, piece("Row diffs", posing, OPEN)) + stats(queries_with_diffs=1)
    assert parse_stats(printed)["queries_read"] == 1
    assert [item.kinds for item in parse_classes(printed)] == [{"Row": 1}]
