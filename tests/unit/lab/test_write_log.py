"""The log of device mapper's log-writes target: what a device has after a power cut at each of its entries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vm.write_log import (
    DISCARD,
    FLUSH,
    FUA,
    HEAD,
    MAGIC,
    MARK,
    SUPER,
    CutPlan,
    Entry,
    LogError,
    Replay,
    evenly,
    groups,
    position_of,
    read_entries,
)

SECTOR = 512
DEVICE_SECTORS = 64
OpenLog = Callable[[bytes], int]


def entry(flags: int = 0, sector: int = 0, data: bytes = b"", *, mark: str = "", sectors: int = 0) -> bytes:
    """An entry as the kernel writes it: a sector with its head, then its data."""
    head = HEAD.pack(sector, sectors or len(data) // SECTOR, flags, len(mark)) + mark.encode()
    return head.ljust(SECTOR, b"\0") + data


def write(sector: int, letter: str, sectors: int = 1, flags: int = 0) -> bytes:
    return entry(flags, sector, letter.encode() * SECTOR * sectors)


def marked(text: str) -> bytes:
    return entry(MARK, mark=text)


def log_of(*entries: bytes, magic: int = MAGIC) -> bytes:
    return SUPER.pack(magic, 1, len(entries), SECTOR).ljust(SECTOR, b"\0") + b"".join(entries)


FLUSHED = entry(FLUSH)


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[OpenLog]:
    """Opens bytes as a log."""
    descriptors: list[int] = []

    def open_bytes(data: bytes) -> int:
        file = tmp_path / f"log-{len(descriptors)}"
        file.write_bytes(data)
        descriptors.append(os.open(file, os.O_RDONLY))
        return descriptors[-1]

    yield open_bytes
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[int]:
    """A device of 64 sectors whose content was x when the log began."""
    file = tmp_path / "device"
    file.write_bytes(b"x" * SECTOR * DEVICE_SECTORS)
    descriptor = os.open(file, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def letters(device: int) -> str:
    """The first byte of each of the first eight sectors."""
    return "".join(os.pread(device, 1, number * SECTOR).decode() or "-" for number in range(8)).replace("\0", "0")


def test_entries_are_read_with_their_places_and_marks(open_log: OpenLog) -> None:
    log = open_log(log_of(marked("begin"), write(3, "a", 2), FLUSHED, write(0, "b", flags=FUA)))
    entries = read_entries(log)
    assert [item.mark for item in entries] == ["begin", "", "", ""]
    assert [(item.offset_bytes, item.size_bytes, item.flags) for item in entries] == [
        (0, 0, MARK),
        (3 * SECTOR, 2 * SECTOR, 0),
        (0, 0, FLUSH),
        (0, SECTOR, FUA),
    ]
    assert os.pread(log, 3, entries[3].data_at) == b"bbb"


def test_a_discard_has_no_data_in_the_log(open_log: OpenLog) -> None:
    entries = read_entries(open_log(log_of(entry(DISCARD, 2, sectors=4), write(7, "a"))))
    assert [(item.offset_bytes, item.size_bytes) for item in entries] == [
        (2 * SECTOR, 4 * SECTOR),
        (7 * SECTOR, SECTOR),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (log_of(magic=1), "magic 0x1"),
        (log_of(write(0, "a"))[: SECTOR + 100], "within entry 0"),
        (log_of(HEAD.pack(0, 0, 0, 9).ljust(SECTOR, b"\0")), "no mark"),
    ],
)
def test_what_is_no_log_is_refused(data: bytes, message: str, open_log: OpenLog) -> None:
    with pytest.raises(LogError, match=message):
        read_entries(open_log(data))


def test_a_mark_that_is_not_there(open_log: OpenLog) -> None:
    with pytest.raises(LogError, match="end"):
        position_of(read_entries(open_log(log_of(marked("begin")))), "end")


def replayed(open_log: OpenLog, device: int, position: int, *entries: bytes) -> str:
    log = open_log(log_of(*entries))
    Replay(read_entries(log), log, device).advance(position)
    return letters(device)


LOAD = (
    write(0, "a"),
    write(1, "b"),
    FLUSHED,
    write(2, "c", flags=FUA),
    write(3, "d"),
    entry(DISCARD, 0, sectors=1),
)


@pytest.mark.parametrize(
    ("position", "content"),
    [
        (0, "xxxxxxxx"),
        (2, "xxxxxxxx"),  # no flush has made them durable
        (3, "abxxxxxx"),
        (4, "abcxxxxx"),  # FUA needs none
        (6, "abcxxxxx"),
    ],
)
def test_a_cut_leaves_what_flushes_and_fua_made_durable(
    position: int, content: str, open_log: OpenLog, device: int
) -> None:
    assert replayed(open_log, device, position, *LOAD) == content


def test_the_whole_log_gives_what_was_written_last(open_log: OpenLog, device: int) -> None:
    log = open_log(log_of(*LOAD))
    replay = Replay(read_entries(log), log, device)
    replay.advance(3)
    replay.finish()
    assert letters(device) == "0bcdxxxx"


def test_a_flush_with_data_makes_its_own_data_durable_only_with_fua(open_log: OpenLog, device: int) -> None:
    entries = (write(0, "a"), write(1, "b", flags=FLUSH), write(2, "c", flags=FLUSH | FUA))
    assert replayed(open_log, device, 2, *entries) == "axxxxxxx"
    assert replayed(open_log, device, 3, *entries) == "abcxxxxx"


def test_a_replay_does_not_go_back(open_log: OpenLog, device: int) -> None:
    log = open_log(log_of(*LOAD))
    replay = Replay(read_entries(log), log, device)
    replay.advance(3)
    with pytest.raises(LogError, match="back"):
        replay.advance(2)


def test_groups_are_what_each_flush_waits_for(open_log: OpenLog) -> None:
    entries = read_entries(open_log(log_of(*LOAD)))
    sectors = [(number, [item.offset_bytes // SECTOR for item in group]) for number, group in groups(entries)]
    assert sectors == [(2, [0, 1]), (6, [3, 0])]


def test_positions_are_drawn_evenly_with_both_ends() -> None:
    assert evenly(range(10), 4) == [0, 3, 6, 9]
    assert evenly(range(3), 5) == [0, 1, 2]
    assert evenly(range(9), 1) == [0]
    assert evenly([], 3) == []
    assert evenly(range(9), 0) == []


COMMITS = (
    marked("begin"),
    *(
        step
        for number in range(20)
        for step in (write(number, "a"), write(number + 20, "b"), FLUSHED, marked(f"ack:0:{number + 1}"))
    ),
    marked("end"),
    write(60, "z"),
    FLUSHED,
    write(61, "z"),
)


@pytest.fixture
def entries(open_log: OpenLog) -> list[Entry]:
    """20 commits, each of two writes and a flush."""
    return read_entries(open_log(log_of(*COMMITS)))


def acknowledged(entries: list[Entry], position: int) -> int:
    return sum(item.mark.startswith("ack:") for item in entries[:position])


def test_cuts_at_flushes_are_within_the_load(entries: list[Entry]) -> None:
    cuts = CutPlan(entries, "1").flushes(5)
    assert [acknowledged(entries, cut.position) for cut in cuts] == [0, 5, 10, 14, 19]
    assert all(entries[cut.position - 1].is_flush and cut.durable == cut.position for cut in cuts)


def test_cuts_at_acknowledgements_come_right_after_the_mark(entries: list[Entry]) -> None:
    cuts = CutPlan(entries, "1").acknowledgements(3)
    assert [entries[cut.position - 1].mark for cut in cuts] == ["ack:0:1", "ack:0:11", "ack:0:20"]


def test_cuts_between_flushes_leave_a_part_of_what_the_flush_waits_for(entries: list[Entry]) -> None:
    cuts = CutPlan(entries, "1").between(21)
    assert len(cuts) == 21
    assert all(len(cut.survivors) + cut.dropped == 2 for cut in cuts[:-1])
    assert len({len(cut.survivors) for cut in cuts}) == 3
    assert cuts == CutPlan(entries, "1").between(21)
    assert cuts != CutPlan(entries, "2").between(21)
    assert (
        cuts[-1].position == len(entries) - 2
    )  # the first flush after the load; what comes after it does not count


def test_a_load_without_any_flush_is_cut_at_its_end(open_log: OpenLog) -> None:
    """As nobarrier makes it: all cuts are of one group, by another chance each."""
    unflushed = log_of(marked("begin"), marked("ack:0:1"), marked("end"), *(write(n, "a") for n in range(12)))
    cuts = CutPlan(read_entries(open_log(unflushed)), "1").between(4)
    assert [cut.position for cut in cuts] == [15] * 4
    assert len({cut.survivors for cut in cuts}) == 4
    assert CutPlan(read_entries(open_log(unflushed)), "1").flushes(3) == []


def test_a_device_that_lies_loses_what_it_said_was_flushed(entries: list[Entry]) -> None:
    cuts = CutPlan(entries, "1").lies(3, flushes=5)
    assert [acknowledged(entries, cut.position) - acknowledged(entries, cut.durable) for cut in cuts] == [5] * 3
    assert all(len(cut.survivors) + cut.dropped == 10 for cut in cuts)
    assert all(cut.dropped for cut in cuts)
    assert CutPlan(entries, "1").lies(3, flushes=20) == []


def test_a_torn_page_has_its_first_bytes(open_log: OpenLog, device: int) -> None:
    page = 4 * SECTOR
    log = open_log(
        log_of(marked("begin"), write(0, "a", 4), write(4, "b", 4), write(20, "c", 4), FLUSHED, marked("end"))
    )
    entries = read_entries(log)
    (cut,) = CutPlan(entries, "1").torn(3, [(page, 2 * page)], page, SECTOR)
    assert [survivor.size_bytes for survivor in cut.survivors] == [page, SECTOR, page]
    replay = Replay(entries, log, device)
    replay.advance(cut.durable)
    assert letters(device) == "xxxxxxxx"
    for survivor in cut.survivors:
        replay.write(device, survivor)
    assert letters(device) == "aaaabxxx"
    assert CutPlan(entries, "1").torn(3, [(page, 2 * page - 1)], page, SECTOR) == []
