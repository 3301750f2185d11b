"""Budget and response of the same difference: they agree, or a sentence says that they do not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated_response import Load, cell

from volbench.core.records.report import TimeDifferenceRow
from volbench.results.report.rows.response_check import disagreement_sentences
from volbench.results.response.estimate import UNMOVED, estimate
from volbench.results.response.model import Interval


def explained(*, has_response: bool = True) -> Any:
    """Return a run of two volumes on which 20 reads of 2 and of 0.5 ms are waited for: 30 ms apart."""
    cells = [
        cell(
            Load(waits={"read": 20.0}, volume=volume),
            {"read": np.full(80, read_ms * np.random.default_rng(number).normal(1, 0.05))},
            rng=np.random.default_rng(10 * number),
            name=f"{number}-{volume}",
        )
        for number in range(5)
        for volume, read_ms in (("fast", 0.5), ("slow", 2.0))
    ]
    views: dict[tuple[str, str], dict[str, Any]] = {}
    for samples in cells:
        view = SimpleNamespace(waits=samples, valid=True)
        views.setdefault((samples.volume, "load"), {})[samples.cell] = view
    return SimpleNamespace(views=views, responses={"load": estimate(cells) if has_response else UNMOVED})


def difference(ms: float, ci: tuple[float, float] | None, *, baseline: str = "fast", candidate: str = "slow"):
    return TimeDifferenceRow(
        step="load",
        threads=4,
        baseline=baseline,
        candidate=candidate,
        piece="data_reads",
        title="reads of data files",
        baseline_ms=10.0,
        candidate_ms=10.0 + ms,
        difference_ms=ms,
        ci=ci,
    )


@pytest.mark.parametrize(
    ("ms", "ci", "meaning"),
    [(15.0, (12.0, 18.0), "something else moved"), (60.0, (55.0, 65.0), "held up no transaction")],
)
def test_two_accounts_that_disagree_beyond_both_intervals_are_a_sentence(
    ms: float, ci: tuple[float, float], meaning: str
) -> None:
    (text,) = disagreement_sentences(explained(), [difference(ms, ci)])
    assert text.startswith("Two accounts of reads of data files disagree (load, 4 threads)")
    assert f"{ms:.1f} ms [{ci[0]:.1f}, {ci[1]:.1f}] more on slow than on fast" in text
    assert meaning in text


@pytest.mark.parametrize(
    ("value", "low", "high", "is_said"),
    [(-15.5, -31.7, 2.59, False), (4.0, -9.0, 17.0, False), (0.1, -0.8, 1.0, True), (5.0, 0.5, 9.5, True)],
)
def test_a_cost_that_is_not_told_apart_from_none_is_no_account(
    value: float, low: float, high: float, is_said: bool
) -> None:
    """Eight volumes were said to differ from what reads cost: -15.5 ms [-31.7, 2.59] for a millisecond of each."""
    run = explained()
    run.responses["load"] = replace(
        run.responses["load"],
        slopes=tuple(replace(slope, value=value, low=low, high=high) for slope in run.responses["load"].slopes),
    )
    assert bool(disagreement_sentences(run, [difference(30.0, (27.0, 33.0))])) == is_said


def test_what_is_saved_before_cpus_is_no_disagreement() -> None:
    """The server's time of reads does not know that a session which reads waits for no CPU."""
    run = explained()
    first, *others = run.responses["load"].slopes
    low = replace(first, value=15.0, low=14.0, high=16.0)
    both = replace(low, less_cpu_wait=Interval(value=20.0, low=19.0, high=21.0))
    for slope, sentences in ((low, 1), (both, 0)):
        run.responses["load"] = replace(run.responses["load"], slopes=(slope, *others))
        assert len(disagreement_sentences(run, [difference(30.0, (27.0, 33.0))])) == sentences


def test_a_difference_the_other_way_round_is_less() -> None:
    row = difference(-15.0, (-18.0, -12.0), baseline="slow", candidate="fast")
    (text,) = disagreement_sentences(explained(), [row])
    assert "15.0 ms [12.0, 18.0] less on fast than on slow" in text


@pytest.mark.parametrize(("ms", "ci"), [(30.0, (27.0, 33.0)), (36.0, (29.0, 43.0)), (15.0, None)])
def test_two_accounts_that_agree_or_have_no_interval_are_none(ms: float, ci: tuple[float, float] | None) -> None:
    assert disagreement_sentences(explained(), [difference(ms, ci)]) == ()


def test_without_a_response_there_is_one_account_only() -> None:
    assert disagreement_sentences(explained(has_response=False), [difference(15.0, (12.0, 18.0))]) == ()
