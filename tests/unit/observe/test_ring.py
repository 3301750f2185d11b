"""The ring on disk: bounded by bytes and time, readable after anything, and it erases only what it made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from ring_records import records_of

from volbench.measure.sample.interface import Presence, Reading
from volbench.measure.sample.raw import RawTick, SourcePresence
from volbench.observe.ring import (
    KeptIncidents,
    RingLimits,
    RingTail,
    RingWriter,
    segments_in,
)


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def writer(directory: Path, clock: Clock, *, bytes_max: int = 1 << 20, keep_s: float = 1e9) -> RingWriter:
    made = RingWriter(directory, RingLimits(bytes_max=bytes_max, keep_s=keep_s, segment_s=10.0), clock)
    made.header(interval_s=1.0, zero_monotonic_ns=5)
    made.presence("vm", Presence(present=True), remote=False, next_tick=1)
    return made


def take(ring: RingWriter, clock: Clock, ticks: range, *, values: int = 1) -> None:
    for tick in ticks:
        clock.s = float(tick)
        results = {(f"counter{number}", ""): float(tick * number) for number in range(values)}
        ring.tick(tick, late_s=0, took_s=0, read={"vm": Reading(t_s=float(tick), values=results)}, failed={})


def ticks_of(directory: Path) -> list[int]:
    return [item.tick for item in records_of(segments_in(directory)) if isinstance(item, RawTick)]


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def test_every_segment_can_be_read_by_itself(tmp_path: Path) -> None:
    clock = Clock()
    ring = writer(tmp_path / "ring", clock)
    take(ring, clock, range(1, 36))
    segments = segments_in(tmp_path / "ring")
    assert [segment.begin_s for segment in segments] == [0.0, 10.0, 20.0, 30.0]
    for segment in segments:
        records = list(records_of([segment]))
        assert [record.source for record in records if isinstance(record, SourcePresence)] == ["vm"]
        (first, *_) = [record for record in records if isinstance(record, RawTick)]
        assert first.read["vm"].values == {("counter0", ""): 0.0}
    assert ticks_of(tmp_path / "ring") == list(range(1, 36))


def test_the_oldest_is_erased_when_there_is_no_room(tmp_path: Path) -> None:
    clock, most = Clock(), 64 << 10
    ring = writer(tmp_path / "ring", clock, bytes_max=most)
    largest = 0
    for tick in range(1, 1500):
        take(ring, clock, range(tick, tick + 1), values=20)
        largest = max(largest, size_of(tmp_path / "ring"))
    assert largest <= most
    remaining = ticks_of(tmp_path / "ring")
    assert remaining == list(range(remaining[0], 1500)), "what is left is the newest, without a hole"
    assert size_of(tmp_path / "ring") > most // 2, "the room is used"


def test_readings_older_than_wanted_are_erased(tmp_path: Path) -> None:
    clock = Clock()
    ring = writer(tmp_path / "ring", clock, keep_s=30.0)
    take(ring, clock, range(1, 200))
    oldest = ticks_of(tmp_path / "ring")[0]
    assert 199 - 30 - 10 - 10 <= oldest <= 199 - 30


def test_nobody_elses_file_is_erased(tmp_path: Path) -> None:
    clock, directory = Clock(), tmp_path / "ring"
    ring = writer(directory, clock, keep_s=20.0)
    take(ring, clock, range(1, 15))
    (directory / "notes.txt").write_text("mine")
    oldest = segments_in(directory)[0].path
    oldest.unlink()
    oldest.write_text("mine, too")  # another file of the same name
    take(ring, clock, range(15, 100))
    assert (directory / "notes.txt").read_text() == "mine"
    assert oldest.read_text() == "mine, too"


def test_a_directory_with_segments_is_not_written_over(tmp_path: Path) -> None:
    writer(tmp_path / "ring", Clock())
    with pytest.raises(FileExistsError):
        writer(tmp_path / "ring", Clock())


def test_what_a_killed_process_wrote_is_readable(tmp_path: Path) -> None:
    """SIGKILL at any moment: at most the last line is lost."""
    code = f"""
        import itertools
        from pathlib import Path
        from volbench.observe.ring import RingLimits, RingWriter
        from volbench.measure.sample.interface import Presence, Reading
        tick = 0
        ring = RingWriter(Path({str(tmp_path / "ring")!r}), RingLimits(bytes_max=200_000, keep_s=1e9), lambda: tick)
        ring.header(interval_s=1.0, zero_monotonic_ns=5)
        for tick in itertools.count(1):
            values = {{(f"c{{n}}", ""): tick * n for n in range(50)}}
            ring.tick(tick, late_s=0, took_s=0, read={{"vm": Reading(t_s=tick, values=values)}}, failed={{}})
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env={"PYTHONPATH": "runner"})
    deadline = time.monotonic() + 60
    while not any(item.number > 10 for item in segments_in(tmp_path / "ring")) and time.monotonic() < deadline:
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    remaining = ticks_of(tmp_path / "ring")
    assert remaining == list(range(remaining[0], remaining[-1] + 1))
    assert remaining[-1] > 500
    assert size_of(tmp_path / "ring") <= 200_000


def test_half_a_line_at_the_end_is_left_out(tmp_path: Path) -> None:
    clock = Clock()
    take(writer(tmp_path / "ring", clock), clock, range(1, 4))
    (segment,) = segments_in(tmp_path / "ring")
    with segment.path.open("ab") as file:
        file.write(b'{"tick": 4, "late')
    assert ticks_of(tmp_path / "ring") == [1, 2, 3]


def test_a_follower_gets_each_record_once(tmp_path: Path) -> None:
    clock = Clock()
    ring = writer(tmp_path / "ring", clock)
    tail = RingTail(tmp_path / "ring")
    observed = []
    for begin in (1, 4, 12, 40, 41):
        take(ring, clock, range(begin, {1: 4, 4: 12, 12: 40, 40: 41, 41: 60}[begin]))
        observed += [new_record.tick for new_record in tail.new_records() if isinstance(new_record, RawTick)]
    assert observed == list(range(1, 60))
    with segments_in(tmp_path / "ring")[-1].path.open("ab") as file:
        file.write(b'{"tick": 60,')
    assert list(tail.new_records()) == []


def test_an_incident_keeps_its_segments_when_the_ring_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    ring = writer(tmp_path / "ring", clock, keep_s=20.0)
    take(ring, clock, range(1, 36))
    incidents = KeptIncidents(tmp_path / "incidents", bytes_max=1 << 20)
    expected = [item for item in segments_in(tmp_path / "ring") if item.overlaps((12.0, 18.0))]
    assert incidents.keep("001", expected)
    take(ring, clock, range(36, 120))
    assert ticks_of(tmp_path / "incidents/001") == list(range(10, 20))
    both = segments_in(tmp_path / "ring", tmp_path / "incidents/001")
    assert len({item.number for item in both}) == len(both)


def test_the_oldest_incident_gives_way_and_a_large_one_is_cut(tmp_path: Path) -> None:
    clock = Clock()
    ring = writer(tmp_path / "ring", clock)
    take(ring, clock, range(1, 60), values=5)
    segments = segments_in(tmp_path / "ring")
    size = segments[0].path.stat().st_size
    incidents = KeptIncidents(tmp_path / "incidents", bytes_max=round(2.5 * size))
    assert incidents.keep("001", segments[:2])
    assert incidents.keep("002", segments[2:3])
    assert list((tmp_path / "incidents/001").iterdir()) == []
    assert not incidents.keep("002", segments)
    assert incidents.bytes <= round(2.5 * size)
