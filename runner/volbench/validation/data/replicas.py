"""Reads the table of a pt-table-checksum that the user ran; volbench never runs it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from volbench.core.base.text import counted
from volbench.core.records.validation.plan import ReplicaPlan
from volbench.core.records.validation.result import CheckRow
from volbench.errors import StepFailed
from volbench.machine.engine.answers import COUNT_MAX, reads_answers, whole_number
from volbench.validation.catalog.objects import quoted
from volbench.validation.source.server import Rows, SqlReader
from volbench.validation.verdict import decide_check, undecided

REPLICA_STATUS = ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
"""The first that the server supports counts."""
_LABELS_MAX = 5


def checksum_statements(table: str, schemas: Sequence[str]) -> tuple[str, ...]:
    """Return queries for chunks, differing and unfinished chunks, row difference, and oldest age, by table.

    Later releases of the toolkit renamed the columns: the first statement that succeeds counts.
    """
    schema, _, name = table.partition(".")
    schema_list = ", ".join(map(quoted, schemas))
    return tuple(
        f"SELECT db, tbl, COUNT(*), COALESCE(SUM({side}_cnt <> this_cnt OR {side}_crc <> this_crc "
        f"OR ISNULL({side}_crc) <> ISNULL(this_crc)), 0), SUM({side}_cnt IS NULL), "
        f"COALESCE(SUM(this_cnt) - SUM({side}_cnt), 0), UNIX_TIMESTAMP() - UNIX_TIMESTAMP(MIN(ts)) "
        f"FROM `{schema}`.`{name}` WHERE db IN ({schema_list}) GROUP BY db, tbl ORDER BY db, tbl"
        for side in ("master", "source")
    )


@reads_answers("checksums")
def replica_check(
    server: SqlReader, plan: ReplicaPlan, schemas: Sequence[str], tables: Collection[str]
) -> CheckRow:
    """Return no-go where a chunk differs, undecided where the checksums do not prove equality.

    Args:
        server: the replica of the plan.
        plan: with the table and its greatest age.
        schemas: to look up.
        tables: schema.table of all tables that need checksums.
    """
    status, rows = (
        _first_supported(server, REPLICA_STATUS),
        _first_supported(server, checksum_statements(plan.table, schemas)),
    )
    if rows is None:
        return undecided("replica", f"{plan.table} cannot be read on the {plan.on}")
    labels = [f"{row[0]}.{row[1]}" for row in rows]
    counts = [_counts(row) for row in rows]
    differing = [
        f"{label}: {different} of {chunks} chunks differ" + (f", {rows:+} rows" if rows else "")
        for label, (chunks, different, _, rows, _) in zip(labels, counts, strict=True)
        if different
    ]
    not_finished = [label for label, (_, _, unfinished, _, _) in zip(labels, counts, strict=True) if unfinished]
    oldest_s = max((age for *_, age in counts), default=0)
    doubts = [
        *_not_a_replica(status, plan.on),
        *_label_list("has no checksums", sorted(set(tables) - set(labels))),
        *_label_list("is not finished", not_finished),
    ]
    if oldest_s > plan.not_older_s:
        doubts.append(f"the oldest checksum is {oldest_s / 3600:.0f} h old: run pt-table-checksum again")
    read = f"{counted(len(labels), 'table')} that pt-table-checksum read"
    return decide_check(
        "replica",
        compared=len(labels),
        text=f"{len(differing)} of {read} {'differs' if len(differing) == 1 else 'differ'}"
        if differing
        else f"{counted(len(labels), 'table')}, all equal, read by pt-table-checksum {oldest_s / 3600:.1f} h ago",
        faults=differing,
        doubts=doubts,
        nothing=f"{plan.table} on the {plan.on} has no checksum of the schemas"
        + (f": {doubts[0]}" if doubts else ""),
    )


def _counts(row: Sequence[object]) -> tuple[int, int, int, int, int]:
    """Return chunks, differing and unfinished ones, how many rows more, and the oldest age in seconds."""
    _, _, chunks, differing, unfinished, more_rows, age_s = row
    return (
        whole_number(chunks),
        whole_number(differing),
        whole_number(unfinished),
        whole_number(more_rows, low=-COUNT_MAX),
        whole_number(age_s),
    )


def _not_a_replica(status: Rows | None, side: str) -> list[str]:
    """Return a doubt when the server is no replica: on a primary each checksum is compared with itself."""
    if status is None:
        return [
            f"unknown whether the {side} is a replica: REPLICATION CLIENT is missing (MariaDB: REPLICA MONITOR)"
        ]
    return [] if status else [f"the {side} is no replica, where every checksum equals itself"]


def _label_list(predicate: str, labels: Sequence[str]) -> list[str]:
    more = len(labels) - _LABELS_MAX
    return [f"{label} {predicate}" for label in labels[:_LABELS_MAX]] + ([f"and {more} more"] if more > 0 else [])


def _first_supported(server: SqlReader, statements: Sequence[str]) -> Rows | None:
    for statement in statements:
        try:
            return server.query(statement)
        except StepFailed:
            continue
    return None
