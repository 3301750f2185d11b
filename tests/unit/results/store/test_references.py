"""A run whose files do not fit together is told by one message, and the other runs are still read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import synthetic_run
from command_line import message_of
from command_line import volbench as invoke

import volbench
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import EXIT_USAGE, RunUnreadable
from volbench.results.report.build import build_report
from volbench.results.report.render import render
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

Change = Callable[[Any], object]
POLICY = "schema: 1\nname: p\nconditions: [latency_ms_p95 <= 50 ms]\n"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two runs of two short cells each, with reports: `broken` is to be changed, `good` is not."""
    spec = synthetic_run.Synthetic(
        volumes=(synthetic_run.SyntheticVolume(name="a"), synthetic_run.SyntheticVolume(name="b", speed=2)),
        repeats=1,
        steps=(OltpStep(name="load", warmup_s=1, duration_s=6),),
    )
    for name in ("20260302T093000Z-broken-000000", "20260302T093000Z-good-000000"):
        directory = synthetic_run.build_run(tmp_path / "results", spec, run_id=name)
        (directory.path / "report.json").write_text(render(build_report(directory), directory, "json"))
    return tmp_path / "results"


def change(run: Path, name: str, edit: Change) -> None:
    path = next(iter(sorted(run.glob(name))))
    tree = json.loads(path.read_text())
    edit(tree)
    path.write_text(json.dumps(tree))


def set_in(*keys: str | int, value: object) -> Change:
    def edit(tree: Any) -> None:
        for key in keys[:-1]:
            tree = tree[key]
        tree[keys[-1]] = value

    return edit


PREDICTION = {"volume": "c", "step": "load", "metric": "tps", "value": 1.0, "derivation": "x" * 20}
CHANGES: Sequence[tuple[str, Change, str]] = (
    ("run.json", set_in("cells", 0, "volume", value="c"), "cells.0.volume.*no volume 'c'"),
    ("run.json", set_in("volumes", 1, "name", value="a"), "volumes.*'a' is there twice"),
    ("run.json", set_in("volumes", value=[]), "the run has no volume"),
    ("run.json", lambda tree: tree["cells"].append(tree["cells"][0]), "cells.*is there twice"),
    ("run.json", set_in("suite", "steps", 0, "name", value="other"), "no step 'load'"),
    (
        "run.json",
        set_in("suite", "forecast", value={"predictions": [PREDICTION]}),
        "suite.forecast.predictions.0.volume.*no volume 'c'",
    ),
    ("run.json", set_in("suite", "pricing", value={"step": "no"}), "suite.pricing.step.*no step 'no'"),
    ("cells/*/result.json", set_in("steps", 0, "step", value="load2"), "steps.0.step.*no step 'load2'.*'load'"),
    ("cells/*/result.json", set_in("steps", 0, "window_s", value=[9, 1]), "steps.0.window_s.*before it begins"),
    ("cells/*/result.json", set_in("phases", 0, "t1_s", value=-1e3), "phases.0.*before it begins"),
    ("cells/*/result.json", set_in("cell_id", value="x"), "the result is of another cell"),
)


@pytest.mark.parametrize(("name", "edit", "message"), CHANGES, ids=[message[:40] for *_, message in CHANGES])
def test_files_that_do_not_fit_are_told_with_file_and_place(
    name: str, edit: Change, message: str, results: Path
) -> None:
    broken = next(results.glob("*broken*"))
    change(broken, name, edit)
    with pytest.raises(RunUnreadable) as caught:
        load_run(RunDirectory.open(broken))
    text = str(caught.value)
    assert re.search(message, text.replace("\n", " "))
    assert "run.json" in text or "result.json" in text


@pytest.mark.parametrize("edit", [CHANGES[0], CHANGES[7]], ids=["run.json", "result.json"])
def test_every_command_tells_it_with_exit_code_2(
    edit: tuple[str, Change, str], results: Path, tmp_path: Path
) -> None:
    broken = next(results.glob("*broken*"))
    change(broken, edit[0], edit[1])
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    for command in (
        ["report", str(broken)],
        ["report", str(broken), "--format", "csv"],
        ["explain", str(broken)],
        ["compare", str(broken)],
        ["compare", str(broken), str(next(results.glob("*good*")))],
        ["gate", str(broken), "--policy", str(policy)],
    ):
        assert message_of(invoke(*command), EXIT_USAGE), command
    with pytest.raises(RunUnreadable):
        _ = volbench.open(str(broken)).report


def test_other_runs_are_still_answered_and_the_broken_one_is_counted(results: Path, tmp_path: Path) -> None:
    change(next(results.glob("*broken*")), *CHANGES[0][:2])
    queried = invoke("query", "SELECT run_id FROM runs", "--out", str(results), "--json")
    listed = invoke("list", "--out", str(results), "--json")
    for result in (queried, listed):
        assert result.returncode == 0
        assert len(json.loads(result.stdout)) == 1
        assert "run.json: cells.0.volume" in result.stderr
    assert "1 of 2 runs cannot be read" in listed.stderr
    assert invoke("site", str(results), "--out", str(tmp_path / "site")).returncode == 0


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64])
def test_a_number_that_no_column_holds_is_of_its_run_alone(value: int, results: Path) -> None:
    broken = next(results.glob("*broken*"))
    change(broken, "run.json", set_in("cells", 0, "block", value=value))
    result = invoke("query", "SELECT run_id FROM cells", "--out", str(results), "--json")
    assert result.returncode == 0
    assert {row["run_id"] for row in json.loads(result.stdout)} == {"20260302T093000Z-good-000000"}
    assert broken.name in result.stderr
