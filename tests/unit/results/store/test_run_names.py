"""Runs by name: a directory, an id, `latest`; listed with their verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic_run import OLTP, build_run, two_volumes
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.results.report.render import write_reports
from volbench.results.store.run_names import run_path

OLD, NEW = "20260101T000000Z-quick-aaaaaa", "20260201T000000Z-quick-bbbbbb"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs below results/ of the working directory; the older one has a report."""
    steps = (OLTP.model_copy(update={"warmup_s": 2, "duration_s": 8}),)
    for run_id in (OLD, NEW):
        run = build_run(tmp_path / "results", two_volumes(steps=steps, repeats=1), run_id=run_id)
        if run_id == OLD:
            write_reports(run)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


def test_latest_is_the_newest_run(results: Path) -> None:
    """Below results/, or in a directory of results that is named."""
    assert run_path(Path("latest")) == Path("results") / NEW
    assert run_path(results / "latest") == results / NEW


def test_an_id_is_looked_for_below_results(results: Path) -> None:
    assert run_path(Path(OLD)) == Path("results") / OLD
    assert run_path(results / OLD) == results / OLD


def test_what_names_no_run_stays_as_it_is(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's own message then says what it is not."""
    assert run_path(Path("nowhere")) == Path("nowhere")
    monkeypatch.chdir(results / OLD)
    assert run_path(Path("latest")) == Path("latest")


def test_a_directory_of_that_name_comes_first(results: Path) -> None:
    (results.parent / "latest").mkdir()
    assert run_path(Path("latest")) == Path("latest")


def test_commands_take_names(results: Path) -> None:
    """An argument, an optional one, and a list."""
    runner = CliRunner()
    for command in (["report", "latest", "--format", "csv"], ["explain", "latest"], ["compare", "latest", OLD]):
        result = runner.invoke(app, command)
        assert result.exit_code == 0, result.output
    assert NEW in runner.invoke(app, ["report", "latest", "--format", "json"]).output


def test_the_list_has_each_run_with_its_verdict(results: Path) -> None:
    """Oldest first; a run without a report has no verdict; a damaged one is named."""
    (results / "20260301T000000Z-quick-cccccc").mkdir()
    (results / "20260301T000000Z-quick-cccccc" / "run.json").write_text("{")
    result = CliRunner().invoke(app, ["list", "--json"])
    listed = json.loads(result.stdout)
    assert [run["run"] for run in listed] == [OLD, NEW]
    assert [run["verdict"] for run in listed] == ["inconclusive", None]
    assert (listed[0]["cells_done"], listed[0]["cells_planned"], listed[0]["volumes"]) == (2, 2, ["a", "b"])
    assert "skipped: " in result.stderr
    assert f"{NEW}  synthetic  docker  a, b     2 of 2  no report" in CliRunner().invoke(app, ["list"]).stdout


def test_quiet_leaves_out_messages_and_keeps_errors(results: Path) -> None:
    result = CliRunner().invoke(app, ["--quiet", "list", "--out", "nowhere"])
    assert (result.exit_code, result.output) == (0, "")
    assert "no runs below nowhere" in CliRunner().invoke(app, ["list", "--out", "nowhere"]).stderr


def test_the_shipped_suites_are_listed() -> None:
    listed = json.loads(CliRunner().invoke(app, ["suite", "list", "--json"]).stdout)
    assert {"suites/quick.yaml", "suites/compare.yaml"} <= {suite["path"] for suite in listed}
    assert all(suite["name"] and suite["description"] for suite in listed)
