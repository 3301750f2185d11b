"""The verdicts' error rates hold on simulated cells; tests/benchmarks/verdict_rates.py prints the full tables."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def load(name):
    """Yield a benchmark's module."""
    spec = importlib.util.spec_from_file_location(name, _BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def simulation():
    yield from load("verdict_rates")


@pytest.fixture(scope="module")
def node_blocks():
    yield from load("node_blocks")


@pytest.mark.parametrize("offset", [0.03, 0.08])
def test_equal_volumes_are_seldom_called_different(simulation, offset):
    """A family of three metrics raises a false alarm in at most 5 %: 400 families, three standard errors."""
    rates = simulation.rates(families=400, runs=5, offset=offset, ratio=1.0)
    assert rates.verdict <= 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
    assert rates.raw > rates.adjusted  # the correction has something to correct


def test_rates_beyond_a_limit_are_faults(simulation):
    """Else the benchmark could not fail."""
    rates = {"families": 2000, "raw": 0.1, "adjusted": 0.1, "better": 0.5, "runs_needed": 5.0}
    bad = simulation.Rates(**rates, verdict=0.09, equivalent=0.05)
    good = simulation.Rates(**(rates | {"better": 0.95}), verdict=0.04, equivalent=0.02)
    for ratio in (1.0, 1.05, 1.2):
        assert len(list(simulation.faults(bad, ratio=ratio, offset=0.05, runs=5))) == 1
        assert list(simulation.faults(good, ratio=ratio, offset=0.05, runs=5)) == []


def test_seconds_taken_for_replicates_would_raise_false_alarms(simulation):
    """Why the replicate is the cell."""
    assert simulation.alarms_of_tests_on_seconds(families=200, runs=5, offset=0.03) > 0.3


def test_a_true_difference_of_twenty_percent_is_found(simulation):
    """5 against 5 cells with 3 % of offset, three metrics."""
    assert simulation.rates(families=200, runs=5, offset=0.03, ratio=1.2).better > 0.9


def test_a_true_difference_on_the_margin_is_seldom_called_equivalent(simulation):
    """At most alpha / 2 of the comparisons: 400 of them, three standard errors."""
    rates = simulation.rates(families=400, runs=8, offset=0.005, ratio=1.05, metrics=1)
    assert rates.equivalent <= 0.025 + 3 * (0.025 * 0.975 / 400) ** 0.5


def test_equal_quiet_volumes_are_found_equivalent(simulation):
    """8 against 8 cells with 0.5 % of offset."""
    assert simulation.rates(families=200, runs=8, offset=0.005, ratio=1.0, metrics=1).equivalent > 0.8


def test_as_many_runs_as_proposed_mostly_decide(simulation):
    """After pilots of 5 against 5 at 5 % of offset, a true 10 % is decided in about 80 %, at least 70 %."""
    runs = simulation.proposal(runs=5, offset=0.05, ratio=1.1, pilots=200)
    rates = simulation.rates(families=200, runs=runs, offset=0.05, ratio=1.1, metrics=1, seed=2)
    assert 5 < runs < 12
    assert rates.verdict > 0.7


def test_nodes_of_different_speed_name_no_difference_and_hide_none(node_blocks):
    """The limits of tests/benchmarks/node_blocks.py on fewer families; it has the table."""
    conditions = {item.name: item for item in node_blocks.CONDITIONS}
    for name in ("equal, 3 nodes of 3 v 3", "20 % slower, 2 nodes of 4 v 4"):
        outcome = node_blocks.simulate(conditions[name], families=300, seed=2)
        assert list(node_blocks.faults(outcome, conditions[name])) == []
