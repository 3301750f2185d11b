"""Convolution of counted waits, as tests/benchmarks/what_if_response.py does it, against sums that are drawn."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

_BENCHMARK = Path(__file__).parents[3] / "benchmarks/what_if_response.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("what_if_response", _BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize("waits", [[(15.0, 4.0)], [(20.0, 0.5), (3.0, 6.0)], [(0.7, 8.0)]])
@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.99])
def test_the_sum_of_a_poisson_number_of_exponential_waits_has_its_percentiles(benchmark, waits, quantile) -> None:
    rng = np.random.default_rng(1)
    sums = np.full(200_000, 3.0)
    for count, await_ms in waits:
        numbers = rng.poisson(count, len(sums))
        sums += np.where(numbers > 0, rng.gamma(np.maximum(numbers, 1), await_ms), 0.0)
    convolved = benchmark.convolved_ms(quantile, constant_ms=3.0, waits=waits)
    assert convolved == pytest.approx(np.quantile(sums, quantile), rel=0.02, abs=0.1)


def test_of_one_kind_that_nearly_never_comes_most_transactions_take_the_constant(benchmark) -> None:
    assert benchmark.convolved_ms(0.5, constant_ms=3.0, waits=[(0.1, 8.0)]) == pytest.approx(3.0, abs=0.1)
    assert benchmark.convolved_ms(0.95, constant_ms=3.0, waits=[]) == 3.0
    # One wait in ten transactions: of those, half are longer than the mean times log 2.
    assert benchmark.convolved_ms(1 - 0.05, constant_ms=0.0, waits=[(0.1, 8.0)]) == pytest.approx(
        8 * math.log(2), rel=0.1
    )
