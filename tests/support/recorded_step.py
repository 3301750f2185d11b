"""Steps of the runs of a real kernel that are kept in tests/fixtures/real-kernels/runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from vm.injection_sample import archives, extracted, proofs_of
from volbench.results.explain.case import Case
from volbench.results.explain.run_cases import cases_of
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory


@cache
def recorded_step(name: str) -> Case:
    """Return the last run of an injection of tests/lab/vm/injections.yaml, by its name.

    Raises KeyError for a name that no run has.
    """
    for archive, names in reversed(_injections().items()):
        if name in names and (cases := _cases(archive, name)):
            return cases[-1]
    raise KeyError(name)


@cache
def _injections() -> dict[Path, frozenset[str]]:
    """Names of the injections of each archive: to unpack all of them for each step took most of a test's time."""
    return {archive: frozenset(item.name for item in proofs_of(archive)[1]) for archive in archives()}


def _cases(archive: Path, name: str) -> list[Case]:
    with extracted(archive) as path:
        directory = RunDirectory.open(path)
        loaded = load_run(directory)
        return [
            case
            for result in directory.results()
            for case in cases_of(loaded, result)
            if case.name.partition("/")[0] == name
        ]
