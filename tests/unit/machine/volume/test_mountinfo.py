"""mountinfo: the mount a path is on, as the kernel would say, on recorded tables and on this machine."""

# ruff: noqa: E501 - recorded lines stay whole
from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.base.mountinfo import (
    mount_of,
    mount_of_open_path,
    mounts_below,
    parse_mountinfo,
    read_mounts,
    unescape,
)

EKS_POD = r"""
1553 1210 0:232 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/59/fs:/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/58/fs,upperdir=/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/112/fs,workdir=/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/112/work
1554 1553 0:234 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
1555 1553 0:235 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
1563 1553 0:204 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro
1570 1553 259:3 / /var/lib/mysql rw,relatime - ext4 /dev/nvme1n1 rw,stripe=4
1571 1553 259:1 /var/lib/kubelet/pods/7f4e3c0e/etc-hosts /etc/hosts rw,noatime - xfs /dev/nvme0n1p1 rw,attr2,inode64,logbufs=8,logbsize=32k,noquota
1572 1555 0:203 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k
1573 1553 259:1 /var/lib/kubelet/pods/7f4e3c0e/volumes/kubernetes.io~empty-dir/scratch /scratch rw,noatime - xfs /dev/nvme0n1p1 rw,attr2,inode64,logbufs=8,logbsize=32k,noquota
1574 1553 0:201 / /run/secrets/kubernetes.io/serviceaccount ro,relatime - tmpfs tmpfs rw,size=524288k
"""

STACKED = r"""
20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 20 8:16 / /mnt/a rw,relatime shared:2 master:7 - xfs /dev/sdb rw
31 30 8:32 / /mnt/a rw,relatime - xfs /dev/sdc rw
40 20 8:48 / /srv/deep/place rw,relatime - xfs /dev/sdd rw
41 20 8:64 / /srv rw,relatime - xfs /dev/sde rw
50 20 8:80 / /mnt/with\040space\011tab\134back rw,relatime - ext4 /dev/sdf rw
51 20 8:96 /sub /mnt/bind rw,relatime - ext4 /dev/sdg rw
"""


@pytest.mark.parametrize(
    ("path", "device_number", "filesystem"),
    [
        ("/var/lib/mysql", "259:3", "ext4"),
        ("/var/lib/mysql/data/ibdata1", "259:3", "ext4"),
        ("/var/lib/mysql-files", "0:232", "overlay"),
        ("/etc/hosts", "259:1", "xfs"),
        ("/scratch/x", "259:1", "xfs"),
        ("/dev/shm/x", "0:203", "tmpfs"),
        ("/tmp", "0:232", "overlay"),
    ],
)
def test_paths_of_a_pod(path: str, device_number: str, filesystem: str) -> None:
    """In an EKS pod: the EBS volume, an emptyDir on the node's disk, the overlay around them."""
    mount = mount_of(path, parse_mountinfo(EKS_POD))
    assert mount is not None
    assert (mount.device_number, mount.filesystem) == (device_number, filesystem)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/mnt/a/file", "/dev/sdc"),  # the later of two at one place
        ("/srv/deep/place/file", "/dev/sde"),  # covered by a later mount nearer to the root
        ("/mnt/ab", "/dev/sda1"),  # a name that only begins alike
        ("/mnt/with space\ttab\\back/x", "/dev/sdf"),
        ("/mnt/bind", "/dev/sdg"),
    ],
)
def test_stacked_mounts(path: str, source: str) -> None:
    """What was mounted over is not reached; names are unescaped."""
    mount = mount_of(path, parse_mountinfo(STACKED))
    assert mount is not None
    assert mount.source == source


def test_fields() -> None:
    """Optional fields before the dash are skipped; root, options and their values are told apart."""
    mounts = parse_mountinfo(STACKED)
    assert mounts[1].options == ("rw", "relatime")
    assert mounts[-1].root == "/sub"
    ebs = mount_of("/var/lib/mysql", parse_mountinfo(EKS_POD))
    assert ebs is not None
    assert ebs.all_options == ("rw", "relatime", "stripe=4")
    assert ebs.option("stripe") == "4"
    assert ebs.option("rw") is None
    assert ebs.option("vers") is None


def test_other_lines_are_left_out() -> None:
    """A truncated or foreign line is no mount."""
    assert parse_mountinfo("") == ()
    assert parse_mountinfo("20 1 8:1 / /\nnonsense - x\n\n20 1 8:1 / / rw - ext4") == ()
    assert mount_of("/x", ()) is None


def test_no_root_in_the_table() -> None:
    """Without the root's line the longest mount point still decides."""
    mounts = parse_mountinfo("7 9 8:1 / /a rw - ext4 /dev/sda1 rw\n8 9 8:2 / /a/b rw - ext4 /dev/sda2 rw")
    for path, source in (("/a/b/c", "/dev/sda2"), ("/a/c", "/dev/sda1")):
        mount = mount_of(path, mounts)
        assert mount is not None
        assert mount.source == source
    assert mount_of("/elsewhere", mounts) is None


def test_mounts_below() -> None:
    """Only what is inside counts, by whole names."""
    mounts = parse_mountinfo(STACKED)
    assert mounts_below("/srv", mounts) == ["/srv/deep/place"]
    assert mounts_below("/mnt/a", mounts) == []
    assert mounts_below("/mnt/wi", mounts) == []


def test_unescape() -> None:
    """Octal escapes of the kernel; other backslashes stay."""
    assert unescape(r"a\040b\134c\012") == "a b\\c\n"
    assert unescape(r"a\04b\x") == r"a\04b\x"
    assert unescape("größe") == "größe"


@pytest.mark.parametrize("path", ["/", "/proc", "/dev", "/dev/shm", "/tmp", "/var/tmp", "/sys"])
def test_walk_agrees_with_the_kernel(path: str) -> None:
    """On this machine the table's answer is the one that the kernel gives for the opened path."""
    directory = Path(path)
    if not directory.exists():
        pytest.skip(f"no {path} here")
    mounts = read_mounts()
    messages = mount_of_open_path(directory, mounts)
    if messages is None:
        pytest.skip("the kernel gives no mnt_id here")
    assert mount_of(str(directory.resolve()), mounts) == messages
