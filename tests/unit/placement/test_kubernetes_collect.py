"""What comes out of a pod is unpacked beneath a directory: regular files, and nothing else."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
from pathlib import Path
from typing import Any

import pytest

from volbench.placement.kubernetes.collect import SUMS, unpack


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    stream.seek(0)
    return stream


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def sums(content: bytes, name: str) -> bytes:
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n".encode()


def test_files_and_directories_are_unpacked_and_verified(tmp_path: Path) -> None:
    content = b"text"
    stream = archive(
        (member("./raw", tarfile.DIRTYPE), b""),
        (member("./raw/a"), content),
        (member(SUMS), sums(content, "raw/a")),
    )
    assert unpack(stream, tmp_path) == ""
    assert (tmp_path / "raw" / "a").read_bytes() == content


@pytest.mark.parametrize(
    "hostile",
    [
        member("../outside"),
        member("/etc/outside"),
        member("a/../../outside"),
        member("link", tarfile.SYMTYPE, "/etc"),
        member("hard", tarfile.LNKTYPE, "/etc/passwd"),
        member("pipe", tarfile.FIFOTYPE),
        member("device", tarfile.CHRTYPE),
    ],
    ids=lambda info: info.name,
)
def test_anything_else_is_a_fault_and_nothing_is_made_outside(tmp_path: Path, hostile: tarfile.TarInfo) -> None:
    directory = tmp_path / "inside"
    directory.mkdir()
    assert hostile.name in unpack(archive((hostile, b"")), directory)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("module", [gzip, bz2, lzma], ids=lambda module: module.__name__)
def test_a_compressed_archive_is_none(tmp_path: Path, module: Any) -> None:
    """The command in the pod compresses nothing; a pod that does could make the runner write without end."""
    plain = archive((member("result.json"), b"{}"), (member(SUMS), sums(b"{}", "result.json")))
    assert "damaged" in unpack(io.BytesIO(module.compress(plain.getvalue())), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_extended_header_of_terabytes_is_a_damaged_archive(tmp_path: Path) -> None:
    header = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    header.size = 1 << 50
    (tmp_path / "archive").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + b"x" * 1024)
    (tmp_path / "out").mkdir()
    with (tmp_path / "archive").open("rb") as opened:
        assert "damaged" in unpack(opened, tmp_path / "out")
