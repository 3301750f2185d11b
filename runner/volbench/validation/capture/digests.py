"""The classes of statements of a live server, from the difference of its digests over some seconds; read-only."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.base.parse import parse_moment
from volbench.core.base.text import counted
from volbench.core.records.own_statements import is_own_digest
from volbench.core.records.validation.capture import Capture, CapturedClass
from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.guard import WHY_SKIPPED, Allowed, Answer, judge
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.engine.answers import reads_answers, whole_number, whole_or_zero
from volbench.measure.sample.own_account import OwnAccount, Sums
from volbench.measure.sample.parsers.performance_schema import OWN_HISTORY, OWN_THREAD_QUERY
from volbench.validation.queries.classes import QueryClass
from volbench.validation.source.file_sizes import binlog_bytes, tablespace_bytes
from volbench.validation.source.server import ReadOnlyServer, Rows

PICOSECONDS = 1e12
SECONDS_MAX = 3600.0
STATEMENT_S = 60.0
"""Each statement of a capture reads counters in memory."""
_TABLE = "performance_schema.events_statements_summary_by_digest"
DIGESTS = (
    "SELECT COALESCE(schema_name, ''), digest, digest_text, count_star, sum_timer_wait, sum_errors, sum_rows_sent, "
    f"sum_rows_examined FROM {_TABLE}"
)
SAMPLES = f"SELECT COALESCE(schema_name, ''), digest, query_sample_text FROM {_TABLE}"
RUNNING = "SHOW GLOBAL STATUS LIKE 'Threads_running'"
_Digests = dict[tuple[str, str], tuple[str, int, int, int, int, int]]
MASKED = "without a statement, since the capture was masked"
NO_SAMPLE = "without a statement: the server stores none, or a truncated one"
LONGEST = "SELECT @@GLOBAL.performance_schema_max_sql_text_length"


@reads_answers("statements")
def capture(
    server: ReadOnlyServer,
    seconds: float,
    *,
    masked: bool,
    progress: Callable[[str, float], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Capture:
    """Return the statements that the server executes in the next seconds.

    Args:
        server: the server to capture.
        seconds: length of the capture.
        masked: whether to omit sample statements, which have literals.
        progress: called with an activity and a share.
        clock: monotonic seconds.
        sleep: waits for seconds.

    Raises MissingPrerequisite where the server has no digests, StepFailed when it stops answering.
    """
    ((version, comment),) = server.query("SELECT @@GLOBAL.version, @@GLOBAL.version_comment")
    started, began = datetime.now(UTC).isoformat(timespec="seconds"), clock()
    own = _Own(server)
    before, running = own.foreign_digests(), []
    while (elapsed := clock() - began) < seconds:
        progress("capturing", elapsed / seconds)
        running.append(max(0, whole_number(server.query(RUNNING)[0][1]) - 1))
        own.book()
        sleep(min(1.0, seconds - elapsed))
    after, took = own.foreign_digests(), clock() - began
    samples = {} if masked else _samples(server)
    classes = [
        CapturedClass(
            schema_name=key[0],
            digest_text=str(current[0]),
            sample=samples.get(key, ""),
            statements=current[1] - previous[1],
            total_s=(current[2] - previous[2]) / PICOSECONDS,
            errors=current[3] - previous[3],
            rows_sent=current[4] - previous[4],
            rows_examined=current[5] - previous[5],
        )
        for key, current in after.items()
        if key[1] and current[1] > (previous := before.get(key, ("", 0, 0, 0, 0, 0)))[1]
    ]
    unclassified = sum(current[1] - before.get(key, ("", 0))[1] for key, current in after.items() if not key[1])
    statements = sum(query_class.statements for query_class in classes) + max(0, unclassified)
    return Capture(
        flavor="mariadb" if "mariadb" in f"{version} {comment}".lower() else "mysql",
        version=str(version),
        started_at=started.replace("+00:00", "Z"),
        seconds=took,
        statements_per_s=statements / took if took else 0.0,
        threads_running_max=max(running, default=None),
        unclassified=max(0, unclassified),
        masked=masked,
        files=tablespace_bytes(server),
        binlog_bytes=binlog_bytes(server),
        classes=tuple(sorted(classes, key=lambda query_class: -query_class.total_s)),
    )


def read_capture(path: Path) -> Capture:
    """Return the capture in a file of `volbench capture`. Raises UsageError for any other file."""
    try:
        capture = Capture.model_validate_json(safe_files.read_given(path))
        parse_moment(capture.started_at)
    except (OSError, ValueError) as error:
        raise UsageError(
            "the capture cannot be read",
            where=str(path),
            evidence=str(error)[:300],
            next_step="write one with `volbench capture`",
        ) from error
    return capture


def repeatable_classes(capture: Capture, *, skipped: Counter[str] | None = None) -> list[QueryClass]:
    """Return the classes whose sample only reads, those with most time first.

    Args:
        capture: of a server.
        skipped: counts the other classes by reason.
    """
    reasons = Counter[str]() if skipped is None else skipped
    classes = []
    for query_class in capture.classes:
        if not query_class.sample:
            reasons[MASKED if capture.masked else NO_SAMPLE] += 1
        elif (answer := judge(query_class.sample, Allowed.COMPARED)[0]) is not Answer.PASSES:
            reasons[WHY_SKIPPED[answer]] += 1
        else:
            classes.append(
                QueryClass(
                    fingerprint=fingerprint(query_class.sample),
                    schema=query_class.schema_name,
                    samples=(query_class.sample,),
                    count=query_class.statements,
                    total_s=query_class.total_s,
                )
            )
    return classes


class _Own:
    """What the capture's own connection sends: it is no part of what the server is asked by others."""

    def __init__(self, server: ReadOnlyServer) -> None:
        self._server = server
        self._account = OwnAccount()

    def book(self) -> list[tuple[str, Sums]]:
        """Add what was sent since the last call, at most ten statements; nothing where there is no history."""
        booked = []
        with suppress(StepFailed):
            for (thread,) in self._server.query(OWN_THREAD_QUERY):  # none without performance_schema
                ((history,),) = self._server.query(OWN_HISTORY.format(thread=whole_number(thread)))
                booked += self._account.book(str(history or ""))
        return booked

    def foreign_digests(self) -> _Digests:
        """Read the digests, less what was sent: counted where the server has a history, else by our texts.

        Ours are sent without a schema.
        """
        digests, own = self._account.counted_in(lambda: _digests(self._server), self.book)
        foreign: _Digests = {}
        for (schema, digest), (text, count, ps, *sums) in digests.items():
            if not own and is_own_digest(text):
                continue
            own_count, own_ps, _ = (0, 0, 0) if schema else own.get(digest[:8], (0, 0, 0))
            foreign[schema, digest] = (text, count - own_count, ps - own_ps, *sums)  # type: ignore[assignment]
        return foreign


def _digests(server: ReadOnlyServer) -> _Digests:
    rows: Rows = server.query(DIGESTS)
    if not rows:
        raise MissingPrerequisite(
            "the server has no statement digests",
            where=f"reading {server.address}",
            evidence="performance_schema.events_statements_summary_by_digest is empty",
            next_step="start it with performance_schema=ON, or capture with a slow log (long_query_time=0)",
        )
    return {
        (str(row[0]), str(row[1] or "")): (str(row[2] or ""), *_sums(row))  # type: ignore[misc]
        for row in rows
    }


def _sums(row: Sequence[object]) -> list[int]:
    """Return number, time and the other sums of a digest."""
    return [whole_or_zero(value) for value in _of_width(row, 8)[3:]]


def _of_width(row: Sequence[object], columns: int) -> Sequence[object]:
    if len(row) != columns:
        raise ValueError(f"{counted(len(row), 'column')} where {columns} were asked for")
    return row


def _samples(server: ReadOnlyServer) -> dict[tuple[str, str], str]:
    """Return complete sample statements; MariaDB stores none."""
    try:
        longest = whole_number(server.query(LONGEST)[0][0])
        rows = server.query(SAMPLES)
    except StepFailed:
        return {}
    return {
        (str(row[0]), str(row[1])): str(row[2]) for row in rows if row[2] and len(str(row[2]).encode()) < longest
    }
