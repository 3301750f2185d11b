"""The lexer beside real servers: what the guard lets through does nothing, and tokens are those of the digests."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mysql.connector
import pytest
from scratch_server import scratch_server
from server_matrix import server_over_tcp
from sql_corpus import ACTING, PIECES, READING, mutant

from volbench.core.sql.guard import Allowed, Answer, judge
from volbench.core.sql.library import as_bytes
from volbench.core.sql.tokens import LITERALS, Dialect, Doubt, Kind, Tokens
from volbench.machine.engine.connection import Account, connection
from volbench.machine.placement.docker.image_names import local_images, pick_server_image

_UNIFORM = re.compile(r"[^\w?]|or|date|as|value|\.\.\.|_utf8mb4|_latin1|_charset")
MUTANTS, TEXTS = 4000, 3000
GROUP = 40
SLOWEST_S = 5.0
MODES = (
    "",
    "ANSI_QUOTES",
    "NO_BACKSLASH_ESCAPES",
    "ANSI_QUOTES,NO_BACKSLASH_ESCAPES",
    "IGNORE_SPACE,PIPES_AS_CONCAT",
)
WRITTEN = Path("/tmp/volbench-x")
MARK = "BEGIN INSERT INTO marks VALUES (1); RETURN 1; END"
MARKING = ("f", "count", "nvl", "over", "columns")
"""Functions that leave a mark; a server has built-in ones of some of these names, under other conditions."""
HISTORY = (
    "SELECT DIGEST_TEXT FROM performance_schema.events_statements_history WHERE DIGEST_TEXT LIKE '%volbench%'"
    " AND THREAD_ID = (SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = {})"
    " ORDER BY EVENT_ID DESC LIMIT 1"
)
_CRATE = Path(__file__).parents[2] / "runner/lexer/src"
KNOWN_NAMES = sorted(
    {
        *re.findall(r"\b[a-z]\w+", re.sub(r"(?m)^#.*$", "", (_CRATE / "functions.txt").read_text())),
        *re.findall(
            r'"([a-z_]+)"', (_CRATE / "query.rs").read_text().partition("BEFORE_PARENTHESIS")[2].partition("];")[0]
        ),
    }
)
QUIET = {
    "Com_select",
    "Com_set_option",
    "Com_explain_other",
    "Com_empty_query",
    "Com_admin_commands",
    "Com_change_db",
}


@dataclass(frozen=True)
class Served:
    """A server with tables, and functions that leave a mark when they are called."""

    account: Account
    mariadb: bool

    def connect(self) -> Any:
        return connection(self.account, "shop", timeout_s=60)


@contextmanager
def filled(account: Account) -> Iterator[Served]:
    with connection(account, timeout_s=60) as opened:
        mariadb = "mariadb" in str(ask(opened, "SELECT VERSION()")[0][0]).lower()
        for sql in (
            "CREATE DATABASE shop",
            "USE shop",
            "CREATE TABLE t (a INT)",
            "INSERT INTO t VALUES (1), (2)",
            "CREATE TABLE marks (a INT)",
            "CREATE TABLE `a;b` (a INT)",
            "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME LIKE '%statements%'",
            "SET GLOBAL log_bin_trust_function_creators = 1",
            *(f"CREATE FUNCTION `{name}`(a INT) RETURNS INT {MARK}" for name in MARKING),
            *(["CREATE SEQUENCE s"] if mariadb else []),
        ):
            ask(opened, sql)
    yield Served(account, mariadb)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("local", marks=pytest.mark.mysqld),
        "mysql",
        "mariadb",
    ],
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as stack:
        if request.param == "local":
            server = stack.enter_context(scratch_server(tmp_path_factory.mktemp("s"), "--secure-file-priv="))
            account = Account(user="root", socket=str(server.socket))
        else:
            image = pick_server_image(local_images(), request.param)
            if image is None:
                pytest.skip(f"needs docker: an image of {request.param}")
            account = stack.enter_context(server_over_tcp(image.name))
        yield stack.enter_context(filled(account))


def ask(opened: Any, sql: str | bytes) -> list[tuple[Any, ...]]:
    with opened.cursor() as cursor:
        cursor.execute(sql)
        rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
        return rows


def tried(opened: Any, sql: str) -> str:
    """The error of a statement, empty without one."""
    try:
        ask(opened, sql)
    except mysql.connector.Error as error:
        opened.consume_results()
        return str(error)
    return ""


def state(opened: Any, mariadb: bool) -> list[Any]:
    commands = {str(name): int(value) for name, value in ask(opened, "SHOW SESSION STATUS LIKE 'Com\\_%'")}
    counts = {name: count for name, count in commands.items() if count and name not in QUIET and "show" not in name}
    return [
        {name: count for name, count in counts.items() if name not in {"Com_explain_other", "Com_help"}},
        ask(opened, "SELECT COUNT(*), SUM(a) FROM shop.t"),
        ask(opened, "SELECT COUNT(*) FROM shop.marks"),
        ask(opened, "SELECT @a, @b, LOAD_FILE('/tmp/volbench-x'), IS_USED_LOCK('a')"),
        WRITTEN.exists(),
        ask(opened, "SELECT next_not_cached_value FROM shop.s") if mariadb else None,
    ]


def session(opened: Any, mode: str, *, mariadb: bool) -> None:
    opened.consume_results()
    ask(opened, f"SET SESSION sql_mode = '{mode}'")
    ask(opened, f"SET SESSION {'max_statement_time = 3' if mariadb else 'max_execution_time = 3000'}")


def test_what_passes_does_nothing_on_a_real_server(served: Served) -> None:
    """Statements that act, obscured in thousands of ways: those that the guard lets through change nothing.

    The server's state is asked for after each group of them; in a group that changes it the statement is sought.
    """
    chosen, passed = random.Random(37), 0
    groups: dict[str, list[str]] = {mode: [] for mode in MODES}
    with served.connect() as opened:
        session(opened, "", mariadb=served.mariadb)
        before = state(opened, served.mariadb)
        texts = [
            *ACTING,
            *READING,
            *(mutant(chosen, chosen.choice(chosen.choice((ACTING, READING)))) for _ in range(MUTANTS)),
        ]
        for sql in texts:
            if judge(sql)[0] is not Answer.PASSES:
                continue
            passed += 1
            for mode in MODES if passed % 10 == 0 else chosen.sample(MODES, 1):
                groups[mode].append(sql)
        for mode, members in groups.items():
            for at in range(0, len(members), GROUP):
                group = members[at : at + GROUP]
                if after_all(opened, mode, group, mariadb=served.mariadb) == before:
                    continue
                for sql in group:
                    current = state(opened, served.mariadb)
                    assert after_all(opened, mode, [sql], mariadb=served.mariadb) == current, (mode, sql)
                pytest.fail(f"one of these changes something, and nothing when it is sent again: {mode} {group}")
    assert passed > 300


def after_all(opened: Any, mode: str, group: Sequence[str], *, mariadb: bool) -> list[Any]:
    """The server's state after these statements in this sql_mode; none of them takes long."""
    session(opened, mode, mariadb=mariadb)
    for sql in group:
        begin = time.monotonic()
        tried(opened, sql)
        assert time.monotonic() - begin < SLOWEST_S, sql
    session(opened, "", mariadb=mariadb)
    return state(opened, mariadb)


def test_no_name_that_passes_calls_a_stored_function(served: Served) -> None:
    """Each name that the guard knows has a stored function; all forms that pass call the server's own one."""
    with served.connect() as opened:
        for name in KNOWN_NAMES:
            tried(opened, f"CREATE FUNCTION `{name}`(a INT) RETURNS INT {MARK}")
        before, calling = ask(opened, "SELECT COUNT(*) FROM marks"), []
        for name in KNOWN_NAMES:
            calls = [f"{name}(1)", f"{name} (1)", f"{name}/**/(1)", f"`{name}`(1)", f"a.{name}(1)", f"+{name}(1)"]
            in_where = f"SELECT 1, {calls[0]} FROM t WHERE a = {calls[0]}"
            for sql in (*(f"SELECT {call}" for call in calls), in_where):
                if judge(sql)[0] is Answer.PASSES:
                    tried(opened, sql)
            if (now := ask(opened, "SELECT COUNT(*) FROM marks")) != before:
                calling.append(name)
                before = now
        for name in KNOWN_NAMES:
            tried(opened, f"DROP FUNCTION `{name}`" if name not in MARKING else "DO 1")
        assert calling == []


def test_a_statement_that_ends_within_a_literal_is_an_error_of_each_server(served: Served) -> None:
    with served.connect() as opened:
        for sql in (
            "SELECT 'a",
            'SELECT "a',
            "SELECT `a",
            "SELECT 1 /* a",
            "SELECT x'4'",
            "SELECT b'2'",
            "SELECT \\1",
        ):
            assert judge(sql)[0] is Answer.FAILS
            assert "1064" in tried(opened, sql), sql


def test_tokens_are_those_of_the_server_s_digests(served: Served) -> None:
    """Random texts in each sql_mode: where the server accepts one, its digest has the same names and literals."""
    chosen, compared, differing = random.Random(48), 0, []
    with served.connect() as opened, served.connect() as watching:
        (own,) = ask(opened, "SELECT CONNECTION_ID()")[0]
        for number in range(TEXTS):
            mode = chosen.choice(MODES[:4])
            if number % 20 == 0:
                session(opened, mode, mariadb=served.mariadb)
                current = mode
            text = "".join(chosen.choices(PIECES, k=chosen.randint(1, 3)))
            name = f"volbench{number}"
            sql = f"SELECT {text}{chosen.choice((' ', '/**/'))}, {name}.a FROM t AS {name}"
            if number % 2:
                sql = f"SELECT a AS {name} FROM t WHERE a = {text}"
            if (failed := tried(opened, sql)) and "1064" in failed:
                continue
            if not (result := ask(watching, HISTORY.format(int(own)))) or name not in str(result[0][0]):
                continue
            dialect = Dialect(ansi_quotes="ANSI" in current, no_escapes="NO_BACK" in current)
            arguments, doubts = shape(sql, dialect)
            assert not doubts & (Doubt.OPEN | Doubt.FAULT), (current, sql)
            compared += 1
            if not doubts and arguments != of_digest(str(result[0][0])):
                differing.append((current, sql, arguments, of_digest(str(result[0][0]))))
    assert differing == [], "\n".join(map(str, differing[:40]))
    assert compared > 500


def shape(sql: str, dialect: Dialect) -> tuple[list[str], Doubt]:
    text = as_bytes(sql)
    tokens = Tokens(text, dialect)
    pieces = []
    for kind, start, end, _ in tokens:
        piece = text[start:end].decode()
        if kind in LITERALS or (kind == Kind.VARIABLE and not piece.startswith("@@")):
            pieces.append("?")
        elif kind == Kind.NAME:
            pieces += re.findall(r"[\w$]+", piece[1:-1])
        elif kind not in {Kind.COMMENT, Kind.HINT, Kind.OPEN, Kind.CLOSE}:
            pieces += re.findall(r"[\w$]+|\\N|[^\w\s]", piece)
    return uniform(pieces), tokens.doubts


def of_digest(text: str) -> list[str]:
    plain = re.sub(r"(?<!@)@ ?[\w$.]+", "?", text.replace("(...)", "?"))
    return uniform(re.findall(r"[\w$]+|\\N|[^\w\s]", plain.replace("`", " ")))


def uniform(pieces: Sequence[str]) -> list[str]:
    """Without signs, lists and what a digest writes in another way: NULL as a value, some operators as words."""
    results: list[str] = []
    for piece in pieces:
        name = piece if piece == "\\N" else piece.lower()
        name = "?" if name in {"null", "\\N", "true", "false", "unknown"} else name
        is_written_otherwise = _UNIFORM.fullmatch(name) is not None or (name == "?" and results[-1:] == ["?"])
        if not is_written_otherwise:
            results.append(name)
    return results


@pytest.mark.parametrize("allowed", [Allowed.QUERY, Allowed.OWN, Allowed.COMPARED])
def test_the_corpus_is_refused(allowed: Allowed) -> None:
    assert [sql for sql in ACTING if judge(sql, allowed)[0] is Answer.PASSES] == []
