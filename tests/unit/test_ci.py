"""The parts of CI have all tests: what the first leaves out, the second runs beside those of a cluster."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def commands(directory: Path) -> list[str]:
    """Return the commands that CI gives to the bare machine, by a Python that only notes its arguments."""
    noted = directory / "noted"
    (directory / "python3").write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >'{noted}'\n")
    (directory / "python3").chmod(0o755)
    path = f"{directory}:/usr/bin:/bin"
    subprocess.run(["sh", str(ROOT / ".ci/run")], env={"PATH": path}, check=True, capture_output=True, timeout=60)
    lab, *result = noted.read_text().splitlines()
    assert lab == "tests/lab/bare"
    return result


def test_what_the_first_part_leaves_out_runs_in_the_second(tmp_path: Path) -> None:
    first, second = commands(tmp_path)
    assert first.startswith("make test ")
    left_out = re.findall(r"--ignore=([^ ']+)", first)
    assert left_out
    assert second.split() == [".ci/cluster", *left_out]
    for directory in left_out:
        assert list((ROOT / directory).rglob("test_*.py")), directory


@pytest.mark.parametrize(
    ("fails", "code"), [("nothing", 0), ("test-kubernetes", 2), ("lint", 2), ("tests/unit", 1)]
)
def test_each_side_of_the_second_part_can_fail_it_and_what_ran_beside_is_told(
    tmp_path: Path, fails: str, code: int
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy2(ROOT / ".ci/cluster", tmp_path / ".ci")
    for program, failure in (("make", 2), (".venv/bin/python", 1)):
        file = tmp_path / program
        file.parent.mkdir(parents=True, exist_ok=True)
        last = f'for last; do :; done\necho "$last: $(chrt -p $$)"\n[ "$last" != {fails} ] || exit {failure}\n'
        file.write_text(f"#!/bin/sh\n{last}")
        file.chmod(0o755)
    done = subprocess.run(
        [tmp_path / ".ci/cluster", "tests/fuzz", "tests/unit"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    policies = re.findall(r"^(\S+): .*policy: (\w+)$", done.stdout, re.MULTILINE)
    assert ("test-kubernetes", "SCHED_OTHER") in policies
    assert ("tests/unit", "SCHED_IDLE") in policies
    assert (("lint", "SCHED_IDLE") in policies) is (fails != "tests/unit")
