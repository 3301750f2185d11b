"""The readings of an observation: segments on disk, bounded by bytes and by time, the oldest erased first.

A segment is a file of raw readings that can be read by itself (`measure/sample/raw.py`): it begins with a header
and says again which sources there are. A killed process leaves at most one line that is cut short, the last one.
Incidents keep their segments by a second name (a hard link), so that the ring may go on.

Only segments that this observation made are erased: a file goes when it is the one that was
made, by its inode and by its first bytes, which name the observation's begin to the nanosecond.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.base.parse import parse_json
from volbench.measure.sample.interface import Presence, Reading
from volbench.measure.sample.names import NamesReader, NamesWriter
from volbench.measure.sample.raw import RAW_SCHEMA, End, Header, RawTick, RawWriter, SourcePresence, record_of

RING = "ring"
SEGMENT = re.compile(r"segment-(\d{6,})-(\d+)\.jsonl")
SEGMENT_S_MAX = 60.0
SEGMENTS_MIN = 8
"""A ring that is full has at least so many, so that erasing one loses a small part."""
SIZE_MIN_BYTES = 4 << 20
HEAD_BYTES = 64


def segment_name(number: int, begin_s: float) -> str:
    """Its number, and the whole second of the observation at which it begins."""
    return f"segment-{number:06d}-{int(begin_s)}.jsonl"


@dataclass(frozen=True, kw_only=True)
class RingLimits:
    """What a ring may hold: `bytes_max` in all its segments, `keep_s` of time."""

    bytes_max: int
    keep_s: float
    segment_s: float = SEGMENT_S_MAX

    @property
    def segment_bytes(self) -> int:
        """A segment ends when it is this large."""
        return self.bytes_max // SEGMENTS_MIN


@dataclass(kw_only=True)
class _Made:
    """A segment that this writer made; `bytes` of the one that is written grows."""

    path: Path
    inode: int
    begin_s: float
    bytes: int = 0


class RingWriter(RawWriter):
    """Takes readings as a RawWriter does, and puts them into segments.

    Args:
        directory: where segments go; it is made when it is not there.
        limits: of the ring.
        now_s: seconds since the observation's zero.

    Raises OSError when a segment cannot be written.
    """

    def __init__(self, directory: Path, limits: RingLimits, now_s: Callable[[], float]) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._limits = limits
        self._now_s = now_s
        self._segments: list[_Made] = []
        self._number = 0
        self._header: dict[str, object] = {}
        self._head = b""
        self._presences: dict[str, dict[str, object]] = {}
        self._change = threading.RLock()
        super().__init__(self._new_segment().path)

    def header(self, *, interval_s: float, zero_monotonic_ns: int) -> None:
        """The first line of every segment."""
        super().header(interval_s=interval_s, zero_monotonic_ns=zero_monotonic_ns)
        self._header = {"schema": RAW_SCHEMA, "interval_s": interval_s, "zero_monotonic_ns": zero_monotonic_ns}
        self._head = one_line(self._header).encode()

    def presence(self, source: str, presence: Presence, *, remote: bool, next_tick: int) -> None:
        """What a probe said; every later segment says it again."""
        with self._change:
            about: dict[str, object] = {"source": source, "present": presence.present, "reason": presence.reason}
            self._presences[source] = {**about, "remote": remote, "next_tick": next_tick}
            super().presence(source, presence, remote=remote, next_tick=next_tick)

    def tick(
        self, tick: int, *, late_s: float, took_s: float, read: Mapping[str, Reading], failed: Mapping[str, str]
    ) -> None:
        """What one tick brought; begins another segment when this one is full or old."""
        with self._change:
            current = self._segments[-1]
            age_s = self._now_s() - current.begin_s
            if current.bytes >= self._limits.segment_bytes or age_s >= self._limits.segment_s:
                self._rotate()
            super().tick(tick, late_s=late_s, took_s=took_s, read=read, failed=failed)

    def _write(self, line: dict[str, object]) -> None:
        super()._write(line)
        self._segments[-1].bytes = os.fstat(self.fileno()).st_size

    def _rotate(self) -> None:
        made = self._new_segment()
        descriptor = os.open(made.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        with self._lock:
            os.close(self._fd)
            self._fd = descriptor
            self._names = NamesWriter()  # each segment names its values itself
        for line in (self._header, *self._presences.values()):
            self._write(line)
        self._erase_old()

    def _new_segment(self) -> _Made:
        self._number += 1
        path = self._directory / segment_name(self._number, self._now_s())
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        made = _Made(path=path, inode=os.fstat(descriptor).st_ino, begin_s=self._now_s())
        os.close(descriptor)
        self._segments.append(made)
        return made

    def _erase_old(self) -> None:
        """Room for the segment that has just begun: at most `bytes_max` when it is full, too."""
        room = self._limits.bytes_max - 2 * self._limits.segment_bytes  # one grows, and a line may go beyond
        while len(self._segments) > 1:
            oldest, ends_s = self._segments[0], self._segments[1].begin_s
            too_old = self._now_s() - ends_s > self._limits.keep_s
            too_large = sum(segment.bytes for segment in self._segments) > room
            if not (too_old or too_large):
                return
            self._segments.pop(0)
            erase_made(oldest.path, oldest.inode, self._head)


def erase_made(path: Path, inode: int, head: bytes) -> None:
    """Erase a file that is still the one that was made; another one of the same name stays.

    Args:
        path: the file.
        inode: of the file that was made; numbers are used again, so that it alone is no proof.
        head: its first bytes.
    """
    try:
        if path.stat(follow_symlinks=False).st_ino == inode and _head_of(path, len(head)) == head:
            path.unlink()
    except FileNotFoundError:
        return


def _head_of(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        return file.read(length)


@dataclass(frozen=True, kw_only=True)
class RingSegment:
    """One segment on disk. `end_s`: where the next one begins; None for the last."""

    path: Path
    number: int
    begin_s: float
    end_s: float | None

    def overlaps(self, window_s: tuple[float, float]) -> bool:
        """Whether it may hold readings of a stretch of time."""
        return self.begin_s <= window_s[1] and (self.end_s is None or self.end_s >= window_s[0])


def segments_in(*directories: Path) -> list[RingSegment]:
    """All segments of some directories, each once, in order of time."""
    paths: dict[int, tuple[float, Path]] = {}
    for directory in directories:
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            matched = SEGMENT.fullmatch(path.name)
            if matched is not None and path.is_file() and not path.is_symlink():
                paths.setdefault(int(matched[1]), (float(matched[2]), path))
    numbers = sorted(paths)
    return [
        RingSegment(
            path=paths[number][1],
            number=number,
            begin_s=paths[number][0],
            end_s=paths[number + 1][0] + 1.0 if number + 1 in paths else None,
        )
        for number in numbers
    ]


class RingTail:
    """Follows a ring while it is written: each call of `new_records` gives what came since the last."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        self._path: Path | None = None
        self._offset = 0
        self._names = NamesReader()

    def new_records(self) -> Iterator[Header | SourcePresence | RawTick | End]:
        """Records that were added; a line that is not whole yet is left for the next call."""
        while True:
            if self._path is not None:
                yield from self._new_records()
            following = [segment for segment in segments_in(self._directory) if segment.number > self._number]
            if not following:
                return
            if self._path is not None:
                yield from self._new_records()  # written since the last look, before the next segment began
            self._number, self._path, self._offset = following[0].number, following[0].path, 0
            self._names = NamesReader()

    def _new_records(self) -> Iterator[Header | SourcePresence | RawTick | End]:
        assert self._path is not None
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:  # erased meanwhile: the reader was far behind
            return
        complete_lines = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete_lines)
        for line in complete_lines.splitlines():
            record = record_of(parse_json(line), self._names)
            if record is not None:
                yield record


class KeptIncidents:
    """The segments that incidents keep, in a directory for each; the oldest incident gives way to a new one.

    Args:
        directory: of the incidents.
        bytes_max: of all of them.
    """

    def __init__(self, directory: Path, bytes_max: int) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._made: dict[str, dict[Path, tuple[int, bytes]]] = {}

    def keep(self, name: str, segments: list[RingSegment]) -> bool:
        """Link segments into an incident's directory. False when there is no room for all of them."""
        incident_dir = self._directory / name
        incident_dir.mkdir(parents=True, exist_ok=True)
        made = self._made.setdefault(name, {})
        for segment in segments:
            copy = incident_dir / segment.path.name
            if copy in made:
                continue
            if not self._room_for(name, segment):
                return False
            try:
                os.link(segment.path, copy)
            except FileNotFoundError:  # the ring has gone on
                continue
            except OSError:  # a file system without hard links
                shutil.copyfile(segment.path, copy)
            made[copy] = (copy.stat().st_ino, _head_of(copy, HEAD_BYTES))
        return True

    def _room_for(self, name: str, segment: RingSegment) -> bool:
        required_bytes = segment.path.stat().st_size if segment.path.exists() else 0
        while self.bytes + required_bytes > self._bytes_max:
            oldest = next(
                (
                    name_of_other
                    for name_of_other in self._made
                    if name_of_other != name and self._made[name_of_other]
                ),
                None,
            )
            if oldest is None:
                return False
            for path, (inode, head) in self._made[oldest].items():
                erase_made(path, inode, head)
            self._made[oldest] = {}
        return True

    @property
    def bytes(self) -> int:
        """What all kept segments take."""
        return sum(path.stat().st_size for made in self._made.values() for path in made if path.exists())


def write_whole(path: Path, text: str) -> None:
    """Write a small file so that a crash leaves the old one or the new one."""
    with safe_files.held_directory(path.parent.resolve()) as directory:
        safe_files.write_new(directory, path.name, text.encode(), mode=0o644, sync=False)


def now_since(zero_monotonic_ns: int) -> Callable[[], float]:
    """A clock of seconds since the observation's zero."""
    return lambda: (time.monotonic_ns() - zero_monotonic_ns) / 1e9


def one_line(value: Mapping[str, object]) -> str:
    """JSON in one line."""
    return json.dumps(value, separators=(",", ":"))
