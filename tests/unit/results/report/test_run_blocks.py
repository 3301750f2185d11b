"""One verdict of several runs: a run is one repeat, and the copies of the volumes decide what it is about."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import IncomparableRuns, UsageError
from volbench.results.report.cross_run import compare_runs
from volbench.results.report.run_blocks import RunBlocks, compare_run_blocks
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RESULT_FILE, RUN_FILE, RunDirectory

Making = Callable[..., list[RunDirectory]]
LOADS = (OLTP.model_copy(update={"duration_s": 12.0}),)


def made(
    path: Path,
    number: int,
    *,
    speeds: tuple[float, float],
    host: str,
    repeats: int = 4,
    facts: Mapping[str, object] | None = None,
    run_changes: Mapping[str, object] | None = None,
    **changes: object,
) -> RunDirectory:
    """A run of two volumes on a day of its own, whose machine is as fast as `1 + number`."""
    day = 1.0 + 0.3 * number
    volumes = tuple(SyntheticVolume(name=name, speed=speed * day) for name, speed in zip("ab", speeds, strict=True))
    expected = Synthetic(volumes=volumes, repeats=repeats, steps=LOADS, noise=0.02, seed=number, **changes)  # type: ignore[arg-type]
    directory = build_run(path, expected, run_id=f"2026030{number + 1}T093000Z-synthetic-00000{number}")
    for result in directory.results():
        volume_facts = result.volume_facts.model_copy(update=dict(facts or {}))
        changed = result.model_copy(
            update={
                "host": result.host.model_copy(update={"hostname": host}),
                "volume_facts": volume_facts,
            }
        )
        write_record(directory.cell_dir(result.cell_id) / RESULT_FILE, changed)
    if run_changes:
        write_record(directory.path / RUN_FILE, directory.run.model_copy(update=dict(run_changes)))
    return directory


def runs_of(path: Path, ratios: list[float], *, hosts: str = "one each", **changes: object) -> list[RunDirectory]:
    return [
        made(path, n, speeds=(1.0, ratio), host=f"db-{n}" if hosts == "one each" else hosts, **changes)  # type: ignore[arg-type]
        for n, ratio in enumerate(ratios)
    ]


def tps(result: RunBlocks) -> tuple[str, tuple[int, int]]:
    row = next(row for row in result.comparisons if row.metric == "tps")
    return row.verdict, row.runs


def test_runs_on_hosts_of_their_own_decide_about_the_classes(tmp_path: Path) -> None:
    result = compare_run_blocks(runs_of(tmp_path, [0.70, 0.68, 0.73, 0.71]))
    assert tps(result) == ("worse", (4, 4))
    [pair] = result.pairs
    assert (pair.about, pair.copies, len(pair.repeats), pair.notes) == ("classes", (4, 4), 4, ())


def test_copies_that_differ_more_than_the_classes_decide_nothing(tmp_path: Path) -> None:
    """However sure the cells of each run are."""
    directories = runs_of(tmp_path, [0.80, 1.12, 0.86, 0.92], repeats=6)
    assert tps(compare_run_blocks(directories))[0] == "inconclusive"


def test_the_same_volumes_on_several_days_are_no_class(tmp_path: Path) -> None:
    result = compare_run_blocks(runs_of(tmp_path, [0.70, 0.68, 0.73], hosts="db-lab-1"))
    [pair] = result.pairs
    assert (pair.about, pair.copies, len(pair.repeats)) == ("volumes", (1, 1), 3)
    assert "about these volumes, not about their classes: the runs have 1 copy of a and 1 of b" in pair.notes[0]
    assert tps(result)[0] == "worse"


def test_runs_that_share_a_copy_are_one_repeat(tmp_path: Path) -> None:
    directories = [
        made(tmp_path, n, speeds=(1.0, ratio), host=f"db-{n // 2}")
        for n, ratio in enumerate([0.70, 0.71, 0.68, 0.69, 0.73, 0.72])
    ]
    result = compare_run_blocks(directories)
    [pair] = result.pairs
    assert (pair.about, pair.copies) == ("classes", (3, 3))
    assert [len(repeat) for repeat in pair.repeats] == [2, 2, 2]
    assert tps(result) == ("worse", (3, 3))


def test_an_emulated_volume_is_the_same_model_everywhere(tmp_path: Path) -> None:
    result = compare_run_blocks(runs_of(tmp_path, [0.70, 0.68, 0.73], facts={"emulated_profile": "ebs-gp3"}))
    assert (result.pairs[0].about, result.pairs[0].copies) == ("volumes", (1, 1))


def test_more_cells_in_a_run_are_no_more_repeats(tmp_path: Path) -> None:
    directories = [
        *runs_of(tmp_path, [0.70, 0.68]),
        made(tmp_path, 2, speeds=(1.0, 0.73), host="db-2", repeats=9),
    ]
    assert tps(compare_run_blocks(directories)) == ("worse", (3, 3))


def test_a_block_that_lost_a_cell_is_told_and_not_used(tmp_path: Path) -> None:
    lost = {("b", 1): "the client was CPU-bound"}
    directories = [
        *runs_of(tmp_path, [0.70, 0.68]),
        made(tmp_path, 2, speeds=(1.0, 0.73), host="db-2", invalid=lost),
    ]
    result = compare_run_blocks(directories)
    assert result.pairs[0].notes == (
        f"{directories[2].run.run_id}: 3 of 4 blocks have valid cells of both and are used",
    )
    assert tps(result) == ("worse", (3, 3))


def test_a_run_without_a_valid_cell_is_left_out_and_too_few_decide_nothing(tmp_path: Path) -> None:
    lost = {("b", repeat): "the client was CPU-bound" for repeat in range(1, 5)}
    directories = [
        *runs_of(tmp_path, [0.70, 0.68]),
        made(tmp_path, 2, speeds=(1.0, 0.73), host="db-2", invalid=lost),
    ]
    result = compare_run_blocks(directories)
    assert result.pairs[0].notes[0] == f"{directories[2].run.run_id} is left out: it has no valid cell of b"
    row = next(row for row in result.comparisons if row.metric == "tps")
    assert (row.verdict, row.reason) == ("inconclusive", "2 runs with a value of both; a verdict needs 3")


def test_disturbed_cells_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    """A run is not adjusted for other work, as its own comparison may be: half or all of its cells are left out."""
    half = {("a", 1): 0.2, ("b", 2): 0.2}
    every = {("b", repeat): 0.2 for repeat in range(1, 5)}
    directories = [
        *runs_of(tmp_path, [0.70, 0.68, 0.71]),
        made(tmp_path, 3, speeds=(1.0, 0.73), host="db-3", disturbed=half),
        made(tmp_path, 4, speeds=(1.0, 0.5), host="db-4", disturbed=every),
    ]
    result = compare_run_blocks(directories)
    left_out = "left out: runs are not adjusted for other work)"
    assert result.pairs[0].notes == (
        f"{directories[3].run.run_id}: 2 of 4 blocks have valid cells of both and are used"
        f" (2 disturbed cells are {left_out}",
        f"{directories[4].run.run_id} is left out: it has no valid cell of b (4 disturbed cells are {left_out}",
    )
    assert tps(result) == ("worse", (4, 4))


def test_runs_of_several_versions_of_volbench_are_compared_and_that_is_said(tmp_path: Path) -> None:
    directories = runs_of(tmp_path, [0.70, 0.68, 0.73])
    older = directories[0].run.model_copy(update={"volbench_version": "0.1.0"})
    write_record(directories[0].path / RUN_FILE, older)
    assert compare_run_blocks(directories).context["volbench"][older.run_id] == "0.1.0"
    output = CliRunner().invoke(app, ["compare", *(str(each.path) for each in directories), "--blocks"]).output
    assert f"note: volbench differs: {older.run_id}: 0.1.0, " in output


def test_runs_without_a_block_of_both_volumes_give_no_verdict(tmp_path: Path) -> None:
    """Each volume has valid cells in every run, but never in the same block."""
    alternating = {("a", 1): 0.2, ("a", 3): 0.2, ("b", 2): 0.2, ("b", 4): 0.2}
    directories = runs_of(tmp_path, [0.70, 0.68, 0.73], disturbed=alternating)
    result = compare_run_blocks(directories)
    assert result.comparisons == ()
    reason = "no block has a valid cell of both volumes (4 disturbed cells are left out"
    assert [reason in note for note in result.pairs[0].notes[:3]] == [True] * 3
    done = CliRunner().invoke(app, ["compare", *(str(each.path) for each in directories), "--blocks"])
    assert done.exit_code == 0
    assert "no verdict: no run has a block with a valid cell of both" in done.output


def test_what_is_no_set_of_blocks_is_refused(tmp_path: Path) -> None:
    directories = runs_of(tmp_path, [0.70, 0.68, 0.73])
    with pytest.raises(UsageError, match="at least 3 runs"):
        compare_run_blocks(directories[:2])
    with pytest.raises(UsageError, match="one run is one block"):
        compare_run_blocks([*directories, directories[0]])
    with pytest.raises(UsageError, match="no volume 'c'"):
        compare_run_blocks(directories, against="c")
    first = directories[0].run
    second = first.volumes[1].model_copy(update={"kind": "emulated", "location": "ebs-gp3"})
    changed = first.model_copy(update={"volumes": (first.volumes[0], second)})
    write_record(directories[0].path / RUN_FILE, changed)
    with pytest.raises(IncomparableRuns, match="they differ in volume b"):
        compare_run_blocks(directories)


def test_hosts_may_differ_and_servers_may_not(tmp_path: Path) -> None:
    directories = runs_of(tmp_path, [0.70, 0.68, 0.73])
    for result in directories[1].results():
        host = result.host.model_copy(update={"cpus": 16})
        write_record(
            directories[1].cell_dir(result.cell_id) / RESULT_FILE, result.model_copy(update={"host": host})
        )
    with pytest.raises(IncomparableRuns):
        compare_runs(directories)
    assert set(compare_run_blocks(directories).context) >= {"host.cpus", "host.hostname"}
    for result in directories[1].results():
        assert result.server is not None
        server = result.server.model_copy(update={"version": "9.1.0"})
        write_record(
            directories[1].cell_dir(result.cell_id) / RESULT_FILE, result.model_copy(update={"server": server})
        )
    with pytest.raises(IncomparableRuns):
        compare_run_blocks(directories)


def test_the_command_says_what_the_verdict_is_about(tmp_path: Path) -> None:
    paths = [str(directory.path) for directory in runs_of(tmp_path, [0.70, 0.68, 0.73])]
    result = CliRunner().invoke(app, ["compare", *paths, "--blocks"])
    assert result.exit_code == 0, result.output
    assert "b against a: about their classes, 3 repeats, 3 and 3 copies" in result.output
    data = json.loads(CliRunner().invoke(app, ["compare", *paths, "--blocks", "--json"]).stdout)
    assert data["pairs"][0]["about"] == "classes"
    refused = CliRunner().invoke(app, ["compare", *paths, "--blocks", "--by", "run"])
    assert isinstance(refused.exception, UsageError)
