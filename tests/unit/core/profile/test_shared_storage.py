"""The forgotten mount: two volumes that lie on one piece of storage."""

from __future__ import annotations

import pytest

from volbench.core.profile.shared_storage import below_mount_point, not_mounted_text, shared_storage
from volbench.core.records.facts import VolumeFacts

ROOT = {"filesystem": "ext4", "mount_point": "/", "device_number": "254:1", "device": "vda1", "disk": "vda"}
DISK = {
    "filesystem": "xfs",
    "mount_point": "/mnt/x",
    "device_number": "259:4",
    "device": "nvme1n1",
    "disk": "nvme1n1",
}


def facts(**known_values: object) -> VolumeFacts:
    return VolumeFacts.model_validate({"path": "/", **known_values})


@pytest.mark.parametrize(
    ("a", "b", "storage"),
    [
        (ROOT, ROOT, "file system (ext4, vda1)"),
        (ROOT, {**ROOT, "device_number": "254:2", "device": "vda2"}, "disk vda"),
        (ROOT, {**ROOT, "device_number": "0:99"}, "device vda1"),
        (
            {"device_number": "253:0", "device": "dm-0", "disk": "dm-0", "lower_devices": ("sda", "sdb")},
            {"device_number": "253:1", "device": "dm-1", "disk": "dm-1", "lower_devices": ("sdb", "sdc")},
            "disk sdb",
        ),
        (
            {"device_number": "0:60", "nfs_server": "fs", "nfs_export": "/a"},
            {"device_number": "0:61", "nfs_server": "fs", "nfs_export": "/a"},
            "NFS export fs:/a",
        ),
        (
            {"device_number": "7:0", "device": "loop0", "disk": "loop0", "loop_backing_file": "/srv/a.img"},
            {"device_number": "7:1", "device": "loop1", "disk": "loop1", "loop_backing_file": "/srv/b.img"},
            "directory of loop files, /srv",
        ),
    ],
)
def test_common_storage_is_named(a: dict[str, object], b: dict[str, object], storage: str) -> None:
    (result,) = shared_storage({"gp3": facts(**a), "io2": facts(**b)})
    assert result.storage == storage
    assert result.text.startswith(f"Volumes gp3 and io2 lie on the same {storage}: ")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (ROOT, DISK),
        ({}, {}),
        ({"nfs_server": "fs", "nfs_export": "/a"}, {"nfs_server": "fs", "nfs_export": "/b"}),
        ({**ROOT, "emulated_profile": "ebs-gp3"}, {**ROOT, "emulated_profile": "ebs-gp2"}),
    ],
)
def test_other_storage_is_not(a: dict[str, object], b: dict[str, object]) -> None:
    """Neither is storage of which nothing is known, nor an emulated volume, whatever its bytes lie on."""
    assert shared_storage({"a": facts(**a), "b": facts(**b)}) == ()


def test_volumes_on_one_storage_are_told_together() -> None:
    """Of twelve directories of one disk a page had 66 sentences, one for each pair."""
    result = shared_storage({"a": facts(**ROOT), "b": facts(**DISK), "c": facts(**ROOT), "d": facts(**ROOT)})
    assert [item.volumes for item in result] == [("a", "c", "d")]
    assert result[0].text.startswith("Volumes a, c and d lie on the same ")
    (many,) = shared_storage({name: facts(**ROOT) for name in "abcdefghijkl"})
    assert "Volumes a, b, c, d and 8 more lie on the same" in many.text


def test_a_directory_that_is_no_mount_point_is_told() -> None:
    text = not_mounted_text("gp3", "/mnt/gp3", facts(**ROOT))
    assert text == "Volume gp3: /mnt/gp3 is not a mount point; it is a directory of / (ext4, vda1)."
    assert not_mounted_text("gp3", "/mnt/x/", facts(**DISK)) == ""
    assert below_mount_point("/mnt/x/mysql", facts(**DISK)) == "/mnt/x"
    assert below_mount_point("/mnt/y", facts(**{**DISK, "mount_point": "/volume"})) is None
