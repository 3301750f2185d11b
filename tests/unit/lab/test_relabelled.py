"""Labels of equal volumes' cells: every choice is compared, and one that makes a difference is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_run import SyntheticVolume, build_run, two_volumes

from verdicts.relabelled import Relabelled, relabelled
from volbench.results.report.rows.cells import cell_rows


def of_run(path: Path, *, speed: float, blocks: int, noise: float) -> Relabelled:
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=speed))
    directory = build_run(path, two_volumes(volumes=volumes, repeats=blocks, noise=noise))
    spec = directory.run.suite.comparison.model_copy(update={"until": "decided"})
    cells = [cell for cell in cell_rows(directory.run, directory.results()) if cell.step == "read-write"]
    return relabelled(cells, spec, ("a", "b"))


def test_every_choice_of_labels_is_compared(tmp_path: Path) -> None:
    equal = of_run(tmp_path, speed=1.0, blocks=4, noise=0.2)
    assert (equal.blocks, equal.choices) == (4, 8)
    assert equal.named_at_end <= equal.named < equal.choices


@pytest.mark.parametrize("blocks", [3, 5])
def test_the_choice_that_puts_all_fast_cells_on_one_side_is_named(tmp_path: Path, blocks: int) -> None:
    apart = of_run(tmp_path, speed=4.0, blocks=blocks, noise=0.01)
    assert apart.choices == 2 ** (blocks - 1)
    assert 0 < apart.named < apart.choices


def test_too_few_blocks_have_no_look(tmp_path: Path) -> None:
    few = of_run(tmp_path, speed=4.0, blocks=2, noise=0.01)
    assert (few.choices, few.named, few.named_at_end) == (2, 0, 0)
