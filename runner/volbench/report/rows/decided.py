"""Whether a run that goes on until it is decided has enough cells."""

from __future__ import annotations

from collections import Counter

from volbench.analysis.comparison_summary import summarise
from volbench.analysis.sequential import CELLS_MIN
from volbench.report.rows.cells import cell_rows
from volbench.report.rows.comparisons import compared_cells
from volbench.store.run_directory import RunDirectory


def why_decided(directory: RunDirectory) -> str:
    """Return why the cells so far are enough, for one line of text, or nothing.

    Every pair of volumes has a verdict, or there is one volume and nothing to decide.
    """
    run, results = directory.run, directory.results()
    names = [volume.name for volume in run.volumes]
    done = {result.cell_id for result in results if result.status == "done"}
    cells = Counter(cell.volume for cell in run.cells if cell.cell_id in done)
    if min(cells[name] for name in names) < CELLS_MIN:
        return ""
    if len(names) < 2:
        return "one volume is not compared"
    pairs = summarise(compared_cells(cell_rows(run, results), names, run.suite.comparison))
    if len(pairs) < len(names) - 1 or any(pair.verdict == "inconclusive" for pair in pairs):
        return ""
    return "every pair of volumes has a verdict"
