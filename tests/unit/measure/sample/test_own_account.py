"""Statements of our own are subtracted from what a server that is only read counts."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from volbench.core.records.own_statements import is_own_digest
from volbench.core.records.series import SeriesRow
from volbench.measure.sample.interface import Reading, Unavailable, Values
from volbench.measure.sample.own_account import OwnAccount, bucket_of
from volbench.measure.sample.parsers import performance_schema as parse
from volbench.measure.sample.server.digests import StatementDigests
from volbench.measure.sample.server.performance_schema import PerformanceSchemaSampler
from volbench.results.explain.accounts.queries import query_costs
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey


@pytest.mark.parametrize(
    ("ps", "bucket"),
    # Recorded from MySQL 9.7: BUCKET_TIMER_LOW of buckets 1, 2, 448 and 449.
    [(0, 0), (9_999_999, 0), (10_000_000, 1), (10_471_286, 2), (8_709_635_899_561_200, 448), (10**18, 449)],
)
def test_the_bucket_of_a_time(ps: int, bucket: int) -> None:
    assert bucket_of(ps) == bucket


def test_each_statement_is_booked_once() -> None:
    own = OwnAccount()
    own.book("3 20000000 1000000 0 aaaaaaaa\n5 5000000 0 1 bbbbbbbb")
    own.book("5 5000000 0 1 bbbbbbbb\n9 20000000 0 0 aaaaaaaa")
    assert own.buckets == {bucket_of(20_000_000): 2, 0: 1}
    assert own.digest_counts == {"aaaaaaaa": 2, "bbbbbbbb": 1}
    assert own.digest_ps["aaaaaaaa"] == 40_000_000
    assert (own.count, own.ps, own.lock_ps, own.errors) == (3, 45_000_000, 1_000_000, 1)
    own.clear()
    own.book("3 20000000 0 0 aaaaaaaa")
    assert own.digest_counts == {"aaaaaaaa": 1}


Row = Sequence[bytes | None]


class Server:
    """A server whose table of digests is `table`, by digest: counter, time and text."""

    generation = 1

    def __init__(self) -> None:
        self.table: dict[str, tuple[int, int, str]] = {}
        self.history = ""
        self.asked: list[str] = []

    def rows(self, sql: str) -> list[Row]:
        self.asked.append(sql)
        if "setup_consumers" in sql:
            return [(b"statements_digest",)]
        results: list[Row] = []
        for digest, (count, ps, text) in self.table.items():
            sums = (count, ps, 0, None, 10 * count, count, 0, 0)
            row = (b"app", digest.encode(), *(None if item is None else str(item).encode() for item in sums))
            results.append((*row, text.encode()) if "LAST_SEEN" in sql else row)
        return results

    def text(self, sql: str) -> list[str]:
        assert sql == "history"
        return [self.history]


def digests(server: Server) -> StatementDigests:
    own = OwnAccount()
    own.history_query = "history"
    source = StatementDigests(server, own, clock=lambda: 0.0)  # type: ignore[arg-type]
    assert source.probe().present
    return source


def rates(values: Values) -> dict[tuple[str, str], float]:
    rates = StatementDigests.rates(Reading(t_s=0.0, values={}), Reading(t_s=10.0, values=values))
    return {(row.metric, row.entity): row.value for row in rates if row.t_s == 10.0}


def test_a_digest_counts_from_the_observations_begin() -> None:
    """A text that has cost most since the server's start is not the one that costs most now."""
    server = Server()
    server.table = {
        "aaaaaaaa": (10**6, 10**18, "SELECT old FROM t1"),
        "bbbbbbbb": (5, 10**12, "SELECT new FROM t2"),
    }
    source = digests(server)
    server.table |= {
        "bbbbbbbb": (105, 3 * 10**12, "SELECT new FROM t2"),
        "cccccccc": (20, 10**12, "SELECT c FROM t2"),
    }
    result = rates(source.read())
    assert result["query_per_s", "SELECT new FROM tN"] == 10.0
    assert result["query_s_per_s", "SELECT new FROM tN"] == pytest.approx(0.2)
    assert result["query_rows_examined_per_s", "SELECT new FROM tN"] == 100.0
    assert result["query_per_s", "SELECT c FROM tN"] == 2.0, "a new digest counts from zero"
    assert ("query_per_s", "SELECT old FROM tN") not in result


@pytest.mark.parametrize("grown", [{20: 111}, {20: 100, 50: 40}, {10: 5, 20: 5, 60: 90}, {60: 7}])
def test_statements_are_counted_over_readings_that_lie_apart(grown: dict[int, int]) -> None:
    """Of a text that only one reading of ten seconds had, a tenth was counted; of one that came later, too much."""
    server = Server()
    source = digests(server)
    rows: list[SeriesRow] = []
    count, before = 0, Reading(t_s=0.0, values={})
    for at_s in range(10, 61, 10):
        count += grown.get(at_s, 0)
        # A text that was not seen again is not in the answer.
        server.table = {"bbbbbbbb": (count, count * 10**10, "SELECT b FROM t")} if at_s in grown else {}
        after = Reading(t_s=float(at_s), values=source.read())
        rows += StatementDigests.rates(before, after)
        before = after
    by_key: dict[SeriesKey, list[SeriesRow]] = {}
    for row in rows:
        by_key.setdefault(SeriesKey(source=row.source, metric=row.metric, entity=row.entity), []).append(row)
    series = {
        key: Series(t_s=np.array([row.t_s for row in ordered]), value=np.array([row.value for row in ordered]))
        for key, ordered in ((key, sorted(unordered, key=lambda row: row.t_s)) for key, unordered in by_key.items())
    }
    (cost,) = query_costs(align(series, width_s=1.0, window_s=(0.0, 60.0)))
    assert cost.statements == pytest.approx(sum(grown.values()))
    assert cost.time_s == pytest.approx(sum(grown.values()) / 100)


def test_our_own_statements_are_subtracted_and_those_of_others_with_the_same_text_stay() -> None:
    server = Server()
    server.table = {
        "aaaaaaaa": (100, 10**12, "SHOW GLOBAL STATUS"),
        "dddddddd": (50, 10**12, "SELECT ( SELECT ..."),
    }
    source = digests(server)
    server.table = {
        "aaaaaaaa": (115, 2 * 10**12, "SHOW GLOBAL STATUS"),
        "dddddddd": (60, 2 * 10**12, "SELECT ( SELECT ..."),
    }
    own = [f"{event} 50000000000 0 0 aaaaaaaa" for event in range(1, 11)]
    server.history = "\n".join(own + [f"{event} 100000000000 0 0 dddddddd" for event in range(11, 21)])
    result = rates(source.read())
    assert result["query_per_s", "SHOW GLOBAL STATUS"] == 0.5
    assert ("query_per_s", "SELECT ( SELECT ...") not in result


def test_statements_beyond_the_tables_room_are_told_as_such() -> None:
    server = Server()
    source = digests(server)
    server.table = {"": (30, 10**12, "")}
    (name,) = {entity for _, entity in rates(source.read())}
    assert "no room" in name


def test_another_connection_begins_anew() -> None:
    server = Server()
    server.table = {"bbbbbbbb": (5, 10**12, "SELECT b FROM t")}
    source = digests(server)
    server.generation = 2
    with pytest.raises(Unavailable, match="opened again"):
        source.read()
    server.table = {"bbbbbbbb": (7, 2 * 10**12, "SELECT b FROM t")}
    assert rates(source.read())["query_per_s", "SELECT b FROM t"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    "text",
    [
        "SET NAMES ? COLLATE ?",
        "SET @@SESSION . `autocommit` = ON",
        "SET `autocommit` = ?",
        "SET SESSION `group_concat_max_len` = ?",
        "SET SESSION `information_schema_stats_expiry` = ?",
        "SHOW GLOBAL STATUS WHERE `Variable_name` IN (...)",
        "SELECT MAX ( `n` ) FROM `volbench_heartbeat` . `beat`",
        "SHOW REPLICA STATUS",
        "SHOW SLAVE STATUS",
        "SHOW GLOBAL STATUS LIKE ?",
        "SELECT ?",
        "SELECT @@GLOBAL . `log_bin`",
        "UPDATE `performance_schema` . `threads` SET `INSTRUMENTED` = ? WHERE `PROCESSLIST_ID` = `CONNECTION_ID`",
        "SELECT ( SELECT GROUP_CONCAT ( `BUCKET_NUMBER` , ? SEPARATOR ? ) FROM `performance_schema` . `events_stat",
        "SET SESSION TRANSACTION READ ONLY",
        "SHOW GLOBAL VARIABLES",
        "SELECT (?) AS `volbench` , ( SELECT",
        "SELECT COALESCE ( SCHEMA_NAME , ? ) AS `volbench` , COALESCE ( `DIGEST` , ? ) , `COUNT_STAR`",
        "INSERT INTO `volbench` . `volbench_owned` VALUES (...)",
    ],
)
def test_texts_of_our_own_are_known(text: str) -> None:
    assert is_own_digest(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT `c` FROM `sbtest1` WHERE `id` = ?",
        "COMMIT",
        "BEGIN",
        "SHOW CREATE TABLE `t`",
        "SHOW TABLE STATUS LIKE ?",
        "SHOW REPLICAS",
        "SELECT ? FROM `t`",
        "UPDATE `t` SET `a` = ?",
        "SET SQL_QUOTE_SHOW_CREATE = ?",
        "EXECUTE SELECT c FROM t",
        "SELECT SQL_NO_CACHE * FROM `t`",
        "SELECT * FROM `volbench` . `sbtest1`",
        "CREATE TABLE `volbench` . `t` ( `id` INTEGER )",
        "EXECUTE SELECT COUNT ( * ) FROM `volbench` . `sbtest1`",
        "CREATE DATABASE `x`",
        "INSERT INTO `settings` VALUES (...)",
    ],
)
def test_texts_of_a_load_are_not_ours(text: str) -> None:
    assert not is_own_digest(text)


def test_a_query_that_pays_is_never_one_of_ours() -> None:
    before: Values = {("connection", ""): 1}
    for text in ("aa SHOW GLOBAL STATUS LIKE ?", "bb SET @@SESSION . autocommit = ON", "cc SELECT c FROM sbtest1"):
        before |= {("digest_count", text): 1, ("digest_ps", text): 10}
    after = {key: value + 10**12 if key[0].startswith("digest") else value for key, value in before.items()}
    rates = PerformanceSchemaSampler.rates(Reading(t_s=0.0, values=before), Reading(t_s=1.0, values=after))
    assert {row.entity for row in rates if row.metric == "query_per_s"} == {"SELECT c FROM sbtestN"}


class Counting:
    """A server that is in use; answers what PerformanceSchema asks of it. `kept`: length of our history."""

    generation = 1

    def __init__(self, *, remaining: int = 9) -> None:
        self.columns = {"sessions": "9 2 2", "statements": "100 5000 300 4", "own": ""}
        self.programs = ""
        self.history = "\n".join(f"{event} 1000 0 0 cccccccc" for event in range(1, remaining + 1))
        self.asked: list[str] = []

    def rows(self, sql: str) -> list[Row]:
        if "information_schema.TABLES" in sql:
            tables = (
                "events_statements_history",
                "events_statements_summary_global_by_event_name",
                "events_statements_summary_by_thread_by_event_name",
                "session_connect_attrs",
            )
            return [(name.encode(),) for name in tables]
        return [(b"events_statements_history",)] if "setup_consumers" in sql else []

    def text(self, sql: str) -> list[str]:
        self.asked.append(sql)
        if sql == parse.PROGRAMS_QUERY:
            return ["1", self.programs]
        if sql.startswith("SELECT (1) AS volbench"):
            names = [name for name in re.findall(r"\) AS (\w+)", sql) if name in {"volbench", *self.columns}]
            return [self.columns.get(name, "1") for name in names]
        answers = {
            parse.OWN_THREAD_QUERY: ["47"],
            parse.THREADS_QUERY: ["50", "0"],
            parse.OWN_HISTORY.format(thread=47): [self.history],
        }
        return answers.get(sql, ["1"])


def test_our_statements_are_none_of_those_that_a_server_in_use_did() -> None:
    """Also those that failed: counted by our thread's history, which costs less than its table of sums."""
    server = Counting()
    source = PerformanceSchemaSampler(server, OwnAccount())  # type: ignore[arg-type]
    assert source.probe().present
    server.columns["own"] = "11 20 3 0 aaaaaaaa\n12 30 4 1 bbbbbbbb"
    values = source.read()
    names = ("statements", "statement_ps", "statement_lock_ps", "statement_errors")
    assert [values[name, ""] for name in names] == [98, 4950, 293, 3]
    assert not any("by_thread_by_event_name" in sql for sql in server.asked)


@pytest.mark.parametrize("remaining", [0, 4])
def test_a_history_that_may_lose_statements_of_ours_is_not_relied_on(remaining: int) -> None:
    """Its size is a variable, and a consumer or an instrument that is off leaves it empty."""
    server = Counting(remaining=remaining)
    source = PerformanceSchemaSampler(server, OwnAccount())  # type: ignore[arg-type]
    source.probe()
    assert source.read()["statements", ""] == 100, "the query itself leaves ours out"
    assert "by_thread_by_event_name" in server.asked[-2]


def test_five_statements_are_as_many_as_are_sent_between_two_readings() -> None:
    """One of performance_schema, program names, status, INNODB_METRICS, sessions: small servers keep five."""
    server = Counting(remaining=5)
    source = PerformanceSchemaSampler(server, OwnAccount())  # type: ignore[arg-type]
    source.probe()
    server.columns["own"] = "11 20 3 0 aaaaaaaa"
    assert source.read()["statements", ""] == 99


def test_backup_tools_are_looked_for_when_sessions_have_come_or_gone() -> None:
    """And once more: a client has a number before the server has read what it says of itself."""
    server = Counting()
    source = PerformanceSchemaSampler(server, OwnAccount())  # type: ignore[arg-type]

    def dumps() -> float:
        return source.read()["program", "mysqldump"]

    def looks() -> int:
        return server.asked.count(parse.PROGRAMS_QUERY)

    assert [dumps() for _ in range(4)] == [0, 0, 0, 0]
    assert looks() == 2
    server.columns["sessions"] = "10 3 2"
    assert dumps() == 0
    server.programs = "mysqldump 1"
    assert [dumps() for _ in range(3)] == [1, 1, 1]
    server.programs, server.columns["sessions"] = "", "10 2 2"
    assert dumps() == 0
    assert looks() == 5


def test_sessions_that_come_all_the_time_are_looked_through_every_fifth_reading() -> None:
    server = Counting()
    source = PerformanceSchemaSampler(server, OwnAccount())  # type: ignore[arg-type]
    for number in range(21):
        server.columns["sessions"] = f"{number} 3 3"
        source.read()
    assert server.asked.count(parse.PROGRAMS_QUERY) == 5
