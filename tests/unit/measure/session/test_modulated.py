"""`--modulate` on the command line: which steps follow the signal, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.suite.load import load_suite
from volbench.errors import UsageError
from volbench.measure.session.modulated import modulate_settings
from volbench.measure.session.planner import make_plan
from volbench.measure.session.servers import TargetRequest

HEAD = "schema: 2\nname: loads\nsteps:\n"
CLOSED = "  - {kind: oltp, name: closed, duration: 8s}\n"
LONG = "  - {kind: oltp, name: long, duration: 90s}\n"
RATE = "  - {kind: oltp, name: at-rate, rate: 10, duration: 60s}\n"
IDLE = "  - {kind: idle, name: still, duration: 5s}\n"


def suite(tmp_path: Path, *steps: str) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(HEAD + "".join(steps))
    return path


def test_closed_loops_are_modulated_for_as_long_as_the_signal_takes(tmp_path: Path) -> None:
    path, output = suite(tmp_path, CLOSED, LONG, RATE, IDLE), list[str]()
    settings = modulate_settings(path, 4.0, ["repeats=3"], say=output.append)
    checked, _ = load_suite(path, settings=settings)
    steps = {step.name: step for step in checked.steps}
    assert {name: getattr(step, "modulate", None) for name, step in steps.items()} == {
        "closed": 4.0,
        "long": 4.0,
        "at-rate": None,
        "still": None,
    }
    assert [getattr(steps[name], "duration_s", 0) for name in ("closed", "long")] == [48.0, 90.0]
    assert checked.repeats == 3
    assert len(output) == 3


def test_a_suite_without_such_a_step_is_refused_with_each_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        modulate_settings(suite(tmp_path, RATE, IDLE), 4.0, [])
    assert "at-rate" in refused.value.evidence
    assert "still" in refused.value.evidence


def test_without_the_option_nothing_changes(tmp_path: Path) -> None:
    assert modulate_settings(suite(tmp_path, RATE), None, ["repeats=3"]) == ["repeats=3"]


def test_a_volume_that_cannot_be_modulated_is_refused_in_the_plan(tmp_path: Path) -> None:
    path = suite(tmp_path, LONG)
    settings = modulate_settings(path, 4.0, [])
    with pytest.raises(UsageError) as refused:
        make_plan(path, [f"disk=path:{tmp_path}"], TargetRequest(target="local"), settings=settings)
    assert "disk=path:" in refused.value.evidence
    assert "second volume" in refused.value.next_step
    planned = make_plan(path, ["gp3=emulated:ebs-gp3"], TargetRequest(target="local"), settings=settings)
    assert planned.run.suite.steps[0].parameters()["modulate"] == 4.0


@pytest.mark.parametrize("factor", [0.5, 1.0, 100.0])
def test_a_factor_that_shows_nothing_or_is_beyond_reason_is_refused(tmp_path: Path, factor: float) -> None:
    path = suite(tmp_path, LONG)
    with pytest.raises(UsageError, match="modulate"):
        make_plan(
            path,
            ["gp3=emulated:ebs-gp3"],
            TargetRequest(target="local"),
            settings=modulate_settings(path, factor, []),
        )
