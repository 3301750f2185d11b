"""Standstills of a server in use: from the number of its statements, ten times a second."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from volbench.measure.sample.interface import Reading
from volbench.measure.sample.server.progress import Progress, ServerProgress


def looked(
    statements: Callable[[int], int],
    looks: int = 60,
    *,
    running: int = 4,
    took_s: Callable[[int], float] = lambda _: 0,
) -> Progress:
    """What `looks` looks, a tenth of a second apart, came to."""
    progress = Progress(running=lambda: running)
    now_s = 0.0
    for look in range(looks):
        now_s += 0.1
        progress.see(statements(look), now_s, now_s + took_s(look))
        now_s += took_s(look)
    return progress


def test_a_load_that_stops_while_statements_run_stands() -> None:
    """The last statement was begun after look 40, the next one before look 48: for 0.7 to 0.9 s none was."""
    progress = looked(lambda look: 50 * min(look, 40) + 50 * max(0, look - 47))
    assert progress.standstill_s == pytest.approx(0.6, abs=0.01), "at least so long, to a look at each end"
    assert progress.begun == 50 * (59 - 7)


@pytest.mark.parametrize(
    ("statements", "running"),
    [
        (lambda look: 50 * min(look, 40), 0),
        (lambda look: look // 3, 4),
        (lambda look: 50 * min(look, 20), 4),
    ],
    ids=["idle", "seldom", "too short a load to know"],
)
def test_a_pause_of_the_load_is_no_stand(statements: Callable[[int], int], running: int) -> None:
    assert looked(statements, running=running).standstill_s == 0.0


def test_one_long_statement_after_a_pause_is_no_stand() -> None:
    """The load ends at look 40; a single statement begins at look 80 and runs until the end."""
    assert looked(lambda look: 50 * min(look, 40) + (look >= 80), looks=120, running=0).standstill_s == 0.0
    progress = looked(lambda look: 50 * min(look, 40) + (look >= 44), looks=120, running=1)
    assert progress.standstill_s <= 7.6, "of a load that was there a moment ago it cannot be told"


def test_a_server_that_is_stopped_answers_as_late_as_it_was_stopped() -> None:
    late = looked(lambda look: 50 * look, took_s=lambda look: 0.9 if look == 45 else 0.0)
    assert late.standstill_s == pytest.approx(0.9)
    only_the_answer = looked(
        lambda look: 50 * look + (450 if look >= 45 else 0), took_s=lambda look: 0.9 if look == 45 else 0.0
    )
    assert only_the_answer.standstill_s == 0.0, "the statements went on meanwhile"


def test_an_own_statement_that_is_not_counted_yet_is_no_progress() -> None:
    """It is booked before it is sent: the number goes back by one, and returns."""
    progress = looked(lambda look: 50 * min(look, 40) - (look == 44))
    assert progress.standstill_s == pytest.approx(1.8, abs=0.01)


def test_rates_give_the_longest_standstill_and_the_rate() -> None:
    before = Reading(t_s=1.0, values={("begun", ""): 100, ("standstill_s", ""): 0.0})
    after = Reading(t_s=3.0, values={("begun", ""): 500, ("standstill_s", ""): 0.7})
    rows = {row.metric: row.value for row in ServerProgress.rates(before, after)}
    assert rows == {"standstill_ms_max": 700.0, "statements_begun_per_s": 200.0}
