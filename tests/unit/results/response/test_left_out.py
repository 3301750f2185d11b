"""What a jackknife leaves out it subtracts: slopes of the other rows, in time that grows with rows."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from volbench.results.response.least_squares import Fit, fit
from volbench.results.response.lock_in import locked_fit
from volbench.results.response.samples import Rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROWS, CLUSTERS, GROUPS = 600, 40, 5
SLOPES = (3.0, -2.0)


def textbook_slopes(response: Floats, left: Floats, right: Floats, weights: Floats, groups: Ints) -> Floats:
    """Slopes with a column of zeros and ones for each group, of these rows alone."""
    dummies = (groups[:, None] == np.unique(groups)).astype(float)
    weighted = weights[:, None] * np.column_stack([left, dummies])
    solved = np.linalg.solve(weighted.T @ np.column_stack([right, dummies]), weighted.T @ response)
    return np.asarray(solved[: right.shape[1]], dtype=np.float64)


def textbook_covariance(arrays: tuple[Floats, Floats, Floats, Floats, Ints], clusters: Ints) -> Floats:
    """The jackknife as it is defined: slopes without each cluster, less those of all rows."""
    whole = textbook_slopes(*arrays)
    names = np.unique(clusters)
    rests = [tuple(values[clusters != name] for values in arrays) for name in names]
    changes = np.stack([textbook_slopes(*rest) - whole for rest in rests])
    return np.asarray((len(names) - 1) / len(names) * changes.T @ changes, dtype=np.float64)


def random_rows(seed: int) -> tuple[Floats, Floats, Floats, Floats, Ints, Ints]:
    """Response, instruments, regressors, weights over three orders, groups that cross clusters, and clusters."""
    random = np.random.default_rng(seed)
    regressors = random.gamma(2.0, 1.0, (ROWS, 2))
    instruments = regressors + random.normal(0, 0.5, (ROWS, 2))
    groups, clusters = random.integers(0, GROUPS, ROWS), np.arange(ROWS) * CLUSTERS // ROWS
    response = 10 * groups + regressors @ SLOPES + random.normal(0, 1, CLUSTERS)[clusters]
    return response, instruments, regressors, np.exp(random.uniform(0, 7, ROWS)), groups, clusters


@pytest.mark.parametrize("is_instrumented", [False, True])
@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_covariance_is_the_jackknife_of_its_definition(
    seed: int, is_nested: bool, is_instrumented: bool
) -> None:
    response, instruments, regressors, weights, groups, clusters = random_rows(seed)
    if is_nested:  # one group is a cluster and no more
        groups = np.where(clusters == CLUSTERS - 1, GROUPS, clusters % GROUPS)
    left = instruments if is_instrumented else regressors
    estimated = fit(
        response,
        regressors,
        weights=weights,
        groups=groups,
        clusters=clusters,
        instruments=instruments if is_instrumented else None,
    )
    assert estimated is not None
    arrays = (response, left, regressors, weights, groups)
    np.testing.assert_allclose(estimated.slopes, textbook_slopes(*arrays), rtol=1e-9)
    np.testing.assert_allclose(estimated.covariance, textbook_covariance(arrays, clusters), rtol=1e-9)


def test_a_cluster_with_nearly_all_variation_leaves_the_slopes_of_the_others_exact() -> None:
    response, _, regressors, weights, groups, clusters = random_rows(7)
    regressors[clusters == 3] *= 1e5
    estimated = fit(response, regressors, weights=weights, groups=groups, clusters=clusters)
    assert estimated is not None
    expected = textbook_covariance((response, regressors, regressors, weights, groups), clusters)
    np.testing.assert_allclose(estimated.covariance, expected, rtol=1e-9)


@pytest.mark.parametrize("elsewhere", ["constant", "collinear"])
def test_slopes_that_one_cluster_alone_determines_are_none(elsewhere: str) -> None:
    response, _, regressors, weights, groups, clusters = random_rows(8)
    regressors[clusters != 3, 1] = 0.1 if elsewhere == "constant" else 0.3 * regressors[clusters != 3, 0]
    assert fit(response, regressors, weights=weights, groups=groups, clusters=clusters) is None
    regressors[clusters == 4, 1] += np.arange((clusters == 4).sum())
    assert fit(response, regressors, weights=weights, groups=groups, clusters=clusters) is not None


def modulated_rows(rows: int, slots: int) -> Rows:
    """Awaits that follow a signal each, and one that is held; the sampler has seen the signal half a row later."""
    random = np.random.default_rng(9)
    block = np.arange(rows) * slots // rows
    signal = np.column_stack([block % 2, block // 2 % 2, np.zeros(rows)]).astype(float)
    seen = np.clip(signal + random.normal(0, 0.02, signal.shape) * (signal.max(axis=0) > 0), 0, 1)
    awaits = 1 + seen @ np.diag([2.0, 1.0, 0.0]) + random.normal(0, 0.1, (rows, 3))
    unknown = np.full((rows, 3), np.nan)
    return Rows(
        terms=("read", "write", "log_sync"),
        latency_ms=5 + awaits @ [20.0, 4.0, 2.0] + random.normal(0, 1, slots)[block],
        weights=random.uniform(10, 100, rows),
        awaits_ms=awaits,
        smoothed_ms=awaits,
        signal=signal,
        seen_signal=seen,
        cpu_ms=unknown[:, 0],
        cpu_wait_ms=unknown[:, 0],
        counted_low=unknown,
        counted_high=unknown,
        cycle=block // 4,
        cell=np.zeros(rows, np.int64),
        threads=np.zeros(rows, np.int64),
        block=block,
        volume=np.zeros(rows, np.int64),
    )


def locked(rows: Rows) -> Fit | None:
    return locked_fit(rows, ["read", "write"], ["log_sync"], np.asarray([2.0]))


def test_the_covariance_of_a_modulation_is_the_jackknife_of_its_definition() -> None:
    rows = modulated_rows(600, 24)
    estimated = locked(rows)
    assert estimated is not None
    rests = [locked(rows.where(rows.block != slot)) for slot in range(24)]
    changes = np.stack([rest.slopes - estimated.slopes for rest in rests if rest is not None])
    assert len(changes) == 24
    np.testing.assert_allclose(estimated.covariance, 23 / 24 * changes.T @ changes, rtol=1e-9)
    assert estimated.slopes == pytest.approx([20.0, 4.0], rel=0.1)


TIMES_MAX = 20
"""CPU time of 5,000 clusters over that of 16, of as many rows: about 3; left out one after the other, above 200."""


def fit_in_clusters(clusters: int) -> Fit | None:
    rows = 40_000
    regressors = np.random.default_rng(10).gamma(2.0, 1.0, (rows, 2))
    number = np.arange(rows) * clusters // rows
    groups = np.zeros(rows, np.int64)
    return fit(regressors @ SLOPES, regressors, weights=np.ones(rows), groups=groups, clusters=number)


def locked_in_clusters(clusters: int) -> Fit | None:
    return locked(modulated_rows(40_000, clusters))


@pytest.mark.parametrize("estimated", [fit_in_clusters, locked_in_clusters])
def test_its_time_grows_with_rows_and_not_with_clusters(estimated: Callable[[int], Fit | None]) -> None:
    def cpu_s(clusters: int) -> float:
        begun_s = time.process_time()
        assert estimated(clusters) is not None
        return time.process_time() - begun_s

    few_s = cpu_s(16)
    assert cpu_s(5_000) < TIMES_MAX * few_s
