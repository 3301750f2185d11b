"""Which ticks count as missed, and when ticks are due."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from volbench.core.records.cell import SourceQuality
from volbench.measure.sample.grid import TickGrid
from volbench.measure.sample.interface import Presence, Reading
from volbench.measure.sample.quality import source_quality
from volbench.measure.sample.raw import RawWriter


class Sampling:
    """Writes a raw file of two sources: cpu, of this machine, and innodb, which answers from elsewhere."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.raw = RawWriter(path)
        self.raw.header(interval_s=1.0, zero_monotonic_ns=0)
        self.raw.presence("cpu", Presence(present=True), remote=False, next_tick=1)
        self.raw.presence("innodb", Presence(present=True), remote=True, next_tick=1)

    def tick(self, source: str, tick: int, *, took_s: float = 0.001, failed: str = "") -> None:
        read = {} if failed else {source: Reading(t_s=tick + took_s, values={("n", ""): tick})}
        self.raw.tick(tick, late_s=0.0, took_s=took_s, read=read, failed={source: failed} if failed else {})

    def quality(self, end_s: float | None = None, **options: object) -> dict[str, SourceQuality]:
        if end_s is not None:
            self.raw.end(end_s)
        self.raw.close()
        return {quality.source: quality for quality in source_quality(self.path, **options)}  # type: ignore[arg-type]


def test_every_tick_taken_is_none_missed(tmp_path: Path) -> None:
    sampling = Sampling(tmp_path / "raw")
    for tick in range(1, 11):
        sampling.tick("cpu", tick)
    cpu = sampling.quality(10.4)["cpu"]
    assert (cpu.available, cpu.ticks_due, cpu.ticks_missed) == (True, 10, 0)


def test_a_tick_that_was_not_taken_is_missed(tmp_path: Path) -> None:
    sampling = Sampling(tmp_path / "raw")
    for tick in (1, 2, 5):
        sampling.tick("cpu", tick)
    cpu = sampling.quality(5.2)["cpu"]
    assert (cpu.ticks_due, cpu.ticks_missed) == (5, 2)


def test_a_server_that_is_down_misses_nothing_but_is_told(tmp_path: Path) -> None:
    sampling = Sampling(tmp_path / "raw")
    for tick in range(1, 5):
        sampling.tick("innodb", tick, failed="no connection" if tick in (2, 3) else "")
    innodb = sampling.quality(4.5)["innodb"]
    assert (innodb.ticks_due, innodb.ticks_missed) == (2, 0)
    assert innodb.reason == "no reading at 2 ticks: no connection"


def test_a_server_that_hangs_misses_nothing_but_is_told(tmp_path: Path) -> None:
    sampling = Sampling(tmp_path / "raw")
    sampling.tick("innodb", 1, took_s=3.2)
    sampling.tick("innodb", 5)
    innodb = sampling.quality(5.5)["innodb"]
    assert (innodb.ticks_due, innodb.ticks_missed) == (2, 0)
    assert "took 3.2 s" in innodb.reason


def test_the_machines_own_sources_have_no_such_excuse(tmp_path: Path) -> None:
    sampling = Sampling(tmp_path / "raw")
    sampling.tick("cpu", 1, took_s=3.2)
    sampling.tick("cpu", 5)
    assert sampling.quality(5.5)["cpu"].ticks_missed == 3


def test_a_process_that_died_missed_the_rest(tmp_path: Path) -> None:
    sampling = Sampling(tmp_path / "raw")
    sampling.tick("cpu", 1)
    cpu = sampling.quality(until_s=10.0)["cpu"]
    assert (cpu.ticks_due, cpu.ticks_missed) == (10, 9)


def test_only_a_window_is_looked_at(tmp_path: Path) -> None:
    sampling = Sampling(tmp_path / "raw")
    for tick in (1, 2, 3, 6, 7, 8):
        sampling.tick("cpu", tick)
    cpu = sampling.quality(8.5, window_s=(4.0, 7.0))["cpu"]
    assert (cpu.ticks_due, cpu.ticks_missed) == (3, 1)


def test_a_source_that_never_answered_is_absent_with_its_reason(tmp_path: Path) -> None:
    sampling = Sampling(tmp_path / "raw")
    sampling.tick("innodb", 1, failed="no connection")
    sampling.tick("cpu", 1)
    innodb = sampling.quality(1.5)["innodb"]
    assert (innodb.available, innodb.reason, innodb.ticks_due) == (False, "no connection", 0)


@given(
    st.integers(0, 10**15), st.sampled_from([100_000_000, 1_000_000_000, 60_000_000_000]), st.integers(0, 10**13)
)
def test_the_next_tick_is_due_within_one_interval(zero_ns: int, interval_ns: int, since_ns: int) -> None:
    grid = TickGrid(zero_monotonic_ns=zero_ns, interval_ns=interval_ns)
    now_ns = zero_ns + since_ns
    assert 0 < grid.due_ns(grid.next_tick(now_ns)) - now_ns <= interval_ns


def test_ticks_do_not_drift() -> None:
    """Whatever reading takes, tick n is due n intervals after the zero."""
    grid = TickGrid(zero_monotonic_ns=5, interval_ns=100)
    tick = grid.next_tick(5)
    for took_ns in (30, 99, 1, 250, 0):
        due_ns = grid.due_ns(tick)
        assert (due_ns - 5) % 100 == 0
        tick = grid.next_tick(due_ns + took_ns)
    assert tick == 8
