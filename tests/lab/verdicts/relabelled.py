"""How often equal volumes would be named in real runs, had their cells been the other volume's.

    PYTHONPATH=tests/lab .venv/bin/python -m verdicts.relabelled RUN ...

Two directories of one disk are one volume, so which cell of a block is whose is a label. Of each run all choices of
labels are compared, as a run until decided looks at them after each block: noise, other work and their shares are
real. Choices of one run share its cells, so that runs count, not choices.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow
from volbench.core.records.run import ComparisonSpec
from volbench.results.compare.compared_cells import compared_cells
from volbench.results.compare.comparison_summary import summarise
from volbench.results.report.cross_run import with_metrics
from volbench.results.report.rows.cells import cell_rows
from volbench.results.stats.sequential import CELLS_MIN
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

UNNAMED = ("inconclusive", "equivalent")
Block = tuple[CellRow, CellRow]


@dataclass(frozen=True, kw_only=True)
class Relabelled:
    """Of one run's choices of labels: how many a look names, and how many a look at all blocks alone would."""

    blocks: int
    choices: int
    named: int
    named_at_end: int


def relabelled(cells: Sequence[CellRow], spec: ComparisonSpec, volumes: tuple[str, str]) -> Relabelled:
    """Compare every choice of labels of the blocks in which both volumes have a cell; the first one keeps its own.

    Args:
        cells: of one step and two equal volumes.
        spec: of a run until decided.
    """
    blocks = list(_blocks(cells, volumes))
    choices = [(False, *rest) for rest in itertools.product((False, True), repeat=max(0, len(blocks) - 1))]
    named = named_at_end = 0
    for choice in choices:
        looks = [_is_named(blocks[:count], choice, spec, volumes) for count in range(CELLS_MIN, len(blocks) + 1)]
        named += any(looks)
        named_at_end += bool(looks) and looks[-1]
    return Relabelled(blocks=len(blocks), choices=len(choices), named=named, named_at_end=named_at_end)


def _blocks(cells: Sequence[CellRow], volumes: tuple[str, str]) -> Iterator[Block]:
    primary = {name for cell in cells for name in PRIMARY_METRICS.get(cell.kind, ())}
    for block in sorted({cell.block for cell in cells}):
        of_block = {cell.volume: with_metrics(cell, primary) for cell in cells if cell.block == block}
        if set(of_block) == set(volumes):
            yield of_block[volumes[0]], of_block[volumes[1]]


def _is_named(
    blocks: Sequence[Block], choice: Sequence[bool], spec: ComparisonSpec, volumes: tuple[str, str]
) -> bool:
    labelled = [
        cell.model_copy(update={"volume": name})
        for block, is_exchanged in zip(blocks, choice, strict=False)
        for cell, name in zip(block, reversed(volumes) if is_exchanged else volumes, strict=True)
    ]
    return any(pair.verdict not in UNNAMED for pair in summarise(compared_cells(labelled, volumes, spec)))


def main() -> int:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    print("| run | blocks | choices | a look names | the last look names |")
    print("|---|--:|--:|--:|--:|")
    for path in parser.parse_args().runs:
        loaded = load_run(RunDirectory(path))
        first, second = (volume.name for volume in loaded.run.volumes)
        cells = cell_rows(loaded.run, loaded.results)
        result = relabelled(cells, loaded.run.suite.comparison, (first, second))
        print(
            f"| {path.parent.name} | {result.blocks} | {result.choices} | {result.named / result.choices:.1%}"
            f" | {result.named_at_end / result.choices:.1%} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
