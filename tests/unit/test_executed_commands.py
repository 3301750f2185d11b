"""Every command that volbench advises and that needs no server, cluster or root is executed, on a copy of a run.

`run` is executed as `plan`: with its suite, volumes and settings all but the cells. A name without arguments is
executed with `--help`. What needs more is parsed to its end (test_printed_commands.py); `ELSEWHERE` says why.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, volbench
from printed_commands import FILLED, GROUPS, Printed, filled, filled_setting, in_source, in_text
from stored_files import REPORT, stored_text

SUITE = ROOT / "suites/quick.yaml"
RUN = ROOT / "tests/golden/run"
WITHOUT_ARGUMENTS = ("list", "suite docs", "volume list")
ELSEWHERE = {
    "capture": "a slow log of a server",
    "k8s": "a cluster",
    "observe": "a server in use, or what was observed of one",
    "resume": "measures",
    "volume counters": "an emulated volume, which root makes",
    "volume remove": "an emulated volume, which root makes",
    "volume stop": "an emulated volume, which root makes",
}
"""Commands that are parsed only, and what they need."""
_RUN_ONLY = {"--yes": 0, "--results-to": 1, "--target": 1, "--until": 1}
"""Options of `run` that `plan` lacks, or that ask for an engine of containers, with the number of their values."""
EXAMPLES = sorted((ROOT / "results/examples").rglob(REPORT))


def _name_of(arguments: list[str]) -> str:
    return " ".join(arguments[: 2 if arguments[0] in GROUPS and len(arguments) > 1 else 1])


def _is_elsewhere(name: str) -> bool:
    return name in ELSEWHERE or name.partition(" ")[0] in ELSEWHERE


def executable(printed: Printed, *, suite: Path, scratch: Path) -> list[str] | None:
    """Return the arguments to execute for a command; None for one that is parsed only.

    Executed as they are: explain, list, plan, report, suite check, suite docs, volume list and show; run as plan.

    Args:
        suite: what SUITE stands for.
        scratch: a directory with a copy of a run in `results/run`, and one for volumes in `volume`.
    """
    text = printed.text.replace(f"path:{FILLED}", f"path:{scratch / 'volume'}")
    text = text.replace(f"emulated:{FILLED}", "emulated:ebs-gp3").replace("emulated:PROFILE", "emulated:ebs-gp3")
    arguments = filled(text, suite=suite, run=scratch / "results/run")
    name = _name_of(arguments)
    if name in WITHOUT_ARGUMENTS and arguments == name.split():
        return arguments
    if all(argument.startswith("-") for argument in arguments[len(name.split()) :]):
        return [*name.split(), "--help"]
    if name in ("run", "plan"):
        return _as_plan(arguments, suite, scratch)
    if _is_elsewhere(name):
        return None
    return [str(scratch / "results/run") if argument == "2" else argument for argument in arguments]


def _as_plan(arguments: list[str], suite: Path, scratch: Path) -> list[str]:
    file = next((ROOT / argument for argument in arguments if argument.endswith(".yaml")), suite)
    result, remaining = ["plan", str(file)], iter(arguments[2:])
    for argument in remaining:
        if argument in _RUN_ONLY:
            for _ in range(_RUN_ONLY[argument]):
                next(remaining)
        elif argument == "--set":
            result += [argument, filled_setting(next(remaining), file)]
        else:
            result.append(argument.replace("path:/mnt/disk", f"path:{scratch / 'volume'}"))
    if "--volume" not in result and "\nvolumes:" not in file.read_text():
        spec = "emulated:ebs-gp3" if "--modulate" in arguments else f"path:{scratch / 'volume'}"
        result += ["--volume", f"v={spec}"]
    return [*result, "--target", "local"]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a copy of a run, and one for volumes."""
    directory = tmp_path_factory.mktemp("scratch")
    shutil.copytree(RUN, directory / "results/run")
    (directory / "volume").mkdir()
    return directory


def fault_of(arguments: list[str], scratch: Path) -> str:
    """Return what an execution ended with; empty for an end without a fault."""
    ended = volbench(*arguments, cwd=scratch)
    is_traceback = "Traceback" in ended.stderr
    return "" if ended.returncode == 0 and not is_traceback else f"{arguments}: {ended.returncode}\n{ended.stderr}"


def test_a_command_in_the_source_is_executed_or_says_what_it_needs(scratch: Path) -> None:
    printed = {item.text: item for item in in_source()}
    executed = {text: executable(item, suite=SUITE, scratch=scratch) for text, item in printed.items()}
    faults = [fault for arguments in executed.values() if arguments and (fault := fault_of(arguments, scratch))]
    assert not faults, "\n".join(faults)
    names = {_name_of(arguments) for arguments in executed.values() if arguments}
    assert {"plan", "report", "explain", "list", "suite check", "volume show"} <= names


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.parent.relative_to(ROOT / "results/examples")))
def test_a_command_in_a_committed_report_is_executed(path: Path, scratch: Path) -> None:
    """With the example's own suite: advice, next steps and the lines that reproduce the run."""
    report = json.loads(stored_text(path))
    shipped = ROOT / f"suites/{report['suite']}.yaml"
    texts = "\n".join(_texts(report))
    commands = {
        item.text: executable(item, suite=shipped, scratch=scratch) for item in in_text(texts, path.parent.name)
    }
    assert any(arguments and arguments[0] == "plan" for arguments in commands.values())
    assert [fault for arguments in commands.values() if arguments and (fault := fault_of(arguments, scratch))] == []


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def test_a_command_that_ends_with_a_fault_is_told(scratch: Path) -> None:
    """The check itself: an unknown key of a suite, a run that is not there."""
    assert "innodb" in fault_of(
        ["plan", str(SUITE), "--volume", f"disk=path:{scratch}", "--set", "config.innodb_buffer_pool_size=64M"],
        scratch,
    )
    assert fault_of(["report", str(scratch / "results/absent")], scratch)
