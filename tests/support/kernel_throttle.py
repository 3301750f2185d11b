"""Cases from real runs beside the kernel's own limits: tests/fixtures/kernel-throttle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volbench.results.explain.case import Case
from volbench.results.explain.run_cases import cases_of
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory
from volbench.results.store.series import SeriesKey

RUNS = Path(__file__).parents[1] / "fixtures" / "kernel-throttle"


@cache
def case_of(name: str, step: str = "") -> Case:
    """A step of a recorded run, by name where the run has several."""
    directory = RunDirectory(RUNS / name)
    cases = (case for result in directory.results() for case in cases_of(load_run(directory), result))
    (case,) = (case for case in cases if step in ("", case.name))
    return case


def with_columns(case: Case, columns: Mapping[tuple[str, str, str], float | NDArray[np.float64]]) -> Case:
    """A real run, some of its series set by hand: source, metric and entity to one value, or one an interval."""
    fulls = {
        SeriesKey(source=source, metric=metric, entity=entity): np.full(len(case.grid), value)
        if isinstance(value, float)
        else value
        for (source, metric, entity), value in columns.items()
    }
    return replace(case, grid=replace(case.grid, columns={**case.grid.columns, **fulls}))
