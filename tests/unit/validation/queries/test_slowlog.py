"""What a slow query log may look like, by the sources of the servers; the test beside has logs that they wrote."""

from __future__ import annotations

import bz2
import gzip
import lzma
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_log_writer import read_slow_log

from volbench.errors import UsageError
from volbench.measure.workload.replay import slowlog_entries
from volbench.measure.workload.replay.logged_statement import (
    ADMINISTRATOR,
    CUT,
    REMARK,
    TOO_LONG,
    WITHOUT_TIME,
    LoggedStatement,
)
from volbench.measure.workload.replay.slowlog import LogText, SlowLog, slow_log
from volbench.validation.capture.mask import masked

LOGS = Path(__file__).resolve().parents[3] / "fixtures/slowlog"
SERVERS = ("mysql-9.7", "mariadb-10.11", "mariadb-11.8")
BANNER = (
    "mysqld, Version: 8.4.3 (x). started with:\nTcp port: 0  Unix socket: /s\n"
    "Time                 Id Command    Argument\n"
)


def mysql_entry(
    sql: str, *, second: int = 0, connection: int = 7, use: str = "", end: str = ";\n", head: str = ""
) -> str:
    """As MySQL 8 writes it."""
    return (
        f"# Time: 2026-11-21T12:14:{second:02d}.500000Z\n"
        f"# User@Host: app[app] @ localhost []  Id: {connection:5d}\n{head}"
        "# Query_time: 0.250000  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 2\n"
        + (f"use {use};\n" if use else "")
        + f"SET timestamp=17952632{second:02d};\n{sql}{end}"
    )


def read(text: str) -> tuple[SlowLog, list[LoggedStatement]]:
    log = SlowLog([text], name="slow.log")
    return log, list(log)


def whole(name: str) -> str:
    return (LOGS / name / "slow.log").read_bytes().decode("utf-8", "surrogateescape")


def test_a_use_holds_for_all_connections_until_the_log_is_opened_again() -> None:
    log, result = read(
        BANNER
        + mysql_entry("SELECT 0")
        + mysql_entry("SELECT 1", use="shop", connection=1)
        + mysql_entry("SELECT 2", connection=2)
        + mysql_entry("SELECT 3", use="back office", connection=1)
        + mysql_entry("SELECT 4", connection=2)
        + BANNER
        + mysql_entry("SELECT 5", connection=2)
    )
    assert [item.schema for item in result] == ["", "shop", "shop", "back office", "back office", ""]
    assert log.summary() == "6 entries, 6 of them statements"


def test_the_schema_is_unknown_where_a_log_begins_in_the_middle() -> None:
    log, result = read(
        "FROM orders;\n" + mysql_entry("SELECT 1") + mysql_entry("USE `back office`") + mysql_entry("SELECT 2")
    )
    assert [item.schema for item in result] == [None, "back office", "back office"]
    assert log.skipped == {CUT: 1}
    assert log.entries == 4


def test_the_end_is_logged_to_the_microsecond_so_the_start_is_known() -> None:
    _, [item] = read(mysql_entry("SELECT 1"))
    assert item.at_s == 1_795_263_240.25
    assert (item.query_s, item.lock_s, item.rows_sent, item.rows_examined) == (0.25, 0.000001, 1, 2)
    assert (item.user, item.connection) == ("app", 7)


def test_log_timestamps_in_local_time_have_their_offset() -> None:
    _, [item] = read(mysql_entry("SELECT 1").replace(".500000Z", ".500000+08:00"))
    assert item.at_s == 1_795_263_240.25 - 8 * 3600


def test_percona_server_names_the_schema_of_each_entry() -> None:
    """By its sql/log.cc; the banner has the time since PS-2433."""
    entry = (
        "# Time: 2026-11-21T12:14:00.500000Z\n"
        "# User@Host: app[app] @ localhost []  Id:     8\n"
        "# Schema: {schema}  Last_errno: 0  Killed: 0\n"
        "# Query_time: 0.250000  Lock_time: 0.000233  Rows_sent: 0  Rows_examined: 131072  Rows_affected: 131072  "
        "Bytes_sent: 0\n"
        "# Tmp_tables: 0  Tmp_disk_tables: 0  Tmp_table_sizes: 0\n"
        "{routine}"
        "# InnoDB_trx_id: 4F1A\n# Full_scan: Yes  Full_join: No  Tmp_table: No  Tmp_table_on_disk: No\n"
        "# Filesort: No  Filesort_on_disk: No  Merge_passes: 0\n"
        "#   InnoDB_IO_r_ops: 0  InnoDB_IO_r_bytes: 0  InnoDB_IO_r_wait: 0.000000\n"
        "# Log_slow_rate_type: session  Log_slow_rate_limit: 10\n"
        "{use}SET timestamp=1686155310;\ninsert into t1 select * from t1_bak;\n"
    )
    log, result = read(
        "mysqld, Version: 8.0.23-14 (Source distribution), Time: 2026-11-21T10:19:56.373448Z. started with:\n"
        "Tcp port: 13000  Unix socket: /tmp/mysqld.1.sock\nTime                 Id Command    Argument\n"
        + entry.format(schema="my shop", routine="", use="use my shop;\n")
        + entry.format(schema="", routine="", use="")
        + entry.format(schema="my shop", routine="# Stored_routine: my shop.truncate_test\n", use="")
    )
    assert [item.schema for item in result] == ["my shop", "", "my shop"]
    assert [item.routine for item in result] == ["", "", "my shop.truncate_test"]
    assert log.skipped == {}
    extra = (
        "# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 1 Thread_id: 9 Errno: 0 End: x Schema: a b"
    )
    _, [value] = read(f"{extra} Rows_affected: 0\nSET timestamp=1686155310;\nSELECT 1;\n")
    assert (value.schema, value.connection, value.at_s) == ("a b", 9, 1_686_155_310)


def test_mariadb_sets_more_than_the_timestamp() -> None:
    _, [item] = read(
        "# Time: 261121  9:14:57\n# User@Host: root[root] @ localhost []\n# Thread_id: 7  Schema: a b  QC_hit: No\n"
        "# Query_time: 0.000021  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0\n"
        "# Rows_affected: 1  Bytes_sent: 11\n#\n# explain: 1	INSERT	notes\n#\nuse `a b`;\n"
        "SET last_insert_id=4,insert_id=5,timestamp=1795263297;\nSET timestamp=1;\n"
    )
    assert (item.sql, item.schema, item.at_s, item.connection) == ("SET timestamp=1", "a b", 1_795_263_297, 7)


def test_a_log_of_mysql_5_0_has_times_of_its_own() -> None:
    """No `SET timestamp`, seconds of local time, and `# Time:` once a second only."""
    head = "# User@Host: app[app] @ localhost []\n# Query_time: 2  Lock_time: 0  Rows_sent: 1  Rows_examined: 9\n"
    log, result = read(
        "/usr/sbin/mysqld, Version: 5.0.45-log (MySQL). started with:\nTcp port: 3306  Unix socket: /s\n"
        "Time                 Id Command    Argument\n"
        f"# Time: 071015 21:43:52\n{head}use shop;\nSELECT 1;\n{head}SELECT 2;\n"
        f"{head}SET last_insert_id=5,insert_id=6;\nINSERT INTO t VALUES (NULL);\n{head}use other;\n"
        f"{head}SELECT 3;\n{head}# administrator command: Quit;\n"
    )
    assert [item.sql for item in result] == [
        "SELECT 1",
        "SELECT 2",
        "INSERT INTO t VALUES (NULL)",
        "use other",
        "SELECT 3",
    ]
    assert [item.schema for item in result] == ["shop", "shop", "shop", "other", "other"]
    assert {item.at_s for item in result} == {1_192_484_630}
    assert log.skipped == {ADMINISTRATOR: 1}


def test_before_5_7_mysql_logs_the_second_of_the_end() -> None:
    _, [item] = read(
        "# Time: 151015 21:43:52\n# User@Host: app[app] @ localhost []  Id:    12\n"
        "# Query_time: 3.200000  Lock_time: 0.0  Rows_sent: 1  Rows_examined: 9\n"
        "SET timestamp=1444945432;\nSELECT 1;\n"
    )
    assert (item.at_s, item.connection) == (1_444_945_429, 12)


def test_the_short_format_has_no_user_and_no_time() -> None:
    head = "# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 9\n"
    log, result = read(f"{BANNER}{head}use shop;\nSET timestamp=1444945432;\nSELECT 1;\n{head}SELECT 2;\n")
    assert [(item.sql, item.schema, item.at_s) for item in result] == [("SELECT 1", "shop", 1_444_945_432)]
    assert log.skipped == {WITHOUT_TIME: 1}


def test_administrator_commands_are_counted_and_a_comment_is_none() -> None:
    log, result = read(
        mysql_entry("# administrator command: Prepare")
        + mysql_entry("# administrator command: Init DB")
        + mysql_entry("# administrator command: Quit;\nSELECT 1")
    )
    assert [item.sql for item in result] == ["# administrator command: Quit;\nSELECT 1"]
    assert log.skipped == {ADMINISTRATOR: 2}
    assert log.summary() == "3 entries, 1 of them statements; skipped: 2 that are administrator commands"


FORGED = mysql_entry("DROP TABLE orders", second=1, connection=666, use="mysql")


@pytest.mark.parametrize(
    "sql",
    [
        f"INSERT INTO t VALUES ('x;\n{FORGED}')",
        f"INSERT INTO t VALUES ('it\\'s;\n{FORGED}{FORGED}it\\'s')",
        f'INSERT INTO t VALUES ("it\'s;\n{FORGED}")',
        f"SELECT 1 /* it's;\n{FORGED}*/",
        f"SELECT `a;\n{FORGED}`",
        f"INSERT INTO t VALUES ('x {FORGED}')",
        f"INSERT INTO t VALUES ('{''.join(f'{FORGED}x{number}' for number in range(300))}')",
    ],
)
def test_entries_in_a_literal_or_comment_are_text(sql: str) -> None:
    """Also where each could be read in another way without backslash escapes: its time is not the next one's."""
    log, result = read(
        mysql_entry("SELECT 1", second=20) + mysql_entry(sql, second=21) + mysql_entry("SELECT 2", second=22)
    )
    assert [item.sql for item in result] == ["SELECT 1", sql, "SELECT 2"]
    assert log.entries == 3


@pytest.mark.parametrize("sql", ["SELECT 'C:\\'", "INSERT INTO t VALUES ('\\\\\\')"])
def test_without_backslash_escapes_a_literal_may_end_in_one(sql: str) -> None:
    entries = [sql, "SELECT 'a'", sql, "SELECT 'b'"]
    _, result = read("".join(mysql_entry(item, second=number) for number, item in enumerate(entries)))
    assert [item.sql for item in result] == entries


def test_lines_with_carriage_returns_are_the_file_s_or_the_statement_s() -> None:
    text = mysql_entry("SELECT 1,\n  2", use="shop")
    _, [converted] = read((BANNER + text).replace("\n", "\r\n"))
    _, [own] = read(mysql_entry("SELECT 1,\r\n  2", use="shop"))
    assert (converted.sql, converted.schema) == ("SELECT 1,\n  2", "shop")
    assert own.sql == "SELECT 1,\r\n  2"


def test_what_is_cut_off_is_counted_wherever_that_is() -> None:
    """The disk was full; two files were joined; the server went down and left zeros."""
    cut = mysql_entry("SELECT 'a", end="")
    log, result = read(
        mysql_entry("SELECT 1")
        + cut
        + mysql_entry("SELECT 2", second=1)
        + cut
        + BANNER
        + mysql_entry("SELECT 3", second=2)
        + "\0\0\0\0"
        + mysql_entry("SELECT 4", second=3)
        + cut[:-20]
    )
    assert [item.sql for item in result] == ["SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4"]
    assert log.skipped == {CUT: 3}


@pytest.mark.parametrize("name", SERVERS)
def test_of_a_log_that_was_cut_anywhere_the_statements_before_are_read(name: str) -> None:
    """As of one that was copied while it was written."""
    text = whole(name)
    _, complete = read(text)
    for at in [*range(2000, 12_000, 397), *range(12_000, len(text), 5003)]:
        log, result = read(text[:at])
        assert result == complete[: len(result)], at
        assert log.skipped[CUT] <= 1
        assert log.entries >= len(result)


def test_a_time_that_nobody_can_read_is_counted() -> None:
    log, result = read(
        mysql_entry("SELECT 1").replace("2026-11-21T", "2026-99-99T").replace("SET timestamp=1795263200;\n", "")
    )
    assert result == []
    assert log.skipped == {WITHOUT_TIME: 1}


def test_bytes_that_are_no_utf_8_are_kept(tmp_path: Path) -> None:
    sql = b"INSERT INTO t VALUES (_binary'\xff\x00\x80')"
    path = tmp_path / "slow.log"
    path.write_bytes(mysql_entry("SQL").encode().replace(b"SQL", sql))
    with slow_log(path) as log:
        [item] = log
    assert item.sql.encode("utf-8", "surrogateescape") == sql


def test_a_long_statement_is_read_and_one_without_end_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """17 MiB, as a client with max_allowed_packet=64M sends it."""
    path = tmp_path / "slow.log"
    sql = f"INSERT INTO t VALUES ('{'x' * (17 << 20)}')"
    path.write_text(mysql_entry(sql) + mysql_entry("SELECT 2"))
    with slow_log(path) as log:
        assert [len(item.sql) for item in log] == [len(sql), 8]
    monkeypatch.setattr(slowlog_entries, "STATEMENT_CHARACTERS_MAX", 4 << 20)
    with slow_log(path) as log:
        assert [item.sql for item in log] == ["SELECT 2"]
        assert log.skipped == {TOO_LONG: 1}


def test_a_long_line_that_looks_like_the_beginning_of_a_banner_is_read_in_linear_time() -> None:
    text = mysql_entry(f"SELECT '{', Version: 9.7 started with: ' * 50_000}'")
    began = time.process_time()
    _, result = read(text)
    assert len(result) == 1
    assert time.process_time() - began < 5


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    path = tmp_path / "slow.log"
    block = "".join(mysql_entry(f"SELECT '{'x' * 200}'", second=number % 60) for number in range(2500))
    peaks = []
    for blocks in (4, 16):
        path.write_text(block * blocks)
        tracemalloc.start()
        with slow_log(path) as log:
            assert sum(1 for _ in log) == 2500 * blocks
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] < 32 << 20


@pytest.mark.parametrize("name", SERVERS)
def test_a_masked_log_has_the_same_schemas(name: str) -> None:
    _, before = read(whole(name))
    unclear: list[LoggedStatement] = []
    after = list(read_slow_log(masked(before, on_skipped=unclear.append), name="masked"))
    assert [(item.schema, item.connection, item.routine) for item in after] == [
        (item.schema, item.connection, item.routine) for item in before if item not in unclear
    ]
    assert len(unclear) == 4
    assert all("\\" in item.sql for item in unclear)


def test_another_kind_of_file_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match="not a line of a slow query log") as caught:
        list(read_slow_log(["2024-01-01 [Note] ready for connections"], name="error.log"))
    assert caught.value.where == "error.log:1"
    assert "ready for connections" in (caught.value.evidence or "")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_log_says_so(compress: Callable[[bytes], bytes]) -> None:
    text = compress(whole("mysql-9.7").encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
    with pytest.raises(UsageError, match="not a line of a slow query log") as caught:
        list(read_slow_log([text], name="slow.log.gz"))
    assert caught.value.next_step == "unpack it first: it is compressed"


def test_a_log_without_entries_is_no_error() -> None:
    for text in ("", "\n\0", BANNER):
        log, result = read(text)
        assert (result, log.entries) == ([], 0)


@settings(max_examples=150)
@given(
    st.lists(
        st.sampled_from(whole("mysql-9.7").splitlines()[:3000] + whole("mariadb-11.8").splitlines()), max_size=60
    )
)
def test_lines_in_any_order_never_break_it(lines: list[str]) -> None:
    """A log that was cut or rotated begins and ends anywhere."""
    log = read_slow_log(lines, name="cut.log")
    try:
        result = list(log)
    except UsageError as error:
        assert error.where.startswith("cut.log:")  # noqa: PT017 - refusing is one of two right answers
    else:
        assert log.used == len(result)


def test_the_order_of_recorded_starts_is_that_of_each_connection() -> None:
    _, result = read(whole("mysql-9.7"))
    of: dict[int, list[LoggedStatement]] = {}
    for item in result:
        of.setdefault(item.connection, []).append(item)
    for group in of.values():
        assert all(after.at_s >= before.at_s + before.query_s - 1e-4 for before, after in pairwise(group))


def test_the_server_s_remark_on_suppressed_warnings_is_no_statement() -> None:
    """log_throttle_queries_not_using_indexes writes it with an empty user and host."""
    remark = (
        "# Time: 2025-03-11T16:04:53.713951Z\n# User@Host: [] @  []  Id:     5\n"
        "# Query_time: 1.234567  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0\n"
        "SET timestamp=1741709093;\nthrottle:         17 'index not used' warning(s) suppressed.;\n"
    )
    log = SlowLog([remark + mysql_entry("SELECT 1") + mysql_entry("SELECT 'throttle: 1'")], name="x")
    assert [statement.sql for statement in log] == ["SELECT 1", "SELECT 'throttle: 1'"]
    assert log.skipped == {REMARK: 1}
    again = SlowLog([remark + mysql_entry("SELECT 1")], name="x")
    assert [sql for _, _, sql in again.timed_texts()] == ["SELECT 1"]
    assert again.skipped == {REMARK: 1}


def test_a_log_that_grows_as_fast_as_it_is_read_is_read_to_its_size_at_the_begin(tmp_path: Path) -> None:
    """A busy server writes on while the log is read: without a bound it would never end."""
    log, piece = tmp_path / "slow.log", b"x" * (1 << 20)
    log.write_bytes(piece * 3)
    read = 0
    with log.open("rb") as file, log.open("ab", buffering=0) as server:
        text_of_log = LogText(file)
        for text in text_of_log:
            read += len(text)
            server.write(piece)
            assert read <= 10 * len(piece)
    assert read == text_of_log.appended_bytes == 3 * len(piece)


def test_what_a_server_appends_while_its_log_is_read_is_left_out_and_said(tmp_path: Path) -> None:
    """An entry that is written at each statement: as long as it takes to read what was there, and no longer."""
    log, entry, written = tmp_path / "slow.log", mysql_entry("SELECT 2"), 0
    log.write_text(mysql_entry("SELECT 1") * 3)
    with slow_log(log) as opened, log.open("a") as server:
        for _ in opened:
            written += server.write(entry)
            server.flush()
    assert opened.entries == 3
    assert 0 < opened.appended_bytes <= written
    assert opened.appended_bytes % len(entry) == 0
    sentence = f"left out: {opened.appended_bytes:,} bytes that the server appended while the log was read"
    assert opened.summary() == f"3 entries, 3 of them statements; {sentence}"
    with slow_log(log) as again:
        assert len(list(again)) == 6
    assert again.summary() == "6 entries, 6 of them statements"
