"""Least squares whose coefficients have known signs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from volbench.results.stats.linear import LinearModel, closest_signed

ROWS = 12
DRAW = np.random.default_rng(7)
DESIGN = np.column_stack([np.ones(ROWS), DRAW.normal(0, 1, (ROWS, 2))])
NOISE = DRAW.normal(0, 0.1, ROWS)


@pytest.mark.parametrize(
    ("true", "columns"),
    [
        ((5.0, 2.0, 1.0), (0, 1, 2)),
        ((5.0, -2.0, 1.0), (0, 2)),
        ((5.0, 2.0, -1.0), (0, 1)),
        ((5.0, -2.0, -1.0), (0,)),
    ],
)
def test_columns_with_the_wrong_sign_are_left_out(true: tuple[float, ...], columns: tuple[int, ...]) -> None:
    values = DESIGN @ np.array(true) + NOISE
    model, left = closest_signed(DESIGN, values, (0, 1, 1))
    assert left == columns
    assert model.coefficients == pytest.approx(LinearModel(DESIGN[:, columns], values).coefficients)


def test_signs_are_each_column_s_own() -> None:
    values = DESIGN @ np.array([5.0, -2.0, 1.0]) + NOISE
    assert closest_signed(DESIGN, values, (0, -1, 1))[1] == (0, 1, 2)
    assert closest_signed(DESIGN, values, (0, 1, -1))[1] == (0,)
    assert closest_signed(DESIGN, values, (0, 0, 0))[1] == (0, 1, 2)


@pytest.mark.parametrize("seed", range(8))
def test_no_coefficients_with_these_signs_are_closer(seed: int) -> None:
    """Also where a column is nearly another one, as the shares of both cells of a block are."""
    draw = np.random.default_rng(seed)
    first = draw.uniform(0, 1, ROWS)
    design = np.column_stack([np.ones(ROWS), first, first + draw.normal(0, 0.05, ROWS)])
    values = draw.normal(0, 0.1, ROWS) + draw.normal(0, 1) * first
    model, columns = closest_signed(design, values, (0, 1, -1))
    assert all(model.coefficients[columns.index(n)] * sign >= 0 for n, sign in ((1, 1), (2, -1)) if n in columns)
    for slopes in product(np.linspace(0, 4, 41), np.linspace(-4, 0, 41)):
        rest = values - design[:, 1:] @ np.array(slopes)
        assert model.squares <= float(((rest - rest.mean()) ** 2).sum()) + 1e-9
