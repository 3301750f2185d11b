"""The runway of burst credits at production's load: by arithmetic, three-valued, and never a go on reads alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from volbench.core.records.goals.gate import Decision
from volbench.core.records.validation.plan import BurstPlan
from volbench.core.records.validation.result import CheckRow, Replayed
from volbench.core.suite.validation import check_validation_plan
from volbench.errors import UsageError
from volbench.validation.forecast.burst import burst_check, burst_outlook, candidate_limits, measure_demand
from volbench.validation.replay.io_meter import IoCounters

PAGE = 16_384


def counts(per_s: Sequence[float], *, interval_s: float = 1.0, dirty: float = 0.0) -> list[IoCounters]:
    """Readings of a volume with so many requests in each interval, half of them reads."""
    results, total = [], 0.0
    for number, rate in enumerate((0.0, *per_s)):
        total += rate * interval_s
        results.append(
            IoCounters(
                t_s=100 + number * interval_s,
                reads=total / 2,
                writes=total / 2,
                read_bytes=total / 2 * PAGE,
                written_bytes=total / 2 * PAGE,
                dirty_pages=dirty * number / len(per_s),
            )
        )
    return results


def replayed(
    *, log_s: float = 60.0, duration_s: float = 60.0, excluded: dict[str, int] | None = None, sent: int = 6000
) -> Replayed:
    return Replayed(
        statements=6000,
        sent=sent,
        excluded=excluded or {},
        log_s=log_s,
        speed=1,
        planned_s=log_s,
        duration_s=duration_s,
        peak_per_s=100,
        connections=4,
        shared_connections=0,
        second_resolution=False,
        writes=True,
        late=0,
        late_share=0,
        client_cpu_share=0.1,
        errors={},
        classes=(),
    )


def judged(volume: str, measured: Sequence[IoCounters], result: Replayed, *, duration: str = "24h") -> CheckRow:
    plan = BurstPlan.model_validate({"volume": volume, "duration": duration})
    need = measure_demand(measured, result)
    outlook = burst_outlook(need, candidate_limits(plan), plan, counted_by="a test") if need else None
    return burst_check(outlook, result, plan)


def noisy(mean: float, *, spread: float, count: int = 60) -> list[float]:
    draw = random.Random(3)
    return [max(0.0, draw.gauss(mean, spread)) for _ in range(count)]


def test_the_runway_is_the_credits_over_what_the_need_exceeds_the_baseline_by() -> None:
    """gp2 of 50 GiB: 5.4 million credits, 150 IOPS earned: at 450 IOPS they are gone after five hours."""
    row = judged("ebs-gp2?size=50GiB", counts([450.0] * 60), replayed())
    assert row.decision == "no-go"
    assert "volume.credits run out after 5 h" in row.text or "run out after 300 min" in row.text, row.text
    assert "then the volume serves 33 % of it" in row.text


@pytest.mark.parametrize(
    ("volume", "decision"),
    [
        ("ebs-gp3", "go"),
        ("ebs-gp2?size=200GiB", "go"),
        ("ebs-gp2?size=50GiB&credits=10%", "no-go"),
        ("ebs-io2?iops=400", "no-go"),
    ],
)
def test_a_volume_without_credits_or_with_enough_of_them_holds_and_a_low_limit_does_not(
    volume: str, decision: Decision
) -> None:
    assert judged(volume, counts(noisy(450, spread=30)), replayed()).decision == decision


def test_what_the_measurement_cannot_tell_is_undecided() -> None:
    """Around the baseline of 150 IOPS, both ends of the interval come to other answers."""
    assert judged("ebs-gp2?size=50GiB&credits=1%", counts(noisy(150, spread=60)), replayed()).decision == (
        "undecided"
    )


def test_too_few_readings_and_reads_alone_are_never_a_go() -> None:
    few = judged("ebs-gp3", counts([100.0] * 15), replayed(log_s=15))
    assert (few.decision, "too few readings" in few.text) == ("undecided", True)
    unseen = replayed(excluded={"that do more than read": 7})
    assert judged("ebs-gp3", counts([100.0] * 60), unseen).decision == "undecided"
    assert judged("ebs-gp2?size=50GiB", counts([450.0] * 60), unseen).decision == "no-go"


def test_a_replay_that_fell_behind_asks_for_the_same_in_less_time() -> None:
    """A minute's log that took two minutes on a throttled volume needs twice what was served."""
    need = measure_demand(counts([150.0] * 120), replayed(duration_s=120))
    assert need is not None
    assert need.iops == pytest.approx(300)
    half = measure_demand(counts([150.0] * 120), replayed(duration_s=120, sent=3000))  # the rest was never sent
    assert half is not None
    assert half.iops == pytest.approx(600)
    fast = measure_demand(counts([300.0] * 60), replayed(log_s=120))  # at twice the log's speed
    assert fast is not None
    assert fast.iops == pytest.approx(150)


def test_pages_that_are_left_dirty_make_the_load_heavier() -> None:
    need = measure_demand(counts([100.0] * 60, dirty=600), replayed())
    assert need is not None
    assert (need.iops_low, need.iops_high) == pytest.approx((100, 120))


def test_counters_that_began_anew_say_nothing() -> None:
    restarted = counts([100.0] * 60)
    assert measure_demand([*restarted[:40], *counts([1.0] * 20)], replayed()) is None


def test_a_plan_needs_a_replay_and_a_volume_that_is_known() -> None:
    head = "schema: 2\nsource: {host: a}\ncandidate: {host: b}\n"
    with pytest.raises(UsageError) as raised:
        check_validation_plan(f"{head}burst: {{volume: ebs-gp2}}\n", name="plan.yaml")
    assert "measured while `replay`" in str(raised.value)
    with pytest.raises(UsageError):
        candidate_limits(BurstPlan(volume="ebs-gp9"))
