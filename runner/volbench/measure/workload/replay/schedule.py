"""The schedule of a replay from a log: with its arrival times and connections, without harmful statements."""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.guard import WHY_SKIPPED, Allowed, Answer, judge
from volbench.errors import UsageError
from volbench.measure.workload.replay.logged_statement import LoggedStatement
from volbench.measure.workload.replay.slowlog import why_outside

STATEMENTS_MAX = 5_000_000
"""Statements in memory: about a kilobyte each."""
AFTER_SECONDS = "after replay.seconds"
WRITES = WHY_SKIPPED[Answer.ACTS]
"""The reason for which statements that write are skipped."""
_CALL = re.compile(r"call\b")


class NothingToReplayError(UsageError):
    """No statement of a log can be sent: the evidence counts them by reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledStatement:
    """One statement to send `at_s` after the start, on the connection of the log that sent it."""

    at_s: float
    connection: int
    schema: str
    sql: str
    class_index: int
    logged_s: float


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """All statements to send, a tuple for each connection to open; `fingerprints` are those of the classes.

    `first_at_s` is the time of the log's first statement, since the epoch.
    """

    connections: tuple[tuple[ScheduledStatement, ...], ...]
    fingerprints: tuple[str, ...]
    skipped: dict[str, int]
    log_s: float
    shared_connections: int
    whole_seconds: bool
    first_at_s: float | None = None
    notes: tuple[str, ...] = ()
    """What the log leaves open."""

    @property
    def planned_s(self) -> float:
        """Return when the last statement is due."""
        return max(statements[-1].at_s for statements in self.connections)

    @property
    def statements(self) -> int:
        """Return the number of statements."""
        return sum(map(len, self.connections))

    @property
    def peak_per_s(self) -> int:
        """Return the most statements that are due within one second."""
        return max(Counter(int(due.at_s) for statements in self.connections for due in statements).values())


def schedule(
    log: Iterable[LoggedStatement],
    *,
    schemas: Collection[str],
    writes: bool,
    speed: float,
    seconds: float,
    connections_max: int,
) -> Schedule:
    """Return the statements that a replay sends.

    Args:
        log: statements in the log's order, which is by their ends.
        schemas: statements of other schemas are skipped.
        writes: whether to send statements that write.
        speed: 2 is twice as fast.
        seconds: how much of the log's time to replay.
        connections_max: concurrent connections.

    Raises NothingToReplayError for a log without a statement to send, UsageError for one with too many.
    """
    skipped: Counter[str] = Counter()
    statements = _to_send(log, skipped, schemas=schemas, writes=writes, seconds=seconds)
    whole_seconds = all(statement.at_s.is_integer() for statement in statements)
    timed = sorted(_spread(statements) if whole_seconds else statements, key=lambda statement: statement.at_s)
    first_s = timed[0].at_s
    within = [statement for statement in timed if statement.at_s - first_s < seconds]
    skipped[AFTER_SECONDS] += len(timed) - len(within)
    class_indices: dict[str, int] = {}
    scheduled = [
        ScheduledStatement(
            at_s=(statement.at_s - first_s) / speed,
            connection=statement.connection,
            schema=statement.schema or "",
            sql=statement.sql,
            class_index=class_indices.setdefault(fingerprint(statement.sql), len(class_indices)),
            logged_s=statement.query_s,
        )
        for statement in within
    ]
    per_connection, shared_connections = _assign_connections(scheduled, connections_max)
    return Schedule(
        connections=per_connection,
        fingerprints=tuple(class_indices),
        skipped=dict(+skipped),
        log_s=within[-1].at_s - first_s,
        shared_connections=shared_connections,
        whole_seconds=whole_seconds,
        first_at_s=first_s,
    )


def _to_send(
    log: Iterable[LoggedStatement],
    skipped: Counter[str],
    *,
    schemas: Collection[str],
    writes: bool,
    seconds: float,
) -> list[LoggedStatement]:
    """Return the statements to send, and in `skipped` the others by reason.

    Raises UsageError for none or too many.
    """
    statements = []
    earliest_s = float("inf")
    for statement in log:
        reason = _skip_reason(statement, schemas, writes=writes)
        if not reason:
            earliest_s = min(earliest_s, statement.at_s)
            if statement.at_s - earliest_s >= seconds + 1:  # a whole second may be spread
                reason = AFTER_SECONDS
        if reason:
            skipped[reason] += 1
        else:
            statements.append(statement)
        if len(statements) > STATEMENTS_MAX:
            raise UsageError(
                f"a log of more than {STATEMENTS_MAX} statements",
                where="replay.slow_log",
                next_step="cut it with replay.seconds, or replay a part",
            )
    if not statements:
        reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
        raise NothingToReplayError(
            "the log has no statement to replay",
            where="replay.slow_log",
            evidence=f"skipped: {reasons or 'nothing, the log is empty'}",
        )
    return _without_called_routines(statements, skipped)


def _skip_reason(statement: LoggedStatement, schemas: Collection[str], *, writes: bool) -> str:
    if reason := why_outside(statement, schemas):
        return reason
    if judge(statement.sql, Allowed.COMPARED)[0] is Answer.PASSES:
        return ""
    answer, _ = judge(statement.sql, Allowed.REPLAY)
    if answer is Answer.PASSES:
        return "" if writes else WRITES
    return "of a kind that is never replayed" if answer is Answer.ACTS else WHY_SKIPPED[answer]


def _without_called_routines(statements: Sequence[LoggedStatement], skipped: Counter[str]) -> list[LoggedStatement]:
    """Return the statements without those of routines whose CALL is sent too."""
    if not any(statement.routine for statement in statements):
        return list(statements)
    calling_connections = {
        statement.connection
        for statement in statements
        if not statement.routine and _CALL.match(fingerprint(statement.sql))
    }
    remaining = [
        statement
        for statement in statements
        if not statement.routine or statement.connection not in calling_connections
    ]
    skipped["of stored routines, whose CALL is sent"] += len(statements) - len(remaining)
    return remaining


def _spread(statements: Sequence[LoggedStatement]) -> Iterator[LoggedStatement]:
    """Yield the statements spread evenly within their second, in order, and after the previous one's end."""
    seconds: dict[float, list[LoggedStatement]] = defaultdict(list)
    for statement in statements:
        seconds[statement.at_s].append(statement)
    free_at_s: dict[int, float] = {}
    for second in sorted(seconds):
        group = seconds[second]
        for number, statement in enumerate(group):
            at_s = max(second + (number + 0.5) / len(group), free_at_s.get(statement.connection, 0.0))
            free_at_s[statement.connection] = at_s + statement.query_s
            yield replace(statement, at_s=at_s)


def _assign_connections(
    statements: Sequence[ScheduledStatement], connections_max: int
) -> tuple[tuple[tuple[ScheduledStatement, ...], ...], int]:
    """Return the statements of each connection to open, and how many of the log's connections share one.

    A connection takes over the next one of the log when the previous one of the log has ended. A log without
    durations does not tell when that was: then only when there are as many as may be, that which is idle longest.
    """
    has_durations = any(statement.logged_s > 0 for statement in statements)
    by_connection: dict[int, list[ScheduledStatement]] = defaultdict(list)
    for statement in statements:
        by_connection[statement.connection].append(statement)
    assigned: list[list[ScheduledStatement]] = []
    free_at: list[tuple[float, int]] = []
    shared_count = 0
    for group in by_connection.values():  # by the first statement of each, since `due` is by time
        is_free = has_durations and bool(free_at) and free_at[0][0] <= group[0].at_s
        if free_at and (is_free or len(assigned) >= connections_max):
            free_s, number = heapq.heappop(free_at)
            shared_count += not is_free
        else:
            free_s, number = 0.0, len(assigned)
            assigned.append([])
        assigned[number] += group
        heapq.heappush(free_at, (max(free_s, group[-1].at_s + group[-1].logged_s), number))
    return tuple(tuple(sorted(number, key=lambda statement: statement.at_s)) for number in assigned), shared_count
