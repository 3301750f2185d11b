"""Copies: every byte, mode and hole; durable; and nothing left behind when they fail."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.core.base import ownership
from volbench.core.base.marker import MARKER
from volbench.errors import EXIT_ENVIRONMENT, EXIT_STEP_FAILED, MissingPrerequisite, Refused, StepFailed
from volbench.machine.volume import copying
from volbench.machine.volume.coldness import evict, resident_pages
from volbench.machine.volume.copying import copy_tree
from volbench.machine.volume.space import require_space
from volbench.machine.volume.trouble import volume_failure

MIB = 1 << 20
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")


@pytest.fixture
def template(tmp_path: Path) -> Path:
    source = tmp_path / "template"
    (source / "mysql").mkdir(parents=True)
    (source / "mysql" / "empty").touch()
    (source / "mysql" / "t.ibd").write_bytes(os.urandom(3 * MIB + 17))
    (source / "ibdata1").write_bytes(os.urandom(MIB))
    (source / "ibdata1").chmod(0o640)
    (source / "mysql").chmod(0o750)
    with (source / "sparse").open("wb") as file:
        file.write(b"head")
        file.seek(64 * MIB)
        file.write(b"tail")
        file.truncate(80 * MIB)
    (source / "link").symlink_to("ibdata1")
    (source / MARKER).write_text("{}")
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(os.path.relpath(source / "mysqld.sock"))
    return source


def contents(directory: Path) -> dict[str, bytes | str]:
    result: dict[str, bytes | str] = {}
    for path in directory.rglob("*"):
        if path.is_symlink():
            result[str(path.relative_to(directory))] = str(path.readlink())
        elif path.is_file():
            result[str(path.relative_to(directory))] = path.read_bytes()
    return result


@pytest.mark.parametrize("weakest", ["as it comes", "copy_file_range", "sendfile"])
def test_copy_is_identical(template: Path, tmp_path: Path, weakest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes, modes, links and holes are kept, by every method; the marker and sockets are not copied."""
    if weakest != "as it comes":
        monkeypatch.setattr(copying, "_reflink", lambda *_: False)
    if weakest == "sendfile":

        def refuse(*args: object) -> int:
            raise OSError(errno.EXDEV, "refused")

        monkeypatch.setattr(os, "copy_file_range", refuse)
    observed: list[tuple[int, int]] = []
    stats = copy_tree(template, tmp_path / "copy", workers=3, progress=lambda *now: observed.append(now))
    expected = contents(template)
    del expected[MARKER]
    assert contents(tmp_path / "copy") == expected
    assert not (tmp_path / "copy" / "mysqld.sock").exists()
    assert stats.files == 4
    assert stats.bytes == sum((template / name).stat().st_size for name in expected if name != "link")
    if weakest != "as it comes":
        assert stats.method == weakest
    assert (tmp_path / "copy/ibdata1").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "copy/mysql").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "copy/sparse").stat().st_blocks * 512 < 2 * MIB
    assert observed == sorted(observed)
    assert observed[-1] == (stats.bytes, stats.bytes)


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    image, directory = tmp_path / "xfs.img", tmp_path / "xfs"
    with image.open("wb") as file:
        file.truncate(512 * MIB)
    directory.mkdir()
    for command in (
        ["mkfs.xfs", "-q", "-m", "reflink=1", str(image)],
        ["mount", "-o", "loop", str(image), str(directory)],
    ):
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            pytest.skip(f"no {command[0]}")
        if done.returncode != 0:
            pytest.skip(f"cannot mount, {command[0]}: {done.stderr.decode().strip()}")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@root_only
def test_extents_are_shared(template: Path, xfs: Path) -> None:
    """On one xfs a copy takes no space and is still a copy of its own; it can be had without sharing."""
    first = copy_tree(template, xfs / "template")
    free = os.statvfs(xfs).f_bfree
    shared = copy_tree(xfs / "template", xfs / "shared")
    assert (first.method, shared.method) == ("sendfile", "reflink")
    assert (free - os.statvfs(xfs).f_bfree) * os.statvfs(xfs).f_frsize < MIB
    assert contents(xfs / "shared") == contents(xfs / "template")
    (xfs / "shared" / "ibdata1").write_bytes(b"changed")
    assert (xfs / "template" / "ibdata1").stat().st_size == MIB
    free = os.statvfs(xfs).f_bfree
    plain = copy_tree(xfs / "template", xfs / "plain", reflink=False)
    assert plain.method == "sendfile"
    assert (free - os.statvfs(xfs).f_bfree) * os.statvfs(xfs).f_frsize >= MIB
    assert contents(xfs / "plain") == contents(xfs / "template")


def test_copy_is_durable(template: Path) -> None:
    """After the copy no page is dirty: advice alone, without another sync, evicts it."""
    destination = Path(f"/var/tmp/volbench-copy-{os.getpid()}")
    try:
        copy_tree(template, destination)
        file = destination / "mysql" / "t.ibd"
        with file.open("rb") as open_file:
            os.posix_fadvise(open_file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        messages = resident_pages(file)
        evict(file)
        if resident_pages(file).resident != 0:
            pytest.skip("/var/tmp is not on a disk")
        assert messages.resident == 0
    finally:
        ownership.discard(destination)


def test_destination_must_be_empty(template: Path, tmp_path: Path) -> None:
    """What is there is not mixed with the copy, and not removed."""
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "file").write_text("x")
    with pytest.raises(Refused):
        copy_tree(template, tmp_path / "copy")
    assert (tmp_path / "copy" / "file").exists()


def test_source_gone(tmp_path: Path) -> None:
    """A missing template is not blamed on the volume."""
    with pytest.raises(StepFailed) as caught:
        copy_tree(tmp_path / "no", tmp_path / "copy")
    assert caught.value.cause == "source_gone"
    assert not (tmp_path / "copy").exists()


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "small"
    directory.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "volbench-test", str(directory)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.decode().strip()}")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@root_only
@pytest.mark.parametrize("existing", [True, False])
def test_full_volume_is_seen_before(template: Path, small_volume: Path, existing: bool) -> None:
    """Too little space is told with both numbers, exit 3, and nothing stays on the volume."""
    if existing:
        (small_volume / "copy").mkdir()
    with pytest.raises(MissingPrerequisite) as caught:
        copy_tree(template, small_volume / "copy")
    assert caught.value.cause == "volume_full"
    assert "MiB needed" in str(caught.value)
    assert caught.value.exit_code == EXIT_ENVIRONMENT
    assert list(small_volume.rglob("*")) == ([small_volume / "copy"] if existing else [])


@root_only
def test_volume_fills_up_while_copying(template: Path, small_volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real ENOSPC in the middle has the same cause, and the partial copy is gone."""
    monkeypatch.setattr(copying, "require_space", lambda *_: None)
    with pytest.raises(MissingPrerequisite) as caught:
        copy_tree(template, small_volume / "copy")
    assert caught.value.cause == "volume_full"
    assert "ENOSPC" in str(caught.value)
    assert list(small_volume.iterdir()) == []


@root_only
def test_read_only_volume(template: Path, small_volume: Path) -> None:
    """EROFS is told as such, exit 3."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_volume)], check=True)
    with pytest.raises(MissingPrerequisite) as caught:
        copy_tree(template, small_volume / "copy")
    assert caught.value.cause == "volume_read_only"
    assert "next step" in str(caught.value)


@pytest.mark.parametrize(
    ("number", "cause", "exit_code"),
    [
        (errno.ENOSPC, "volume_full", EXIT_ENVIRONMENT),
        (errno.EDQUOT, "volume_full", EXIT_ENVIRONMENT),
        (errno.EROFS, "volume_read_only", EXIT_ENVIRONMENT),
        (errno.EACCES, "volume_denied", EXIT_ENVIRONMENT),
        (errno.ENOENT, "volume_gone", EXIT_STEP_FAILED),
        (errno.ESTALE, "volume_gone", EXIT_STEP_FAILED),
        (errno.EIO, "volume_gone", EXIT_STEP_FAILED),
        (errno.EMFILE, "volume_error", EXIT_STEP_FAILED),
    ],
)
def test_causes(number: int, cause: str, exit_code: int) -> None:
    """Each errno has one cause word; the evidence names errno and file."""
    failure = volume_failure(OSError(number, os.strerror(number), "/mnt/x/file"), phase="seeding")
    assert (failure.cause, failure.exit_code) == (cause, exit_code)
    assert failure.where == "seeding"
    assert errno.errorcode[number] in failure.evidence
    assert "/mnt/x/file" in failure.evidence


def test_require_space(tmp_path: Path) -> None:
    """Enough is silent, too little is an error, a missing place is one too."""
    require_space(tmp_path, 1)
    with pytest.raises(MissingPrerequisite):
        require_space(tmp_path, 1 << 62)
    with pytest.raises(StepFailed) as caught:
        require_space(tmp_path / "no", 1)
    assert caught.value.cause == "volume_gone"


def test_failure_stops_the_other_workers(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file's I/O error is the copy's failure, and the partial destination is removed."""
    monkeypatch.setattr(copying, "_reflink", lambda *_: False)
    real = os.copy_file_range

    def copy_file_range(source: int, destination: int, count: int, *offsets: int) -> int:
        if os.fstat(source).st_size == MIB:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(source, destination, count, *offsets)

    monkeypatch.setattr(os, "copy_file_range", copy_file_range)
    with pytest.raises(StepFailed) as caught:
        copy_tree(template, tmp_path / "copy", workers=2)
    assert caught.value.cause == "volume_gone"
    assert not (tmp_path / "copy").exists()
