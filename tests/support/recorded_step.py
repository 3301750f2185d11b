"""Steps of the runs of a real kernel that are kept in tests/fixtures/real-kernels/runs."""

from __future__ import annotations

from functools import cache

from vm.injection_sample import unpacked
from volbench.results.explain.case import Case
from volbench.results.explain.run import cases_of
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory


@cache
def recorded_step(name: str) -> Case:
    """The last run of an injection of tests/lab/vm/injections.yaml, by its name."""
    found = []
    for path, _, proven in unpacked():
        if name in [item.name for item in proven]:
            directory = RunDirectory.open(path)
            loaded = load_run(directory)
            found += [
                case
                for result in directory.results()
                for case in cases_of(loaded, result)
                if case.name.partition("/")[0] == name
            ]
    return found[-1]
