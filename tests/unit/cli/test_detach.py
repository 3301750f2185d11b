"""`volbench run --detach`: the run of `volbench k8s submit`, and what cannot be one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import volbench

from volbench.cli.runs import submission
from volbench.machine.placement.kubernetes import remote
from volbench.measure.session.servers import TargetRequest

SUITE = Path(__file__).parents[3] / "suites" / "quick.yaml"
VOLUME = ["--volume", "a=storage-class:fast"]


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def submit_suite(suite: Path, volumes: list[str], request: TargetRequest, **more: object) -> None:
        calls.append({"suite": suite, "volumes": volumes, "request": request, **more})

    monkeypatch.setattr(submission, "submit_suite", submit_suite)
    return calls


def test_a_detached_run_is_submitted_with_all_that_says_what_is_measured(submitted: list[dict[str, Any]]) -> None:
    ended = volbench(
        "run",
        str(SUITE),
        *VOLUME,
        "--target",
        "kubernetes",
        "--detach",
        "--yes",
        "--until",
        "decided",
        "--set",
        "repeats=7",
        "--target-option",
        "namespace=n",
        "--tools-image",
        "r/t:1",
        "--cost-max",
        "5",
    )
    assert ended.returncode == 0, ended.stderr
    (call,) = submitted
    assert (call["suite"], call["volumes"], call["yes"]) == (SUITE, ["a=storage-class:fast"], True)
    assert call["settings"][-1] == "repeats=7"
    assert "comparison.until=decided" in call["settings"]
    assert call["request"] == TargetRequest(target="kubernetes", options=["namespace=n"], tools="r/t:1")
    assert call["cost_max"] == 5.0


def test_a_shipped_suite_is_submitted_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text is that of the plan, and not of a file of this name in the working directory."""
    submissions: list[remote.Submission] = []

    def submit(_cluster: object, made: remote.Submission) -> str:
        submissions.append(made)
        return made.name

    monkeypatch.setattr(submission, "Cluster", lambda **_: SimpleNamespace(namespace="n", close=lambda: None))
    monkeypatch.setattr(remote, "submit", submit)
    ended = volbench("k8s", "submit", "suites/quick.yaml", *VOLUME, "--yes", "--set", "repeats=7", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    (made,) = submissions
    assert made.suite == SUITE.read_text()
    assert made.options == ("--volume=a=storage-class:fast", "--set=repeats=7")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "local"], "--detach needs a cluster"),
        ([], "--detach needs a cluster"),
        (["--target", "kubernetes", "--budget", "1h"], "--budget and --detach contradict"),
        (["--target", "kubernetes", "--json"], "--json and --detach contradict"),
    ],
)
def test_what_cannot_be_detached_is_refused(
    submitted: list[dict[str, Any]], arguments: list[str], message: str
) -> None:
    ended = volbench("run", str(SUITE), *VOLUME, "--detach", *arguments)
    assert (ended.returncode, message in ended.stderr) == (2, True), ended.stderr
    assert submitted == []
