"""Files of the user that a suite names: their absolute paths, and whether they can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from volbench.core.records.own_files import file_key, is_on_claim
from volbench.core.suite.model import SuiteFile

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
        step.model_copy(update={key: _absolute(getattr(step, key), directory)}) if (key := file_key(step)) else step
        for step in suite.steps
    )
    return suite.model_copy(update={"dataset": dataset.model_copy(update=absolute), "steps": steps})


def missing_files(suite: SuiteFile) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key and the fault of each file that does not exist."""
    for key, path in named_files(suite):
        if not path.exists():
            hint = f"; get it with: {_CLONE}" if "sysbench-tpcc" in str(path) else ""
            if is_on_claim(str(path)):
                hint = "; a claim (`pvc:`) has a dataset on it, not a script or a log: name a file of this machine"
            yield key, f"there is no file {path}{hint}"


def named_files(suite: SuiteFile) -> Iterator[tuple[KeyPath, Path]]:
    """Yield the key and the path of each file or directory that a suite names, but of what is downloaded."""
    dataset = suite.dataset
    if dataset.path and not dataset.url and not is_on_claim(dataset.path):  # a download comes when the run begins
        yield ("dataset", "path"), Path(dataset.path)
    for number, step in enumerate(suite.steps):
        if name := file_key(step):
            yield ("steps", number, name), Path(getattr(step, name))


def _absolute(text: str, directory: Path) -> str:
    if is_on_claim(text):
        return text
    path = Path(text).expanduser()
    if not path.is_absolute() and not path.exists() and (directory / path).exists():
        path = directory / path
    return str(path.absolute())
