"""A run's explanation, computed once for all commands of a test that read the same files."""

from __future__ import annotations

import pytest

import volbench.cli.runs.explain
import volbench.results.report.build
from volbench.results.explain.run import RunExplanation, explain_run
from volbench.results.store.loaded_run import LoadedRun

READERS = (volbench.cli.runs.explain, volbench.results.report.build)
Files = tuple[tuple[str, int, int], ...]


def explain_once(patch: pytest.MonkeyPatch) -> None:
    """For the length of a test: the first command computes, the next ones take its result while no file changes.

    The explanation is half of what a report costs, and a function of the run's record, its journal and the files of
    its cells. Everything else of each command is done by itself.
    """
    explanations: dict[Files, RunExplanation] = {}

    def explained(loaded: LoadedRun) -> RunExplanation:
        run = loaded.path
        paths = [run / "run.json", run / "journal.jsonl", *sorted((run / "cells").rglob("*"))]
        stats = [(str(path), path.stat()) for path in paths]
        files = tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)
        if files not in explanations:
            explanations[files] = explain_run(loaded)
        return explanations[files]

    for module in READERS:
        patch.setattr(module, "explain_run", explained)
