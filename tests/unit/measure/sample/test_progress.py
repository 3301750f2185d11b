"""Standstills of a server in use: from the number of its statements, ten times a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from volbench.measure.sample.interface import Reading, Unavailable
from volbench.measure.sample.server import progress as progress_module
from volbench.measure.sample.server.progress import ServerProgress, StatementProgress


def looked(
    statements: Callable[[int], int],
    looks: int = 60,
    *,
    running: int = 4,
    took_s: Callable[[int], float] = lambda _: 0,
) -> StatementProgress:
    """What `looks` looks, a tenth of a second apart, came to."""
    progress = StatementProgress(running=lambda: running)
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


class Server:
    """Stands for a connection to a server: answers `statements` in order, and COM_STATISTICS with `statistics`."""

    def __init__(self, statements: list[tuple[object, ...]], statistics: dict[str, object]) -> None:
        self.answers = statements
        self.statistics = statistics
        self.connections = 0

    @contextmanager
    def connection(self, *_: object, **__: object) -> Iterator[Any]:
        self.connections += 1
        self._left = iter(self.answers)
        yield self

    @contextmanager
    def cursor(self, **_: object) -> Iterator[Any]:
        yield self

    def execute(self, _: str) -> None:
        """The next answer is that of this statement."""

    def fetchone(self) -> tuple[object, ...]:
        return next(self._left)

    def cmd_statistics(self) -> dict[str, object]:
        return self.statistics


@pytest.fixture
def requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Server, ServerProgress]]:
    def sampler_of(*answers: object, statistics: dict[str, object] | None = None) -> tuple[Server, ServerProgress]:
        server = Server([(answer,) for answer in answers], statistics or {})
        monkeypatch.setattr(progress_module, "connection", server.connection)
        option_file = tmp_path / "client.cnf"
        option_file.write_text("[client]\nuser=watch\nsocket=/run/s\n")
        return server, ServerProgress(option_file, "", lambda: 0)

    return sampler_of


def test_a_server_with_a_histogram_is_asked_once(requested: Callable[..., tuple[Server, ServerProgress]]) -> None:
    """An absent source of a server is probed at each tick: that must not be a connection a second."""
    server, sampler = requested(1)
    assert [sampler.probe().present for _ in range(5)] == [False] * 5
    assert server.connections == 1


@pytest.mark.parametrize(
    ("answers", "statistics"),
    [(("many",), {}), ((0, 0), {}), ((0, 0), {"Questions": "x"}), ((0, 0), {"Questions": None})],
)
def test_an_answer_that_is_no_number_ends_the_looks_without_a_traceback(
    requested: Callable[..., tuple[Server, ServerProgress]],
    answers: tuple[object, ...],
    statistics: dict[str, object],
    capfd: pytest.CaptureFixture[str],
) -> None:
    _, sampler = requested(*answers, statistics=statistics)
    if answers == ("many",):
        with pytest.raises(Unavailable):
            sampler.probe()
    else:
        assert sampler.probe().present
    looks = sampler._looks
    assert looks is not None
    looks._thread.join(10)
    assert not looks.is_running
    assert capfd.readouterr().err == ""
