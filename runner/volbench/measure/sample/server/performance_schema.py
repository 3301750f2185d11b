"""Source `performance_schema`: statement times, file I/O by file class, waits of foreground threads.

Timers count when an event *ends*: a wait of five seconds shows as five seconds in the interval in which it ended.
Waits nest: `table` (time in the storage engine) contains the file waits of the statements that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.own_statements import is_own_digest
from volbench.core.records.series import SeriesRow
from volbench.measure.sample.change import MIB, Change, ratio
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.connection import ServerConnection
from volbench.measure.sample.interface import Changed, Presence, Reading, Sampler, Unavailable, Values
from volbench.measure.sample.own_account import OwnAccount
from volbench.measure.sample.parsers import performance_schema as parse
from volbench.measure.sample.shared import Shared

GENERATION = ("connection", "")
ALL_DIGESTS = ("all_digests", "")
"""There where the reading has each digest of the server: one that it lacks has not run before."""
PROGRAM = "program"
_BACKGROUND_KINDS = frozenset(parse.WAIT_CLASSES[name] for name in parse.BACKGROUND_WAITS)
STATEMENT_BUCKET = "statement_bucket"
"""Counter of the statements in one bucket of the histogram; the entity is the bucket's number."""
_STATEMENT_COUNTERS = ("statements", "statement_ps", "statement_lock_ps", "statement_errors")
_PS_PER_S, _PS_PER_MS = 1e12, 1e9
_NUMBERED = re.compile(r"(?<=[A-Za-z_])\d+")


class _Backups:
    """Connections of backup tools, by the attributes of all sessions.

    To read them, the server goes through all sessions. So they are read when a session has come or gone, and again
    at the next reading: a session has its number before the server has its attributes. While sessions come and go
    at every reading, they are read at each fifth.
    """

    READINGS_BETWEEN = 5

    def __init__(self, server: ServerConnection) -> None:
        self._server = server
        self._sessions, self._programs = "", ""
        self._changed = False
        self._due, self._readings = 0, self.READINGS_BETWEEN

    def running(self, sessions: str) -> Values:
        """Return how many connections each tool has; `sessions` is another text when sessions have come or gone."""
        changed, before = sessions != self._sessions, self._changed
        self._sessions, self._changed = sessions, changed
        self._due = 2 if changed else self._due
        self._readings += 1
        if self._due and self._readings >= (self.READINGS_BETWEEN if changed and before else 1):
            self._programs = self._server.text(parse.PROGRAMS_QUERY)[1]
            self._due, self._readings = self._due - 1, 0
        numbers = {name: count for name, (count,) in parse.parse_lines(self._programs)}
        return {(PROGRAM, name): numbers.get(name, 0) for name in parse.BACKUP_TOOLS}


class PerformanceSchemaSampler(Sampler):
    """Reads all of it with one statement a tick."""

    source: ClassVar[str] = "performance_schema"
    lane: ClassVar[str] = "server"

    def __init__(self, server: ServerConnection, own: OwnAccount | None = None) -> None:
        """Take the account of our own connection, which is then subtracted; None: it is not instrumented."""
        self._server = server
        self._own = own
        self._generation = 0
        self._columns: dict[str, str] = {}
        self._backups = _Backups(server)

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(shared.server, shared.own_account)

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether there is a server, which may start later."""
        return bool(config.option_file)

    def close(self) -> None:
        """Close the connection, also for the other sources of this lane."""
        self._server.close()

    def probe(self) -> Presence:
        """Present when it is switched on; the reason then names the parts that this server does not have."""
        try:
            if self._server.text("SELECT @@global.performance_schema")[0] != "1":
                return Presence(present=False, reason="performance_schema is switched off")
            available = self._available()
            self._columns = self._columns_of(available)
        except Unavailable as error:
            return Presence(present=False, reason=str(error))
        self._generation = self._server.generation
        if not self._columns:
            return Presence(present=False, reason="performance_schema has no table that can be read")
        return Presence(present=True, reason=self._absences(available))

    def _columns_of(self, available: parse.Available) -> dict[str, str]:
        if self._own is None:
            return parse.columns_of(available)
        self._own.clear()
        thread = int(self._server.text(parse.OWN_THREAD_QUERY)[0])
        threads, scanned = map(int, self._server.text(parse.THREADS_QUERY))
        history = ""
        if "events_statements_history" in available.tables:
            history = self._server.text(parse.OWN_HISTORY.format(thread=thread))[0]
        own_history = len(history.splitlines()) >= parse.OWN_HISTORY_MIN
        available = replace(available, threads=threads, indexed=not scanned, own_history=own_history)
        self._backups = _Backups(self._server)
        columns = parse.columns_without_own(available, thread)
        self._own.history_query = columns.get("own", "")
        return columns

    def _absences(self, available: parse.Available) -> str:
        if self._own is None:
            return parse.absences(available, self._columns)
        missing = parse.absences(available, {**self._columns, "digests": ""})
        if "histogram" in self._columns and "own" not in self._columns:
            note = "the server keeps no history of our statements: latencies count them, too"
            missing = f"{missing}; {note}" if missing else note
        return missing

    def _available(self) -> parse.Available:
        def names(sql: str) -> frozenset[str]:
            return frozenset(bytes(row[0] or b"").decode() for row in self._server.rows(sql))

        tables = frozenset(name.lower() for name in names(parse.TABLES_QUERY))
        digests = int(self._server.text(parse.DIGESTS_QUERY)[0]) if parse.DIGESTS_TABLE in tables else None
        return parse.Available(
            tables=tables,
            consumers=names(parse.CONSUMERS_QUERY),
            instruments=names(parse.INSTRUMENTS_QUERY),
            digests=digests,
        )

    def read(self) -> Values:
        """Return counters by class. After a reconnection it looks anew at what there is."""
        if not self._columns or self._generation != self._server.generation:
            presence = self.probe()
            if not presence.present:
                raise Unavailable(presence.reason)
        texts = dict(zip(self._columns, self._server.text(parse.query_of(self._columns)), strict=True))
        if self._generation != self._server.generation:
            raise Unavailable("the connection was opened again")
        if int(texts.get("digest_rows") or 0) > parse.DIGESTS_MAX:
            raise Changed("there are too many digests to ask for at every tick")
        values: Values = {GENERATION: self._generation}
        values |= self._buckets(texts)
        if "sessions" in self._columns:
            values |= self._backups.running(texts.get("sessions", ""))
        if texts.get("statements"):
            numbers = map(int, texts["statements"].split())
            own = self._own_statements()
            counters = zip(_STATEMENT_COUNTERS, numbers, own, strict=True)
            values |= {(name, ""): number - own_number for name, number, own_number in counters}
        for kind, sums in parse.sums_by_class(texts.get("files", ""), parse.FILE_CLASSES, "other").items():
            values |= {(f"file_{name}", kind): number for name, number in zip(parse.FILE_FIELDS, sums, strict=True)}
        for kind, sums in parse.sums_by_class(texts.get("background", ""), parse.FILE_CLASSES, None).items():
            values["background_ps", kind] = sums[1]
        values |= self._waits(texts)
        return values | _digests(texts)

    def _own_statements(self) -> tuple[int, int, int, int]:
        """Return our own connection's _STATEMENT_COUNTERS; zeros where the query has left them out."""
        own = self._own
        if own is None or "own" not in self._columns:
            return 0, 0, 0, 0
        return own.count, own.ps, own.lock_ps, own.errors

    def _waits(self, texts: Mapping[str, str]) -> Values:
        """Return waits by class, of all threads, and of background threads those that they have as well."""
        waits = parse.sums_by_class(texts.get("waits", ""), parse.WAIT_CLASSES, None)
        values: Values = {("wait_ps", kind): sums[1] for kind, sums in waits.items()}
        background = parse.sums_by_class(texts.get("background", ""), parse.WAIT_CLASSES, None)
        for name in parse.BACKGROUND_WAITS:
            kind = parse.WAIT_CLASSES[name]
            if kind in waits and "background" in self._columns:
                values["background_wait_ps", kind] = background[kind][1] if kind in background else 0
        return values

    def _buckets(self, texts: Mapping[str, str]) -> Values:
        """Return statements by bucket of the histogram, without those of our own connection."""
        if self._own is not None:
            self._own.book(texts.get("own", ""))
        own_buckets = {} if self._own is None else self._own.buckets
        return {
            (STATEMENT_BUCKET, bucket): count - own_buckets.get(int(bucket), 0)
            for bucket, (count,) in parse.parse_lines(texts.get("histogram", ""))
        }

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield rates by class; none over a reconnection, since the counters may have begun anew."""
        change = Change(source=PerformanceSchemaSampler.source, before=before, after=after)
        if not change.usable or before.values.get(GENERATION) != after.values.get(GENERATION):
            return
        yield from change.rows(_statements(change))
        for kind in change.entities("file_reads"):
            yield from change.rows(_files(change, kind), kind)
        for kind in change.entities("background_ps"):
            yield from change.rows([("wait_s_per_s", _foreground(change, kind))], f"file_{kind}")
        for kind in change.entities("wait_ps"):
            yield from change.rows([("wait_s_per_s", _waited(change, kind))], kind)
        for program in change.entities(PROGRAM):
            yield from change.rows([("program_connections", change.gauge(PROGRAM, program))], program)
        for query, digests in _queries(change).items():
            yield from change.rows(_of_query(change, digests), query)


def _digests(texts: Mapping[str, str]) -> Values:
    """Return what each digest counts, and whether these are all of them."""
    values: Values = {}
    for digest, sums_of in parse.parse_digests(texts.get("digests", "")):
        values |= {(f"digest_{name}", digest): number for name, number in sums_of.items()}
    if 0 < int(texts.get("digest_rows") or 0) <= parse.DIGESTS_SHOWN:
        values[ALL_DIGESTS] = 1
    return values


def _queries(change: Change) -> dict[str, list[str]]:
    """Return digests that are the same but for numbers in their names, such as those of sbtest1 and sbtest2."""
    digests_by_text: dict[str, list[str]] = {}
    has_all = ALL_DIGESTS in change.before.values
    later = [digest for name, digest in change.after.values if name == "digest_count"]
    for digest in later if has_all else change.entities("digest_count"):
        if is_own_digest(digest.partition(" ")[2]):
            continue
        digests_by_text.setdefault(_NUMBERED.sub("N", digest.partition(" ")[2]), []).append(digest)
    return digests_by_text


def _of_query(change: Change, digests: list[str]) -> Iterator[tuple[str, float | None]]:
    """Yield rates of some digests together; CPU time only where it is known of all."""
    for name, metric, unit in (
        ("count", "query_per_s", 1.0),
        ("ps", "query_s_per_s", _PS_PER_S),
        ("lock_ps", "query_lock_s_per_s", _PS_PER_S),
        ("cpu_ps", "query_cpu_s_per_s", _PS_PER_S),
    ):
        grown = [_grown(change, f"digest_{name}", digest) for digest in digests]
        values = [value for value in grown if value is not None]
        yield metric, sum(values) / unit / change.dt_s if len(values) == len(grown) else None


def _grown(change: Change, counter: str, digest: str) -> float | None:
    """Return by how much a digest's counter grew.

    All of it where the reading before had all digests, and not this one.
    """
    is_new = ALL_DIGESTS in change.before.values and ("digest_count", digest) not in change.before.values
    return change.after.values.get((counter, digest)) if is_new else change.grown(counter, digest)


def _statements(change: Change) -> Iterator[tuple[str, float | None]]:
    yield "statements_per_s", change.per_s("statements")
    yield "statement_s_per_s", change.per_s("statement_ps", unit=_PS_PER_S)
    yield "statement_lock_s_per_s", change.per_s("statement_lock_ps", unit=_PS_PER_S)
    yield "statement_errors_per_s", change.per_s("statement_errors")
    yield "statement_ms", ratio(change.grown("statement_ps"), change.grown("statements"), scale=1 / _PS_PER_MS)


def _files(change: Change, kind: str) -> Iterator[tuple[str, float | None]]:
    for verb in ("read", "write", "sync"):
        operations, time_ps = f"file_{verb}s", f"file_{verb}_ps"
        yield f"file_{verb}s_per_s", change.per_s(operations, kind)
        yield f"file_{verb}_s_per_s", change.per_s(time_ps, kind, unit=_PS_PER_S)
        yield (
            f"file_{verb}_ms",
            ratio(change.grown(time_ps, kind), change.grown(operations, kind), scale=1 / _PS_PER_MS),
        )
    yield "file_read_mib_per_s", change.per_s("file_read_bytes", kind, unit=MIB)
    yield "file_write_mib_per_s", change.per_s("file_write_bytes", kind, unit=MIB)


def _waited(change: Change, kind: str) -> float | None:
    """Return other waits of foreground threads.

    None where background threads have them too and nothing counts those.
    """
    total, background = change.grown("wait_ps", kind), change.grown("background_wait_ps", kind)
    if total is None or (background is None and kind in _BACKGROUND_KINDS):
        return None
    return max(0.0, total - (background or 0.0)) / _PS_PER_S / change.dt_s


def _foreground(change: Change, kind: str) -> float | None:
    """Return file waits of all threads less those of background threads, read a moment apart: hence the floor."""
    total = change.grown_sum(("file_read_ps", "file_write_ps", "file_sync_ps"), kind)
    background = change.grown("background_ps", kind)
    if total is None or background is None:
        return None
    return max(0.0, total - background) / _PS_PER_S / change.dt_s
