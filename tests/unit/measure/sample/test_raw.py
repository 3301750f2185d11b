"""The raw file survives a kill at any byte, and refuses what it is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volbench.errors import RunUnreadable
from volbench.measure.sample.interface import Presence, Reading
from volbench.measure.sample.raw import End, Header, RawTick, RawWriter, SourcePresence, read_raw
from volbench.measure.sample.rows import histogram_of
from volbench.measure.sample.server.performance_schema import STATEMENT_BUCKET


def write(path: Path, ticks: int = 3) -> None:
    path.unlink(missing_ok=True)
    writer = RawWriter(path)
    writer.header(interval_s=1.0, zero_monotonic_ns=17)
    writer.presence("cpu", Presence(present=True), remote=False, next_tick=1)
    for tick in range(1, ticks + 1):
        values = {("user", ""): tick * 10, ("system", "x"): 0.5}
        if tick > 2:
            values["steal", ""] = 3
        writer.tick(
            tick,
            late_s=0.001,
            took_s=0.002,
            read={"cpu": Reading(t_s=tick + 0.003, values=values)},
            failed={"psi": "gone"} if tick == 2 else {},
        )
    writer.end(9.5)
    writer.close()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    write(path)
    records = list(read_raw(path))
    assert records[0] == Header(interval_s=1.0, zero_monotonic_ns=17)
    assert records[1] == SourcePresence(source="cpu", presence=Presence(present=True), remote=False, next_tick=1)
    ticks = [record for record in records if isinstance(record, RawTick)]
    assert ticks[0].read == {"cpu": Reading(t_s=1.003, values={("user", ""): 10, ("system", "x"): 0.5})}
    assert ticks[1].failed == {"psi": "gone"}
    assert ticks[2].read["cpu"].values["steal", ""] == 3
    assert records[-1] == End(end_s=9.5)


def test_names_are_written_once_until_they_change(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    write(path, ticks=10)
    assert path.read_text().count('"keys"') == 2


def test_a_name_is_written_once_however_lists_change(tmp_path: Path) -> None:
    """As those of statements do: each tick has another list, in an order of its own."""
    path = tmp_path / "samples.jsonl"
    writer = RawWriter(path)
    writer.header(interval_s=1.0, zero_monotonic_ns=17)
    written = []
    for tick in range(1, 60):
        entities = [f"statement_{number:03d}" for number in range(100) if (number * 7 + tick) % 9]
        values = {("count", entity): float(tick) for entity in (entities if tick % 2 else reversed(entities))}
        written.append({"performance_schema": Reading(t_s=float(tick), values=values)})
        writer.tick(tick, late_s=0.0, took_s=0.0, read=written[-1], failed={})
    writer.close()
    assert path.read_text().count("statement_077") == 1
    assert [record.read for record in read_raw(path) if isinstance(record, RawTick)] == written


def test_lists_of_schema_1_are_read(tmp_path: Path) -> None:
    """Each of its lines of names has the whole list."""
    path = tmp_path / "samples.jsonl"
    head = '{"schema":1,"interval_s":1.0,"zero_monotonic_ns":17}\n'
    lists = ('[["user",""]]', '[["user",""],["steal",""]]')
    lines = [
        f'{{"keys":{number},"source":"cpu","names":{names}}}\n'
        f'{{"tick":{number + 1},"late_s":0,"took_s":0,"read":{{"cpu":[1.5,{number},{[5] * (number + 1)}]}}}}\n'
        for number, names in enumerate(lists)
    ]
    path.write_text("".join([head, *lines]))
    ticks = [record.read["cpu"].values for record in read_raw(path) if isinstance(record, RawTick)]
    assert ticks == [{("user", ""): 5}, {("user", ""): 5, ("steal", ""): 5}]


@pytest.mark.parametrize("ranges", [[[0, 3]], [[-1, 1]], [[0, 0]], [[0, 2], [0, 2]], [[1, 2]], [["0", 1]], [0], 7])
def test_a_list_of_names_that_are_not_there_is_damage(tmp_path: Path, ranges: object) -> None:
    path = tmp_path / "samples.jsonl"
    write(path, ticks=1)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    next(line for line in lines if "keys" in line)["of"] = ranges
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(RunUnreadable, match="damaged"):
        list(read_raw(path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.data())
def test_a_file_cut_at_any_byte_loses_at_most_its_last_line(tmp_path: Path, data: st.DataObject) -> None:
    total = tmp_path / "whole.jsonl"
    write(total)
    content = total.read_bytes()
    size = data.draw(st.integers(0, len(content)))
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(content[:size])
    expected = list(read_raw(total))
    raw = list(read_raw(cut))
    assert raw == expected[: len(raw)]
    assert len(raw) >= len([r for r in content[:size].split(b"\n")[:-1] if b'"keys"' not in r])


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b'{"tick": 1}\n', *lines[1:]]))
    with pytest.raises(RunUnreadable) as raised:
        list(read_raw(path))
    assert raised.value.where.endswith(":2")


@pytest.mark.parametrize("field", ["source", "reason"])
def test_a_source_whose_name_is_no_text_is_damage(tmp_path: Path, field: str) -> None:
    path = tmp_path / "samples.jsonl"
    write(path)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    next(line for line in lines if "present" in line)[field] = [1]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(RunUnreadable, match="damaged"):
        list(read_raw(path))


@pytest.mark.parametrize("text", ["[]\n", "7\n", '{"schema": 99}\n', "not json\n", '{"end_s": 3}\n'])
def test_a_foreign_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(text)
    with pytest.raises(RunUnreadable):
        list(read_raw(path))


def test_nothing_follows_a_line_that_could_not_be_written(tmp_path: Path) -> None:
    """A pipe that is nearly full takes half a line, as a disk does; then there is room again."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = RawWriter(pipe)
    os.set_blocking(writer.fileno(), False)
    writer.presence("cpu", Presence(present=False, reason="x" * (1 << 20)), remote=False, next_tick=1)
    os.read(reading, 1 << 20)
    with pytest.raises(OSError, match="could not be written whole"):
        writer.end(1.0)
    writer.close()
    os.close(reading)


def test_a_full_disk_is_an_error() -> None:
    writer = RawWriter(Path("/dev/full"))
    with pytest.raises(OSError, match="No space"):
        writer.header(interval_s=1.0, zero_monotonic_ns=0)
    writer.close()


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunUnreadable, match="cannot be read"):
        list(read_raw(tmp_path / "none.jsonl"))


def test_a_bucket_that_is_no_number_is_damage() -> None:
    """As a damaged line of names has it; found by the fuzzer."""
    reading = Reading(t_s=1.0, values={(STATEMENT_BUCKET, "NaN"): 3.0})
    with pytest.raises(RunUnreadable, match="damaged"):
        histogram_of(reading, reading)
