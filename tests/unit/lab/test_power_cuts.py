"""Power cuts of the virtual machine: what was kept and lost after real recoveries, and the page of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from vm.power_cuts import (
    HONEST,
    KINDS,
    Recorded,
    conditions,
    is_wrong,
    keeps,
    lost,
    power_table,
    read_recorded,
    spec_of,
)
from vm.power_inside import EXTENT
from vm.power_server import DM_HEAD, acknowledged_before, acknowledgement
from vm.write_log import DISCARD, FLUSH, FUA, MARK, Replay, position_of, read_entries

ROOT = Path(__file__).parents[3]
RECORDINGS = ROOT / "tests/fixtures/real-kernels"
FILE, LOG = RECORDINGS / "power-cuts.jsonl", RECORDINGS / "write-log.bin"
PAGE = ROOT / "results/examples/real-kernels/power-cuts.md"
STACKS = read_recorded(FILE)
SECTOR_BYTES = 512


def cut(**values: Any) -> dict[str, Any]:
    """A cut that kept everything."""
    kept = {"failure": "", "lost": 0, "torn": 0, "damaged_rows": 0, "changes": 7, "present": 7}
    return {**kept, **values}


def test_a_stack_has_the_files_defaults_and_its_own() -> None:
    spec = spec_of("ext4-no-doublewrite")
    assert spec["options"] == {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1, "innodb_doublewrite": "OFF"}
    assert spec["cuts"]["between"] == 2
    assert spec["cuts"]["torn"] > 0
    assert spec["commits"] == conditions()["commits"]
    assert "stacks" not in spec


@pytest.mark.parametrize("name", conditions()["stacks"])
def test_every_stack_says_what_is_expected_of_it(name: str) -> None:
    spec = spec_of(name)
    assert spec["expect"] in ("keeps", "loses")
    assert set(spec["cuts"]) <= set(KINDS)
    assert {"make", "mount"} <= set(spec)


def test_a_commit_is_kept_when_it_is_there_as_a_whole() -> None:
    assert keeps([cut(), cut()])
    assert not keeps([cut(), cut(lost=1)])
    assert not keeps([cut(torn=1)])
    assert not keeps([cut(damaged_rows=1)])
    assert not keeps([cut(changes=8)])
    assert not keeps([{"failure": "the server ended with 1"}])
    assert is_wrong(cut(changes=8))
    assert not is_wrong({"failure": "the server ended with 1"})


def test_marks_give_what_clients_had_in_hand() -> None:
    marks = ["begin", "", acknowledgement(1, 1), "", acknowledgement(0, 1), acknowledgement(1, 2)]
    writers = acknowledged_before(marks, clients=2, commits=9)
    assert [(writer.begun, sorted(writer.acknowledged)) for writer in writers] == [(9, [1]), (9, [1, 2])]


def test_a_message_has_the_kernels_layout() -> None:
    """sizeof(struct dm_ioctl) is a part of the number of every ioctl of device mapper."""
    assert DM_HEAD.size == 312


def test_extents_are_read_from_filefrag() -> None:
    output = """Filesystem type is: ef53
File size of /mnt/data/mysql/volbench_ledger/filler.ibd is 10485760 (2560 blocks of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..      15:    3068584..   3068599:     16:
   1:       16..     255:    5606920..   5607159:    240:    3068600: last,unwritten,eof
/mnt/data/mysql/volbench_ledger/filler.ibd: 2 extents found
"""
    assert EXTENT.findall(output) == [("3068584", "3068599"), ("5606920", "5607159")]


def test_a_real_log_has_the_requests_that_were_sent(tmp_path: Path) -> None:
    """Recorded by `record write-log`: see write_log_sample.py."""
    log = os.open(LOG, os.O_RDONLY)
    entries = read_entries(log)
    requests = [(item.mark or item.flags, item.offset_bytes // SECTOR_BYTES, item.size_bytes) for item in entries]
    assert [request for request in requests if request[0] != FLUSH] == [
        ("begin", 0, 0),
        ("unflushed", 0, 0),
        (0, 0, SECTOR_BYTES),
        ("flushed", 0, 0),
        (FUA, 1, SECTOR_BYTES),
        ("synchronous", 0, 0),
        ("end", 0, 0),
        (0, 2, 2 * SECTOR_BYTES),
        (DISCARD, 4, 8 * SECTOR_BYTES),
        ("dm-log-writes-end", 0, 0),
    ]
    assert all(item.flags == MARK for item in entries if item.mark)
    file = tmp_path / "device"
    file.write_bytes(b"x" * 16 * SECTOR_BYTES)
    device = os.open(file, os.O_RDWR)
    replay = Replay(entries, log, device)
    contents = []
    for mark in ("unflushed", "flushed", "synchronous", "end"):
        replay.advance(position_of(entries, mark))
        contents.append(file.read_bytes()[::SECTOR_BYTES].decode())
    replay.finish()
    contents.append(file.read_bytes()[::SECTOR_BYTES].decode())
    os.close(device)
    os.close(log)
    left = "x" * 4
    assert contents == [
        "x" * 16,
        f"axxx{'x' * 8}{left}",
        f"abxx{'x' * 8}{left}",
        f"abxx{'x' * 8}{left}",
        "abcc" + "\0" * 8 + left,
    ]


def test_the_committed_page_is_that_of_the_recorded_cuts() -> None:
    """make lab-vm LAB_VM=table writes it."""
    assert PAGE.read_text(encoding="utf-8") == power_table(FILE)


@pytest.mark.parametrize("name", STACKS)
def test_every_replay_of_a_whole_log_is_the_disk(name: str) -> None:
    assert STACKS[name].replay_is_device


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_keeps_or_loses_what_it_is_expected_to(name: str) -> None:
    """Torn pages are judged apart: they need the doublewrite buffer, whatever the stack."""
    cuts = STACKS[name].of(*(kind for kind in HONEST if kind != "torn"))
    assert cuts
    if conditions()["stacks"][name]["expect"] == "keeps":
        assert keeps(cuts)
    else:
        assert any(lost(item) for item in cuts)


def test_a_device_that_lies_loses() -> None:
    lying = [item for stack in STACKS.values() for item in stack.of("lying")]
    assert lying
    assert not any(keeps([item]) for item in lying)


def torn_of(stack: Recorded) -> list[dict[str, Any]]:
    cuts = stack.of("torn")
    assert cuts
    return cuts


def test_a_torn_page_needs_the_doublewrite_buffer() -> None:
    assert keeps(torn_of(STACKS["ext4"]))
    assert any(not keeps([item]) for item in torn_of(STACKS["ext4-no-doublewrite"]))
