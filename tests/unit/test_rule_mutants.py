"""The tool that asks whether tests hold the figures of `explain`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import rule_mutants

SOURCE = (
    '"""Numbers."""\n\nSLOW_MS = 2.0\nSAMPLES, SPREAD = 3, 0.5\nNAME, ON, NOTHING = "a", True, 0.0\nlocal = 7.0\n'
)
MODULE = Path("module.py")


def test_each_number_of_a_constant_is_changed_both_ways_and_nothing_else() -> None:
    mutants = [(mutant.name, mutant.text) for mutant in rule_mutants.mutants(MODULE, SOURCE)]
    assert mutants == [("SLOW_MS", "2.6"), ("SLOW_MS", repr(2.0 / 1.3))]
    both = [mutant.text for mutant in rule_mutants.mutants(MODULE, "COUNT = 3\nONE = 1\n")]
    assert both == ["4", "2", "2", "0"], "a whole number moves by one at least"
    assert [mutant.text for mutant in rule_mutants.mutants(MODULE, "RANGE = (0.5, 2)\n")] == [
        repr(0.65), repr(0.5 / 1.3), "3", "1",
    ]  # fmt: skip


def test_a_mutant_changes_its_number_only() -> None:
    (first, _) = rule_mutants.mutants(MODULE, "ÄLTER = 2.0  # 2.0 ms\nB = (1,)\n".replace("B = (1,)\n", ""))
    assert first.applied("ÄLTER = 2.0  # 2.0 ms\n") == "ÄLTER = 2.6  # 2.0 ms\n"


@pytest.mark.parametrize(("limit", "killed"), [("2.0", True), ("1.0", False)])
def test_a_change_that_a_test_fails_for_is_killed(tmp_path: Path, limit: str, killed: bool) -> None:
    (tmp_path / MODULE).write_text("SLOW_MS = 2.0\n")
    test = tmp_path / "test_module.py"
    test.write_text(f"from module import SLOW_MS\n\ndef test_it() -> None:\n    assert {limit} <= SLOW_MS <= 2.1\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    lower = [*rule_mutants.mutants(MODULE, "SLOW_MS = 2.0\n")][1]
    assert rule_mutants.is_killed(tmp_path, lower, [str(test)]) is killed
    assert (tmp_path / MODULE).read_text() == "SLOW_MS = 2.0\n"


def test_what_has_a_verdict_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rule_mutants.PACKAGE / "check" / "quantile.py"
    listed = [*rule_mutants.mutants(path, (rule_mutants.ROOT / path).read_text())]
    state = tmp_path / "state.json"
    state.write_text(json.dumps({item.key: index > 0 for index, item in enumerate(listed)}))
    monkeypatch.setattr(rule_mutants, "_copy", lambda _: None)
    monkeypatch.setattr(rule_mutants, "pass_all", lambda *_: True)
    monkeypatch.setattr(sys, "argv", ["rule_mutants", "--state", str(state), "--only", "check/quantile"])
    assert rule_mutants.main() == 0
    assert f"{len(listed) - 1} of {len(listed)} changes are noticed; 0 of" in capsys.readouterr().out
