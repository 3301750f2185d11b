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
from volbench.core.base.marker import MARKER
from volbench.errors import EXIT_REFUSED, EnvironmentLacks, Refused


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    directory = tmp_path / "volbench-1"
    ownership.claim(directory, purpose="test", run_id="r1")
    return directory


def test_claim_creates_and_marks(ours: Path) -> None:
    """The marker says what the directory is for and carries a schema and a token."""
    marker = json.loads((ours / MARKER).read_text())
    assert (marker["schema"], marker["purpose"], marker["run_id"]) == (1, "test", "r1")
    assert marker["token"]
    assert marker["created_at"]
    assert ownership.is_owned(ours)


def test_claim_again_keeps_the_marker(ours: Path) -> None:
    """Taking a directory of ours changes nothing in it."""
    (ours / "file").write_text("x")
    before = (ours / MARKER).read_bytes()
    ownership.claim(ours, purpose="other")
    assert (ours / MARKER).read_bytes() == before
    assert (ours / "file").exists()


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
    for place in (tmp_path, tmp_path / "volbench-1"):
        with pytest.raises(Refused, match="MySQL data directory"):
            ownership.claim(place, purpose="test")
    assert not (tmp_path / "volbench-1").exists()


def test_our_own_data_directory_is_no_foreign_one(ours: Path) -> None:
    """A cell may claim directories inside what is ours, data directory or not."""
    (ours / "data").mkdir()
    (ours / "data/ibdata1").touch()
    ownership.claim(ours / "data" / "sub", purpose="test")
    assert ownership.is_owned(ours / "data" / "sub")


def test_claim_needs_a_parent(tmp_path: Path) -> None:
    """A mistyped place is not created on the way."""
    with pytest.raises(EnvironmentLacks, match="FileNotFoundError"):
        ownership.claim(tmp_path / "no" / "such", purpose="test")


@pytest.mark.parametrize("content", [b"", b"{}", b'{"schema": 1', b"[1]", b"\xff\xfe", b'"token schema"'])
def test_a_broken_marker_is_none(tmp_path: Path, content: bytes) -> None:
    """A file with the marker's name that we did not write gives no right to erase."""
    (tmp_path / MARKER).write_bytes(content)
    assert not ownership.is_owned(tmp_path)
    with pytest.raises(Refused):
        ownership.remove(tmp_path)


def test_a_linked_marker_is_none(ours: Path, tmp_path: Path) -> None:
    """A symbolic link to somebody's marker does not make a directory ours."""
    other = tmp_path / "other"
    other.mkdir()
    (other / MARKER).symlink_to(ours / MARKER)
    assert not ownership.is_owned(other)


def test_links_to_directories_are_not_followed(ours: Path, tmp_path: Path) -> None:
    """Neither a link inside is followed, nor one that is given in place of the directory."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    (ours / "link").symlink_to(precious)
    (ours / "below").mkdir()
    (ours / "below" / "link").symlink_to(precious)
    ownership.erase_contents(ours)
    assert names(ours) == [MARKER]
    assert (precious / "file").exists()
    link = tmp_path / "link"
    link.symlink_to(ours)
    for act in (ownership.remove, ownership.erase_contents, lambda place: ownership.claim(place, purpose="x")):
        with pytest.raises(Refused, match="symbolic link"):
            act(link)
    assert ownership.is_owned(ours)


def test_remove_and_again(ours: Path) -> None:
    """Removal takes everything, and a second one finds nothing to do."""
    (ours / "a/b/c").mkdir(parents=True)
    (ours / "a/b/file").write_text("x")
    ownership.remove(ours)
    assert not ours.exists()
    ownership.remove(ours)


def test_interrupted_removal_goes_on(ours: Path) -> None:
    """The marker goes last: after an interruption the directory is still ours, or empty."""
    (ours / "zzz").write_text("x")
    (ours / "sub").mkdir()
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
            ownership.remove(ours)
    assert removed == ["zzz"]
    assert names(ours) == [MARKER]
    ownership.remove(ours)
    assert not ours.exists()


def test_remove_takes_the_empty_rest(tmp_path: Path) -> None:
    """An interruption between marker and directory leaves an empty directory, which holds nothing to lose."""
    rest = tmp_path / "rest"
    rest.mkdir()
    ownership.remove(rest)
    assert not rest.exists()


def test_remove_refuses_what_is_not_ours(tmp_path: Path) -> None:
    """Contents without marker stay."""
    (tmp_path / "file").write_text("x")
    for act in (ownership.remove, ownership.erase_contents):
        with pytest.raises(Refused):
            act(tmp_path)
    assert (tmp_path / "file").exists()


@pytest.fixture
def bind_mount(ours: Path, tmp_path: Path) -> Iterator[Path]:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    place = ours / "deep" / "mnt"
    place.mkdir(parents=True)
    done = subprocess.run(["mount", "--bind", str(precious), str(place)], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot bind-mount: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_mounts_are_never_entered(ours: Path, bind_mount: Path) -> None:
    """A bind mount of the same filesystem inside stops the removal before anything is erased."""
    (ours / "kept").write_text("x")
    with pytest.raises(Refused, match="mounted inside"):
        ownership.remove(ours)
    assert (ours / "kept").exists()
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
