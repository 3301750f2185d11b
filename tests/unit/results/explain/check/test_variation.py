"""How much file waits vary, by counts of seconds."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.explain.check.variation import operation_variation, waits_variation

HUNDRED = np.full(6, 100.0)


@pytest.mark.parametrize(("by_ms", "variation"), [(0.0, 0.0), (0.05, 0.5), (0.1, 1.0)])
def test_means_of_seconds_say_how_even_operations_are(by_ms: float, variation: float) -> None:
    """Means of 100 operations that differ by 10 % have 0.01 = c (1 / 100 + 1 / 100); beyond 1 nothing is said."""
    each_ms = 1 + by_ms * np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    assert operation_variation(HUNDRED, HUNDRED * each_ms) == pytest.approx(variation, abs=0.01)


def test_few_operations_say_nothing() -> None:
    assert operation_variation(np.full(6, 4.9), np.full(6, 1.0)) == 1.0
    assert operation_variation(np.full(6, 5.1), np.full(6, 1.0)) == 0.0
    assert operation_variation(HUNDRED[:3], HUNDRED[:3]) == 1.0
    assert operation_variation(HUNDRED, 0 * HUNDRED) == 1.0


def test_the_number_of_reads_varies_by_pages_that_are_in_the_buffer_pool() -> None:
    """16 reads, all alike, of pages that are missed in 3 of 4 cases: 0.25 / 16; random ones: 1 / 16 more."""
    alike, at_random = (
        waits_variation(16.0, 0.0, 20.0, 0.0, read=read, sync=1.0, miss_ratio=0.75) for read in (0.0, 1.0)
    )
    assert (alike, at_random) == pytest.approx((0.015625, 0.078125))


def test_reads_and_syncs_vary_by_their_parts_of_the_time() -> None:
    """Half of the time each: 0.25 x 1 / 4 + 0.25 x 2 / 1."""
    both = waits_variation(4.0, 0.5, 10.0, 10.0, read=0.0, sync=1.0, miss_ratio=0.0)
    assert both == pytest.approx(0.5625)
    assert waits_variation(0.0, 0.0, 0.0, 0.0, read=1.0, sync=1.0, miss_ratio=0.0) is None
