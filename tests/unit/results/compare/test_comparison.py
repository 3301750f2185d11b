"""Comparisons of volumes from rows, and what they say together."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volbench.core.records.report import ComparisonRow
from volbench.errors import IncomparableRuns, RunUnreadable
from volbench.results.compare.comparison import compare
from volbench.results.compare.comparison_summary import overall, summarise
from volbench.results.compare.row import Row
from volbench.results.stats.means import mean_shift

STEADY = [99.0, 100.0, 100.5, 101.0, 102.0]
WIDE = [94.0, 98.0, 100.0, 103.0, 106.0]
"""Of a volume 9 to 10 % faster, p lies between 1.7 and 2.9 %."""
NOISY = [70.0, 90.0, 100.0, 120.0, 140.0]


def rows(volume, values, metric="tps", better="higher", **more):
    """One row for each value, each of a cell of its own."""
    row = Row(
        step="oltp",
        parameters={"threads": 8},
        metric=metric,
        unit="1/s",
        better=better,
        volume=volume,
        cell="",
        value=None,
    )
    return [replace(row, cell=f"{volume}-{i}", value=v, **more) for i, v in enumerate(values)]


def scaled(values, factor):
    return [value * factor for value in values]


def p_of(baseline, candidate):
    """Of cells that share no block."""
    return mean_shift(baseline, candidate, [], alpha=0.05).p_value


def test_a_faster_volume_is_better_on_throughput_and_on_latency():
    """Direction counts: more transactions and shorter latencies are both better."""
    data = rows("gp2", STEADY) + rows("gp3", scaled(STEADY, 1.3))
    data += rows("gp2", STEADY, "latency_ms_p95", "lower") + rows(
        "gp3", scaled(STEADY, 0.7), "latency_ms_p95", "lower"
    )
    throughput, latency = compare(data, ["gp2", "gp3"])
    assert (throughput.metric, throughput.verdict) == ("tps", "better")
    assert throughput.ratio == pytest.approx(1.3)
    assert throughput.p_value == pytest.approx(p_of(STEADY, scaled(STEADY, 1.3)))
    assert throughput.p_adjusted == pytest.approx(p_of(STEADY, scaled(STEADY, 1.3)) / 0.6)
    assert (throughput.runs, throughput.runs_needed) == ((5, 5), None)
    assert (throughput.baseline_value, throughput.candidate_value) == (100.5, pytest.approx(130.65))
    assert (latency.metric, latency.verdict) == ("latency_ms_p95", "better")


def test_a_comparison_has_the_keys_of_the_report():
    """Every key of the report's comparison is given, with a value that the report accepts."""
    (comparison,) = compare(rows("a", STEADY) + rows("b", NOISY), ["a", "b"])
    row = ComparisonRow(**asdict(comparison))
    assert set(asdict(comparison)) == set(ComparisonRow.model_fields)
    assert (row.ci, row.verdict, row.runs) == (comparison.ci, comparison.verdict, comparison.runs)


def test_three_primary_metrics_still_decide_at_five_against_five():
    """The fallback procedure: p over the first one's 60 % of alpha."""
    data = [
        row
        for metric in ("tps", "latency_ms_p95", "latency_ms_p99")
        for row in rows("a", STEADY, metric) + rows("b", scaled(STEADY, 1.2), metric)
    ]
    comparison = compare(data, ["a", "b"])
    assert [c.verdict for c in comparison] == ["better"] * 3
    assert max(c.p_adjusted or 0.0 for c in comparison) == pytest.approx(p_of(STEADY, scaled(STEADY, 1.2)) / 0.6)


def test_side_metrics_do_not_weigh_on_primary_ones():
    """Twenty more metrics are a family of their own."""
    data = rows("a", STEADY) + rows("b", scaled(STEADY, 1.2))
    for number in range(20):
        data += rows("a", WIDE, f"side_{number}", primary=False)
        data += rows("b", scaled(WIDE, 1.1), f"side_{number}", primary=False)
    first, *remaining = compare(data, ["a", "b"])
    assert (first.verdict, first.p_adjusted) == ("better", first.p_value)
    assert {c.verdict for c in remaining} == {"inconclusive"}
    assert [c.p_adjusted for c in remaining] == pytest.approx([20 * p_of(WIDE, scaled(WIDE, 1.1))] * 20)
    assert summarise([first, *remaining])[0].verdict == "candidate_better"


def test_a_third_volume_takes_no_verdict_away():
    """Each candidate is compared with the first volume in a family of its own."""
    two = rows("a", STEADY) + rows("b", scaled(STEADY, 1.2))
    three = two + rows("c", NOISY)
    with_c = compare(three, ["a", "b", "c"])
    assert [(c.baseline, c.candidate) for c in with_c] == [("a", "b"), ("a", "c")]
    assert with_c[0] == compare(two, ["a", "b"])[0]


def test_three_against_three_decides_three_metrics_in_order():
    """The first has 60 % of alpha, and hands it on; where it is open, the others have what is theirs."""
    item = rows("a", STEADY[:3]) + rows("b", scaled(STEADY[:3], 1.5))
    assert compare(item, ["a", "b"])[0].verdict == "better"
    three = [replace(r, metric=name, rank=rank) for rank, name in enumerate("xyz") for r in item]
    comparison = compare(three, ["a", "b"])
    assert {c.verdict for c in comparison} == {"better"}
    p_value = p_of(STEADY[:3], scaled(STEADY[:3], 1.5))
    assert [c.p_adjusted for c in comparison] == pytest.approx([p_value / 0.6] * 3)
    open_first = [replace(r, value=90.0) if r.metric == "x" and r.cell == "b-2" else r for r in three]
    comparison = compare(open_first, ["a", "b"])
    assert [c.verdict for c in comparison] == ["inconclusive", "better", "better"]
    assert [c.p_adjusted for c in comparison[1:]] == pytest.approx([p_value / 0.2] * 2)


def test_the_rank_orders_the_tests_of_a_family():
    """Metrics are shown as they appear, and tested as they rank."""
    decided = rows("a", WIDE[:4], "x", rank=1) + rows("b", scaled(WIDE[:4], 1.09), "x", rank=1)
    open_metric = rows("a", NOISY[:4], "y") + rows("b", NOISY[:4], "y")
    assert [c.verdict for c in compare(decided + open_metric, ["a", "b"])] == ["inconclusive", "inconclusive"]
    first = [replace(r, rank=1 - r.rank) for r in decided + open_metric]
    assert [c.verdict for c in compare(first, ["a", "b"])] == ["better", "inconclusive"]


def test_many_steps_name_no_winner_by_one_of_them():
    """One of ten steps differs as one of ten does by chance in every sixth run."""
    data = [
        replace(r, parameters={"step": step})
        for step in range(10)
        for r in rows("a", WIDE) + rows("b", scaled(WIDE, 1.1 if step == 3 else 1.0))
    ]
    comparison = compare(data, ["a", "b"])
    assert [c.verdict for c in comparison].count("better") == 1
    (pair,) = summarise(comparison)
    assert (pair.verdict, pair.winner) == ("inconclusive", None)
    assert [c.parameters["step"] for c in pair.alone] == [3]
    assert pair.p_value == pytest.approx(10 * p_of(WIDE, scaled(WIDE, 1.1)))


def test_many_steps_that_agree_name_the_winner():
    """Ten steps with a p that one of them alone could not pass."""
    data = [
        replace(r, parameters={"step": step})
        for step in range(10)
        for r in rows("a", WIDE) + rows("b", scaled(WIDE, 1.1))
    ]
    (pair,) = summarise(compare(data, ["a", "b"]))
    assert (pair.verdict, pair.alone) == ("candidate_better", ())
    assert pair.p_value == pytest.approx(p_of(WIDE, scaled(WIDE, 1.1)))


def test_a_look_has_the_level_of_its_number_of_cells():
    """4 against 4: 0.55 %; metrics after the first need no correction, and Welch's test decides without blocks."""
    four = rows("a", STEADY[:4]) + rows("b", scaled(STEADY[:4], 1.5))
    data = four + [replace(r, metric="p95", better="lower", rank=1) for r in four]
    comparison = compare(data, ["a", "b"], sequential=True)
    assert [(c.verdict, c.confidence) for c in comparison] == [("better", 0.9945), ("worse", 0.9945)]
    assert all(c.p_adjusted == c.p_value for c in comparison)
    five = rows("a", STEADY) + rows("b", [*scaled(STEADY[1:], 1.5), 100.7])
    assert compare(five, ["a", "b"])[0].verdict == "better"
    assert compare(five, ["a", "b"], sequential=True)[0].verdict == "inconclusive"


def test_a_look_compares_the_two_cells_of_a_block():
    """What both share is no noise; without blocks, or with cells that do not meet in one, nothing is decided."""
    machine = [1.0, 0.6, 1.3, 0.8]
    values = {
        "a": [v * m for v, m in zip(STEADY[:4], machine, strict=True)],
        "b": [1.2 * v * m for v, m in zip(STEADY[3::-1], machine, strict=True)],
    }
    placed = [replace(r, block=b) for name, side in values.items() for b, r in enumerate(rows(name, side))]
    (paired,) = compare(placed, ["a", "b"], sequential=True)
    assert paired.verdict == "better"
    (apart,) = compare([replace(r, block=None) for r in placed], ["a", "b"], sequential=True)
    (never_met,) = compare(
        [replace(r, block=(r.block or 0) + 10 * (r.volume == "b")) for r in placed], ["a", "b"], sequential=True
    )
    assert apart.verdict == never_met.verdict == "inconclusive"
    assert apart.p_value == never_met.p_value


@pytest.mark.parametrize("runs", [1, 2])
def test_below_three_against_three_nothing_is_decided(runs):
    """However large the difference or small the spread."""
    for factor in (1.0, 9.0):
        (c,) = compare(rows("a", STEADY) + rows("b", scaled(STEADY[:runs], factor)), ["a", "b"])
        assert (c.verdict, c.p_adjusted) == ("inconclusive", None)
        assert c.runs_needed is not None
        assert c.runs_needed >= 3
        assert f"5 against {runs}" in c.reason


def test_equal_volumes_are_equivalent_when_the_interval_is_narrow():
    """Being alike is a result of its own, not a lack of one."""
    (c,) = compare(rows("a", STEADY) + rows("b", scaled(STEADY, 1.001)), ["a", "b"])
    assert c.verdict == "equivalent"
    assert summarise([c])[0].verdict == "equivalent"


def test_noise_is_inconclusive_and_says_how_many_runs_would_decide():
    """With 30 % of spread five runs say little."""
    (c,) = compare(rows("a", NOISY) + rows("b", scaled(NOISY, 1.25)), ["a", "b"])
    assert c.verdict == "inconclusive"
    assert c.runs_needed is not None
    assert 5 < c.runs_needed <= 100


def test_invalid_and_missing_values_are_left_out_and_counted():
    """An invalid cell never moves a number, and a missing value is not zero."""
    clean = rows("a", STEADY) + rows("b", scaled(STEADY, 1.2))
    spoiled = [
        *clean,
        replace(clean[0], cell="a-invalid", value=1e9, valid=False),
        replace(clean[5], cell="b-none", value=None),
        replace(clean[5], cell="b-nan", value=float("nan")),
    ]
    (without,), (with_spoiled,) = compare(clean, ["a", "b"]), compare(spoiled, ["a", "b"])
    assert with_spoiled.excluded_runs == (1, 2)
    assert replace(with_spoiled, excluded_runs=(0, 0)) == without


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_zero_or_negative_values_have_no_ratio(value):
    """Counts of errors, often zero, are shown with medians and a reason instead."""
    data = rows("a", STEADY, "errors_per_s", "lower") + rows("b", [value] * 5, "errors_per_s", "lower")
    (c,) = compare(data, ["a", "b"])
    assert (c.ratio, c.ci, c.p_value, c.runs_needed, c.verdict) == (None, None, None, None, "inconclusive")
    assert "zero or negative" in c.reason
    assert c.candidate_value == value


def test_a_volume_without_valid_runs_is_shown_with_the_reason():
    """A comparison that could not be made does not vanish."""
    (c,) = compare(rows("a", STEADY) + rows("b", STEADY, valid=False), ["a", "b"])
    assert (c.verdict, c.runs, c.excluded_runs) == ("inconclusive", (5, 0), (0, 5))
    assert (c.baseline_value, c.candidate_value, c.standings) == (100.5, 100.5, ("valid", "invalid"))
    assert "no valid value of b" in c.reason
    (c,) = compare(rows("a", STEADY, valid=False) + rows("b", STEADY, valid=False), ["a", "b"])
    assert c.reason == "no valid value of a and b"


def test_cells_that_are_worse_than_was_measured_are_not_left_to_their_siblings():
    """The better half of a volume's cells is not the volume."""
    slow = [*rows("b", STEADY[:2]), *rows("b", [None] * 3, is_beyond=True)]
    slow = [replace(row, cell=f"b-{number}") for number, row in enumerate(slow)]
    (c,) = compare(rows("a", STEADY) + slow, ["a", "b"])
    assert (c.verdict, c.ratio, c.excluded_runs) == ("inconclusive", None, (0, 3))
    assert "3 cells of b have no value: worse than was measured" in c.reason


def test_a_metric_without_direction_is_neither_better_nor_worse():
    """Twice the IOPS is good or bad only together with the cause; no number of runs would change that."""
    (c,) = compare(rows("a", STEADY, better="none") + rows("b", scaled(STEADY, 2), better="none"), ["a", "b"])
    assert (c.verdict, c.runs_needed) == ("inconclusive", None)
    assert "+100.0%" in c.reason


def test_units_that_differ_are_refused():
    """Milliseconds are not compared with seconds."""
    with pytest.raises(IncomparableRuns, match="ms"):
        compare(rows("a", STEADY, unit="ms") + rows("b", STEADY, unit="s"), ["a", "b"])


def test_a_cell_counts_once():
    """The same cell given twice would double the runs without any new knowledge."""
    with pytest.raises(RunUnreadable, match="twice"):
        compare(rows("a", STEADY) + rows("a", STEADY[:1]), ["a", "b"])


def test_steps_and_parameters_are_compared_each_by_itself():
    """Sixteen threads are never mixed with eight."""
    data = rows("a", STEADY) + rows("b", scaled(STEADY, 1.2))
    data += [replace(r, parameters={"threads": 16}) for r in rows("a", STEADY) + rows("b", scaled(STEADY, 0.8))]
    comparison = compare(data, ["a", "b"])
    assert [(c.parameters["threads"], c.verdict) for c in comparison] == [(8, "better"), (16, "worse")]
    (pair,) = summarise(comparison)
    assert (pair.verdict, pair.winner, pair.families) == ("mixed", None, 2)
    assert pair.p_value == pytest.approx(2 * min(p_of(STEADY, scaled(STEADY, factor)) for factor in (1.2, 0.8)))


def test_summary_names_the_winner():
    """A worse candidate means that the baseline wins."""
    (pair,) = summarise(compare(rows("a", STEADY) + rows("b", scaled(STEADY, 0.8)), ["a", "b"]))
    assert (pair.verdict, pair.winner) == ("candidate_worse", "a")
    assert [c.metric for c in pair.worse] == ["tps"]


def test_overall_verdict_of_several_pairs():
    """One verdict when all agree, mixed when not, and nothing to say of a single volume."""
    agree = rows("a", STEADY) + rows("b", scaled(STEADY, 1.2)) + rows("c", scaled(STEADY, 1.4))
    assert overall(summarise(compare(agree, ["a", "b", "c"]))) == "candidate_better"
    differ = [r for r in agree if r.volume != "c"] + rows("c", scaled(STEADY, 0.6))
    assert overall(summarise(compare(differ, ["a", "b", "c"]))) == "mixed"
    assert overall(summarise(compare(rows("a", STEADY), ["a"]))) == "single_volume"


VALUES = st.lists(st.floats(50, 200), min_size=4, max_size=6)


@given(VALUES, VALUES, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_of_rows_is_irrelevant(baseline, candidate, random):
    """Cells finish in any order."""
    data = rows("a", baseline) + rows("b", candidate)
    expected = compare(data, ["a", "b"])
    random.shuffle(data)
    assert compare(data, ["a", "b"]) == expected
