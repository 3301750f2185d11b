"""Runs Percona Toolkit's pt-upgrade, where the plan has it: the same queries on both servers.

Unlike volbench's own comparison, pt-upgrade uses the servers' own sql_mode and compares warnings. It only reads: by
its option, by read-only sessions, and because its input has only queries. By default pt-upgrade creates a table to
clear warnings; here it reads a table of the server. Queries and passwords reach pt-upgrade in memory: nothing is on
disk, and the command line has only numbers of open files.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volbench.core.base.text import counted
from volbench.core.records.validation.result import CheckRow
from volbench.core.sql.fingerprint import fingerprint
from volbench.machine.engine.connection import Account
from volbench.validation.queries.comparison import QueryComparison
from volbench.validation.queries.pt_upgrade_report import QueryClassReport, parse_classes, parse_stats
from volbench.validation.source.server import ReadOnlyServer, SqlReader
from volbench.validation.toolkit import Toolkit, find_toolkit, version_of
from volbench.validation.verdict import decide_check, undecided

NOT_INSTALLED = "pt-upgrade is not installed here, and no Docker engine with a tools image answers"
GRACE_S = 60.0
"""For a last statement after the time is over; then pt-upgrade is killed."""
VERSIONS_KNOWN = ("3.2.1", "3.7.1")
ENCRYPTED = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"
_UPGRADE_TABLE = "information_schema.ENGINES"
_SESSION = (
    "character_set_client=utf8mb4",
    "character_set_results=utf8mb4",
    "collation_connection=utf8mb4_general_ci",
    "time_zone='+00:00'",
)
_SESSION_STATEMENTS = (
    "SET SESSION TRANSACTION READ ONLY",
    '/*!40101 SET NAMES "utf8"*/',
    "SET NAMES 'utf8mb4'",
    *(f"SHOW VARIABLES LIKE '{setting.partition('=')[0]}'" for setting in ("wait_timeout", *_SESSION)),
    "SET SESSION wait_timeout=10000",
    *(f"SET SESSION {setting}" for setting in _SESSION),
    "SELECT @@SQL_MODE",
    "SET @@SQL_QUOTE_SHOW_CREATE = 1/*!40101, @@SQL_MODE='ITS OWN'*/",
    "SELECT VERSION()",
    "SHOW VARIABLES LIKE 'character_set_server'",
    "SELECT @@server_id /*!50038 , @@hostname*/",
    "SELECT @@query_cache_type",
    "SET SESSION query_cache_type = OFF",
    "SHOW DATABASES LIKE 'information_schema'",
    "SHOW TABLES FROM `information_schema` LIKE 'ENGINES'",
    "SHOW VARIABLES LIKE 'version%'",
    "SHOW ENGINES",
    "SHOW VARIABLES LIKE 'innodb_version'",
    "SELECT /*!50038 @@hostname */",
)
_NEWER_STATEMENTS = ("SELECT @@server_id /*!50038 , @@hostname*/, CONNECTION_ID() AS connection_id",)
"""Of 3.7.1 only."""
_PER_QUERY_STATEMENTS = (f"SELECT * FROM {_UPGRADE_TABLE} LIMIT 1", "SHOW WARNINGS")
OWN_STATEMENTS = (*_SESSION_STATEMENTS, *_NEWER_STATEMENTS, *_PER_QUERY_STATEMENTS)
"""Statements that pt-upgrade of VERSIONS_KNOWN sends besides the queries; some only to one of the flavors."""
_ACCEPTED = re.compile(r"(?:/\*[^!].*?\*/)?\s*SELECT\b", re.IGNORECASE)
"""Queries that pt-upgrade takes for reading; it skips all others."""
_QUERIES_MAX_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class SubmittedQuery:
    """A query for pt-upgrade, with the result of volbench's own comparison."""

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
    """Return no-go where rows differ or one side fails, undecided where pt-upgrade cannot run or does not finish.

    Args:
        servers: source and candidate; the statements of pt-upgrade are added to the source's list.
        accounts: on both.
        compared: volbench's own comparison.
        seconds: run time of pt-upgrade.
        values: whether the row may have values.
    """
    tool = find_toolkit("pt-upgrade")
    if tool is None:
        return undecided("pt_upgrade", NOT_INSTALLED)
    queries, skipped = _submitted_queries(compared)
    if not queries:
        return undecided("pt_upgrade", "there is no query that pt-upgrade accepts", *_skip_notes(skipped))
    version = version_of(tool)
    source, candidate = (
        _options(account, encrypted=bool(server.query(ENCRYPTED)[0][1]))
        for server, account in zip(servers, accounts, strict=True)
    )
    files = {"source.cnf": source, "candidate.cnf": candidate, "queries.log": _log(queries)}
    servers[0].record_external_statements(_statements_sent(queries))
    try:
        completed = _run(tool, accounts, files, seconds=seconds)
    except (OSError, subprocess.TimeoutExpired):
        return undecided("pt_upgrade", f"pt-upgrade did not finish within {seconds + GRACE_S:.0f} s")
    row = row_of(completed.stdout, completed.returncode, queries, values=values)
    stderr_lines = _last_stderr_lines(completed.stderr) if row.decision == "undecided" and values else ()
    version_notes = () if version in VERSIONS_KNOWN else (_other_version(version),)
    image_notes = (f"pt-upgrade {version} ran in a container of {tool.image}",) if tool.image else ()
    notes = (*row.details, *_skip_notes(skipped), *version_notes, *image_notes, *stderr_lines)
    return row.model_copy(update={"details": notes})


def row_of(printed: str, code: int, queries: Sequence[SubmittedQuery], *, values: bool = True) -> CheckRow:
    """Return the row of a printed report and its exit code (1: errors, 4: differences, 8: out of time)."""
    stats = parse_stats(printed)
    if code & ~0b1101 or "queries_read" not in stats:
        return undecided(
            "pt_upgrade", f"pt-upgrade ended with exit code {code} and without a report in the documented form"
        )
    classes = [(query_class, _query_of(query_class, queries)) for query_class in parse_classes(printed)]
    faults = [text for query_class, query in classes for text in _faults(query_class, query, values=values)]
    notes = [
        text
        for query_class, query in classes
        for text in _undecisive_differences(query_class, query, values=values)
    ]
    failing = [
        _sentence(query_class, query, "SQL errors", values=values)
        for query_class, query in classes
        if "SQL errors" in query_class.kinds
    ]
    differing = stats.get("queries_with_diffs", 0) + stats.get("queries_with_errors", 0)
    unfinished = [
        problem
        for occurred, problem in (
            (code & 8, "the time was over before all queries ran"),
            (code & 1, "pt-upgrade had errors"),
            (
                stats["queries_read"] != len(queries),
                f"pt-upgrade read {stats['queries_read']} of {counted(len(queries), 'query', 'queries')}",
            ),
            (
                stats.get("not_select", 0),
                f"pt-upgrade skipped {counted(stats.get('not_select', 0), 'query', 'queries')}",
            ),
            (differing and not (faults or failing or notes), "the differences are not in the documented form"),
        )
        if occurred
    ]
    kinds = Counter(kind for query_class, _ in classes for kind in query_class.kinds)
    differences = ", ".join(f"{count} with {_KIND_TEXTS[kind]}" for kind, count in sorted(kinds.items()))
    result = f"among the classes {differences}" if differences else "no difference"
    return decide_check(
        "pt_upgrade",
        compared=stats["queries_read"] - stats.get("not_select", 0),
        text=f"{counted(len(queries), 'query', 'queries')}: {result}",
        faults=faults,
        doubts=[*failing, *unfinished],
        notes=notes,
        nothing="pt-upgrade compared no query",
    )


_KIND_TEXTS = {
    "Row": "other rows",
    "Query errors": "an error on one side",
    "SQL errors": "an error on both sides",
    "Warning": "other warnings",
    "Query time": "another order of magnitude of time",
}


def _faults(query_class: QueryClassReport, query: SubmittedQuery | None, *, values: bool) -> Iterator[str]:
    if "Query errors" in query_class.kinds:
        yield _sentence(query_class, query, "Query errors", values=values)
    if "Row" in query_class.kinds and not _order_may_differ(query_class, query):
        yield _sentence(query_class, query, "Row", values=values)


def _undecisive_differences(
    query_class: QueryClassReport, query: SubmittedQuery | None, *, values: bool
) -> Iterator[str]:
    """Yield differences that decide nothing: warnings depend on the version, single times on chance."""
    for kind in ("Warning", "Query time"):
        if kind in query_class.kinds:
            yield "note: " + _sentence(query_class, query, kind, values=values)
    if "Row" in query_class.kinds and _order_may_differ(query_class, query):
        yield f"note: rows may differ only in order or in printed form: {_name(query_class, query)}"


def _order_may_differ(query_class: QueryClassReport, query: SubmittedQuery | None) -> bool:
    """Return whether all differences may be the order, which the query leaves open, or the form of numbers."""
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
    """Return volbench's own fingerprint, which certainly has no literal."""
    return query.compared.query.fingerprint[:160] if query else f"class {query_class.identity}"


def _query_of(query_class: QueryClassReport, queries: Iterable[SubmittedQuery]) -> SubmittedQuery | None:
    return next((query for query in queries if f"\n{query.sql}\n" in query_class.text), None)


def _submitted_queries(compared: Iterable[QueryComparison]) -> tuple[list[SubmittedQuery], Counter[str]]:
    """Return the queries for pt-upgrade, and how many are skipped, by reason."""
    queries, skipped, size = [], Counter[str](), 0
    for comparison in compared:
        for sample in comparison.query.samples:
            sql = sample.strip().removesuffix(";").strip()
            size += len(sql)
            if comparison.result == "not deterministic":
                skipped["are not deterministic"] += 1
            elif not _ACCEPTED.match(sql):
                skipped["do not begin with SELECT"] += 1
            elif "\n#" in sql or ";\n" in sql or "\0" in sql or re.search(r"[`;\n]", comparison.query.schema):
                skipped["cannot be written into its log"] += 1
            elif size > _QUERIES_MAX_BYTES:
                skipped["exceed the size limit"] += 1
            else:
                queries.append(SubmittedQuery(compared=comparison, sql=sql))
    return queries, skipped


def _skip_notes(skipped: Counter[str]) -> list[str]:
    return [f"skipped: {counted(count, 'query', 'queries')} that {reason}" for reason, count in skipped.items()]


def _statements_sent(queries: Sequence[SubmittedQuery]) -> Counter[str]:
    sent = Counter(map(fingerprint, (*_SESSION_STATEMENTS, *_NEWER_STATEMENTS)))
    sent.update({fingerprint(statement): len(queries) for statement in _PER_QUERY_STATEMENTS})
    for query in queries:
        sent[fingerprint(query.sql)] += 1
        if query.compared.query.schema:
            sent[fingerprint(f"USE `{query.compared.query.schema}`")] += 1
    return sent


def _log(queries: Sequence[SubmittedQuery]) -> str:
    return "".join(
        "# Time: 2026-01-01T00:00:00.000000Z\n# User@Host: app[app] @ localhost []  Id: 1\n"
        "# Query_time: 0.000001  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0\n"
        + (f"use {query.compared.query.schema};\n" if query.compared.query.schema else "")
        + f"{query.sql};\n"
        for query in queries
    )


def _run(
    tool: Toolkit, accounts: Sequence[Account], files: Mapping[str, str], *, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run pt-upgrade, which ends with this process. `files` are the options of both clients and the log."""

    def arguments(paths: Mapping[str, str]) -> list[str]:
        return [
            # An empty list of configuration files must come first, so that no user's file changes anything.
            "--config",
            "",
            "--no-version-check",
            "--read-only",
            "--no-create-upgrade-table",
            "--upgrade-table",
            _UPGRADE_TABLE,
            "--set-vars",
            ",".join(_SESSION),
            "--run-time",
            f"{seconds:.0f}s",
            f"F={paths['source.cnf']},A=utf8",
            f"F={paths['candidate.cnf']},A=utf8",
            paths["queries.log"],
        ]

    return tool.run(arguments, files, timeout_s=seconds + GRACE_S, accounts=accounts)


def _options(account: Account, *, encrypted: bool) -> str:
    lines = account.option_file_text() + 'init-command="SET SESSION TRANSACTION READ ONLY"\n'
    return lines + ("ssl-enforce=1\n" if encrypted and not account.socket else "")


def _other_version(version: str) -> str:
    return (
        f"the listed statements are those of pt-upgrade {' and '.join(VERSIONS_KNOWN)}; {version} may send others"
    )


def _last_stderr_lines(stderr: str) -> tuple[str, ...]:
    return tuple(line.split(" [for Statement", maxsplit=1)[0][:200] for line in stderr.splitlines()[-3:])
