"""Cases from real runs beside the kernel's own limits: tests/fixtures/kernel-throttle."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from volbench.analysis.explain.case import Case
from volbench.analysis.explain.run import cases_of
from volbench.store.loaded_run import load_run
from volbench.store.run_directory import RunDirectory

RUNS = Path(__file__).parents[1] / "fixtures" / "kernel-throttle"


@cache
def case_of(name: str) -> Case:
    """The one step of a recorded run."""
    directory = RunDirectory(RUNS / name)
    (case,) = (case for result in directory.results() for case in cases_of(load_run(directory), result))
    return case
