"""What counts as equal of two servers' answers, and what an error, a change or a missing class makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from answering_server import NO_COLUMNS, ONE_TABLE, Answers, a_capture, a_class, compared, rows_of

from volbench.core.records.validation.capture import CapturedClass
from volbench.core.records.validation.plan import QueriesPlan
from volbench.errors import StepFailed
from volbench.validation.checks import checksums_check, query_checks
from volbench.validation.run import _query_classes
from volbench.validation.source.server import Rows, is_same_server


def test_an_error_on_both_is_told_with_its_code_and_count() -> None:
    server = Answers(NO_COLUMNS)
    result = compared(server, server, a_class(), a_class("SELECT b FROM t"))
    rows = rows_of(list(query_checks(result)))
    assert "2 classes: error on both 1146" in rows["queries"].text
    assert any("doesn't exist" in text for text in rows["queries"].details)
    masked = rows_of(list(query_checks(result, values=False)))["queries"]
    assert "1146" in masked.text
    assert not any("doesn't exist" in text for text in masked.details)


class BySample(Answers):
    """Fails for one of the samples."""

    def query(self, sql: str) -> Rows:
        if "gone" in sql:
            raise StepFailed("a query failed", evidence=NO_COLUMNS)
        return [] if sql.startswith("USE ") else [(1,)]


def test_a_sample_that_fails_on_both_is_not_hidden_by_one_that_is_equal() -> None:
    server = BySample([])
    for samples in (("SELECT a FROM t", "SELECT a FROM gone"), ("SELECT a FROM gone", "SELECT a FROM t")):
        [item] = compared(server, server, a_class(*samples))
        assert item.result == "error on both"
    rows = rows_of(list(query_checks(compared(server, server, a_class(), a_class("SELECT a FROM gone")))))
    assert rows["queries"].decision == "undecided"
    assert rows["times"].decision == "undecided"


class FailsLater(Answers):
    """Answers at first, and is cut off later."""

    def __init__(self, error: str) -> None:
        super().__init__([(1,)])
        self.error, self.asked = error, 0

    def query(self, sql: str) -> Rows:
        if sql.startswith("SELECT"):
            self.asked += 1
            if self.asked > 1:
                raise StepFailed("a query failed", evidence=self.error)
        return super().query(sql)


@pytest.mark.parametrize(
    ("error", "decision"),
    [
        ("3024 (HY000): maximum statement execution time exceeded", "undecided"),
        ("1054 (42S22): Unknown column", "no-go"),
    ],
)
def test_an_error_of_a_later_execution_counts_as_one_of_the_first(error: str, decision: str) -> None:
    [item] = compared(Answers([(1,)]), FailsLater(error), a_class())
    assert item.result == "error on the candidate"
    assert rows_of(list(query_checks([item])))["queries"].decision == decision


def test_a_class_that_gives_other_rows_each_time_is_not_called_equal() -> None:
    class Changing(Answers):
        asked = 0

        def query(self, sql: str) -> Rows:
            if sql.startswith("SELECT"):
                Changing.asked += 1
            return [(Changing.asked,)]

    result = compared(Changing([]), Answers([(1,)]), a_class())
    assert result[0].result == "not deterministic"
    row = rows_of(list(query_checks(result)))["queries"]
    assert (row.decision, "give other rows each time" in row.text) == ("undecided", True)


def test_tables_and_columns_of_one_side_are_no_part_of_what_is_equal() -> None:
    item = Answers([(5, 7)])
    more = ONE_TABLE | {"table": {"shop.t": {}, "shop.u": {}}}
    row = checksums_check(item, item, more, ONE_TABLE, lambda *_: None)
    assert (row.decision, "shop.u" in row.details[0]) == ("undecided", True)
    wider = ONE_TABLE | {"column": {**ONE_TABLE["column"], "shop.t.b": ONE_TABLE["column"]["shop.t.a"]}}
    row = checksums_check(item, item, wider, ONE_TABLE, lambda *_: None)
    assert (row.decision, "shop.t.b" in row.details[0]) == ("undecided", True)


def test_classes_of_a_capture_that_cannot_be_sent_are_counted(tmp_path: Path) -> None:
    values = {"statements": 5, "total_s": 1.0, "errors": 0, "rows_sent": 1, "rows_examined": 1}
    classes = [
        CapturedClass(schema_name=schema, digest_text="x", sample=sample, **values)
        for schema, sample in (("shop", ""), ("shop", "DELETE FROM t"), ("other", "SELECT 1"), ("shop", "SELECT 2"))
    ]
    for masked, reason in ((False, "the server stores none"), (True, "the capture was masked")):
        (tmp_path / "c").write_text(a_capture("2026-01-01T00:00:00Z", *classes, masked=masked).model_dump_json())
        usable, notes = _query_classes(QueriesPlan(capture=str(tmp_path / "c")), ["shop"])
        assert [item.samples for item in usable] == [("SELECT 2",)]
        assert "skipped 1 class that do more than read" in notes
        assert "skipped 1 class of other schemas" in notes
        assert any(reason in note for note in notes)


class Identified:
    """A server with an identifier and a start time."""

    def __init__(self, identifier: str, started_s: int, host: str = "host") -> None:
        self.identifier, self.started_s, self.host = identifier, started_s, host

    def query(self, sql: str) -> Rows:
        if "hostname" in sql:
            return [(self.host, 3306, "/data")]
        if "server_u" in sql:
            if not self.identifier:
                raise StepFailed("a query failed", evidence="1193 (HY000): Unknown system variable")
            return [(self.identifier,)]
        return [(2_000_000_000,)] if "TIMESTAMP" in sql else [("Uptime", str(2_000_000_000 - self.started_s))]


@pytest.mark.parametrize(
    ("alternative", "same"),
    [
        (Identified("a", 1000), True),
        (Identified("a", 1001), True),
        (Identified("b", 1000), False),
        (Identified("a", 1900), False),
        (Identified("a", 1000, "another"), False),
    ],
)
def test_one_server_under_two_addresses_is_found(alternative: Identified, same: bool) -> None:
    assert is_same_server(Identified("a", 1000), alternative) is same
    assert is_same_server(Identified("", 1000), Identified("", 1000))
