"""`volbench run --detach`: the run of `volbench k8s submit`, and what cannot be one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import volbench

from volbench.cli.cluster import k8s_runner

SUITE = Path(__file__).parents[3] / "suites" / "quick.yaml"
VOLUME = ["--volume", "a=storage-class:fast"]


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(
        k8s_runner, "submit", lambda suite, volume, **more: calls.append({"suite": suite, "volume": volume, **more})
    )
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
    assert (call["suite"], call["volume"], call["yes"]) == (SUITE, ["a=storage-class:fast"], True)
    assert call["settings"][-1] == "repeats=7"
    assert "comparison.until=decided" in call["settings"]
    assert (call["target_option"], call["tools"], call["cost_max"]) == (["namespace=n"], "r/t:1", 5.0)


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
