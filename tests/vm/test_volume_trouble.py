"""Volumes that fail under a real kernel: one message with the layer and an exit code."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.errors import VolbenchError
from volbench.machine.volume.trouble import volume_failure
from volbench.measure.execute.volume_watch import VolumeWatch

pytestmark = pytest.mark.vm
MOUNT, OTHER = Path("/mnt/data"), Path("/mnt/other")
HEAD = """mkdir -p /mnt/data /mnt/other /run/lvm /run/lock
A=$(readlink -f /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume0)
"""
UNDO = """umount -f -l /mnt/data
vgchange -qq -an vg; vgremove -qq -ff -y vg; dmsetup remove_all; udevadm settle; wipefs -qaf $A
"""


def bash(script: str) -> str:
    done = subprocess.run(
        ["bash", "-euc", HEAD + script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def disk() -> Iterator[None]:
    """The first device, empty; whatever a test made on it is undone."""
    yield
    subprocess.run(["bash", "-uc", HEAD + UNDO], check=False, capture_output=True)


def failed_write(size_bytes: int) -> OSError:
    """The error of a file that is written and synchronised."""
    try:
        descriptor = os.open(MOUNT / "file", os.O_CREAT | os.O_WRONLY)
        try:
            for _ in range(size_bytes >> 20):
                os.write(descriptor, os.urandom(1 << 20))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return error
    raise AssertionError("the write did not fail")


@pytest.mark.usefixtures("disk")
def test_a_thin_pool_that_is_full() -> None:
    """The filesystem has space, the pool below it has none."""
    bash(
        """modprobe dm_thin_pool; vgcreate -qq vg $A
lvcreate -qq -y --type thin-pool -L 64M -n pool vg; lvchange -qq --errorwhenfull y vg/pool
lvcreate -qq -y -V 500M --thinpool pool -n data vg
mkfs.ext4 -q -E nodiscard /dev/vg/data; mount /dev/vg/data /mnt/data"""
    )
    failure = volume_failure(failed_write(128 << 20), phase="copying the dataset")
    assert (failure.exit_code, failure.cause) in ((3, "volume_full"), (5, "volume_gone"))


@pytest.mark.usefixtures("disk")
def test_a_device_that_is_unplugged() -> None:
    bash("mkfs.ext4 -q $A; mount $A /mnt/data")
    watch = VolumeWatch(MOUNT, writable=True)
    assert watch.trouble() is None
    bash("D=${A##*/}; echo 1 >$(readlink -f /sys/class/block/$D/device/device)/remove")
    try:
        assert failed_write(1 << 20).errno in (errno.EIO, errno.EROFS, errno.ENODEV)
        with pytest.raises(VolbenchError) as caught:
            watch.check(where="volume a")
        assert (caught.value.exit_code, caught.value.cause) in ((5, "volume_gone"), (3, "volume_read_only"))
    finally:
        subprocess.run(
            ["bash", "-c", "umount -l /mnt/data; echo 1 >/sys/bus/pci/rescan; udevadm settle"], check=False
        )
