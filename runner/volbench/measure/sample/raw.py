"""raw/samples.jsonl: every reading as it was taken, appended tick by tick, and read back after anything.

One JSON object a line:

    {"schema": 2, "interval_s": ..., "zero_monotonic_ns": ...}
    {"source": "cpu", "present": true, "reason": "", "remote": false, "next_tick": n}   whenever that changes
    {"keys": 3, "source": "cpu", "names": [["user", ""], ...], "of": [[0, 7], [9, 1]]}    names of a list of values
    {"tick": n, "late_s": ..., "took_s": ..., "read": {"cpu": [t_s, 3, [values]]}, "failed": {"psi": "reason"}}
    {"end_s": ...}                                                      a clean end

A list of names comes before its values: `names` are new ones of the source, numbered from 0 on in the file, and
`of` the ranges of these numbers, each its first and how many. Tick n is due n intervals after the cell's zero. A
line goes out with one write, so that a killed process leaves at most one truncated line, the last.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from volbench.core.base import safe_files
from volbench.core.base.parse import NUMBER_MAX, SPAN_MAX_S, WHOLE_MAX, parse_json
from volbench.errors import RunUnreadable
from volbench.measure.sample.interface import Presence, Reading
from volbench.measure.sample.names import NamesReader, NamesWriter

RAW_SCHEMA = 2
_SCHEMAS_READ = (1, RAW_SCHEMA)
LINE_BYTES_MAX = 16 << 20
"""A line holds what one tick read; those of a server with every digest have less than a MiB."""
_NUMBERS = {int, float, bool}


class RawWriter:
    """Appends lines; used by several threads."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._lock, self._naming = threading.Lock(), threading.Lock()
        self._broken = False  # nothing may follow half a line: the reader forgives only the last one
        self._names = NamesWriter()

    def header(self, *, interval_s: float, zero_monotonic_ns: int) -> None:
        """Write the first line."""
        self._write({"schema": RAW_SCHEMA, "interval_s": interval_s, "zero_monotonic_ns": zero_monotonic_ns})

    def presence(self, source: str, presence: Presence, *, remote: bool, next_tick: int) -> None:
        """Write what a probe returned."""
        about = {"source": source, "present": presence.present, "reason": presence.reason}
        self._write({**about, "remote": remote, "next_tick": next_tick})

    def tick(
        self,
        tick: int,
        *,
        late_s: float,
        took_s: float,
        read: Mapping[str, Reading],
        failed: Mapping[str, str],
    ) -> None:
        """Write the readings of one tick."""
        line: dict[str, Any] = {"tick": tick, "late_s": round(late_s, 6), "took_s": round(took_s, 6)}
        line["read"] = {
            source: [reading.t_s, self._keys_of(source, reading), list(reading.values.values())]
            for source, reading in read.items()
        }
        if failed:
            line["failed"] = dict(failed)
        self._write(line)

    def _keys_of(self, source: str, reading: Reading) -> int:
        with self._naming:  # a list goes out before one that needs its names
            number, line = self._names.number(source, tuple(reading.values))
            if line is not None:
                self._write(line)
        return number

    def end(self, end_s: float) -> None:
        """Write the last line, that of a clean end."""
        self._write({"end_s": end_s})

    def _write(self, line: dict[str, Any]) -> None:
        data = (json.dumps(line, separators=(",", ":")) + "\n").encode()
        with self._lock:
            if self._broken:
                raise OSError(errno.EIO, "an earlier line could not be written whole")
            self._broken = True
            if os.write(self._fd, data) == len(data):
                self._broken = False

    def fileno(self) -> int:
        """Return the open file."""
        return self._fd

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


@dataclass(frozen=True, kw_only=True, slots=True)
class RawTick:
    """One tick of some sources: those of one thread of the sampling process."""

    tick: int
    late_s: float
    took_s: float
    read: Mapping[str, Reading]
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """Write the first line."""

    interval_s: float
    zero_monotonic_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SourcePresence:
    """What a probe said of a source; `remote` ones answer from elsewhere, and so may take long.

    `next_tick` is the first that could be taken after the probe.
    """

    source: str
    presence: Presence
    remote: bool
    next_tick: int


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """A clean end."""

    end_s: float


def read_raw(path: Path) -> Iterator[Header | SourcePresence | RawTick | End]:
    """Yield all lines in order; a truncated last line is left out.

    Raises RunUnreadable for a file that is absent, foreign, or damaged before its last line.
    """
    names = NamesReader()
    try:
        file = safe_files.open_given(path)
    except OSError as error:
        raise RunUnreadable("the samples cannot be read", where=str(path), evidence=str(error)) from error
    with file:
        for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX), b""), start=1):
            if len(line) == LINE_BYTES_MAX:
                raise RunUnreadable("the samples have a line without end", where=f"{path}:{number}")
            if not line.endswith(b"\n"):
                return
            try:
                record = record_of(parse_json(line), names)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise RunUnreadable(
                    "the samples are damaged", where=f"{path}:{number}", evidence=repr(error)
                ) from error
            if number == 1 and not isinstance(record, Header):
                raise RunUnreadable("the file does not begin as samples do", where=str(path))
            if record is not None:
                yield record


def record_of(line: Any, names: NamesReader) -> Header | SourcePresence | RawTick | End | None:
    """Return the record of one line; None for a line of names, which go to `names`.

    Raises ValueError, KeyError, TypeError or AttributeError for a line that is none.
    """
    if "tick" in line:
        for t_s, _, values in line["read"].values():
            if not ({type(t_s), *map(type, values)} <= _NUMBERS and max(map(abs, values), default=0) <= NUMBER_MAX):
                raise ValueError("a reading that is no number")
            _seconds(t_s)
        read = {
            source: Reading(t_s=t_s, values=dict(zip(names[number], values, strict=True)))
            for source, (t_s, number, values) in line["read"].items()
        }
        return RawTick(
            tick=_whole_number(line["tick"]),
            late_s=_seconds(line["late_s"]),
            took_s=_seconds(line["took_s"]),
            read=read,
            failed=line.get("failed", {}),
        )
    if "keys" in line:
        names.add(line)
        return None
    if "present" in line:
        if not {type(line["source"]), type(line["reason"])} <= {str}:
            raise ValueError("a source whose name or reason is no text")
        presence = Presence(present=line["present"], reason=line["reason"])
        return SourcePresence(
            source=line["source"], presence=presence, remote=line["remote"], next_tick=line["next_tick"]
        )
    if "end_s" in line:
        return End(end_s=_seconds(line["end_s"]))
    if line["schema"] not in _SCHEMAS_READ:
        raise ValueError(f"schema {line['schema']} is not {RAW_SCHEMA}")
    return Header(
        interval_s=_seconds(line["interval_s"]), zero_monotonic_ns=_whole_number(line["zero_monotonic_ns"])
    )


def _seconds(value: Any) -> float:
    """Return a time between two moments of a run. Raise ValueError for anything else."""
    if type(value) not in _NUMBERS or not abs(value) <= SPAN_MAX_S:
        raise ValueError(f"{str(value)[:40]} is no time")
    return float(value)


def _whole_number(value: Any) -> int:
    """Return a whole number of at most 64 bits. Raise ValueError for anything else."""
    if type(value) is not int or abs(value) > WHOLE_MAX:
        raise ValueError(f"{str(value)[:40]} is no whole number")
    return int(value)
