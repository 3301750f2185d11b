"""The classes of statements of a live server: the difference of its digests over some seconds, only read."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from volbench.errors import EnvironmentLacks, StepFailed, UsageError
from volbench.records.capture import Capture, CapturedClass
from volbench.records.own_statements import is_own_digest
from volbench.sample.own_account import OwnAccount
from volbench.sample.parsers.performance_schema import OWN_HISTORY, OWN_THREAD_QUERY
from volbench.store.sealed import is_sealed, key_from, opened
from volbench.validation.file_sizes import binary_logs, filled
from volbench.validation.fingerprint import fingerprint
from volbench.validation.queries import QueryClass, only_reads
from volbench.validation.source import ReadOnlySource, Rows

PICOSECONDS = 1e12
SECONDS_MAX = 3600.0
_TABLE = "performance_schema.events_statements_summary_by_digest"
DIGESTS = (
    "SELECT COALESCE(schema_name, ''), digest, digest_text, count_star, sum_timer_wait, sum_errors, sum_rows_sent, "  # noqa: S608 - a constant
    f"sum_rows_examined FROM {_TABLE}"
)
SAMPLES = f"SELECT COALESCE(schema_name, ''), digest, query_sample_text FROM {_TABLE}"  # noqa: S608 - a constant
RUNNING = "SHOW GLOBAL STATUS LIKE 'Threads_running'"
_Digests = dict[tuple[str, str], tuple[str, int, int, int, int, int]]
LONGEST = "SELECT @@GLOBAL.performance_schema_max_sql_text_length"


def capture(
    server: ReadOnlySource,
    seconds: float,
    *,
    masked: bool,
    progress: Callable[[str, float], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Capture:
    """What the server is asked in the next seconds.

    Raises EnvironmentLacks where it keeps no digests, StepFailed when it stops answering.
    """
    ((version, comment),) = server.query("SELECT @@GLOBAL.version, @@GLOBAL.version_comment")
    started, began = datetime.now(UTC).isoformat(timespec="seconds"), clock()
    own = _Own(server)
    before, running = _digests(server), []
    while (elapsed := clock() - began) < seconds:
        progress("capturing", elapsed / seconds)
        running.append(int(server.query(RUNNING)[0][1]) - 1)
        own.book()
        sleep(min(1.0, seconds - elapsed))
    own.book()
    after, took = own.without(_digests(server)), clock() - began
    samples = {} if masked else _samples(server)
    classes = [
        CapturedClass(
            schema_name=key[0], digest_text=str(now[0]), sample=samples.get(key, ""),
            statements=now[1] - then[1], total_s=(now[2] - then[2]) / PICOSECONDS, errors=now[3] - then[3],
            rows_sent=now[4] - then[4], rows_examined=now[5] - then[5],
        )
        for key, now in after.items()
        if key[1] and now[1] > (then := before.get(key, ("", 0, 0, 0, 0, 0)))[1]
    ]  # fmt: skip
    unclassified = sum(now[1] - before.get(key, ("", 0))[1] for key, now in after.items() if not key[1])
    whole = sum(one.statements for one in classes) + max(0, unclassified)
    return Capture(
        flavor="mariadb" if "mariadb" in f"{version} {comment}".lower() else "mysql",
        version=str(version),
        started_at=started.replace("+00:00", "Z"),
        seconds=took,
        statements_per_s=whole / took if took else 0.0,
        threads_running_max=max(running, default=None),
        unclassified=max(0, unclassified),
        masked=masked,
        files=filled(server),
        binlog_bytes=binary_logs(server),
        classes=tuple(sorted(classes, key=lambda one: -one.total_s)),
    )


def read_capture(path: Path) -> Capture:
    """A file of `volbench capture`, perhaps a sealed one. Raises UsageError."""
    try:
        content = path.read_bytes()
        if is_sealed(content):
            content = opened(content, key_from(os.environ), where=str(path))
        return Capture.model_validate_json(content)
    except (OSError, ValueError) as error:
        raise UsageError(
            "the capture cannot be read", where=str(path), evidence=str(error)[:300],
            next_step="write one with `volbench capture`",
        ) from error  # fmt: skip


def captured_classes(found: Capture) -> list[QueryClass]:
    """Classes whose sample can be asked again, those that took most time first."""
    return [
        QueryClass(
            fingerprint=fingerprint(one.sample), schema=one.schema_name, samples=(one.sample,),
            count=one.statements, total_s=one.total_s,
        )
        for one in found.classes
        if one.sample and only_reads(one.sample)
    ]  # fmt: skip


class _Own:
    """What the capture's own connection sends: it is no part of what the server is asked by others."""

    def __init__(self, server: ReadOnlySource) -> None:
        self._server = server
        self._account = OwnAccount()
        self.book()
        self._begin = (Counter(self._account.digest_counts), Counter(self._account.digest_ps))

    def book(self) -> None:
        """Add what was sent since the last call, at most ten statements; nothing where there is no history."""
        with suppress(StepFailed):
            ((thread,),) = self._server.query(OWN_THREAD_QUERY)
            ((history,),) = self._server.query(OWN_HISTORY.format(thread=int(thread)))
            self._account.book(str(history or ""))

    def without(self, digests: _Digests) -> _Digests:
        """The digests less what was sent: counted where the server has a history, else by our texts."""
        account, (counts, times) = self._account, self._begin
        found: _Digests = {}
        for (schema, digest), (text, count, ps, *rest) in digests.items():
            begin = digest[:8]
            ours = account.digest_counts[begin] - counts[begin]
            if not account.digest_counts and is_own_digest(text):
                continue
            took_ps = account.digest_ps[begin] - times[begin]
            found[schema, digest] = (text, count - ours, ps - took_ps, *rest)  # type: ignore[assignment]
        return found


def _digests(server: ReadOnlySource) -> _Digests:
    rows: Rows = server.query(DIGESTS)
    if not rows:
        raise EnvironmentLacks(
            "the server keeps no digests of statements", where=f"reading {server.place}",
            evidence="performance_schema.events_statements_summary_by_digest is empty",
            next_step="start it with performance_schema=ON, or capture with a slow log (long_query_time=0)",
        )  # fmt: skip
    return {
        (str(row[0]), str(row[1] or "")): (str(row[2] or ""), *(int(value or 0) for value in row[3:8]))  # type: ignore[misc]
        for row in rows
    }


def _samples(server: ReadOnlySource) -> dict[tuple[str, str], str]:
    """Whole ones only, and none from MariaDB, which keeps none."""
    try:
        longest = int(server.query(LONGEST)[0][0])
        rows = server.query(SAMPLES)
    except StepFailed:
        return {}
    return {
        (str(row[0]), str(row[1])): str(row[2]) for row in rows if row[2] and len(str(row[2]).encode()) < longest
    }
