"""Cells are interleaved so that a drift of the machine hits all volumes alike."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from volbench.core.plan.order import interleave

volume_names = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True)


@given(volume_names, st.integers(1, 12), st.integers(0, 2**31))
def test_every_block_holds_every_volume_once(volumes: list[str], repeats: int, seed: int) -> None:
    cells = interleave(volumes, repeats=repeats, seed=seed)
    for block in range(repeats):
        assert Counter(cell.volume for cell in cells if cell.block == block) == Counter(volumes)
    assert len({cell.cell_id for cell in cells}) == len(volumes) * repeats


@given(volume_names, st.integers(1, 6), st.integers(0, 2**31))
def test_a_linear_drift_adds_the_same_to_every_volume(volumes: list[str], pairs: int, seed: int) -> None:
    cells = interleave(volumes, repeats=2 * pairs, seed=seed)
    locations: dict[str, int] = Counter()
    for location, cell in enumerate(cells):
        locations[cell.volume] += location
    assert len(set(locations.values())) == 1


def test_cells_of_a_block_share_a_seed_and_blocks_differ() -> None:
    cells = interleave(["a", "b"], repeats=4, seed=3)
    by_block = [{cell.seed for cell in cells if cell.block == block} for block in range(4)]
    assert all(len(seeds) == 1 for seeds in by_block)
    assert len(set().union(*by_block)) == 4


def test_the_order_follows_from_the_seed() -> None:
    orders = {tuple(cell.cell_id for cell in interleave(["a", "b"], repeats=6, seed=seed)) for seed in range(30)}
    assert len(orders) == 8
    assert interleave(["a", "b"], repeats=6, seed=5) == interleave(["a", "b"], repeats=6, seed=5)
