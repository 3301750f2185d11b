"""`volbench run suites/modify.yaml`: an emulated volume gets other limits while a real server reads from it."""

from __future__ import annotations

from pathlib import Path

import live_run
import pytest

pytestmark = pytest.mark.emulator
SUITE = Path(__file__).parents[2] / "suites/modify.yaml"
SETTINGS = (
    "scale=ci",
    *(setting for setting in live_run.SMALL if not setting.startswith(("dataset.", "steps."))),
)
TAKES_S = 5.0
LATE_S = 6.0
"""A request and its answer, on a machine that other tests keep busy."""


@pytest.mark.parametrize("bench", live_run.LOCAL_IF_SLOW, indirect=True)
def test_a_load_at_its_limit_does_more_once_the_limit_is_higher(bench: live_run.Bench, root: Path) -> None:
    """MySQL 9.7 in containers: the time of the new limits is the model's, and the counters follow it."""
    chosen = [argument for setting in SETTINGS for argument in ("--set", setting)]
    if bench.target == "local":
        chosen += ["--set", "engine.flavor=mariadb"]
    volume = f"io2=emulated:ebs-io2?size=100GiB&iops=200&dir={root}"  # no bucket: its limit holds at any speed
    process = bench.volbench(
        *("run", str(SUITE), "--target", bench.target, "--volume", volume, *chosen),
        *("--out", str(bench.results), "--yes"),
    )
    ended = bench.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    (result,) = bench.directory.results()
    steps = {step.step: step for step in result.steps}
    modified = steps["reads/beside-modify"]
    changed_s = modified.metrics["limits_changed_s"].value
    assert TAKES_S <= changed_s <= TAKES_S + LATE_S
    assert modified.metrics["new_limit_after_s"].value >= TAKES_S, modified.details
    rates = modified.details["operations_per_s"]
    assert isinstance(rates, list)
    assert max(rates[-3:]) > 1.5 * max(rates[:3]), rates
