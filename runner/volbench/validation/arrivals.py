"""From a log to what is due when: arrival times kept, connections kept, nothing that could do harm."""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from volbench.errors import Refused, UsageError
from volbench.validation.fingerprint import fingerprint
from volbench.validation.slowlog import LoggedStatement, outside
from volbench.validation.source import refuse_writes

STATEMENTS_MAX = 5_000_000
"""Kept in memory: about a kilobyte each."""
AFTER_SECONDS = "after replay.seconds"
_CONTROL = re.compile(
    r"(begin|start transaction|commit|rollback|savepoint|release savepoint"
    r"|set (session |local )?(@\w|names\b|transaction\b|autocommit\b|sql_mode\b|time_zone\b))"
)
_WRITES = re.compile(r"(insert|update|delete|replace|call|do|select|with|(create|drop) temporary table)\b")
_CALL = re.compile(r"call\b")
_HARM = re.compile(
    r"\binto\s+(outfile|dumpfile)\b|\bload_file\s*\(|;|@@(global|persist)|\bset\b.*,\s*(global|persist)\b"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """One statement to send: `at_s` after the start, on the connection that it was logged on."""

    at_s: float
    connection: int
    schema: str
    sql: str
    shape: int
    logged_s: float


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Everything that is due, a tuple for each connection to open; `shapes` are the classes' fingerprints.

    `began_s` is when the log's first statement came, since the epoch.
    """

    lanes: tuple[tuple[Due, ...], ...]
    shapes: tuple[str, ...]
    left_out: dict[str, int]
    log_s: float
    shared_connections: int
    whole_seconds: bool
    began_s: float | None = None

    @property
    def planned_s(self) -> float:
        """When the last statement is due."""
        return max(lane[-1].at_s for lane in self.lanes)

    @property
    def statements(self) -> int:
        """How many are due."""
        return sum(map(len, self.lanes))

    @property
    def peak_per_s(self) -> int:
        """Most that are due within one second."""
        return max(Counter(int(due.at_s) for lane in self.lanes for due in lane).values())


def schedule(
    logged: Iterable[LoggedStatement],
    *,
    schemas: Collection[str],
    writes: bool,
    speed: float,
    seconds: float,
    connections: int,
) -> Schedule:
    """What a replay sends.

    Args:
        logged: in the log's order, which is by their ends.
        schemas: statements of others are left out.
        writes: whether statements that write are sent too.
        speed: 2 is twice as fast; seconds: of the log's time; connections: at most, at one time.

    Raises UsageError when nothing is left, or far too much.
    """
    left_out: Counter[str] = Counter()
    kept = []
    earliest_s = float("inf")
    for one in logged:
        reason = _why_left_out(one, schemas, writes=writes)
        if not reason:
            earliest_s = min(earliest_s, one.at_s)
            if one.at_s - earliest_s >= seconds + 1:  # a whole second may be spread
                reason = AFTER_SECONDS
        if reason:
            left_out[reason] += 1
        else:
            kept.append(one)
        if len(kept) > STATEMENTS_MAX:
            raise UsageError(f"a log of more than {STATEMENTS_MAX} statements", where="replay.slow_log",
                             next_step="cut it with replay.seconds, or replay a part")  # fmt: skip
    if not kept:
        told = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise UsageError("the log has no statement to replay", where="replay.slow_log",
                         evidence=f"left out: {told or 'nothing, it is empty'}")  # fmt: skip
    kept = _without_routines(kept, left_out)
    whole = all(one.at_s.is_integer() for one in kept)
    timed = sorted(_spread(kept) if whole else kept, key=lambda one: one.at_s)
    first = timed[0].at_s
    within = [one for one in timed if one.at_s - first < seconds]
    left_out[AFTER_SECONDS] += len(timed) - len(within)
    shapes: dict[str, int] = {}
    due = [
        Due(
            at_s=(one.at_s - first) / speed, connection=one.connection, schema=one.schema or "", sql=one.sql,
            shape=shapes.setdefault(fingerprint(one.sql), len(shapes)), logged_s=one.query_s,
        )
        for one in within
    ]  # fmt: skip
    lanes, shared = _lanes(due, connections)
    return Schedule(
        lanes=lanes, shapes=tuple(shapes), left_out=dict(+left_out), log_s=within[-1].at_s - first,
        shared_connections=shared, whole_seconds=whole, began_s=first,
    )  # fmt: skip


def _why_left_out(one: LoggedStatement, schemas: Collection[str], *, writes: bool) -> str:
    if reason := outside(one, schemas):
        return reason
    bare = fingerprint(one.sql)
    if bare.startswith(("select", "with", "(")) and _only_reads(one.sql):
        return ""
    if not (_CONTROL.match(bare) or _WRITES.match(bare)) or _HARM.search(bare):
        return "of a kind that is never replayed"
    return "" if writes else "that do more than read"


def _without_routines(statements: Sequence[LoggedStatement], left_out: Counter[str]) -> list[LoggedStatement]:
    """Without what a CALL that is sent itself does again."""
    if not any(one.routine for one in statements):
        return list(statements)
    calling = {one.connection for one in statements if not one.routine and _CALL.match(fingerprint(one.sql))}
    found = [one for one in statements if not one.routine or one.connection not in calling]
    left_out["of stored routines, whose CALL is sent"] += len(statements) - len(found)
    return found


def _only_reads(sql: str) -> bool:
    try:
        refuse_writes(sql)
    except Refused:
        return False
    return True


def _spread(statements: Sequence[LoggedStatement]) -> Iterator[LoggedStatement]:
    """Evenly within their second, in the log's order; not before the one before it on its connection was done."""
    seconds: dict[float, list[LoggedStatement]] = defaultdict(list)
    for one in statements:
        seconds[one.at_s].append(one)
    free: dict[int, float] = {}
    for second in sorted(seconds):
        group = seconds[second]
        for number, one in enumerate(group):
            at = max(second + (number + 0.5) / len(group), free.get(one.connection, 0.0))
            free[one.connection] = at + one.query_s
            yield replace(one, at_s=at)


def _lanes(due: Sequence[Due], limit: int) -> tuple[tuple[tuple[Due, ...], ...], int]:
    """Each of the log's connections on one of ours; one of ours takes the next when the last is done with it."""
    of: dict[int, list[Due]] = defaultdict(list)
    for one in due:
        of[one.connection].append(one)
    lanes: list[list[Due]] = []
    free: list[tuple[float, int]] = []
    shared = 0
    for group in of.values():  # by the first statement of each, since `due` is by time
        if free and (free[0][0] <= group[0].at_s or len(lanes) >= limit):
            until, lane = heapq.heappop(free)
            shared += until > group[0].at_s
        else:
            until, lane = 0.0, len(lanes)
            lanes.append([])
        lanes[lane] += group
        heapq.heappush(free, (max(until, group[-1].at_s + group[-1].logged_s), lane))
    return tuple(tuple(sorted(lane, key=lambda one: one.at_s)) for lane in lanes), shared
