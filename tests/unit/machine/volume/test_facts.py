"""What is behind a directory: recorded mount tables and sysfs trees, and this machine's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.core.base.mountinfo import parse_mountinfo
from volbench.core.records.facts import VolumeFacts
from volbench.errors import MissingPrerequisite
from volbench.machine.host.sysfs import block_device_named
from volbench.machine.volume.facts.discovery import cache_below, discover, facts_of, with_host_facts

ROOT = "20 1 259:1 / / rw,noatime shared:1 - xfs /dev/nvme0n1p1 rw,attr2,inode64\n"


class Sysfs:
    """A sysfs tree with the files that the kernel would show."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("dev/block", "class/block", "class/bdi", "fs"):
            (root / name).mkdir(parents=True)

    def disk(self, name: str, number: str, *, directory: str = "virtual", model: str = "", **queue: str) -> Path:
        folder = self.root / "devices" / directory / "block" / name
        self._device(folder, number)
        settings = {"scheduler": "[none] mq-deadline", "rotational": "0", "read_ahead_kb": "128"}
        settings |= {"logical_block_size": "512"} | queue
        for key, value in settings.items():
            self.file(folder / "queue" / key, value)
        if model:
            self.file(folder / "device" / "model", model)
        (folder / "slaves").mkdir()
        return folder

    def partition(self, disk: Path, name: str, number: str) -> Path:
        folder = disk / name
        self._device(folder, number)
        self.file(folder / "partition", "1")
        return folder

    def stack(self, upper: Path, *lower: Path) -> None:
        for folder in lower:
            (upper / "slaves" / folder.name).symlink_to(os.path.relpath(folder, upper / "slaves"))

    def file(self, path: Path, value: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")

    def _device(self, folder: Path, number: str) -> None:
        folder.mkdir(parents=True)
        for link in (self.root / "dev/block" / number, self.root / "class/block" / folder.name):
            link.symlink_to(os.path.relpath(folder, link.parent))


@pytest.fixture
def sys(tmp_path: Path) -> Sysfs:
    tree = Sysfs(tmp_path / "sys")
    system = tree.disk("nvme0n1", "259:0", directory="pci0000:00/nvme/nvme0", model="Amazon Elastic Block Store")
    tree.partition(system, "nvme0n1p1", "259:1")
    return tree


def facts(table: str, path: str, sys: Sysfs) -> VolumeFacts:
    return facts_of(path, parse_mountinfo(table), sys=sys.root)


def test_partition_of_an_ebs_disk(sys: Sysfs) -> None:
    """A partition is the device; its disk is what has a model, a scheduler and a read-ahead."""
    result = facts(ROOT, "/var/lib/mysql", sys)
    assert (result.device, result.disk, result.device_number) == ("nvme0n1p1", "nvme0n1", "259:1")
    assert result.disk_model == "Amazon Elastic Block Store"
    assert (result.scheduler, result.read_ahead_kib, result.rotational) == ("none", 128, False)
    assert (result.filesystem, result.mount_point, result.mount_source) == ("xfs", "/", "/dev/nvme0n1p1")
    assert result.mount_options == ("rw", "noatime", "attr2", "inode64")
    assert result.logical_block_bytes == 512
    assert result.notes == ()


@pytest.mark.parametrize(("says", "result"), [(None, None), ("0", 0), ("16384", 16384)])
def test_what_the_kernel_says_of_whole_writes(sys: Sysfs, says: str | None, result: int | None) -> None:
    """Linux before 6.11 says nothing, which is not the same as no promise."""
    if says is not None:
        (disk,) = sys.root.glob("devices/**/nvme0n1/queue")
        (disk / "atomic_write_unit_max_bytes").write_text(f"{says}\n")
    assert facts(ROOT, "/var/lib/mysql", sys).atomic_write_bytes == result


def test_volume_of_a_pod(sys: Sysfs) -> None:
    """In an EKS pod the volume is a whole disk, mounted from the node."""
    sys.disk("nvme1n1", "259:3", directory="pci0000:00/nvme/nvme1", model="Amazon Elastic Block Store")
    table = (
        "1553 1210 0:232 / / rw - overlay overlay rw,upperdir=/var/lib/containerd/snapshots/112/fs\n"
        "1570 1553 259:3 / /var/lib/mysql rw,relatime - ext4 /dev/nvme1n1 rw\n"
        "1573 1553 259:1 /var/lib/kubelet/pods/7f/scratch /scratch rw,noatime - xfs /dev/nvme0n1p1 rw\n"
    )
    volume = facts(table, "/var/lib/mysql/data", sys)
    assert (volume.device, volume.disk, volume.overlay) == ("nvme1n1", "nvme1n1", False)
    scratch = facts(table, "/scratch", sys)
    assert scratch.disk == "nvme0n1"
    assert "bind mount" in scratch.notes[0]
    layer = facts(table, "/tmp", sys)
    assert layer.overlay
    assert layer.device is None
    assert "not visible from here" in layer.notes[0]


def test_overlay_on_its_host(sys: Sysfs) -> None:
    """Seen from the host, an overlay's device is that of its upper directory; commas in it are escaped."""
    table = ROOT + (
        r"90 20 0:60 / /var/lib/docker/overlay2/x/merged rw - overlay overlay "
        r"rw,lowerdir=/var/lib/docker/overlay2/l/A:/b,upperdir=/var/lib/docker/overlay2/x\054y/diff,workdir=/w"
    )
    result = facts(table, "/var/lib/docker/overlay2/x/merged/data", sys)
    assert result.overlay
    assert (result.filesystem, result.device, result.disk) == ("overlay", "nvme0n1p1", "nvme0n1")
    assert "/var/lib/docker/overlay2/x,y/diff" in result.notes[0]


def test_device_mapper_down_to_its_disks(sys: Sysfs) -> None:
    """LVM over md over partitions: the disks at the bottom, each once; what is sampled is the dm device."""
    disks = [sys.disk(f"sd{letter}", f"8:{16 * n}", directory=f"pci/{letter}") for n, letter in enumerate("abc")]
    sections = [sys.partition(disk, f"{disk.name}1", f"8:{16 * n + 1}") for n, disk in enumerate(disks)]
    second = sys.partition(disks[0], "sda2", "8:2")
    array = sys.disk("md0", "9:0")
    volume = sys.disk("dm-3", "253:3", read_ahead_kb="4096")
    sys.stack(array, *sections)
    sys.stack(volume, array, second)
    sys.file(volume / "dm/name", "vg0-my--data")
    table = ROOT + "33 20 253:3 / /data rw - ext4 /dev/mapper/vg0-my--data rw\n"
    result = facts(table, "/data/x", sys)
    assert (result.device, result.disk, result.lower_devices) == ("dm-3", "dm-3", ("sda", "sdb", "sdc"))
    assert result.read_ahead_kib == 4096


@pytest.mark.parametrize("source", ["/dev/mapper/vg0-my--data", "/dev/vg0/my-data", "/dev/dm-3"])
def test_mapped_device_by_name(sys: Sysfs, source: str) -> None:
    """A mount source leads to its dm device even where /dev is not that of the host."""
    sys.file(sys.disk("dm-3", "253:3") / "dm/name", "vg0-my--data")
    result = block_device_named(source, sys=sys.root)
    assert result is not None
    assert result.name == "dm-3"


def test_btrfs_subvolume(sys: Sysfs) -> None:
    """btrfs has an anonymous device number; its device is found by the mount's source, all of them by sysfs."""
    for number, name in ((16, "sdb"), (32, "sdc")):
        sys.disk(name, f"8:{number}", directory=name)
        sys.file(sys.root / "fs/btrfs/5f0c" / "devices" / name / "size", "1")
    table = ROOT + "34 20 0:45 /@data /data rw - btrfs /dev/sdb rw,space_cache=v2,subvolid=256,subvol=/@data\n"
    result = facts(table, "/data/mysql", sys)
    assert (result.device, result.disk, result.device_number) == ("sdb", "sdb", "0:45")
    assert result.lower_devices == ("sdb", "sdc")
    assert any("btrfs over 2 devices" in note for note in result.notes)
    assert any("/@data" in note for note in result.notes)


@pytest.mark.parametrize(
    ("fields", "server", "export", "version"),
    [
        ("nfs4 fs-1.efs.amazonaws.com:/ rw,vers=4.1,rsize=1048576", "fs-1.efs.amazonaws.com", "/", "4.1"),
        ("nfs 10.0.0.9:/fsx/db rw,vers=3,hard", "10.0.0.9", "/fsx/db", "3"),
        ("nfs4 [fe80::1]:/x rw,vers=4.2", "fe80::1", "/x", "4.2"),
        ("nfs4 127.0.0.1:/ rw,vers=4.1", "127.0.0.1", "/", "4.1"),
    ],
)
def test_nfs(sys: Sysfs, fields: str, server: str, export: str, version: str) -> None:
    """Server, export and version come from the mount; read-ahead from its bdi; a cache stands below."""
    sys.file(sys.root / "class/bdi/0:52/read_ahead_kb", "15360")
    result = facts(ROOT + f"35 20 0:52 / /mnt/n rw,relatime - {fields}\n", "/mnt/n/db", sys)
    assert (result.nfs_server, result.nfs_export, result.nfs_version) == (server, export, version)
    assert (result.device, result.disk, result.read_ahead_kib) == (None, None, 15360)
    assert "NFS server" in (cache_below(result) or "")
    assert bool(result.notes) == (server == "127.0.0.1")


def test_memory(sys: Sysfs) -> None:
    """tmpfs, zram, and a loop device over a file on tmpfs are memory."""
    sys.disk("zram0", "252:0")
    sys.file(sys.disk("loop7", "7:7") / "loop/backing_file", "/dev/shm/disk.img")
    table = ROOT + (
        "40 20 0:23 / /dev/shm rw - tmpfs tmpfs rw\n"
        "41 20 252:0 / /mnt/z rw - ext4 /dev/zram0 rw\n"
        "42 20 7:7 / /mnt/l rw - xfs /dev/loop7 rw\n"
    )
    for path in ("/dev/shm/x", "/mnt/z", "/mnt/l"):
        assert facts(table, path, sys).memory_backed, path
    assert not facts(table, "/", sys).memory_backed


@pytest.mark.parametrize(("direct_io", "cached"), [("1", False), ("0", True)])
def test_loop_device(sys: Sysfs, direct_io: str, cached: bool) -> None:
    """A loop device names its file; without direct I/O the page cache stands below it."""
    loop = sys.disk("loop0", "7:0")
    sys.file(loop / "loop/backing_file", "/var/tmp/disk.img")
    sys.file(loop / "loop/dio", direct_io)
    result = facts(ROOT + "42 20 7:0 / /mnt/l rw - xfs /dev/loop0 rw\n", "/mnt/l", sys)
    assert result.loop_backing_file == "/var/tmp/disk.img"
    assert result.loop_direct_io is (direct_io == "1")
    assert not result.memory_backed
    assert (cache_below(result) is not None) == cached


def test_fuse_and_unknown(sys: Sysfs) -> None:
    """FUSE has no device and may cache; ZFS shows none in sysfs; both say so instead of guessing."""
    table = ROOT + (
        "43 20 0:70 / /mnt/f rw - fuse.sshfs u@h:/ rw,user_id=0\n"
        "44 20 0:71 / /mnt/z rw - zfs tank/mysql rw,xattr,noacl\n"
        "45 20 259:1 / /mnt/b rw - fuseblk /dev/nvme0n1p1 rw\n"
    )
    fuse = facts(table, "/mnt/f", sys)
    assert (fuse.device, fuse.disk) == (None, None)
    assert "served by a process" in fuse.notes[0]
    assert cache_below(fuse) is not None
    zfs = facts(table, "/mnt/z", sys)
    assert zfs.device is None
    assert "tank/mysql" in zfs.notes[0]
    assert facts(table, "/mnt/b", sys).device == "nvme0n1p1"


def test_nothing_known(sys: Sysfs) -> None:
    """Without a mount table nothing is known, and that is said; a missing path is an error."""
    assert facts("", "/x", sys).notes
    with pytest.raises(MissingPrerequisite):
        discover(sys.root / "no")


def test_this_machine(tmp_path: Path) -> None:
    """The facts of a directory here agree with stat and statvfs."""
    result = discover(tmp_path)
    space = os.statvfs(tmp_path)
    assert result.path == str(tmp_path)
    assert result.size_bytes == space.f_blocks * space.f_frsize
    assert result.filesystem
    if result.device is not None and result.filesystem != "btrfs":
        number = tmp_path.stat().st_dev
        assert result.device_number == f"{os.major(number)}:{os.minor(number)}"
    assert discover(Path("/dev/shm")).memory_backed


@pytest.fixture(params=["ext4", "xfs"])
def loop_mount(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path, Path]]:
    image, directory = tmp_path / "disk.img", tmp_path / "mnt with space"
    with image.open("wb") as file:
        file.truncate(512 << 20)
    directory.mkdir()
    for command in (
        [f"mkfs.{request.param}", "-q", str(image)],
        ["mount", "-o", "loop", str(image), str(directory)],
    ):
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            pytest.skip(f"no {command[0]}")
        if done.returncode != 0:
            pytest.skip(f"cannot mount, {command[0]}: {done.stderr.decode().strip()}")
    yield request.param, image, directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_real_loop_mount(loop_mount: tuple[str, Path, Path]) -> None:
    """A real filesystem on a loop device: its file, its device, a mount point with a space in its name."""
    filesystem, image, location = loop_mount
    result = discover(location)
    assert (result.filesystem, result.mount_point, result.loop_backing_file) == (
        filesystem,
        str(location),
        str(image),
    )
    assert result.device is not None
    assert result.device.startswith("loop")
    assert result.loop_direct_io is not None


LOOP_BELOW_TMP = ROOT + "30 20 7:0 / /data rw - ext4 /dev/loop0 rw\n"
"""The table of the host, whose /tmp is on its disk."""
IN_CONTAINER = (
    "20 1 0:50 / / rw - overlay overlay rw,upperdir=/var/lib/docker/overlay2/1/diff\n"
    "31 20 0:51 / /tmp rw - tmpfs tmpfs rw\n"
    "32 20 7:0 /volbench-1 /volume rw - ext4 /dev/loop0 rw\n"
)
"""The table of a container with a /tmp of its own, in memory."""


def loop_file(sys: Sysfs, file: str) -> None:
    folder = sys.disk("loop0", "7:0")
    sys.file(folder / "loop" / "backing_file", file)


def test_a_container_does_not_say_where_a_loop_devices_file_is(sys: Sysfs) -> None:
    """sysfs names the file by the host's path; the container's /tmp is another one."""
    loop_file(sys, "/tmp/disk.img")
    inside = facts_of("/volume", parse_mountinfo(IN_CONTAINER), sys=sys.root, contained=True)
    assert inside.memory_backed is False
    assert inside.notes[-1].endswith("is on the host and not visible in a container")
    assert not any("in memory" in note for note in inside.notes)


@pytest.mark.parametrize(("file", "in_memory"), [("/tmp/disk.img", False), ("/dev/shm/disk.img", True)])
def test_the_hosts_facts_stand_for_what_a_container_cannot_see(sys: Sysfs, file: str, in_memory: bool) -> None:
    """In both ways: a file that is in memory on the host is, whatever the container has at its path."""
    loop_file(sys, file)
    table = LOOP_BELOW_TMP + "40 20 0:24 / /dev/shm rw - tmpfs tmpfs rw\n"
    of_host = facts(table, "/data", sys)
    inside = facts_of("/volume", parse_mountinfo(IN_CONTAINER), sys=sys.root, contained=True)
    result = with_host_facts(inside, of_host)
    assert (result.memory_backed, result.mount_point) == (in_memory, "/data")
    assert result.path == "/volume"
    assert not any("cannot be seen" in note for note in result.notes)


def test_facts_of_another_file_system_are_not_taken(sys: Sysfs) -> None:
    """Of a volume that was mounted anew, and of an engine on another machine."""
    loop_file(sys, "/tmp/disk.img")
    inside = facts_of("/volume", parse_mountinfo(IN_CONTAINER), sys=sys.root, contained=True)
    assert with_host_facts(inside, facts(ROOT, "/", sys)) == inside
    assert with_host_facts(inside, None) == inside


def test_an_nfs_mount_keeps_the_mount_point_beside_the_server(sys: Sysfs) -> None:
    """The sampler finds the mount's counters by it, in the container's own table."""
    nfs = "50 20 0:60 / {} rw - nfs4 fs:/export rw,vers=4.1\n"
    of_host = facts(ROOT + nfs.format("/mnt/efs"), "/mnt/efs", sys)
    inside = facts(IN_CONTAINER.splitlines(keepends=True)[0] + nfs.format("/volume"), "/volume", sys)
    assert with_host_facts(inside, of_host).mount_point == "/volume"
