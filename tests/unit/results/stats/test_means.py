"""The least deviation of a comparison of means: values are not known better than they are resolved."""

from __future__ import annotations

from volbench.results.stats.means import LEAST_DEVIATION, mean_shift, resolved_by


def test_quantiles_of_one_bin_are_not_known_better_than_the_bin() -> None:
    """`0 % [0 %, 0 %]` of p95: five cells of each volume in one bin, which is 1.8 % wide."""
    shift = mean_shift([10.0] * 5, [10.0] * 5, [], alpha=0.05, least=resolved_by("latency_ms_p95"))
    assert shift.low is not None
    assert shift.high is not None
    assert 1 / 1.0182 < shift.low < 0.995
    assert 1.005 < shift.high < 1.0182
    assert resolved_by("latency_ms_mean") == resolved_by("tps") == LEAST_DEVIATION
