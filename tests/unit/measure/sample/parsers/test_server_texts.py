"""What servers said, recorded: MySQL 9.7 and MariaDB 10.11."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from volbench.measure.sample.parsers import performance_schema as parse
from volbench.measure.sample.parsers.innodb import parse_status

FIXTURES = Path(__file__).parents[4] / "fixtures" / "sample"


def recorded(server: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FIXTURES / f"{server}.json").read_text())
    return loaded


def available(server: str) -> parse.Available:
    result = recorded(server)
    sets: dict[str, Any] = {key: frozenset(result[key]) for key in ("tables", "consumers", "instruments")}
    return parse.Available(**sets)


def vars_of(result: parse.Available) -> dict[str, Any]:
    return {"tables": result.tables, "consumers": result.consumers, "instruments": result.instruments}


def test_mysql_has_every_column_and_nothing_is_absent() -> None:
    result = available("mysql-9.7")
    columns = parse.columns_of(result)
    assert columns.keys() == {"histogram", "statements", "files", "background", "waits", "digests", "digest_rows"}
    assert parse.absences(result, columns) == ""


def test_mariadb_lacks_histograms_and_redo_instruments_and_says_so() -> None:
    result = available("mariadb-10.11")
    columns = parse.columns_of(result)
    assert "histogram" not in columns
    absences = parse.absences(result, columns)
    assert "no statement histograms" in absences
    assert "redo" in absences


def test_an_instrument_that_is_switched_off_is_not_asked_for() -> None:
    """Its row would hold zeros that mean nothing."""
    assert "COND_done" not in parse.columns_of(available("mysql-9.7"))["waits"]


def test_waits_for_metadata_locks_are_asked_for_of_background_threads_too() -> None:
    lock = "wait/lock/metadata/sql/mdl"
    result = available("mysql-9.7")
    columns = parse.columns_of(parse.Available(**{**vars_of(result), "instruments": result.instruments | {lock}}))
    assert lock in columns["waits"]
    assert lock in columns["background"]


def test_without_thread_instrumentation_there_are_no_foreground_waits() -> None:
    available = parse.Available(
        tables=frozenset(recorded("mysql-9.7")["tables"]),
        consumers=frozenset({"global_instrumentation"}),
        instruments=frozenset(parse.FILE_CLASSES),
    )
    assert "background" not in parse.columns_of(available)


def test_digests_are_read_with_their_cpu_time() -> None:
    digests = dict(parse.parse_digests(recorded("mysql-9.7")["columns"]["digests"]))
    commit = digests["b2840c7e EXECUTE COMMIT"]
    assert commit == {"count": 1359, "ps": 29382251866000, "lock_ps": 0, "cpu_ps": 350030551000}


def test_a_server_without_cpu_times_leaves_them_out_and_says_so() -> None:
    result = available("mysql-9.7")
    without = dataclasses.replace(result, consumers=result.consumers - {"events_statements_cpu"})
    columns = parse.columns_of(without)
    assert "SUM_CPU_TIME" not in columns["digests"]
    assert "no CPU time of statements" in parse.absences(without, columns)
    assert dict(parse.parse_digests("3 9 1 - 0a SELECT ?")) == {"0a SELECT ?": {"count": 3, "ps": 9, "lock_ps": 1}}


def test_a_server_with_very_many_digests_is_not_asked_for_them() -> None:
    """To find the largest, all of them would be sorted at every tick."""
    result = dataclasses.replace(available("mysql-9.7"), digests=parse.DIGESTS_MAX + 1)
    columns = parse.columns_of(result)
    assert "digests" not in columns
    assert f"{parse.DIGESTS_MAX + 1} of them" in parse.absences(result, columns)


def test_files_are_summed_by_class() -> None:
    sums = parse.sums_by_class(recorded("mysql-9.7")["columns"]["files"], parse.FILE_CLASSES, "other")
    assert sums.keys() == {"data", "redo", "dblwr", "binlog", "temp", "other"}
    assert all(len(numbers) == len(parse.FILE_FIELDS) for numbers in sums.values())
    writes = parse.FILE_FIELDS.index("write_bytes")
    assert sums["redo"][writes] > 0


def test_instruments_without_a_class_are_left_out_where_there_is_no_other() -> None:
    text = "wait/io/file/sql/pid 3 4\nwait/io/file/sql/binlog 1 2\nwait/io/file/sql/binlog_index 10 20"
    assert parse.sums_by_class(text, parse.FILE_CLASSES, None) == {"binlog": [11, 22]}


def test_a_line_that_was_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(parse.parse_lines("wait/io/file/sql/binlog 1 wait"))


def test_background_time_is_within_that_of_all_threads() -> None:
    columns = recorded("mysql-9.7")["columns"]
    files = parse.sums_by_class(columns["files"], parse.FILE_CLASSES, None)
    first, last = parse.FILE_FIELDS.index("read_ps"), parse.FILE_FIELDS.index("sync_ps")
    for kind, (_, background_ps) in parse.sums_by_class(columns["background"], parse.FILE_CLASSES, None).items():
        assert background_ps <= sum(files[kind][first : last + 1])


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-10.11"])
def test_status_variables_are_numbers(server: str) -> None:
    status = parse_status((name, value) for name, value in recorded(server)["status"])
    assert status["innodb_data_reads"] > 0
    assert status["innodb_buffer_pool_pages_total"] > 0


def test_status_that_is_no_number_is_left_out() -> None:
    assert parse_status([("Innodb_have_lz4", "OFF"), ("X", ""), ("Y", "-3")]) == {"y": -3}
