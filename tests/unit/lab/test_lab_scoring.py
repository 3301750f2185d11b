"""The lab's own scores, on runs and findings that are made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explain import intervals, page, scoring
from explain.conditions import NONE, load_conditions, setup_of, twin_of
from explain.observed import FAILED, NOTHING, Named, Observed
from explain.truths import empty_at_s


def run(
    condition: str, truth: tuple[str, ...], *named: tuple[str, float], number: int = 1, **more: object
) -> Observed:
    values: dict[str, object] = {
        "condition": condition,
        "number": number,
        "split": "test",
        "lab_seed": 1,
        "seed": 17,
        "truth": truth,
        "accepted": (),
        "drawn": {},
        "named": tuple(Named(cause=cause, confidence=confidence) for cause, confidence in named),
        "wall_s": 30.0,
        **more,
    }
    return Observed(**values)


CAP = ("storage.iops_limit",)
PAIR = ("storage.burst_exhausted", "storage.stall")


def test_the_confusion_counts_the_first_cause_named_for_each_condition() -> None:
    """A run that says nothing and one that failed have columns of their own."""
    runs = [
        run("iops-cap", CAP, ("storage.iops_limit", 0.8), ("memory.buffer_pool_small", 0.5)),
        run("iops-cap", CAP, ("storage.throughput_limit", 0.6), ("storage.iops_limit", 0.9)),
        run("iops-cap", CAP),
        run("iops-cap", CAP, ("storage.iops_limit", 0.8), failure="the server did not start"),
    ]
    expected = {"storage.iops_limit": 1, "storage.throughput_limit": 1, NOTHING: 1, FAILED: 1}
    assert dict(scoring.confusion(runs)["iops-cap"]) == expected
    assert scoring.top1(runs) == 0.25


def test_a_clean_run_of_which_nothing_is_said_is_no_alarm_and_not_right() -> None:
    """Only a cause is an alarm; `none` is the right answer."""
    clean = ("none",)
    runs = [
        run("clean", clean, ("none", 0.8)),
        run("clean", clean),
        run("clean", clean, ("cpu.server_saturated", 0.7)),
    ]
    assert scoring.clean_alarms(runs) == (1, 3)
    assert scoring.top1(runs) == pytest.approx(1 / 3)


def test_an_accepted_cause_is_neither_right_nor_spurious() -> None:
    """It does not spoil a run, and it does not save one."""
    result = run(
        "burst", ("storage.burst_exhausted",), ("storage.iops_limit", 0.8), accepted=("storage.iops_limit",)
    )
    assert not scoring.is_right(result)
    assert not scoring.spurious([result])
    assert scoring.judged([result]) == [(0.8, True)]


def test_recall_of_compounds_looks_at_the_first_three() -> None:
    """Two causes of two runs: one is fourth, one is missing."""
    remaining = (("a", 0.5), ("b", 0.5))
    runs = [
        run("pair", PAIR, (PAIR[0], 0.9), *remaining, (PAIR[1], 0.9)),
        run("pair", PAIR, ("c", 0.9), (PAIR[1], 0.5)),
        run("iops-cap", CAP),
    ]
    assert scoring.compound_recall(runs) == 0.5
    assert scoring.compound_recall([run("iops-cap", CAP)]) is None


def test_reliability_puts_confidence_beside_frequency() -> None:
    """Ten findings at 0.9 of which nine are right are calibrated; four at 0.7 of which none is are not."""
    pairs = [(0.9, number > 0) for number in range(10)] + [(0.7, False)] * 4
    low, high = scoring.reliability(pairs)
    assert (low.findings, low.right, high.findings, high.right) == (4, 0.0, 10, 0.9)
    assert scoring.calibration_error([low, high]) == pytest.approx(4 / 14 * 0.7)
    assert scoring.brier(pairs) == pytest.approx((9 * 0.1**2 + 0.9**2 + 4 * 0.7**2) / 14)


def test_exact_intervals_are_those_of_the_tables() -> None:
    """Clopper and Pearson: 95 % of 9 of 10, and the rule of three's bound for none of 100."""
    assert scoring.exact_interval(9, 10) == pytest.approx((0.5550, 0.9975), abs=1e-4)
    assert scoring.exact_interval(0, 100) == pytest.approx((0.0, 0.0362), abs=1e-4)
    assert scoring.exact_interval(5, 5)[1] == 1.0


def root_descriptor(condition: str, cause: str, *, right: bool, **more: Any) -> Observed:
    """A run with one finding, all of whose checks held."""
    named = Named(cause=cause, confidence=0.9, evidence={"checks": "all held"})
    return run(condition, (cause if right else "none",), named=(named,), **more)


def test_confidences_come_from_some_runs_and_are_checked_on_others() -> None:
    """98 of 99 true is 0.985; 40 of 40 agree with it, 30 of 40 do not, and without others nothing is said."""
    mended = [root_descriptor("iops-cap", CAP[0], right=number > 0, number=number) for number in range(99)]
    remaining = [root_descriptor("iops-cap", CAP[0], right=True, lab_seed=4) for _ in range(40)]
    made = scoring.calibration("here", mended, [])
    assert made.confidence("all held") == pytest.approx(98.5 / 100)
    assert made.agrees is None
    assert "not checked" in made.describe_counts("all held")
    checked = scoring.calibration("here", mended, remaining)
    assert checked.agrees
    assert checked.confidence("all held") == made.confidence("all held")
    assert "40 of 40 in its other runs, which confirm it" in checked.describe_counts("all held")
    worse = [root_descriptor("iops-cap", CAP[0], right=number >= 10, number=number) for number in range(40)]
    assert scoring.calibration("here", mended, worse).agrees is False


def test_a_confidence_of_one_is_in_the_last_range() -> None:
    """The ranges have no gap and no overlap."""
    rows = scoring.reliability([(0.0, False), (0.2, False), (1.0, True)])
    assert [(row.low, row.findings) for row in rows] == [(0.0, 1), (0.2, 1), (0.9, 1)]


def test_levels_and_knees_are_compared_with_what_was_made() -> None:
    """A cap that is not named is counted as such, and does not pass for a small error."""
    named = Named(cause="storage.iops_limit", confidence=0.8, evidence={"iops": 1040.0})
    burst = Named(cause="storage.burst_exhausted", confidence=0.8, evidence={"exhausted_at": 21.5, "baseline": 300})
    runs = [
        run("iops-cap", CAP, truths={"iops": 1000.0}, named=(named,)),
        run("iops-cap", CAP, number=2, truths={"iops": 1000.0}),
        run("burst", PAIR[:1], truths={"exhausted_at_s": 20.0, "baseline": 300.0}, named=(burst,)),
    ]
    assert [cap.error for cap in scoring.caps(runs)] == [pytest.approx(0.04), None, 0.0]
    (knee,) = scoring.knees(runs)
    assert knee.named == 21.5
    bars = {bar.name: bar for bar in scoring.bars(runs)}
    assert bars["caps named"].passed
    assert "none named in 1 of 3" in bars["caps named"].meaning
    assert bars["knee of a burst"].value == 1.5


def test_the_worst_prediction_counts_and_one_that_is_missing_is_told() -> None:
    """Predicted and run."""
    about = {"step": "load", "measured_on": "a", "predicted_on": "b"}
    pairs = [{**about, "tps": 100.0, "predicted_tps": 90.0}, {**about, "tps": 100.0, "predicted_tps": 125.0}]
    bar = scoring.what_if_bar([*pairs, {**about, "cannot": "the number of clients is not known"}])
    assert (bar.value, bar.passed, bar.of) == (pytest.approx(0.25), False, 2)
    assert "1 of 2 within" in bar.meaning
    assert scoring.what_if_bar([]).passed is None


def test_an_interval_holds_what_lies_in_it_and_a_refusal_is_counted() -> None:
    """A pair whose interval missed, one that was refused; a forecast without a latest time may never come."""
    about = {"step": "load", "measured_on": "a", "predicted_on": "b"}
    pairs = [
        {**about, "tps": 100.0, "predicted_interval": [80.0, 120.0]},
        {**about, "tps": 100.0, "predicted_interval": [101.0, 120.0]},
        {**about, "cannot": "the number of clients is not known"},
    ]
    assert intervals.of_pairs(pairs, "tps", "predicted_interval") == intervals.Held(held=1, of=2, refused=1)
    burst = ("storage.burst_exhausted",)
    runs = [
        run("burst", burst, truths={"exhausted_after_s": 3.0}, forecast={"after_s": 2.8, "earliest_s": 2.5}),
        run(
            "burst",
            burst,
            truths={"exhausted_after_s": 3.0},
            forecast={"after_s": 2.0, "earliest_s": 1.5, "latest_s": 2.5},
        ),
        run("burst", burst, truths={"exhausted_after_s": 3.0}),
        run("burst+stall", PAIR, truths={"exhausted_after_s": 3.0}),
    ]
    assert intervals.of_forecasts(runs) == intervals.Held(held=1, of=2, refused=1)


def test_the_second_of_exhaustion_lies_between_samples() -> None:
    """The balance falls by 10 % a second and reaches 0 half a second after its last sample above."""
    t_s = np.arange(10.0)
    percent = np.maximum(0.0, 45.0 - 10.0 * t_s)
    assert empty_at_s(t_s, percent) == pytest.approx(4.5)
    assert empty_at_s(t_s, percent + 5) is None


def test_a_bucket_with_half_a_per_cent_is_not_yet_empty() -> None:
    """As seen in the lab: a tenth of a second is left, a tenth of what is forecast for a second ahead."""
    percent = np.array([10.347, 5.433, 0.515, 0.0, 0.0])
    assert empty_at_s(np.arange(5.0), percent) == pytest.approx(2.105, abs=0.005)


def test_a_seed_draws_the_same_values_and_the_splits_draw_others() -> None:
    """Values depend on condition, split, number and seed, and on nothing else."""
    for condition in load_conditions().values():
        first, again = (setup_of(condition, split="test", number=1, lab_seed=1) for _ in range(2))
        assert first == again
        assert first != setup_of(condition, split="test", number=2, lab_seed=1)
        assert first.seed != setup_of(condition, split="development", number=1, lab_seed=1).seed


def test_no_range_of_the_test_split_touches_one_of_development() -> None:
    """Rules are tuned on development alone: numbers of the test split must be new to them."""
    for condition in load_conditions().values():
        for name, ranges in condition.draw.items():
            if isinstance(ranges["test"], dict):
                continue  # a choice of tests and pools may share a value
            development, test = (_intervals(ranges[split]) for split in ("development", "test"))
            apart = all(high < low2 or high2 < low for low, high in development for low2, high2 in test)
            assert apart, f"{condition.name}: {name}"


def test_a_twin_is_the_same_run_without_its_cause() -> None:
    """It proves a difference only if nothing else differs: data, seed, threads and length are the run's."""
    conditions = load_conditions()
    twins = {}
    for name, condition in conditions.items():
        setup = setup_of(condition, split="test", number=1, lab_seed=1)
        twin = twin_of(setup, condition)
        if twin is not None:
            twins[name] = setup, twin
            assert (twin.truth, twin.actions) == ((NONE,), ())
            assert (twin.seed, twin.dataset, twin.measured_s) == (setup.seed, setup.dataset, setup.measured_s)
            assert twin.load.get("threads") == setup.load.get("threads")
            changed = [
                piece for piece in ("volume", "config", "load") if getattr(twin, piece) != getattr(setup, piece)
            ]
            assert changed or setup.actions, f"{name}: its twin has the cause as well"
    assert twins.keys() == conditions.keys() - {"clean", "mysqldump", "iops-cap+mysqldump"}
    setup, twin = twins["row-locks"]
    assert (setup.load["rand_type"], twin.load["rand_type"]) == ("special", "uniform")
    assert "options" not in twin.load


def test_the_page_shows_every_run_and_every_bar() -> None:
    """Failures and invalid cells are on it as well."""
    runs = [
        run("iops-cap", CAP, ("storage.iops_limit", 0.8), truths={"iops": 1000.0}),
        run("clean", ("none",), failure="the server did not start"),
        run("cpu-client", ("cpu.client_saturated",), invalid_reasons=("the client was CPU-bound",)),
    ]
    machine = {
        "at": "2026-01-01T00:00:00Z",
        "volbench_version": "0",
        "commit": "c",
        "machine": {"cpu_model": "x", "cpus": 2, "memory_bytes": 1 << 30, "kernel": "6.1"},
    }
    pair = {"step": "load", "measured_on": "ebs-gp2", "predicted_on": "ebs-io2", "tps": 9.0, "predicted_tps": 8.0}
    data = page.data_of(
        {"test": runs},
        load_conditions(),
        machine=machine,
        rates={"seed": 1, "rows": []},
        what_if={"date": "2026-01-01", "server": "mysql", "cpus": 2, "pairs": [pair]},
    )
    displayed = page.html(data)
    for text in ("iops-cap", "the server did not start", "the client was CPU-bound", "recall@3", "ebs-io2", FAILED):
        assert text in displayed


def _intervals(ranges: list[Any]) -> list[tuple[float, float]]:
    several = ranges if isinstance(ranges[0], list) else [ranges]
    return [(low, high) for low, high in several]  # pairs of numbers, as the file has them
