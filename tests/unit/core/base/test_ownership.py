"""Nothing without our marker is written to or erased."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.core.base import ownership
from volbench.core.base.marker import MARKER, PARTIAL
from volbench.errors import EXIT_REFUSED, MissingPrerequisite, Refused


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def own_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "volbench-1"
    ownership.claim(directory, purpose="test", run_id="r1")
    return directory


def test_claim_creates_and_marks(own_directory: Path) -> None:
    """The marker says what the directory is for and carries a schema and a token."""
    marker = json.loads((own_directory / MARKER).read_text())
    assert (marker["schema"], marker["purpose"], marker["run_id"]) == (1, "test", "r1")
    assert marker["token"]
    assert marker["created_at"]
    assert ownership.is_owned(own_directory)


def test_claim_again_keeps_the_marker(own_directory: Path) -> None:
    """Taking a directory of ours changes nothing in it."""
    (own_directory / "file").write_text("x")
    before = (own_directory / MARKER).read_bytes()
    ownership.claim(own_directory, purpose="other")
    assert (own_directory / MARKER).read_bytes() == before
    assert (own_directory / "file").exists()


def test_claim_takes_an_empty_directory(tmp_path: Path) -> None:
    """Also one where an earlier claim was interrupted before its marker was in place."""
    (tmp_path / f"{MARKER}.partial").write_text('{"sch')
    ownership.claim(tmp_path, purpose="test")
    assert ownership.is_owned(tmp_path)


def test_claim_refuses_foreign_contents(tmp_path: Path) -> None:
    """Exit 4, with what was found, and nothing is touched."""
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(Refused) as caught:
        ownership.claim(tmp_path, purpose="test")
    assert "precious.txt" in str(caught.value)
    assert "next step" in str(caught.value)
    assert caught.value.exit_code == EXIT_REFUSED
    assert names(tmp_path) == ["precious.txt"]


@pytest.mark.parametrize(
    "signs", [["ibdata1"], ["mysql.ibd"], ["auto.cnf", "#innodb_redo"], ["aria_log_control", "auto.cnf"]]
)
def test_claim_refuses_a_data_directory(tmp_path: Path, signs: list[str]) -> None:
    """A server's data directory is named as such; so is a place inside one, where a new schema would appear."""
    for sign in signs:
        (tmp_path / sign).touch()
    for directory in (tmp_path, tmp_path / "volbench-1"):
        with pytest.raises(Refused, match="MySQL data directory"):
            ownership.claim(directory, purpose="test")
    assert not (tmp_path / "volbench-1").exists()


def test_our_own_data_directory_is_no_foreign_one(own_directory: Path) -> None:
    """A cell may claim directories inside what is ours, data directory or not."""
    (own_directory / "data").mkdir()
    (own_directory / "data/ibdata1").touch()
    ownership.claim(own_directory / "data" / "sub", purpose="test")
    assert ownership.is_owned(own_directory / "data" / "sub")


def test_claim_needs_a_parent(tmp_path: Path) -> None:
    """A mistyped place is not created on the way."""
    with pytest.raises(MissingPrerequisite, match="FileNotFoundError"):
        ownership.claim(tmp_path / "no" / "such", purpose="test")


@pytest.mark.parametrize("content", [b"", b"{}", b'{"schema": 1', b"[1]", b"\xff\xfe", b'"token schema"'])
def test_a_broken_marker_is_none(tmp_path: Path, content: bytes) -> None:
    """A file with the marker's name that we did not write gives no right to erase."""
    (tmp_path / MARKER).write_bytes(content)
    assert not ownership.is_owned(tmp_path)
    with pytest.raises(Refused):
        ownership.remove(tmp_path)


def test_a_linked_marker_is_none(own_directory: Path, tmp_path: Path) -> None:
    """A symbolic link to somebody's marker does not make a directory ours."""
    second = tmp_path / "other"
    second.mkdir()
    (second / MARKER).symlink_to(own_directory / MARKER)
    assert not ownership.is_owned(second)


def test_links_to_directories_are_not_followed(own_directory: Path, tmp_path: Path) -> None:
    """Neither a link inside is followed, nor one that is given in place of the directory."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    (own_directory / "link").symlink_to(precious)
    (own_directory / "below").mkdir()
    (own_directory / "below" / "link").symlink_to(precious)
    ownership.erase_contents(own_directory)
    assert names(own_directory) == [MARKER]
    assert (precious / "file").exists()
    link = tmp_path / "link"
    link.symlink_to(own_directory)
    for act in (
        ownership.remove,
        ownership.erase_contents,
        lambda location: ownership.claim(location, purpose="x"),
    ):
        with pytest.raises(Refused, match="symbolic link"):
            act(link)
    assert ownership.is_owned(own_directory)


def test_remove_and_again(own_directory: Path) -> None:
    """Removal takes everything, and a second one finds nothing to do."""
    (own_directory / "a/b/c").mkdir(parents=True)
    (own_directory / "a/b/file").write_text("x")
    ownership.remove(own_directory)
    assert not own_directory.exists()
    ownership.remove(own_directory)


def test_interrupted_removal_goes_on(own_directory: Path) -> None:
    """The marker goes last: after an interruption the directory is still ours, or empty."""
    (own_directory / "zzz").write_text("x")
    (own_directory / "sub").mkdir()
    removed: list[str] = []
    real_unlink = os.unlink

    class Interrupted(Exception):
        pass

    def unlink(name: str, **where: int) -> None:
        if name == MARKER:
            raise Interrupted
        removed.append(name)
        real_unlink(name, **where)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        with pytest.raises(Interrupted):
            ownership.remove(own_directory)
    assert removed == ["zzz"]
    assert names(own_directory) == [MARKER]
    ownership.remove(own_directory)
    assert not own_directory.exists()


def test_remove_takes_what_an_interrupted_claim_leaves(tmp_path: Path) -> None:
    """A kill before the marker has its name leaves it half written; a file beside it is not volbench's."""
    remainder = tmp_path / "rest"
    remainder.mkdir(mode=0o700)
    (remainder / PARTIAL).write_text("{")
    ownership.remove(remainder)
    assert not remainder.exists()
    remainder.mkdir(mode=0o700)
    (remainder / PARTIAL).write_text("{")
    (remainder / "user.txt").write_text("x")
    with pytest.raises(Refused):
        ownership.remove(remainder)
    assert (remainder / "user.txt").read_text() == "x"


def test_remove_takes_the_empty_rest(tmp_path: Path) -> None:
    """An interruption between marker and directory leaves an empty directory, which holds nothing to lose."""
    remainder = tmp_path / "rest"
    remainder.mkdir()
    ownership.remove(remainder)
    assert not remainder.exists()


def test_remove_refuses_what_is_not_ours(tmp_path: Path) -> None:
    """Contents without marker stay."""
    (tmp_path / "file").write_text("x")
    for act in (ownership.remove, ownership.erase_contents):
        with pytest.raises(Refused):
            act(tmp_path)
    assert (tmp_path / "file").exists()


@pytest.fixture
def bind_mount(own_directory: Path, tmp_path: Path) -> Iterator[Path]:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    directory = own_directory / "deep" / "mnt"
    directory.mkdir(parents=True)
    done = subprocess.run(["mount", "--bind", str(precious), str(directory)], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot bind-mount: {done.stderr.decode().strip()}")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_mounts_are_never_entered(own_directory: Path, bind_mount: Path) -> None:
    """A bind mount of the same filesystem inside stops the removal before anything is erased."""
    (own_directory / "kept").write_text("x")
    with pytest.raises(Refused, match="mounted inside"):
        ownership.remove(own_directory)
    assert (own_directory / "kept").exists()
    assert (bind_mount / "file").exists()


def test_a_directory_that_several_processes_mark_at_once_is_taken_by_all_of_them(tmp_path: Path) -> None:
    """Each writes the marker under a partial name first, and removes what another one left there."""
    program = (
        "import sys; from pathlib import Path; from volbench.core.base import ownership; "
        "print('ready', flush=True); sys.stdin.read(1); "
        "[ownership.claim(Path(sys.argv[1]) / str(n), purpose='test') for n in range(300)]"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, errors
    assert all(ownership.is_owned(tmp_path / str(number)) for number in range(300))
