"""Credits that ran out, from CloudWatch's three classic metrics alone."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.volume.credits import empty_at_s, first_empty
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

PERIOD_S = 300.0
BUCKET, BASELINE = 5.4e6, 100.0
"""I/O credits and IOPS of a gp2 volume of up to 33 GiB (Amazon EBS User Guide)."""


def balance_of(iops: Floats) -> Floats:
    """The bucket of gp2 in percent, period by period, by the user guide's rule."""
    left, percent = BUCKET, []
    for rate in iops:
        left = min(BUCKET, max(0.0, left + (BASELINE - rate) * PERIOD_S))
        percent.append(100 * left / BUCKET)
    return np.array(percent)


def case_of(iops: Floats, balance: Floats) -> Case:
    columns = {
        SeriesKey(source="cloudwatch", metric="reads_per_s", entity="vol-1"): 0.9 * iops,
        SeriesKey(source="cloudwatch", metric="writes_per_s", entity="vol-1"): 0.1 * iops,
        SeriesKey(source="cloudwatch", metric="balance_percent", entity="vol-1"): balance,
    }
    grid = Grid(t_s=PERIOD_S * np.arange(1, len(iops) + 1, dtype=np.float64), width_s=PERIOD_S, columns=columns)
    return Case(name="vol-1", grid=grid, cell_grid=grid, kind="recorded", disk="vol-1", recorded=True)


def test_the_minute_is_named_when_the_bucket_empties() -> None:
    expected = np.array([3.0] * 6 + [3000.0] * 12 + [2000.0] * 18)
    input_value, balance, left = [], [], BUCKET
    for rate in expected:  # a load that wants more than the baseline gets the baseline once the bucket is empty
        spent = min(rate, BASELINE + left / PERIOD_S)
        left = min(BUCKET, max(0.0, left + (BASELINE - spent) * PERIOD_S))
        input_value.append(spent)
        balance.append(100 * left / BUCKET)
    iops = np.array(input_value)
    findings = explain_case(case_of(iops, np.array(balance))).findings
    assert findings[0].cause == "storage.burst_exhausted"
    emptied_s = 6 * PERIOD_S + BUCKET / (3000 - BASELINE)
    (moment,) = [row.value for row in findings[0].evidence if row.metric == "exhausted_at"]
    assert moment == pytest.approx(emptied_s, abs=60)
    (baseline,) = [row.value for row in findings[0].evidence if row.metric == "baseline"]
    assert baseline == pytest.approx(BASELINE)


def test_a_balance_that_falls_and_is_not_empty_names_nothing() -> None:
    iops = np.array([3.0] * 6 + [1500.0] * 6 + [3.0] * 12)
    causes = [finding.cause for finding in explain_case(case_of(iops, balance_of(iops))).findings]
    assert "storage.burst_exhausted" not in causes


def test_one_empty_sample_is_no_limit() -> None:
    assert first_empty(np.array([50.0, 0.0, 40.0, 30.0])) is None
    assert first_empty(np.array([50.0, np.nan, 0.5, 0.0, 0.0])) == 2


def test_a_bucket_that_was_empty_before_has_no_moment() -> None:
    iops = np.full(24, BASELINE)
    finding = explain_case(case_of(iops, np.zeros(24))).findings[0]
    assert finding.cause == "storage.burst_exhausted"
    assert finding.window_s[0] == 0.0
    assert "before the first sample" in finding.evidence[0].text


def test_the_moment_lies_on_the_line_of_the_fall() -> None:
    t_s = np.array([300.0, 600.0, 900.0, 1200.0])
    assert empty_at_s(t_s, np.array([80.0, 40.0, 0.0, 0.0]), 2) == pytest.approx(900.0)
    assert empty_at_s(t_s, np.array([90.0, 30.0, 0.0, 0.0]), 2) == pytest.approx(750.0)
    assert empty_at_s(t_s, np.array([90.0, 0.0, 0.0, 0.0]), 1) == 600.0  # one sample above: no line
