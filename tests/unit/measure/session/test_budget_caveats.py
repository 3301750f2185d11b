"""A budget that ends a run before its cells can give a verdict."""

from __future__ import annotations

from pathlib import Path

from volbench.measure.session.caveats import budget_caveats
from volbench.measure.session.planner import make_plan
from volbench.measure.session.servers import TargetRequest

SUITE = Path(__file__).parents[4] / "suites" / "quick.yaml"


def test_a_budget_below_three_blocks_is_told(tmp_path: Path) -> None:
    volumes = [f"{name}=path:{tmp_path}/{name}" for name in "ab"]
    run = make_plan(SUITE, volumes, TargetRequest(target="local")).run
    assert run.suite.repeats == 8
    assert list(budget_caveats(run, 80.0, 30.0)) == []
    [below] = budget_caveats(run, 80.0, 29.0)
    assert (
        below
        == "The budget of 29 s has time for 2 of the 3 blocks of cells that a verdict needs, at about 10 s each."
    )
    [none] = budget_caveats(run, 80.0, 5.0)
    assert "has time for 0 of the 3 blocks" in none
