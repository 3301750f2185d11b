"""nfs volumes: the mount command and the Docker driver's options; a kernel without NFS is told as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.profile.spec import parse_volume
from volbench.errors import EXIT_ENVIRONMENT, MissingPrerequisite
from volbench.machine.volume.factory import make_volume
from volbench.machine.volume.kinds.docker_volume import DockerNfsVolume
from volbench.machine.volume.kinds.nfs import (
    NfsVolume,
    driver_options,
    mount_command,
    require_nfs_client,
    server_address,
    split_export,
)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("nfs:10.0.0.9:/x?vers=4.1,async", ["-o", "vers=4.1,async", "--", "10.0.0.9:/x", "/m"]),
        ("nfs:fs.example:/", ["--", "fs.example:/", "/m"]),
        ("nfs:[fe80::1]:/x?vers=3", ["-o", "vers=3", "--", "[fe80::1]:/x", "/m"]),
    ],
)
def test_mount_command(text: str, arguments: list[str]) -> None:
    """Options are passed as they were given; a name can never be taken for an option."""
    assert mount_command(parse_volume(text, name="a"), Path("/m")) == ["mount", "-t", "nfs", *arguments]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nfs:s:/x?vers=4.1,async", {"type": "nfs", "o": "addr=10.1.1.1,vers=4.1,async", "device": ":/x"}),
        ("nfs:s:/?nfsvers=3,nolock", {"type": "nfs", "o": "addr=10.1.1.1,nfsvers=3,nolock", "device": ":/"}),
        ("nfs:s:/x", {"type": "nfs", "o": "addr=10.1.1.1,vers=4.2", "device": ":/x"}),
        ("nfs:s:/x?addr=9.9.9.9,vers=4", {"type": "nfs", "o": "addr=10.1.1.1,vers=4", "device": ":/x"}),
    ],
)
def test_driver_options(text: str, expected: dict[str, str]) -> None:
    """The engine gets the resolved address and always a version."""
    assert driver_options(parse_volume(text, name="a"), address="10.1.1.1") == expected


def test_places() -> None:
    """Server and export are split at the first colon that a slash follows, brackets or not."""
    assert split_export("s:/a/b") == ("s", "/a/b")
    assert split_export("[fe80::1]:/") == ("[fe80::1]", "/")


def test_addresses() -> None:
    """An address is itself; a name that nobody knows is an error of the environment."""
    assert server_address(parse_volume("nfs:127.0.0.1:/x", name="a")) == "127.0.0.1"
    assert server_address(parse_volume("nfs:[::1]:/x", name="a")) == "::1"
    with pytest.raises(MissingPrerequisite, match="cannot be resolved"):
        server_address(parse_volume("nfs:no-such-host.invalid:/x", name="a"))


def test_kernel_with_nfs(tmp_path: Path) -> None:
    """A kernel that lists nfs4 is enough; nothing is loaded."""
    (tmp_path / "filesystems").write_text("nodev\tsysfs\nnodev\tnfs4\n\text4\n")
    require_nfs_client(parse_volume("nfs:s:/x", name="a"), filesystems=tmp_path / "filesystems")


def test_kernel_without_nfs(tmp_path: Path) -> None:
    """Exit 3, with what was looked at, and nothing left behind."""
    (tmp_path / "filesystems").write_text("nodev\tsysfs\n\text4\nnodev\tnfsd\n")
    volume = NfsVolume(parse_volume("nfs:s:/x", name="a"), filesystems=tmp_path / "filesystems")
    with pytest.raises(MissingPrerequisite, match="no NFS client") as caught, volume:
        pass
    assert str(tmp_path / "filesystems") in caught.value.evidence
    assert caught.value.exit_code == EXIT_ENVIRONMENT
    volume.close()


def test_who_mounts() -> None:
    """The engine mounts for containers, this process for child processes."""
    spec = parse_volume("nfs:s:/x", name="a")
    assert isinstance(make_volume(spec, target="docker"), DockerNfsVolume)
    assert isinstance(make_volume(spec), NfsVolume)
