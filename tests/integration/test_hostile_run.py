"""A run's directory from a stranger: links, pipes, devices and names in it lead nowhere."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import hostile_user
import pytest
from hostile_user import volbench

from volbench.errors import EXIT_REFUSED, EXIT_USAGE, Refused, RunUnreadable
from volbench.results.store.run_directory import RunDirectory

GOLDEN = Path(__file__).parents[1] / "golden" / "run"
TREASURE = "treasure\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run as a stranger may hand it over: a real one, to be changed."""
    directory = tmp_path / "results" / "run"
    shutil.copytree(GOLDEN, directory)
    return directory


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text(TREASURE)
    return path


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
@pytest.mark.parametrize("command", ["add", "resume"])
def test_a_linked_lock_truncates_nothing(run: Path, victim: Path, command: str, link: object) -> None:
    """`.lock` is a link to a file of ours."""
    link(victim, run / ".lock")  # type: ignore[operator]
    (run / "log.json").write_text("[]")
    (run / "cells" / "010-a-r5" / "result.json").unlink()  # there is something to resume
    (run / "journal.jsonl").write_bytes(b"")
    remainder = [str(run / "log.json"), "--volume", "a"] if command == "add" else []
    done = volbench(command, str(run), *remainder)
    assert done.returncode == EXIT_REFUSED, done.stdout + done.stderr
    assert ".lock" in done.stderr
    assert "next step" in done.stderr
    assert victim.read_text() == TREASURE


@pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")
def test_a_run_of_another_user_is_not_worked_on(run: Path) -> None:
    """Its owner could change cell.json, and with it what is erased, at any moment."""
    os.chown(run, hostile_user.NOBODY, hostile_user.NOBODY)
    directory = RunDirectory.open(run)
    with pytest.raises(Refused, match=f"belongs to user {hostile_user.NOBODY}"), directory.lock():
        pass
    assert not (run / ".lock").exists()


@pytest.mark.parametrize("name", ["run.json", "journal.jsonl", "cells/001-a-r1/result.json"])
@pytest.mark.parametrize("kind", ["pipe", "zero", "link"])
def test_what_is_no_regular_file_is_named_and_not_read(run: Path, victim: Path, name: str, kind: str) -> None:
    """A pipe would be waited for, /dev/zero would fill the memory, a link leads out of the directory."""
    path = run / name
    content = path.read_bytes()
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        victim.write_bytes(content)
        path.symlink_to("/dev/zero" if kind == "zero" else victim)
    directory = RunDirectory(run)
    with pytest.raises(RunUnreadable, match=r"cannot be read") as caught:
        {"run.json": lambda: directory.run, "journal.jsonl": directory.events}.get(name, directory.results)()
    assert str(path) in caught.value.where


def test_a_cells_directory_that_is_a_link_is_not_followed(run: Path, tmp_path: Path) -> None:
    """Neither read through nor written through."""
    cell = run / "cells" / "001-a-r1"
    outside = tmp_path / "outside"
    shutil.move(cell, outside)
    cell.symlink_to(outside)
    directory = RunDirectory(run)
    with pytest.raises(RunUnreadable):
        directory.results()
    before = sorted(path.name for path in outside.iterdir())
    spec = directory.cell("002-b-r1")
    if spec is not None:
        with pytest.raises(NotADirectoryError):
            directory.write_cell(spec.model_copy(update={"cell_id": "001-a-r1"}))
    assert sorted(path.name for path in outside.iterdir()) == before


@pytest.mark.parametrize("name", ["../../..", "/etc", ".", "..", "a/b", "", "x\n", "-rf"])
def test_names_in_a_record_are_no_paths(run: Path, name: str) -> None:
    """A cell's id becomes a directory."""
    raw = json.loads((run / "run.json").read_text())
    raw["cells"][0]["cell_id"] = name
    (run / "run.json").write_text(json.dumps(raw))
    with pytest.raises(RunUnreadable, match="cell_id"):
        _ = RunDirectory(run).run
    if name == "../../..":
        done = volbench("report", str(run))
        assert done.returncode == EXIT_USAGE, done.stdout + done.stderr
