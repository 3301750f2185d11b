"""Workflows: what actionlint says of them, pinned actions, and no right that a job does not need."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONLINT = ROOT / "tests" / "support" / "actionlint"
GO_OLDEST = (1, 25)
BUILD_S_MAX = 300.0


def go() -> str:
    """The Go compiler; skip where there is none that can build actionlint."""
    program = shutil.which("go")
    if program is None:
        pytest.skip("no Go 1.25 or later: there is none")
    version = subprocess.run([program, "version"], capture_output=True, text=True, check=True, timeout=60).stdout
    numbers = re.search(r"go(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) < GO_OLDEST:
        pytest.skip(f"no Go 1.25 or later: {version.strip()}")
    return program


def test_there_is_a_workflow() -> None:
    assert [path.name for path in WORKFLOWS if path.name == "release.yml"] == ["release.yml"]


def test_actionlint_has_nothing_to_say(tmp_path: Path) -> None:
    """Built from its module, which go.sum pins by hash."""
    program = tmp_path / "actionlint"
    subprocess.run(
        [go(), "build", "-mod=readonly", "-trimpath", "-o", program, "github.com/rhysd/actionlint/cmd/actionlint"],
        cwd=ACTIONLINT,
        check=True,
        timeout=BUILD_S_MAX,
    )
    faulty = tmp_path / "faulty.yml"
    faulty.write_text(
        "on: push\njobs: {x: {runs-on: ubuntu-24.04, steps: [{run: 'echo ${{ github.refname }}'}]}}\n"
    )
    assert lint(program, [faulty])[0] == 1
    assert lint(program, WORKFLOWS) == (0, "")


def lint(program: Path, files: list[Path]) -> tuple[int, str]:
    done = subprocess.run([program, "-no-color", *files], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_and_rights_are_named(path: Path) -> None:
    text = path.read_text()
    uses = re.findall(r"^\s*(?:- )?uses: (.*)$", text, re.MULTILINE)
    assert uses
    assert [line for line in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []
    workflow = YAML(typ="safe").load(text)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 90, name
        assert set(job["permissions"].values()) <= {"read", "write"}, name
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), f"{name}: text of an event in a shell"
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    writers = {name for name, job in workflow["jobs"].items() if "write" in job["permissions"].values()}
    checkouts = {
        name
        for name, job in workflow["jobs"].items()
        if any(step.get("uses", "").startswith("actions/checkout@") for step in job["steps"])
    }
    assert not writers & checkouts, "a job that may write runs no code of the checkout"
