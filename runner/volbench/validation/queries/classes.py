"""Classes of the reading queries of a slow log: counts, exact total times, samples.

A large log is read in parts, in several processes. What the parts give is added up in the log's order, with exact
sums, so that the result does not depend on where the log was divided.
"""

from __future__ import annotations

import gc
import os
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path

from volbench.core.sql.guard import WHY_SKIPPED, Answer
from volbench.core.sql.library import ShapeNumbers, as_bytes
from volbench.errors import UsageError
from volbench.measure.workload.replay.logged_statement import (
    INHERITED,
    LoggedStatement,
    LogState,
    inherited_schema,
)
from volbench.measure.workload.replay.slowlog import LogText, SlowLog, why_outside_schema
from volbench.measure.workload.replay.slowlog_entries import EntryContinues
from volbench.measure.workload.replay.slowlog_parts import PART_BYTES, part_offsets
from volbench.validation.queries.log_workers import MEMORY_BYTES, log_files, log_workers

SAMPLES_EACH = 2
PROCESSES_MAX = 8
_GROUP_STATEMENTS, _GROUP_CHARACTERS = 1000, 1 << 20
"""Statements that the lexer reads in one call, and about their size."""


@dataclass(frozen=True, kw_only=True)
class QueryClass:
    """Queries with one fingerprint: number in the log, total time, and samples."""

    fingerprint: str
    schema: str
    samples: tuple[str, ...]
    count: int
    total_s: float


@dataclass(frozen=True, kw_only=True)
class LogClasses:
    """Classes of a log, those with most total time first; statements skipped by reason; the log in a sentence."""

    classes: list[QueryClass]
    skipped: Counter[str]
    summary: str


def query_classes(
    statements: Iterable[LoggedStatement],
    schemas: Collection[str],
    *,
    skipped: Counter[str] | None = None,
    samples_each: int = SAMPLES_EACH,
) -> list[QueryClass]:
    """Return classes of the reading queries of a log, those with most total time first.

    Args:
        statements: of the log.
        schemas: statements of other schemas are skipped.
        skipped: counts skipped statements by reason.
        samples_each: samples of a class.
    """
    tallies = _Tallies(schemas, samples_each)
    tallies.add_all((statement.schema, statement.query_s, statement.sql) for statement in statements)
    if skipped is not None:
        skipped.update(tallies.skipped_by_reason())
    return tallies.by_time()


def classes_of_log(
    path: Path,
    schemas: Collection[str],
    *,
    samples_each: int = SAMPLES_EACH,
    processes: int | None = None,
    part_bytes: int = PART_BYTES,
) -> LogClasses:
    """Return the classes of the reading queries of a slow log.

    Args:
        path: of the log.
        schemas: statements of other schemas are skipped.
        samples_each: samples of a class.
        processes: that read parts of it; by default one for each CPU of this process, 8 at most.
        part_bytes: about the size of a part.

    Raises UsageError when the file cannot be read or is no slow log.
    """
    processes = processes or min(PROCESSES_MAX, len(os.sched_getaffinity(0)))
    job = _Job(path=path.absolute(), schemas=frozenset(schemas), samples_each=samples_each)
    try:
        return _classes_of_parts(job, processes, part_bytes)
    except OSError as error:
        raise UsageError("the slow query log cannot be read", where=str(path), evidence=str(error)) from error


@contextmanager
def _no_collection() -> Iterator[None]:
    """Stop the collection of cycles: counts have none, and looking for them among 100,000 classes takes a third."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_no_collection()
def _classes_of_parts(job: _Job, processes: int, part_bytes: int) -> LogClasses:
    log_parts: list[_Range] = list(pairwise(part_offsets(job.path, part_bytes=part_bytes)))
    if len(log_parts) == 1 or processes == 1:
        return _merged(job, iter([((0, None), _read_part(job, 0, None))]))
    log_parts[-1] = (log_parts[-1][0], None)  # what is written until its reading begins is read too
    with log_workers(min(processes, len(log_parts)), job.path, _read_part) as pool:
        return _merged(job, _parts_in_order(pool, job, log_parts, ahead=2 * processes))


def _groups(
    statements: Iterable[tuple[str | None, float, str]],
) -> Iterator[list[tuple[str | None, float, str]]]:
    """Yield the statements in groups, so that each call of the lexer has enough to do."""
    group: list[tuple[str | None, float, str]] = []
    characters = 0
    for statement in statements:
        group.append(statement)
        characters += len(statement[2])
        if len(group) >= _GROUP_STATEMENTS or characters >= _GROUP_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


@dataclass(slots=True)
class _Tally:
    """Counts of a class so far, or of statements that are skipped for one reason."""

    count: int = 0
    total_ns: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, tally: _Tally, samples_each: int) -> None:
        self.count += tally.count
        self.total_ns += tally.total_ns
        unseen = [sample for sample in tally.samples if sample not in self.samples]
        self.samples += unseen[: samples_each - len(self.samples)]


class _Tallies:
    """Tallies of classes by schema and fingerprint, and of skipped statements by schema and reason.

    A part of a log may have statements whose schema an earlier part decides: it begins with INHERITED. All other
    skipped statements have an empty schema.
    """

    def __init__(self, schemas: Collection[str], samples_each: int) -> None:
        self._schemas, self._samples_each = schemas, samples_each
        self.classes: dict[tuple[str, str], _Tally] = {}
        self.skipped: dict[tuple[str, str], _Tally] = {}

    def add_all(self, statements: Iterable[tuple[str | None, float, str]]) -> None:
        """Add statements: schema, query time in seconds, text."""
        numbers = ShapeNumbers()
        tallies: dict[tuple[str | None, int, int], tuple[_Tally, bool]] = {}
        for group in _groups(statements):
            of_group = numbers.add([as_bytes(sql) for _, _, sql in group])
            for (schema, query_s, sql), number, answer in zip(group, *of_group, strict=True):
                entry = tallies.get((schema, number, answer))
                if entry is None:
                    entry = tallies[schema, number, answer] = self._tally_of(schema, numbers, number, answer)
                tally, is_class = entry
                if is_class:
                    tally.total_ns += round(query_s * 1e9)
                    if len(tally.samples) < self._samples_each and sql not in tally.samples:
                        tally.samples.append(sql)
                tally.count += 1

    def _tally_of(self, schema: str | None, numbers: ShapeNumbers, number: int, answer: int) -> tuple[_Tally, bool]:
        """Return the tally of a statement, and whether it is that of a class."""
        undecided = schema if schema is not None and schema.startswith(INHERITED) else ""
        if not undecided and (reason := why_outside_schema(schema, self._schemas)):
            return self._skip("", reason), False
        if undecided:
            self._skip(undecided, "")  # its turn among the reasons, should the schema turn out to be another
        if answer != Answer.PASSES:
            return self._skip(undecided, WHY_SKIPPED[Answer(answer)]), False
        return self.classes.setdefault((schema or "", numbers.shape(number)), _Tally()), True

    def _skip(self, schema: str, reason: str) -> _Tally:
        return self.skipped.setdefault((schema, reason), _Tally())

    def add_part(self, log_part: _Tallies, before: str | None) -> None:
        """Add those of the next part of the log, which began with the schema `before`."""
        for (schema, reason), tally in log_part.skipped.items():
            actual = why_outside_schema(inherited_schema(schema, before), self._schemas) if schema else ""
            count = tally.count
            if actual and not reason:
                count += sum(queries.count for (name, _), queries in log_part.classes.items() if name == schema)
            if count:
                self._skip("", actual or reason).count += count
        for (schema, shape), tally in log_part.classes.items():
            actual_schema = inherited_schema(schema, before)
            if not why_outside_schema(actual_schema, self._schemas):
                total = self.classes.setdefault((actual_schema or "", shape), tally)
                if total is not tally:
                    total.add(tally, self._samples_each)

    def skipped_by_reason(self) -> Counter[str]:
        """Return numbers of skipped statements, in the order in which the reasons occurred."""
        return Counter({reason: tally.count for (_, reason), tally in self.skipped.items()})

    def by_time(self) -> list[QueryClass]:
        """Return the classes, those with most total time first."""
        classes = [
            QueryClass(
                fingerprint=shape,
                schema=schema,
                samples=tuple(tally.samples),
                count=tally.count,
                total_s=tally.total_ns / 1e9,
            )
            for (schema, shape), tally in self.classes.items()
        ]
        return sorted(classes, key=lambda query: -query.total_s)


_Range = tuple[int, int | None]
"""Offsets in bytes; None: the end of the file."""


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What each process reads, and how."""

    path: Path
    schemas: frozenset[str]
    samples_each: int


@dataclass(frozen=True, kw_only=True)
class _PartResult:
    """What one part of a log gives, and the state after it."""

    tallies: _Tallies
    used: int
    skipped: Counter[str]
    appended_bytes: int
    state: LogState


@_no_collection()
def _read_part(job: _Job, begin: int, end: int | None, state: LogState | None = None) -> _PartResult | None:
    """Return what a part of the log gives; None where only the text before or after it decides.

    Raises OSError; UsageError when the whole file is no slow log.
    """
    if begin and state is None:
        state = LogState(schema=INHERITED, local_end_s=INHERITED)
    tallies = _Tallies(job.schemas, job.samples_each)
    with log_files(job.path) as (file, later):
        following = None if end is None else LogText(later, end)
        log = SlowLog(LogText(file, begin, end), name=str(job.path), state=state, following=following)
        try:
            tallies.add_all(log.timed_texts())
        except EntryContinues:
            return None
    return _PartResult(
        tallies=tallies,
        used=log.used,
        skipped=log.skipped,
        appended_bytes=log.appended_bytes,
        state=log.state,
    )


def _merged(job: _Job, log_parts: Iterator[tuple[_Range, _PartResult | None]]) -> LogClasses:
    """Return the parts' sum; read a part that cannot be read alone here, with the state before it."""
    tallies, state = _Tallies(job.schemas, job.samples_each), LogState()
    log = SlowLog((), name=str(job.path))
    for (begin, end), read in log_parts:
        log_part = _read_with_next(job, begin, end, state, log_parts) if read is None else read
        tallies.add_part(log_part.tallies, state.schema)
        log.used += log_part.used
        log.skipped.update(log_part.skipped)
        log.appended_bytes += log_part.appended_bytes
        local_end_s = log_part.state.local_end_s
        state = LogState(
            schema=inherited_schema(log_part.state.schema, state.schema),
            local_end_s=state.local_end_s if local_end_s == INHERITED else local_end_s,
        )
    return LogClasses(classes=tallies.by_time(), skipped=tallies.skipped_by_reason(), summary=log.summary())


def _read_with_next(
    job: _Job, begin: int, end: int | None, state: LogState, log_parts: Iterator[tuple[_Range, _PartResult | None]]
) -> _PartResult:
    """Return a part with as many of the next ones as its last entry goes on in, and take these from `log_parts`."""
    joined, log_part = 1, _read_part(job, begin, end, replace(state))
    while log_part is None:
        for (_, next_end), _ in islice(log_parts, joined):
            end = next_end
        joined *= 2
        log_part = _read_part(job, begin, end, replace(state))
    return log_part


def _parts_in_order(
    pool: ProcessPoolExecutor, job: _Job, ranges: list[_Range], *, ahead: int
) -> Iterator[tuple[_Range, _PartResult | None]]:
    """Yield what the parts give, in the log's order; at most `ahead` of them are in memory."""
    waiting: deque[tuple[_Range, Future[_PartResult | None] | None]] = deque()
    following = iter(ranges)
    try:
        while True:
            for begin, end in islice(following, ahead - len(waiting)):
                waiting.append(((begin, end), _submitted(pool, job, begin, end)))
            if not waiting:
                return
            offsets, future = waiting.popleft()
            try:
                log_part = None if future is None else future.result()
            except BrokenProcessPool:
                log_part = None
            except MemoryError as error:
                raise UsageError(
                    "a part of the slow query log takes too much memory",
                    where=str(job.path),
                    evidence=f"from byte {offsets[0]} on; {MEMORY_BYTES >> 20} MiB are allowed",
                    next_step="leave out what is there: a statement of such a size has no place in a comparison",
                ) from error
            yield offsets, log_part
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _submitted(
    pool: ProcessPoolExecutor, job: _Job, begin: int, end: int | None
) -> Future[_PartResult | None] | None:
    """Return None where a process has ended, such as one that had no memory left."""
    try:
        return pool.submit(_read_part, job, begin, end)
    except BrokenProcessPool:
        return None
