"""The GitHub Action without GitHub: its script with real commands, a prepared run, a `gh` that notes its call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from synthetic_history import slower_from, write_history
from synthetic_run import build_run, two_volumes

from volbench.results.report.render import write_reports

ROOT = Path(__file__).parents[4]
ACTION = YAML(typ="safe").load((ROOT / "action.yml").read_text())
SCRIPT = ROOT / ".github" / "action" / "measure.sh"
VOLBENCH = """#!/bin/sh
# `run` leaves a prepared run and its arguments; every other command is the real one.
if [ "$1" = run ]; then
    printf '%s\\n' "$@" >"{base}/arguments"
    [ ! -d "{base}/next" ] || cp -r "{base}/next/." "$RESULTS"
    exit {code}
fi
exec "{python}" -m volbench "$@"
"""
GH = """#!/bin/sh
printf '%s ' "$@" >"{base}/gh"
cp "$5" "{base}/comment.md"
"""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 earlier runs, and one that will be measured."""
    directory = tmp_path_factory.mktemp("history")
    write_history(directory / "results", 24)
    write_history(directory / "next", 1, first=24)
    return directory


@pytest.fixture
def base(history: Path, tmp_path: Path) -> Path:
    shutil.copytree(history, tmp_path, dirs_exist_ok=True)
    return tmp_path


def measure(base: Path, *, code: int = 0, **inputs: str) -> subprocess.CompletedProcess[str]:
    """The script as action.yml calls it, with its defaults."""
    (base / "bin").mkdir(exist_ok=True)
    for name, text in (("volbench", VOLBENCH), ("gh", GH)):
        program = base / "bin" / name
        program.write_text(text.format(base=base, python=sys.executable, code=code))
        program.chmod(0o755)
    defaults = {
        name.replace("-", "_").upper(): str(about.get("default", "")) for name, about in ACTION["inputs"].items()
    }
    environment = {
        **os.environ,
        **defaults,
        "PATH": f"{base / 'bin'}:{os.environ['PATH']}",
        "VOLBENCH": str(base / "bin" / "volbench"),
        "RESULTS": str(base / "results"),
        "SITE": str(base / "site"),
        "VOLUMES": "disk=path:/mnt/a\ngp3=emulated:ebs-gp3\n",
        "PULL_REQUEST": "7",
        "GITHUB_OUTPUT": str(base / "output"),
        "GITHUB_STEP_SUMMARY": str(base / "summary"),
        **inputs,
    }
    return subprocess.run(
        ["sh", SCRIPT], cwd=base, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_it_measures_compares_and_comments(base: Path) -> None:
    done = measure(base, SETTINGS="repeats=3\nsteps.0.duration=5s")
    assert done.returncode == 0, done.stderr
    assert (base / "arguments").read_text().split("\n")[-9:-1] == [
        "--volume",
        "disk=path:/mnt/a",
        "--volume",
        "gp3=emulated:ebs-gp3",
        "--set",
        "repeats=3",
        "--set",
        "steps.0.duration=5s",
    ]
    comment = (base / "comment.md").read_text()
    assert "Volume gp3 is worse for MySQL than disk" in comment
    assert re.search(r"### volbench: \S+000018 against \S+000017", comment)
    assert (base / "gh").read_text().startswith("pr comment 7 --body-file ")
    assert (base / "summary").read_text() == comment
    assert "regressions=0" in (base / "output").read_text()
    assert (base / "site" / "index.html").is_file()


def test_a_policy_decides_and_is_in_the_comment(base: Path) -> None:
    shutil.rmtree(base / "next")
    write_reports(build_run(base / "next", two_volumes(repeats=5)))
    for limit, code, decision in (("1 ms", 1, "no-go"), ("10 s", 0, "go")):
        (base / "policy.yaml").write_text(f"schema: 2\nconditions: [latency_ms_p95 <= {limit}]\n")
        done = measure(base, POLICY="policy.yaml", RESULTS=str(base / f"results-{decision}"))
        assert done.returncode == code, done.stderr
        assert f"decision={decision}\n" in (base / "output").read_text()
        assert decision.upper() in (base / "comment.md").read_text()


def test_a_regression_fails_the_job_unless_it_may_not(base: Path) -> None:
    write_history(base / "results-slow", 24, levels={"gp3": slower_from(20, 1.4)})
    done = measure(base, RESULTS=str(base / "results-slow"), SITE=str(base / "a"))
    assert done.returncode == 1
    assert ":warning: p95 latency of quick on gp3" in (base / "comment.md").read_text()
    (base / "next").rename(base / "done")
    write_history(base / "next", 1, first=25)
    slow: dict[str, Any] = {
        "RESULTS": str(base / "results-slow"),
        "SITE": str(base / "a"),
        "FAIL_ON_REGRESSION": "false",
    }
    assert measure(base, **slow).returncode == 0


def test_a_run_that_fails_fails_the_job_with_its_code(base: Path) -> None:
    (base / "next").rename(base / "nothing")
    assert measure(base, code=3).returncode == 3


def test_an_input_is_never_a_command(base: Path) -> None:
    hostile = f'a=path:/x"; touch {base}/hacked; $(touch {base}/hacked) `touch {base}/hacked`'
    measure(base, VOLUMES=hostile, SETTINGS=hostile, SUITE=hostile)
    assert hostile in (base / "arguments").read_text()
    assert not (base / "hacked").exists()


def test_the_action_puts_no_expression_into_a_shell() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "sh"
    used = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])


def test_nothing_of_the_checkout_is_run(base: Path) -> None:
    """The workflow's directory has the files of a pull request, which may be anybody's."""
    for name in ("json.py", "sitecustomize.py"):
        (base / name).write_text(f"open({str(base / 'imported')!r}, 'w')\n")
    done = measure(base)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    assert not (base / "imported").exists()
