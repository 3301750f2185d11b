"""Advice that computes: amounts for a target, with the what-if's interval, and refused where it decides nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from synthetic_cell import Load, Storage, columns

from volbench.core.profile.limits import Charge, VolumeLimit
from volbench.results.explain.accounts.demand import Demand
from volbench.results.explain.accounts.what_if import OtherVolume, outlooks_of
from volbench.results.explain.case import Case
from volbench.results.explain.rules import advice
from volbench.results.explain.rules.advice import (
    Needed,
    cpus_for_p95,
    lift,
    needed_for_p95,
    p95_text,
    pool_text,
    raise_limit_advice,
    redo_text,
)
from volbench.results.stats.grid import align

DEMAND = Demand(
    clients=8,
    tps=60.0,
    response_s=8 / 60,
    reads=28.0,
    writes=15.0,
    read_bytes=16384.0,
    write_bytes=24576.0,
    reads_waited=26.0,
    writes_waited=2.0,
    read_s=0.0034,
    write_s=0.016,
    cpu_s_min=0.004,
    cpu_s=0.006,
    cpu_s_max=0.008,
    cpu_known=True,
    cpus=2,
    locks_s=0.0,
    p95_s=0.23,
)
LOAD = dataclasses.replace(DEMAND, clients=64)


def capped(rate: float) -> OtherVolume:
    cap = VolumeLimit(name="iops", scope="volume", resource="iops", rate_per_s=rate, charge=Charge(unit="io"))
    return OtherVolume(name="", read_s=0.0008, write_s=0.0008, caps=(cap,))


def test_the_amount_that_is_named_reaches_the_target_and_less_does_not() -> None:
    needed = needed_for_p95(LOAD, capped, 2000.0, (100.0, 100_000.0))
    assert needed.likely is not None
    for rate, reaches in ((needed.likely, True), (0.97 * needed.likely, False)):
        (outlook,) = outlooks_of(LOAD, capped(rate))
        assert outlook.p95_ms is not None
        assert (outlook.p95_ms <= 2000.0) is reaches


def test_the_interval_is_that_of_the_what_if() -> None:
    needed = needed_for_p95(LOAD, capped, 2000.0, (100.0, 100_000.0))
    assert needed.least is not None
    assert needed.likely is not None
    assert needed.enough is not None
    assert needed.least < needed.likely < needed.enough
    (outlook,) = outlooks_of(LOAD, capped(needed.enough))
    assert outlook.p95_interval is not None
    assert outlook.p95_interval[1] <= 2000.0


def test_a_target_that_no_volume_reaches_has_no_amount() -> None:
    assert needed_for_p95(LOAD, capped, 0.001, (100.0, 100_000.0)).likely is None


@pytest.mark.parametrize(
    ("needed", "decides"),
    [
        (Needed(least=1000, likely=1500, enough=2500), True),
        (Needed(least=1000, likely=1500, enough=9000), False),
        (Needed(least=1000, likely=1500, enough=None), False),
    ],
)
def test_an_interval_that_is_too_wide_decides_nothing(needed: Needed, decides: bool) -> None:
    assert needed.decides is decides


def test_a_pool_has_a_least_size_and_what_decides_the_rest() -> None:
    text = pool_text(64 << 20, 0.40)
    assert "at least 106 MiB (now 64)" in text  # 64 * 0.99 / 0.60
    assert "--set engine.config.innodb_buffer_pool_size=128M" in text
    assert pool_text(64 << 20, 0.005) == ""


@pytest.mark.parametrize(("miss", "stated"), [(0.12, False), (0.33, False), (0.35, True)])
def test_a_bound_hardly_above_the_pool_is_not_stated(miss: float, stated: bool) -> None:
    """Of 90 MiB that are read evenly, a pool of 32 MiB misses few requests: "at least 36 MiB" says nothing."""
    text = pool_text(32 << 20, miss)
    assert ("at least" in text) is stated
    assert "this decides" in text


def test_redo_for_ten_minutes_at_the_usual_and_the_highest_rate() -> None:
    text = redo_text([1.0, 1.0, 4.0, float("nan")], 10, "innodb_log_file_size")
    assert "a log (innodb_log_file_size) of 1.17 GiB holds 10 minutes" in text
    assert "2.34 GiB at its highest rate" in text
    assert redo_text([0.0], 10, "innodb_log_file_size") == ""


def test_cpus_for_half_of_the_latency_of_a_loop_that_waits_for_cpus_alone() -> None:
    """Ten clients of 10 ms CPU on one CPU take 100 ms each; two CPUs are at least needed for half of that."""
    needed = cpus_for_p95(clients=10, latency_s=0.1, cpu_s=0.01, queued_s=0.09, target=0.5)
    assert needed.least == 2.0
    assert needed.enough is not None
    assert 2.0 <= needed.enough <= 3.0
    assert needed.decides


def test_no_number_of_cpus_shortens_what_is_no_wait_for_one() -> None:
    needed = cpus_for_p95(clients=10, latency_s=0.1, cpu_s=0.01, queued_s=0.02, target=0.5)
    assert needed.likely is None


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Case:
    """A step at a limit of operations, whose transactions have the demand of LOAD."""
    monkeypatch.setattr(advice, "demand_of", lambda _case: LOAD)
    grid = align(columns(Load(queue=24, threads=24), Storage(iops=2580.0), counters=True))
    quiet = align(columns(Load(queue=0.9, seconds=30), Storage(latency_ms=0.8)))
    return Case(name="load", grid=grid, cell_grid=quiet, threads=24, cpus=8, latency_ms={"latency_ms_p95": 444.0})


def test_a_bound_is_never_below_what_was_too_little() -> None:
    """2,000 IOPS were met with twice the p95 that is wanted: no fewer are enough, whatever an estimate says."""
    assert Needed(least=900, likely=3000, enough=5000).above(2000) == Needed(least=2000, likely=3000, enough=5000)
    assert Needed(least=2500, likely=3000, enough=5000).above(2000) == Needed(least=2500, likely=3000, enough=5000)
    assert Needed(least=500, likely=1900, enough=3000).above(2000) is None, (
        "the estimate contradicts the measurement"
    )
    nothing = Needed(least=None, likely=None, enough=None)
    assert nothing.above(2000) == nothing


def test_the_rate_for_a_p95_is_above_the_limit_that_was_met(limited: Case) -> None:
    needed = advice.rate_for_p95(limited, "iops", 1.0e9, 4000.0)
    assert needed is None, "the estimate calls less enough than the limit at which p95 was above the target"


def test_a_higher_limit_makes_no_load_slower(limited: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's error of 20 % is more than the gain here."""
    lifted = lift(limited, "iops")
    assert lifted is not None
    monkeypatch.setattr(advice, "demand_of", lambda _case: dataclasses.replace(LOAD, tps=0.85 * lifted.tps))
    near = lift(limited, "iops")
    assert near is not None
    assert near.tps_interval[0] == pytest.approx(0.85 * lifted.tps)
    assert near.tps_interval[0] <= near.tps


NEEDED = Needed(least=3000.0, likely=4000.0, enough=5000.0)


def test_the_p95_that_is_halved_is_that_of_the_tables(limited: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "rate_for_p95", lambda *_: NEEDED)
    assert p95_text(limited, "iops") == (
        " For half of this cell's p95 (222 in place of 444 ms) the volume must give about 4,000 IOPS (at least"
        " 3,000 IOPS, surely enough 5,000 IOPS; estimated)."
    )
    assert "about 4,000 IOPS (more than 3,000 IOPS, surely" in p95_text(limited, "iops", level=3000.0)
    part = p95_text(limited, "iops", within="without credits")
    assert "For half of the median interval's p95 without credits (" in part
    assert "444" not in part


def test_a_read_may_take_at_most_so_long(limited: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Amounts are reads a second of one stream: the least of them is the longest read."""
    monkeypatch.setattr(advice, "latency_for_p95", lambda *_: Needed(least=400.0, likely=500.0, enough=1000.0))
    assert "a read must take about 2 ms (at most 2.5 ms, surely enough 1 ms; estimated)" in p95_text(limited, None)


def test_advice_for_a_limit_gives_the_order_before_the_estimate(limited: Case) -> None:
    text = raise_limit_advice(dataclasses.replace(limited, profile="ebs-gp2"), "iops", 2580.0)
    assert text.startswith("Enlarge the volume (gp2 has none to provision")
    assert "rovision " not in text.partition("):")[2]
    assert "IOPS would lift this to" in text
    assert np.isfinite(limited.tps or np.nan)
