"""Reads the log of device mapper's log-writes target, and replays it up to a power cut.

The target (Linux: Documentation/admin-guide/device-mapper/log-writes.rst) writes to a second device what was
written to the first, in an order that knows volatile caches: it logs a write when a flush has completed that was
sent after the write's completion, a write with FUA when that has completed, a mark at once. So the entries before
any position are what a device must still have after a power cut there, but for writes right before a flush: that
flush is still under way, and a device may have any of them.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

MAGIC, VERSION = 0x6A736677736872, 1
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
SUPER, HEAD = struct.Struct("<QQQI"), struct.Struct("<QQQQ")
SECTOR_BYTES_MAX = 4096
ZEROS = bytes(1 << 20)
CHANCE = 0.5


class LogError(Exception):
    """A log that is none, or that has what this reader does not know."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry: a write, a discard, a flush or a mark.

    Args:
        offset_bytes, size_bytes: where it was written on the device; a flush and a mark have no size.
        data_at: where its bytes are in the log.
    """

    flags: int
    offset_bytes: int
    size_bytes: int
    data_at: int
    mark: str = ""

    @property
    def is_flush(self) -> bool:
        """Whether earlier writes are durable with it."""
        return bool(self.flags & FLUSH)

    @property
    def is_volatile(self) -> bool:
        """Whether it changes the device, and is not durable by itself."""
        return self.size_bytes > 0 and not self.flags & FUA


def read_entries(log: int) -> list[Entry]:
    """Read the entries of a log by its file descriptor. Raises LogError."""
    magic, version, count, sector_bytes = SUPER.unpack(os.pread(log, SUPER.size, 0))
    if (magic, version) != (MAGIC, VERSION) or not HEAD.size <= sector_bytes <= SECTOR_BYTES_MAX:
        raise LogError(
            f"no log of log-writes: magic {magic:#x}, version {version}, sectors of {sector_bytes} bytes"
        )
    entries, at = [], sector_bytes
    for number in range(count):
        head = os.pread(log, sector_bytes, at)
        if len(head) < sector_bytes:
            raise LogError(f"the log ends within entry {number} of {count}")
        sector, sectors, flags, mark_bytes = HEAD.unpack_from(head)
        if mark_bytes and not flags & MARK:
            raise LogError(f"entry {number} has data of {mark_bytes} bytes in its head, and is no mark")
        entries.append(
            Entry(
                flags=flags,
                offset_bytes=sector * sector_bytes,
                size_bytes=sectors * sector_bytes,
                data_at=at + sector_bytes,
                mark=head[HEAD.size : HEAD.size + mark_bytes].decode(errors="replace"),
            )
        )
        at += sector_bytes + (0 if flags & DISCARD else sectors * sector_bytes)
    return entries


@dataclass(frozen=True, kw_only=True)
class Survivor:
    """A write of a volatile cache that the device has in spite of the cut: the first `size_bytes` of it."""

    entry: Entry
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A power cut: the entries before `durable` are on the device, and some of those before `position`.

    Args:
        kind: flush, acknowledged, between, lying or torn.
        position: marks before it were made before the cut.
        survivors: what else is on the device, in the log's order.
        dropped: writes that were completed, and are gone.
    """

    kind: str
    durable: int
    position: int
    survivors: tuple[Survivor, ...] = ()
    dropped: int = 0


def position_of(entries: Sequence[Entry], mark: str) -> int:
    """Return the position after a mark. Raises LogError where the log has no such mark."""
    for number, entry in enumerate(entries):
        if entry.mark == mark:
            return number + 1
    raise LogError(f"the log has no mark {mark}")


def groups(entries: Sequence[Entry]) -> Iterator[tuple[int, tuple[Entry, ...]]]:
    """Yield the number of each flush with the writes that only it made durable; the last: those without a flush."""
    volatile: list[Entry] = []
    for number, entry in enumerate(entries):
        if entry.is_flush:
            yield number, tuple(volatile)
            volatile = []
        if entry.is_volatile:
            volatile.append(entry)
    yield len(entries), tuple(volatile)


def evenly(positions: Sequence[int], count: int) -> list[int]:
    """Return `count` of these, evenly drawn, the first and the last among them; all where there are no more."""
    if len(positions) <= count:
        return list(positions)
    return [positions[round(step * (len(positions) - 1) / max(1, count - 1))] for step in range(count)]


class CutPlan:
    """Draws the cuts of a log between the marks `begin` and `end`, by a seed."""

    def __init__(self, entries: Sequence[Entry], seed: str) -> None:
        self._entries, self._seed = entries, seed
        self._begin, self._end = position_of(entries, "begin"), position_of(entries, "end")

    def flushes(self, count: int) -> list[Cut]:
        """Cuts right after a flush or a write with FUA: nothing but what they made durable is left."""
        numbers = [
            number for number in range(self._begin, self._end) if self._entries[number].flags & (FLUSH | FUA)
        ]
        return [Cut(kind="flush", durable=at + 1, position=at + 1) for at in evenly(numbers, count)]

    def acknowledgements(self, count: int) -> list[Cut]:
        """Cuts right after an acknowledgement reached the client: what is in a volatile cache is gone."""
        numbers = [number for number in range(self._begin, self._end) if self._entries[number].mark]
        return [Cut(kind="acknowledged", durable=at + 1, position=at + 1) for at in evenly(numbers[:-1], count)]

    def between(self, count: int) -> list[Cut]:
        """Cuts while a flush is under way: each write that waits for it is left or gone, by chance."""
        group_of = dict(self._groups())
        positions = evenly(list(group_of), count)
        cuts = []
        for turn in range(count if positions else 0):
            position = positions[turn % len(positions)]
            chance = random.Random(f"{self._seed}/between/{position}/{turn}")
            chosen = [entry for entry in group_of[position] if chance.random() < CHANCE]
            cuts.append(
                Cut(
                    kind="between",
                    durable=position,
                    position=position,
                    survivors=tuple(Survivor(entry=entry, size_bytes=entry.size_bytes) for entry in chosen),
                    dropped=len(group_of[position]) - len(chosen),
                )
            )
        return cuts

    def lies(self, count: int, flushes: int) -> list[Cut]:
        """Cuts of a device that ignores flushes and FUA: half of what came since `flushes` flushes ago is gone."""
        flushed = [number for number in range(self._begin, self._end) if self._entries[number].is_flush]
        cuts = []
        for at in evenly(range(flushes, len(flushed)), count):
            durable, position = flushed[at - flushes] + 1, flushed[at] + 1
            chance = random.Random(f"{self._seed}/lying/{position}")
            written = [entry for entry in self._entries[durable:position] if entry.size_bytes]
            chosen = [entry for entry in written if chance.random() < CHANCE]
            cuts.append(
                Cut(
                    kind="lying",
                    durable=durable,
                    position=position,
                    survivors=tuple(Survivor(entry=entry, size_bytes=entry.size_bytes) for entry in chosen),
                    dropped=len(written) - len(chosen),
                )
            )
        return cuts

    def torn(self, count: int, extents: Iterable[tuple[int, int]], page_bytes: int, atomic_bytes: int) -> list[Cut]:
        """Cuts while a page is written: of one page within the extents, the device has the first bytes only.

        Args:
            extents: begins and ends on the device, in bytes.
            atomic_bytes: what the device writes whole.
        """
        areas = list(extents)
        candidates = [
            (position, page)
            for position, group in self._groups()
            for page in group
            if page.size_bytes == page_bytes
            and any(begin <= page.offset_bytes and page.offset_bytes + page_bytes <= end for begin, end in areas)
        ]
        cuts = []
        for at in evenly(range(len(candidates)), count):
            position, page = candidates[at]
            group = next(group for number, group in self._groups() if number == position)
            survivors = tuple(
                Survivor(entry=entry, size_bytes=atomic_bytes if entry is page else entry.size_bytes)
                for entry in group
            )
            cuts.append(Cut(kind="torn", durable=position, position=position, survivors=survivors))
        return cuts

    def _groups(self) -> Iterator[tuple[int, tuple[Entry, ...]]]:
        """Groups with a write, up to the first whose flush came after the end."""
        for position, group in groups(self._entries):
            if position >= self._begin and group:
                yield position, group
                if position >= self._end:
                    return


class Replay:
    """A device onto which a log is replayed, further with each cut.

    Args:
        log, device: file descriptors; the device has what it had when the log began.
    """

    def __init__(self, entries: Sequence[Entry], log: int, device: int) -> None:
        self._entries, self._log, self._device = entries, log, device
        self._position = 0
        self._volatile: list[Entry] = []

    def advance(self, position: int) -> None:
        """Write what is durable at a position that is not before the last one; synchronise the device."""
        if position < self._position:
            raise LogError(f"a replay at {self._position} cannot go back to {position}")
        for entry in self._entries[self._position : position]:
            if entry.is_flush:
                self._write_volatile()
            if entry.is_volatile:
                self._volatile.append(entry)
            elif entry.size_bytes:
                self.write(self._device, Survivor(entry=entry, size_bytes=entry.size_bytes))
        self._position = position
        os.fsync(self._device)

    def finish(self) -> None:
        """Write all of the log, flushed or not."""
        self.advance(len(self._entries))
        self._write_volatile()
        os.fsync(self._device)

    def _write_volatile(self) -> None:
        for entry in self._volatile:
            self.write(self._device, Survivor(entry=entry, size_bytes=entry.size_bytes))
        self._volatile = []

    def write(self, device: int, survivor: Survivor) -> None:
        """Write one entry, or its first bytes, to a device; what was discarded reads as zeros."""
        entry = survivor.entry
        for begin in range(0, survivor.size_bytes, len(ZEROS)):
            size = min(len(ZEROS), survivor.size_bytes - begin)
            data = ZEROS[:size] if entry.flags & DISCARD else os.pread(self._log, size, entry.data_at + begin)
            if os.pwrite(device, data, entry.offset_bytes + begin) != size:
                raise LogError(f"a write of {size} bytes at {entry.offset_bytes + begin} was short")
