"""pt-upgrade, where the plan asks for it: what Percona Toolkit says of the same queries on both servers.

Unlike our own comparison it asks under the servers' own sql_mode, and looks at warnings. It reads only: by itself,
by a session that each server holds read-only, and by what it is given, which is queries alone. By default it would
make a table of its own, to clear warnings from; here it reads one of the server's. Queries and passwords reach it
in memory: nothing lies on a disk, and its command line has numbers of open files only.
"""

# ruff: noqa: S608 - the table is a constant

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from volbench.base import programs
from volbench.engine.connection import Account
from volbench.records.gate import Decision
from volbench.records.validation import CheckRow
from volbench.validation.fingerprint import fingerprint
from volbench.validation.pt_upgrade_report import QueryClassReport, parse_classes, parse_stats
from volbench.validation.queries import QueryComparison
from volbench.validation.source import ReadOnlyServer, SqlReader

GRACE_S = 60.0
"""For a last statement, once its time is over; then it is ended."""
VERSION_KNOWN = "3.2.1"
ENCRYPTED = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"
_UPGRADE_TABLE = "information_schema.ENGINES"
_SESSION = (
    "character_set_client=utf8mb4", "character_set_results=utf8mb4", "collation_connection=utf8mb4_general_ci",
    "time_zone='+00:00'",
)  # fmt: skip
_SESSION_STATEMENTS = (
    "SET SESSION TRANSACTION READ ONLY", '/*!40101 SET NAMES "utf8"*/', "SET NAMES 'utf8mb4'",
    *(f"SHOW VARIABLES LIKE '{one.partition('=')[0]}'" for one in ("wait_timeout", *_SESSION)),
    "SET SESSION wait_timeout=10000", *(f"SET SESSION {one}" for one in _SESSION),
    "SELECT @@SQL_MODE", "SET @@SQL_QUOTE_SHOW_CREATE = 1/*!40101, @@SQL_MODE='ITS OWN'*/", "SELECT VERSION()",
    "SHOW VARIABLES LIKE 'character_set_server'", "SELECT @@server_id /*!50038 , @@hostname*/",
    "SELECT @@query_cache_type", "SET SESSION query_cache_type = OFF", "SHOW DATABASES LIKE 'information_schema'",
    "SHOW TABLES FROM `information_schema` LIKE 'ENGINES'", "SHOW VARIABLES LIKE 'version%'", "SHOW ENGINES",
    "SHOW VARIABLES LIKE 'innodb_version'", "SELECT /*!50038 @@hostname */",
)  # fmt: skip
_PER_QUERY_STATEMENTS = (f"SELECT * FROM {_UPGRADE_TABLE} LIMIT 1", "SHOW WARNINGS")
OWN_STATEMENTS = (*_SESSION_STATEMENTS, *_PER_QUERY_STATEMENTS)
"""What it sends beside the queries, by its version VERSION_KNOWN; some only to one of the flavors."""
_ACCEPTED = re.compile(r"(?:/\*[^!].*?\*/)?\s*SELECT\b", re.IGNORECASE)
"""What it takes for reading; it skips all else."""
_QUERIES_MAX_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class SubmittedQuery:
    """A query that it is given, with what our own comparison found."""

    compared: QueryComparison
    sql: str


def pt_upgrade_check(
    servers: tuple[ReadOnlyServer, SqlReader],
    accounts: tuple[Account, Account],
    compared: Sequence[QueryComparison],
    *,
    seconds: float,
    values: bool = True,
) -> CheckRow:
    """no-go where rows differ or one side fails, undecided where it cannot be asked or does not finish.

    Args:
        servers: source and candidate; the source's list of statements gets those that pt-upgrade sends.
        accounts: on both.
        seconds: so long it may run.
    """
    tool = shutil.which("pt-upgrade")
    if tool is None:
        return _row("undecided", "pt-upgrade is not installed here, so it was not asked")
    queries, skipped = _submitted_queries(compared)
    if not queries:
        return _row("go", "no query that it takes", *_skip_notes(skipped))
    version = _version(tool)
    options = [
        _options(account, encrypted=bool(server.query(ENCRYPTED)[0][1]))
        for server, account in zip(servers, accounts, strict=True)
    ]
    servers[0].record_external_statements(_statements_sent(queries))
    try:
        completed = _run(tool, (*options, _log(queries)), seconds=seconds)
    except (OSError, subprocess.TimeoutExpired):
        return _row("undecided", f"pt-upgrade did not come to its end within {seconds + GRACE_S:.0f} s")
    row = row_of(completed.stdout, completed.returncode, queries, values=values)
    stderr_lines = _last_stderr_lines(completed.stderr) if row.decision == "undecided" and values else ()
    version_notes = () if version == VERSION_KNOWN else (_other_version(version),)
    return row.model_copy(update={"details": (*row.details, *_skip_notes(skipped), *version_notes, *stderr_lines)})


def row_of(printed: str, code: int, queries: Sequence[SubmittedQuery], *, values: bool = True) -> CheckRow:
    """The row of one report, as it is printed, and of its exit code (1: errors, 4: differences, 8: out of time)."""
    stats = parse_stats(printed)
    if code & ~0b1101 or "queries_read" not in stats:
        return _row("undecided", f"pt-upgrade ended with {code} and no report that is as documented")
    classes = [(query_class, _query_of(query_class, queries)) for query_class in parse_classes(printed)]
    faults = [text for query_class, query in classes for text in _faults(query_class, query, values=values)]
    notes = [
        text
        for query_class, query in classes
        for text in _undecisive_differences(query_class, query, values=values)
    ]
    differing = stats.get("queries_with_diffs", 0) + stats.get("queries_with_errors", 0)
    unfinished = [
        problem
        for occurred, problem in (
            (code & 8, "its time was over before all queries were asked"),
            (code & 1, "it met errors of its own"),
            (stats["queries_read"] != len(queries), f"it read {stats['queries_read']} of {len(queries)} queries"),
            (stats.get("not_select", 0), f"it skipped {stats.get('not_select')} queries"),
            (differing and not faults and not notes, "what differs is not printed as documented"),
        )
        if occurred
    ]
    decision: Decision = "no-go" if faults else "undecided" if unfinished else "go"
    kinds = Counter(kind for query_class, _ in classes for kind in query_class.kinds)
    counted = ", ".join(f"{count} with {_KIND_TEXTS[kind]}" for kind, count in sorted(kinds.items()))
    text = f"{len(queries)} queries: " + (f"of the classes {counted}" if counted else "no difference")
    return _row(decision, text, *faults, *unfinished, *notes)


_KIND_TEXTS = {"Row": "other rows", "Query errors": "an error on one side", "SQL errors": "an error on both sides",
          "Warning": "other warnings", "Query time": "another order of magnitude of time"}  # fmt: skip


def _faults(query_class: QueryClassReport, query: SubmittedQuery | None, *, values: bool) -> Iterator[str]:
    if "Query errors" in query_class.kinds:
        yield _sentence(query_class, query, "Query errors", values=values)
    if "Row" in query_class.kinds and not _order_may_differ(query_class, query):
        yield _sentence(query_class, query, "Row", values=values)


def _undecisive_differences(
    query_class: QueryClassReport, query: SubmittedQuery | None, *, values: bool
) -> Iterator[str]:
    """What decides nothing: warnings differ between versions, and single times by chance (see `times`)."""
    for kind in ("Warning", "Query time", "SQL errors"):
        if kind in query_class.kinds:
            yield "told: " + _sentence(query_class, query, kind, values=values)
    if "Row" in query_class.kinds and _order_may_differ(query_class, query):
        yield f"told: its rows may only come in another order or be printed otherwise: {_name(query_class, query)}"


def _order_may_differ(query_class: QueryClassReport, query: SubmittedQuery | None) -> bool:
    """Whether all of what differs may be the order, which the query leaves open, or how a number is printed."""
    if query is None or query.compared.result != "equal":
        return False
    ordered = "order by" in query.sql.lower()
    return all(
        example.same_by_value or (not ordered and not example.missing_rows and example.rows > 1)
        for example in query_class.row_examples
    )


def _sentence(query_class: QueryClassReport, query: SubmittedQuery | None, kind: str, *, values: bool) -> str:
    message = f": {query_class.messages[kind]}" if values and query_class.messages.get(kind) else ""
    return f"{_KIND_TEXTS[kind]}: {_name(query_class, query)}{message}"


def _name(query_class: QueryClassReport, query: SubmittedQuery | None) -> str:
    """By our own fingerprint, which has no literal for certain."""
    return query.compared.query.fingerprint[:160] if query else f"class {query_class.identity}"


def _query_of(query_class: QueryClassReport, queries: Iterable[SubmittedQuery]) -> SubmittedQuery | None:
    return next((query for query in queries if f"\n{query.sql}\n" in query_class.text), None)


def _submitted_queries(compared: Iterable[QueryComparison]) -> tuple[list[SubmittedQuery], Counter[str]]:
    """Queries for it, and how many are not, by reason."""
    queries, skipped, size = [], Counter[str](), 0
    for comparison in compared:
        for sample in comparison.query.samples:
            sql = sample.strip().removesuffix(";").strip()
            size += len(sql)
            if comparison.result == "not deterministic":
                skipped["answer differently each time"] += 1
            elif not _ACCEPTED.match(sql):
                skipped["begin with another word than SELECT, which it skips"] += 1
            elif "\n#" in sql or ";\n" in sql or "\0" in sql or re.search(r"[`;\n]", comparison.query.schema):
                skipped["cannot be written into a log that it reads"] += 1
            elif size > _QUERIES_MAX_BYTES:
                skipped["would be too much"] += 1
            else:
                queries.append(SubmittedQuery(compared=comparison, sql=sql))
    return queries, skipped


def _skip_notes(skipped: Counter[str]) -> list[str]:
    return [f"not asked: {count} queries that {reason}" for reason, count in skipped.items()]


def _statements_sent(queries: Sequence[SubmittedQuery]) -> Counter[str]:
    sent = Counter(map(fingerprint, _SESSION_STATEMENTS))
    sent.update({fingerprint(one): len(queries) for one in _PER_QUERY_STATEMENTS})
    for one in queries:
        sent[fingerprint(one.sql)] += 1
        if one.compared.query.schema:
            sent[fingerprint(f"USE `{one.compared.query.schema}`")] += 1
    return sent


def _log(queries: Sequence[SubmittedQuery]) -> str:
    return "".join(
        "# Time: 2026-01-01T00:00:00.000000Z\n# User@Host: app[app] @ localhost []  Id: 1\n"
        "# Query_time: 0.000001  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0\n"
        + (f"use {query.compared.query.schema};\n" if query.compared.query.schema else "")
        + f"{query.sql};\n"
        for query in queries
    )


def _run(tool: str, texts: Sequence[str], *, seconds: float) -> subprocess.CompletedProcess[str]:
    """Ask. `texts` are the options of both clients and the log; it ends when we do."""
    guard = shutil.which("setpriv")
    environment = {name: value for name, value in os.environ.items() if name != "PTDEBUG"}  # which prints passwords
    with ExitStack() as opened:
        files = [opened.enter_context(closing(_InMemory(text))).number for text in texts]
        source_options, candidate_options, log = (f"/dev/fd/{number}" for number in files)
        argv = [
            *([guard, "--pdeathsig", "KILL", "--"] if guard else []),
            # An empty list of configurations has to come first: nobody's own may switch anything on.
            tool, "--config", "", "--no-version-check", "--read-only", "--no-create-upgrade-table",
            "--upgrade-table", _UPGRADE_TABLE, "--set-vars", ",".join(_SESSION), "--run-time", f"{seconds:.0f}s",
            f"F={source_options},A=utf8", f"F={candidate_options},A=utf8", log,
        ]  # fmt: skip
        return programs.run(
            argv, capture_output=True, text=True, errors="replace", timeout=seconds + GRACE_S, check=False,
            stdin=subprocess.DEVNULL, pass_fds=files, env={**environment, "LC_ALL": "C"},
        )  # fmt: skip


class _InMemory:
    """A file that only lives in memory, and goes with the last process that has it."""

    def __init__(self, text: str) -> None:
        self.number = os.memfd_create("volbench")
        os.fchmod(self.number, 0o600)  # options that all may write are not read by the client
        with os.fdopen(os.dup(self.number), "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))

    def close(self) -> None:
        os.close(self.number)


def _options(account: Account, *, encrypted: bool) -> str:
    lines = account.option_file_text() + 'init-command="SET SESSION TRANSACTION READ ONLY"\n'
    return lines + ("ssl-enforce=1\n" if encrypted and not account.socket else "")


def _version(tool: str) -> str:
    try:
        printed = programs.run(
            [tool, "--version"], capture_output=True, text=True, timeout=GRACE_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    return printed.split()[-1] if printed.split() else "?"


def _other_version(version: str) -> str:
    return (
        f"the statements listed are those of pt-upgrade {VERSION_KNOWN}; {version} may send others, which only read"
    )


def _last_stderr_lines(stderr: str) -> tuple[str, ...]:
    return tuple(line.split(" [for Statement", maxsplit=1)[0][:200] for line in stderr.splitlines()[-3:])


def _row(decision: Decision, text: str, *details: str) -> CheckRow:
    return CheckRow(check="pt_upgrade", decision=decision, text=text, details=details)
