"""A run's directory: attempts are kept apart, only one orchestrator works on it, damage is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import synthetic_run

from volbench.core.records.cell import RESULT_SCHEMA
from volbench.errors import MissingPrerequisite, Refused, RunUnreadable, UsageError
from volbench.results.store.run_directory import RESULT_FILE, RunDirectory, find_runs, new_run_id


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return synthetic_run.build_run(tmp_path / "results", synthetic_run.two_volumes())


def test_run_ids_are_unique_and_sort_by_time() -> None:
    ids = {new_run_id("quick") for _ in range(50)}
    assert len(ids) == 50
    assert all(name.split("-")[1] == "quick" for name in ids)


def test_a_run_opened_by_a_relative_path_is_at_an_absolute_one(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`volbench resume results/RUN`: a container engine mounts no relative path."""
    monkeypatch.chdir(directory.path.parent)
    opened = RunDirectory.open(Path(directory.path.name))
    assert opened.path == directory.path.resolve()
    assert opened.path.is_absolute()


def test_results_come_in_planned_order(directory: RunDirectory) -> None:
    planned = [cell.cell_id for cell in directory.run.cells]
    cell_ids = [result.cell_id for result in directory.results()]
    assert cell_ids == [name for name in planned if name in cell_ids]


def test_an_attempt_is_set_apart_and_counted(directory: RunDirectory) -> None:
    cell_id = directory.run.cells[0].cell_id
    assert directory.attempts(cell_id) == 0
    result = directory.set_attempt_apart(cell_id)
    assert result is not None
    assert (result / RESULT_FILE).exists()
    assert directory.result(cell_id) is None
    assert directory.attempts(cell_id) == 1
    assert directory.set_attempt_apart(cell_id) is None


def test_a_second_orchestrator_is_refused(directory: RunDirectory) -> None:
    with directory.lock(), pytest.raises(Refused, match="another volbench works on this run"), directory.lock():
        pass
    with directory.lock():
        pass


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "truncated"),
        (lambda _: "{}", "schema None"),
        (lambda text: text.replace(f'"schema": {RESULT_SCHEMA}', '"schema": 99', 1), "schema 99"),
        (lambda _: '{"schema": 2, "hello": 2}', "not one that volbench wrote"),
        (lambda _: "\x00\xff", "truncated"),
    ],
)
def test_a_damaged_result_is_named(directory: RunDirectory, damage, message: str) -> None:
    cell_id = directory.run.cells[0].cell_id
    path = directory.cell_dir(cell_id) / RESULT_FILE
    path.write_text(damage(path.read_text()))
    with pytest.raises(RunUnreadable, match=message) as caught:
        directory.result(cell_id)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not a run's directory.*\n.*such as results/"):
        RunDirectory.open(tmp_path)
    (tmp_path / "report.md").touch()  # as the examples in results/examples
    with pytest.raises(UsageError, match=r"a finished report only: read \S+/report\.md"):
        RunDirectory.open(tmp_path)


def test_an_unknown_run_is_named_with_the_nearest_one(directory: RunDirectory) -> None:
    results = directory.path.parent
    with pytest.raises(UsageError, match=rf"there is no such run.*\n.*perhaps you meant {directory.path}"):
        RunDirectory.open(results / f"{directory.path.name}x")
    with pytest.raises(UsageError, match=rf"there is no such run.*\n.*the newest run is {directory.path}"):
        RunDirectory.open(results / "latest-one")


def test_foreign_entries_below_results_are_passed_over(directory: RunDirectory) -> None:
    results = directory.path.parent
    (results / "notes.txt").write_text("mine")
    (results / "photos").mkdir()
    assert [run.path for run in find_runs(results)] == [directory.path]


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_place_where_no_run_can_be_is_told(tmp_path: Path, directory: RunDirectory, name: str) -> None:
    """A file where a directory should be; by what the environment lacks, not by a fault of volbench."""
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingPrerequisite, match="cannot be made"):
        RunDirectory.create(tmp_path / name, directory.run)
    with pytest.raises(Refused, match="there already"):
        RunDirectory.create(directory.path.parent, directory.run)


def test_a_place_that_may_not_be_written_to_is_told(tmp_path: Path, directory: RunDirectory) -> None:
    """A file system that is mounted read-only, which binds root as well."""
    result = tmp_path / "read-only"
    result.mkdir()
    run = directory.run
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", result], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("cannot mount a tmpfs")
    try:
        with pytest.raises(MissingPrerequisite, match="Read-only file system"):
            RunDirectory.create(result / "results", run)
    finally:
        subprocess.run(["umount", result], check=True)
