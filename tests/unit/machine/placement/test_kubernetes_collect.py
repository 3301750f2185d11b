"""What comes out of a pod is unpacked beneath a directory: regular files, and nothing else."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from volbench.errors import StepFailed
from volbench.machine.placement.kubernetes.collect import SUMS, run_in_pod, unpack


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


def test_a_file_without_a_checksum_is_a_fault(tmp_path: Path) -> None:
    """What is not in the list was made after it, or by somebody else."""
    stream = archive(
        (member("raw/a"), b"text"), (member("result.json"), b"{}"), (member(SUMS), sums(b"text", "raw/a"))
    )
    assert unpack(stream, tmp_path) == "result.json has no checksum, as 1 of 2 files"


def test_a_file_that_comes_twice_is_a_fault(tmp_path: Path) -> None:
    stream = archive((member("a"), b"text"), (member("./a"), b"text"), (member(SUMS), sums(b"text", "a")))
    assert unpack(stream, tmp_path) == "the archive has a twice"


def test_an_archive_of_very_many_files_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volbench.machine.placement.kubernetes.collect.FILES_MAX", 10)
    assert "more than 10 members" in unpack(archive(*((member(f"a{n}"), b"") for n in range(11))), tmp_path)


def test_an_extended_header_is_not_read_into_memory(tmp_path: Path) -> None:
    """A name of 600 MiB: the header claims it, and the archive has it."""
    header = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    header.size = 600 << 20
    with (tmp_path / "archive").open("wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.truncate(header.size + 1024)
    (tmp_path / "out").mkdir()
    tracemalloc.start()
    with (tmp_path / "archive").open("rb") as opened:
        assert "damaged" in unpack(opened, tmp_path / "out")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20


class Pod:
    """A stream of a pod that sends without end."""

    returncode = 0

    def __init__(self) -> None:
        self.sock = self
        self.sent = 0

    def is_open(self) -> bool:
        return True

    def update(self, timeout: float) -> None:
        del timeout

    def read_channel(self, channel: int) -> bytes:
        self.sent += 1 << 20
        return b"x" * (1 << 20) if channel in {1, 2} else b""

    def close(self) -> None:
        pass

    def shutdown(self) -> None:
        pass


@pytest.mark.parametrize("to_file", [False, True])
def test_a_pod_that_sends_without_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_file: bool
) -> None:
    module = "volbench.machine.placement.kubernetes.collect"
    pod = Pod()
    monkeypatch.setattr(f"{module}.stream.stream", lambda *_, **__: pod)
    monkeypatch.setattr(
        f"{module}.client.CoreV1Api", lambda _: SimpleNamespace(connect_get_namespaced_pod_exec=None)
    )
    cluster: Any = SimpleNamespace(
        namespace="n", fresh_client=lambda: None, with_retries=lambda attempt, **_: attempt()
    )
    with (tmp_path / "archive").open("w+b") as file, pytest.raises(StepFailed, match="more than any cell has"):
        run_in_pod(cluster, "p", ["x"], doing="collecting", into=file if to_file else None, bytes_max=32 << 20)
    assert (tmp_path / "archive").stat().st_size <= 32 << 20
    assert pod.sent < 100 << 20


def test_an_extended_header_of_terabytes_is_a_damaged_archive(tmp_path: Path) -> None:
    header = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    header.size = 1 << 50
    (tmp_path / "archive").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + b"x" * 1024)
    (tmp_path / "out").mkdir()
    with (tmp_path / "archive").open("rb") as opened:
        assert "damaged" in unpack(opened, tmp_path / "out")
