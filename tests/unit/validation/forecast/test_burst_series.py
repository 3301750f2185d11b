"""Credits walked through the days of a load: nights refill them, as a mean load without end never would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from volbench.core.records.goals.gate import Decision
from volbench.core.records.validation.plan import BurstPlan
from volbench.core.records.validation.result import BurstOutlook, CheckRow
from volbench.core.suite.validation import check_validation_plan
from volbench.errors import UsageError
from volbench.validation.forecast.burst import IoDemand
from volbench.validation.forecast.burst_series import forecast_series

HOUR_S = 3600
STEP_S = 300
NIGHT, DAY = 50.0, 450.0


def series(path: Path, *, busy_hours: int = 8, day: float = DAY, hours: int = 24) -> Path:
    """A load of every five minutes that is busy for some hours, from midnight on."""
    ends_s = range(STEP_S, hours * HOUR_S + 1, STEP_S)
    lines = (f"{end_s},{day if end_s <= busy_hours * HOUR_S else NIGHT}\n" for end_s in ends_s)
    path.write_text("t,iops\n" + "".join(lines))
    return path


def judged(path: Path, need: IoDemand | None = None, **plan: Any) -> tuple[BurstOutlook, CheckRow]:
    checked = BurstPlan.model_validate({"volume": "ebs-gp2?size=50GiB", "series": str(path), **plan})
    return forecast_series(checked, need)


def test_nights_refill_what_a_day_takes(tmp_path: Path) -> None:
    """gp2 of 50 GiB: 5.4 million credits, 150 earned a second: four hours at 450 take 80 %."""
    outlook, row = judged(series(tmp_path / "s.csv", busy_hours=4), duration="7d")
    assert row.decision == "go", row
    assert outlook.credits_share_lowest == pytest.approx(1 - 300 * 4 * HOUR_S / 5.4e6)
    assert outlook.simulated_s == 7 * 24 * HOUR_S
    assert outlook.runway_s is None
    assert "never fall below 20 % over 7 days" in row.text
    assert "repeated 7 times" in "\n".join(row.details)


def test_a_longer_day_empties_them_and_says_for_how_long(tmp_path: Path) -> None:
    outlook, row = judged(series(tmp_path / "s.csv"))
    assert row.decision == "no-go"
    assert outlook.runway_s == pytest.approx(5.4e6 / 300)
    assert outlook.throttled_s == pytest.approx(3 * HOUR_S)
    assert "run out after 5 h and throttle the load for 3 h over 24 h" in row.text
    assert outlook.served_share == pytest.approx(1 - 3 * 300 / (8 * 450 + 16 * 50))


def test_what_is_taken_in_a_day_and_not_earned_at_night_ends_days_later(tmp_path: Path) -> None:
    path = series(tmp_path / "s.csv", busy_hours=4)
    plan: dict[str, Any] = {
        "volume": "ebs-gp2?size=34GiB",
        "duration": "1d",
    }  # earns 102 a second: 2.4 million of 5 by day
    assert judged(path, **plan)[1].decision == "go"
    outlook, row = judged(series(tmp_path / "t.csv", busy_hours=4, day=440), volume=plan["volume"], duration="10d")
    assert row.decision == "no-go"
    assert outlook.runway_s is not None
    assert outlook.runway_s > 24 * HOUR_S


@pytest.mark.parametrize(
    ("volume", "times", "decision"),
    [
        ("ebs-gp3", 1, "go"),
        ("ebs-gp3", 7, "no-go"),
        ("ebs-io2?iops=400", 1, "no-go"),
        ("ebs-io2?iops=500", 1, "go"),
    ],
)
def test_a_limit_that_is_too_low_at_any_time_is_no_go(
    tmp_path: Path, volume: str, times: float, decision: Decision
) -> None:
    row = judged(series(tmp_path / "s.csv"), volume=volume, times=times)[1]
    assert row.decision == decision, row
    assert ("a limit is too low for 8 h" in row.text) == (decision == "no-go")


def cloudwatch(path: Path, *, balances: list[float]) -> Path:
    """Half a day of CloudWatch, with the volume's own balance."""
    times = [f"2026-01-31T{minute // 60:02}:{minute % 60:02}:00+00:00" for minute in range(0, 720, 5)]

    def result(label: str, values: list[float]) -> dict[str, Any]:
        return {"Id": label, "Label": label, "Timestamps": times, "Values": values, "StatusCode": "Complete"}

    spread = [balances[index * len(balances) // len(times)] for index in range(len(times))]
    rates = [STEP_S * 60.0] * len(times)
    results = [result("VolumeReadOps", rates), result("VolumeWriteOps", rates), result("BurstBalance", spread)]
    path.write_text(json.dumps({"MetricDataResults": results}))
    return path


def test_a_source_that_was_held_back_itself_is_never_a_go(tmp_path: Path) -> None:
    outlook, row = judged(cloudwatch(tmp_path / "c.json", balances=[100, 60]))
    assert outlook.iops == pytest.approx(120)
    assert row.decision == "go", row
    assert "shorter than a day" in "\n".join(row.details)
    row = judged(cloudwatch(tmp_path / "c.json", balances=[100, 1]))[1]
    assert (row.decision, "own credits fell to 1 %" in row.details[0]) == ("undecided", True)


def test_a_candidate_that_asks_for_more_than_the_source_is_never_a_go(tmp_path: Path) -> None:
    need = IoDemand(reads_per_s=400, writes_per_s=200, read_bytes=1, write_bytes=1, iops_low=550, iops_high=650)
    row = judged(series(tmp_path / "s.csv", busy_hours=4), need)[1]
    assert (row.decision, "needs more I/O than the source" in row.details[0]) == ("undecided", True)


def test_a_series_needs_no_replay_and_has_to_be_one(tmp_path: Path) -> None:
    head = "schema: 2\nsource: {host: a}\ncandidate: {host: b}\n"
    loaded = check_validation_plan(f"{head}burst: {{volume: ebs-gp2, series: a.csv}}\n", name="plan.yaml")
    assert loaded.plan.replay is None
    with pytest.raises(UsageError, match="no such file"):
        judged(tmp_path / "nothing.csv")
