"""Files of strangers that root's commands are given: recordings, dumps, runs, observations, sites, leftovers.

An unprivileged user makes them; root reads them. Nothing waits for a pipe, fills the memory, runs a command of the
file's, or writes to, moves or removes a file that the stranger names.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import hostile_user
import pytest
from hostile_user import NOBODY, TREASURE, plant_link, plant_pipe, volbench, volbench_in_process

from volbench.errors import EXIT_REFUSED, EXIT_USAGE
from volbench.observe.ring import write_whole
from volbench.results.site.build import INDEX_FILE, build_site
from volbench.testing import leftovers

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")
GOLDEN = Path(__file__).parents[1] / "golden" / "run"
ANSWERS_S = 60.0
"""A command that waits for a pipe never answers; a busy machine is slow."""


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that the stranger may write to."""
    with hostile_user.shared_place() as shared:
        yield shared


COMMANDS = (
    ("explain", "--from", "{directory}/x.log"),
    ("credits", "--profile", "ebs-gp2", "--size", "50GiB", "--from", "{directory}/x.log"),
    ("credits", "--profile", "ebs-gp2", "--size", "50GiB", "--from", "{directory}/x.csv"),
    ("add", "{run}", "{directory}/x.json", "--volume", "a"),
    ("capture", "{run}.masked", "--from", "{directory}/x.log", "--mask"),
    ("gate", "{run}", "--policy", "{directory}/x.yaml"),
    ("observe", "report", "{directory}"),
)


@pytest.mark.parametrize("kind", ["pipe", "zero"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda arguments: f"{arguments[0]} {arguments[-1][-8:]}")
def test_a_pipe_or_a_device_in_the_place_of_a_file_is_refused_at_once(
    directory: Path, tmp_path: Path, command: tuple[str, ...], kind: str
) -> None:
    """None of them reads it, whose end may never come."""
    run = tmp_path / "run"
    shutil.copytree(GOLDEN, run)
    for name in ("x.csv", "x.json", "x.log", "x.yaml", "observation.json"):
        if kind == "pipe":
            plant_pipe(directory / "given" / name)
        else:
            plant_link(directory / "given" / name, Path("/dev/zero"))
    done = volbench_in_process(*(term.format(directory=directory / "given", run=run) for term in command))
    assert done.returncode in (EXIT_USAGE, EXIT_REFUSED), done.stdout + done.stderr
    assert str(directory / "given") in done.stderr
    assert "fault of volbench" not in done.stderr


def test_a_run_whose_cells_are_somewhere_else_is_not_resumed(tmp_path: Path) -> None:
    """Directories there would be renamed as attempts, and others made: a root's `cp -r` keeps the link."""
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    shutil.copytree(GOLDEN, run)
    record = json.loads((run / "run.json").read_text().replace("/mnt/", f"{tmp_path}/"))
    record["target"] = "local"
    (run / "run.json").write_text(json.dumps(record))
    shutil.rmtree(run / "cells")
    (run / "journal.jsonl").write_bytes(b"")
    for volume in "ab":
        (tmp_path / volume).mkdir()
    for name in ("template", "001-a-r1"):
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "file").write_text(TREASURE)
    (run / "cells").symlink_to(elsewhere)
    done = volbench("resume", str(run))
    assert done.returncode == EXIT_REFUSED, done.stdout + done.stderr
    assert f"{run / 'cells'}" in done.stderr
    assert sorted(str(path.relative_to(elsewhere)) for path in elsewhere.rglob("*")) == [
        "001-a-r1",
        "001-a-r1/file",
        "template",
        "template/file",
    ]


def test_a_run_whose_cells_belong_to_another_user_is_not_worked_on(tmp_path: Path) -> None:
    """An archive that root unpacks keeps owners: that user could exchange a cell's directory at any moment."""
    run = tmp_path / "run"
    shutil.copytree(GOLDEN, run)
    os.chown(run / "cells", NOBODY, NOBODY)
    (run / "log.json").write_text("[]")
    done = volbench("add", str(run), str(run / "log.json"), "--volume", "a")
    assert done.returncode == EXIT_REFUSED, done.stdout + done.stderr
    assert f"belongs to user {NOBODY}" in done.stderr


@pytest.mark.parametrize("name", ["../victim", "{victim}", "data/../../victim", "link/victim"])
def test_a_sites_index_names_no_file_to_remove_outside(tmp_path: Path, victim: Path, name: str) -> None:
    """`index.json` lists what the last build wrote, and what this one does not write is removed."""
    site = tmp_path / "site"
    shutil.copytree(GOLDEN.parent, tmp_path / "results", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    build_site(tmp_path / "results", site)
    (site / "data").mkdir(exist_ok=True)
    (site / "link").symlink_to(tmp_path)
    index_file = site / INDEX_FILE
    index = json.loads(index_file.read_text())
    index["pages"][name.format(victim=victim)] = "x"
    index_file.write_text(json.dumps(index))
    build_site(tmp_path / "results", site)
    assert victim.read_text() == TREASURE


def test_a_link_in_a_site_is_not_written_through(tmp_path: Path, victim: Path) -> None:
    """The names of unfinished pages can be foreseen."""
    site = tmp_path / "site"
    shutil.copytree(GOLDEN.parent, tmp_path / "results", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    build_site(tmp_path / "results", site)
    (site / "index.html").unlink()
    (site / ".index.html.new").symlink_to(victim)
    (site / "..index.html.partial").symlink_to(victim)
    build_site(tmp_path / "results", site)
    assert victim.read_text() == TREASURE


@pytest.mark.parametrize("name", [leftovers.DATA_PREFIX, leftovers.DIRECTORY_PREFIX])
def test_what_looks_like_a_killed_sessions_leftover_is_not_waited_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Every session of the pytest plugin looks at directories of such names below /var/tmp."""
    monkeypatch.setattr(leftovers, "DISK_DIRECTORY", directory)
    monkeypatch.setattr(leftovers, "_remove_containers", lambda: None)
    plant_pipe(directory / f"{name}x" / "owner")
    plant_pipe(directory / f"{name}x" / "v" / "volume.json")
    clearing = threading.Thread(target=leftovers.clear_killed_sessions.__wrapped__, daemon=True)
    clearing.start()
    clearing.join(ANSWERS_S)
    stuck = clearing.is_alive()
    if stuck:  # let the thread go on
        os.close(os.open(directory / f"{name}x" / "owner", os.O_RDWR | os.O_NONBLOCK))
    assert not stuck
    assert (directory / f"{name}x").exists()


def test_a_link_in_an_observation_is_not_written_through(tmp_path: Path, victim: Path) -> None:
    """`observe report` writes beside the readings; the name of the unfinished file can be foreseen."""
    for name in (".report.html.partial", "report.html"):
        (tmp_path / name).symlink_to(victim)
    write_whole(tmp_path / "report.html", "x")
    assert victim.read_text() == TREASURE
    assert (tmp_path / "report.html").read_text() == "x"
