"""How many servers a limit carries: numbers that can be computed by hand, and a simulated limit as the judge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.results.report.rows.fitting import (
    MeasuredFit,
    ServerObjective,
    Use,
    checked,
    measured_fit,
    predicted_fit,
    predicted_share,
)

USES = st.floats(min_value=0.02, max_value=1.5)


def alike(share: float) -> Use:
    return Use(first=share, each_further=share)


def objective(keeps: float = 1.0, p95_ms: float | None = None, *, closed: bool = False) -> ServerObjective:
    return ServerObjective(keeps=keeps, p95_ms=p95_ms, closed=closed)


@pytest.mark.parametrize(
    ("use", "keeps", "expected"),
    [(0.25, 1.0, 4), (0.3, 1.0, 3), (0.3, 0.75, 4), (1.0, 0.9, 1), (1.0, 0.5, 2), (0.1, 1.0, 10), (1.2, 0.9, 0)],
)
def test_as_many_fit_as_the_limit_has_room_for(use: float, keeps: float, expected: int) -> None:
    assert predicted_fit(alike(use), objective(keeps), 5.0) == expected


def test_an_open_loop_with_a_p95_must_stay_within_the_limit() -> None:
    """By its rate alone five would keep 0.9 of 0.22 each; but the queue of the fifth grows for ever."""
    assert predicted_fit(alike(0.22), objective(0.9), 5.0) == 5
    assert predicted_fit(alike(0.22), objective(0.9, 20.0), 5.0) == 4


def test_a_closed_loop_has_as_many_times_its_latency_as_it_lost_of_its_rate() -> None:
    """One uses half of the limit: with six, each has a third of its rate, and 3 x 5 ms."""
    assert predicted_fit(alike(0.5), objective(0.01, 15.0, closed=True), 5.0) == 6
    assert predicted_fit(alike(0.5), objective(0.01, 14.9, closed=True), 5.0) == 5


def test_one_that_misses_its_objective_alone_does_not_fit() -> None:
    assert predicted_fit(alike(0.1), objective(0.9, 4.0), 5.0) == 0


def test_an_objective_for_an_unknown_p95_predicts_nothing() -> None:
    assert predicted_fit(alike(0.1), objective(0.9, 4.0), None) is None


def test_a_noisy_neighbour_takes_what_it_takes_alone() -> None:
    use = Use(first=0.1, each_further=0.45)
    assert predicted_fit(use, objective(), 5.0) == 3
    assert predicted_share(use, 3) == 1.0
    assert predicted_share(use, 4) == pytest.approx(1 / 1.45)


def simulated_share(use: float, instances: int, seconds: int = 400) -> float:
    """What each gets of a limit that serves all in turn, second by second, with a queue that is kept."""
    waiting, served = 0.0, 0.0
    for _ in range(seconds):
        waiting += instances * use
        done = min(1.0, waiting)
        waiting -= done
        served += done
    return served / seconds / (instances * use)


@given(USES, st.integers(2, 16))
def test_the_share_is_that_of_a_limit_that_is_served_second_by_second(use: float, instances: int) -> None:
    assert predicted_share(alike(use), instances) == pytest.approx(simulated_share(use, instances), abs=0.01)


@given(USES, st.floats(min_value=0.3, max_value=1.0))
def test_the_predicted_number_fits_and_the_next_one_does_not(use: float, keeps: float) -> None:
    fit = predicted_fit(alike(use), objective(keeps), 5.0)
    assert fit is not None
    assert fit == 0 or predicted_share(alike(use), fit) >= keeps - 1e-6
    assert predicted_share(alike(use), fit + 1) <= keeps + 1e-6


@pytest.mark.parametrize(
    ("alone_fits", "fits", "expected"),
    [
        (False, [True, True], (0, 1)),
        (True, [True, True], (4, None)),
        (True, [True, False], (2, 4)),
        (True, [False, True], (1, 2)),  # one beyond a number that breaks is chance
        (True, [True, None], (2, 4)),
    ],
)
def test_the_measured_number_is_the_last_before_one_that_breaks(
    alone_fits: bool, fits: list[bool | None], expected: tuple[int, int | None]
) -> None:
    levels = [MeasuredFit(instances=count, fits=fit) for count, fit in zip((2, 4), fits, strict=True)]
    assert measured_fit(alone_fits=alone_fits, levels=levels) == expected


@pytest.mark.parametrize(
    ("predicted", "fit", "breaks_at", "uses", "expected"),
    [
        (3, 3, 4, [(1.0, 0.98)], "agrees"),
        (3, 2, 4, [(1.0, 0.98)], "agrees"),  # three was not tried
        (7, 4, None, [(1.0, 0.98)], "agrees"),  # more was not tried
        (2, 4, None, [(1.0, 0.98)], "refuted"),  # more fit than the limit can carry
        (4, 3, 4, [(1.0, 0.98)], "fewer"),
        (3, 3, 4, [(1.0, 0.7)], "refuted"),  # the number agrees by chance: the use does not
        (None, 3, 4, [(1.0, 0.98)], "none"),
        (3, 3, 4, [], "none"),
    ],
)
def test_the_check_judges_numbers_and_uses(
    predicted: int | None, fit: int, breaks_at: int | None, uses: list[tuple[float, float]], expected: str
) -> None:
    assert checked(predicted, fit, breaks_at, uses) == expected
