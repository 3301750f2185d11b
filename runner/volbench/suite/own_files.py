"""Files of the user that a suite names: their absolute paths, and whether they can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from volbench.records.steps import Step
from volbench.records.steps.oltp import OltpStep
from volbench.records.steps.replay import ReplayStep
from volbench.suite.model import SuiteFile

KeyPath = tuple[str | int, ...]
_CLONE = "git clone https://github.com/Percona-Lab/sysbench-tpcc"


def with_absolute_paths(suite: SuiteFile, directory: Path) -> SuiteFile:
    """Return the suite with absolute paths of the user's files, since a cell's agent works elsewhere.

    A relative path counts from the working directory, as those of the command line do; if there is no such file,
    from the suite's `directory`.
    """
    dataset = suite.dataset
    absolute: dict[str, Any] = {
        name: _absolute(text, directory) for name in ("path", "option_file") if (text := getattr(dataset, name))
    }
    steps = tuple(
        step.model_copy(update={key: _absolute(getattr(step, key), directory)})
        if (key := _file_key(step))
        else step
        for step in suite.steps
    )
    return suite.model_copy(update={"dataset": dataset.model_copy(update=absolute), "steps": steps})


def missing_files(suite: SuiteFile) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key and the fault of each file that does not exist."""
    named: list[tuple[KeyPath, str]] = [(("dataset", "path"), suite.dataset.path)]
    named += [
        (("steps", number, name), getattr(step, name))
        for number, step in enumerate(suite.steps)
        if (name := _file_key(step))
    ]
    for key, path in named:
        if path and not Path(path).exists():
            hint = f"; get it with: {_CLONE}" if "sysbench-tpcc" in path else ""
            yield key, f"there is no file {path}{hint}"


def _file_key(step: Step) -> str:
    """Return the key of a step that names a file of the user; empty for others."""
    if isinstance(step, ReplayStep):
        return "log"
    return "test" if isinstance(step, OltpStep) and step.script else ""


def _absolute(text: str, directory: Path) -> str:
    path = Path(text).expanduser()
    if not path.is_absolute() and not path.exists() and (directory / path).exists():
        path = directory / path
    return str(path.absolute())
