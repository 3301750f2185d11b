"""Facts of stacks that an unmodified kernel showed, against what the stacks are and which counters moved.

Each recording has /proc/diskstats around a known load: which devices moved is a truth that no reader of sysfs made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kernel_stacks import DIRECTORY, NAMES, RecordedStack, rebuilt_stack

from volbench.core.profile.shared_storage import shared_storage
from volbench.machine.host.sysfs import counts_flushes
from volbench.machine.volume.facts.ebs_csi import nvme_devices

STACKS = yaml.safe_load((Path(__file__).parents[3] / "lab" / "vm" / "stacks.yaml").read_text())
WRITES = 50
"""Each of the load's is followed by fdatasync."""
SUPERBLOCK_SECTORS = 16
"""What md writes of itself to each disk meanwhile, at most."""
LOCAL = [name for name in NAMES if not {"server", "target"} & STACKS[name].keys()]
"""Stacks all of whose layers are on the recording machine, and belong to the client."""


def test_every_stack_of_the_lab_is_recorded() -> None:
    assert set(NAMES) == set(STACKS)


@pytest.fixture(params=LOCAL)
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> RecordedStack:
    return rebuilt_stack(request.param, tmp_path)


def named(stack: RecordedStack) -> dict[str, Any]:
    result: dict[str, Any] = STACKS[stack.record["name"]]
    return result


def test_the_disks_below_are_found(stack: RecordedStack) -> None:
    letters = named(stack).get("disks", []) + named(stack).get("journal", [])
    assert set(stack.facts.physical_disks) == stack.disk_names(letters)


def test_the_volumes_own_counters_are_read_of_every_disk(stack: RecordedStack) -> None:
    """EBS keeps its counters by NVMe device: on RAID 0 or LUKS over EBS, all belong to the data directory."""
    letters = named(stack).get("disks", []) + named(stack).get("journal", [])
    expected = {f"/dev/{name}" for name in stack.disk_names(letters)}
    assert set(nvme_devices(stack.facts.physical_disks)) == expected


def test_the_disks_of_an_external_journal_are_told_apart(stack: RecordedStack) -> None:
    journal = stack.disk_names(named(stack).get("journal", []))
    assert journal <= set(stack.facts.journal_devices)
    assert not set(stack.facts.stack) & journal


def test_counters_that_moved_belong_to_the_volume(stack: RecordedStack) -> None:
    """What is counted is all that the load moved: no layer is lost, and no stranger is counted.

    An exception: the copies that a snapshot keeps are written by device mapper to a device beside the volume.
    """
    moved, counted = stack.moved(), set(stack.facts.counted_disks)
    assert {stack.kind(name) for name in moved - counted} == set(named(stack).get("beside", []))
    assert {stack.kind(name) for name in counted - moved} == set(named(stack).get("still", []))


def test_the_device_of_the_filesystem_comes_first(stack: RecordedStack) -> None:
    assert stack.facts.counted_disks[0] == stack.facts.disk


def test_models_and_schedulers_are_those_of_the_disks(stack: RecordedStack) -> None:
    assert stack.facts.disk_model == "QEMU NVMe Ctrl"
    assert stack.facts.scheduler is not None


def test_flushes_are_counted_by_disks_only(stack: RecordedStack) -> None:
    """A device that says it counts flushes counted those of the load; one that says not, none since it was made."""
    before, after = stack.counters("before"), stack.counters("after")
    counting = [name for name in stack.facts.counted_disks if counts_flushes(name, sys=stack.sys)]
    assert set(stack.facts.physical_disks) <= set(counting)
    assert all(after[name].flushes == 0 for name in stack.facts.counted_disks if name not in counting)
    assert sum((after[name].flushes or 0) - (before[name].flushes or 0) for name in counting) >= WRITES


def test_bytes_written_are_conserved_or_multiplied_by_copies(stack: RecordedStack) -> None:
    """A linear, striped or encrypted volume hands on each byte once; a mirror as often as it has copies."""
    copies = named(stack).get("copies")
    if copies is None:
        pytest.skip("does not apply: the layers write more than they are given")
    before, after = stack.counters("before"), stack.counters("after")
    written = {name: after[name].write_sectors - before[name].write_sectors for name in stack.facts.counted_disks}
    below = sum(written[name] for name in stack.facts.physical_disks)
    own = copies * written[stack.facts.counted_disks[0]]
    assert own <= below <= own + SUPERBLOCK_SECTORS * len(stack.facts.physical_disks)


def test_two_logical_volumes_on_one_disk_share_it_and_both_are_mounted(tmp_path: Path) -> None:
    stack = rebuilt_stack("lvm-linear-neighbour", tmp_path)
    data = stack.facts
    second = data.model_copy(update={"device_number": "254:9", "device": "dm-9", "disk": "dm-9"})
    (shared,) = shared_storage({"data": data, "other": second})
    assert shared.storage == f"disk {data.lower_devices[0]}"
    assert "not mounted" not in shared.text
    assert "disks of their own" in shared.text


def test_a_journal_on_the_disk_of_the_other_volume_is_shared(tmp_path: Path) -> None:
    facts = rebuilt_stack("xfs-logdev", tmp_path).facts
    (journal,) = facts.journal_devices
    second = facts.model_copy(
        update={"device_number": "259:9", "device": journal, "disk": journal, "stack": {}, "journal_devices": ()}
    )
    (shared,) = shared_storage({"a": facts, "b": second})
    assert shared.storage == f"disk {journal}"


@pytest.mark.parametrize("name", ["nfs-3", "nfs-4.1", "nfs-4.2-nconnect"])
def test_nfs_has_its_server_and_version_and_no_disk(name: str, tmp_path: Path) -> None:
    facts = rebuilt_stack(name, tmp_path).facts
    assert (facts.nfs_server, facts.counted_disks) == ("127.0.0.1", ())
    assert f"nfs-{facts.nfs_version}" == name.removesuffix("-nconnect")


def test_recordings_are_there() -> None:
    assert DIRECTORY.is_dir()
