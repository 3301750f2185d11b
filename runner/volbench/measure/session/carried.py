"""The user's own files that pods get from this machine: read and packed, as small as a ConfigMap has to be."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.base.text import counted, size
from volbench.core.profile.claim_path import CLAIM_EXAMPLE
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.own_files import file_key, is_on_claim, scripts_of
from volbench.core.records.own_places import inside
from volbench.core.records.run import ResolvedSuite, RunRecord
from volbench.core.records.steps import Step
from volbench.core.suite.model import SuiteFile
from volbench.core.suite.own_files import named_files
from volbench.core.suite.sweep import with_parameters
from volbench.errors import UsageError
from volbench.machine.engine.own_data.form import decompressing_program, head_of, is_zip
from volbench.machine.placement.docker.own_files import unreadable

BYTES_MAX = 900 << 10
"""Of all files of a run: Kubernetes refuses a ConfigMap beyond 1 MiB."""
_FILE_KEYS = ("path", "test", "log")
"""Of datasets and steps, that name files of the user."""
_READ_BYTES_MAX = 64 << 20
"""Of a file of SQL, which is not packed to the end to learn that it is too large."""
_CHUNK_BYTES = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS


def suites_of_cells(run: RunRecord) -> list[ResolvedSuite]:
    """Return the suite as the cells of a run have it: once, or for each combination of a sweep."""
    combinations = {str(cell.parameters): cell.parameters for cell in run.cells}
    return [with_parameters(run.suite, parameters) for parameters in combinations.values()]


def files_of_run(run: RunRecord) -> dict[str, bytes]:
    """Return the files of all cells of a run, by their absolute paths here. Raise UsageError."""
    contents: dict[str, bytes] = {}
    for suite in suites_of_cells(run):
        contents |= carried_files(suite.dataset, suite.steps)
    _check_size(contents)
    return contents


def read_files(paths: Iterable[str]) -> dict[str, bytes]:
    """Return files as they are, by their paths. Raise UsageError."""
    contents = {path: _content(Path(path)) for path in paths}
    _check_size(contents)
    return contents


def settings_in_pod(suite: SuiteFile) -> list[str]:
    """Return `KEY=VALUE`, as `--set` takes it, of each file that the suite names: where a pod has it.

    Raises UsageError for a sweep over files.
    """
    settings = [f"{'.'.join(map(str, key))}={inside(str(path))}" for key, path in named_files(suite)]
    swept = [key for key in (suite.sweep.factors if suite.sweep else ()) if key.rpartition(".")[2] in _FILE_KEYS]
    if settings and swept:
        raise UsageError(
            "a submitted run takes no sweep over files along",
            where=f"sweep.factors.{swept[0]}",
            next_step="run it from here, without --detach, or submit a run for each file",
        )
    return settings


def carried_files(dataset: DatasetSpec, steps: Iterable[Step]) -> dict[str, bytes]:
    """Return the files that cells with this dataset and these steps read. Raise UsageError.

    A script comes with the modules in its directory, a file of SQL is packed: its loader tells by the bytes.
    """
    contents: dict[str, bytes] = {}
    if dataset.path and not is_on_claim(dataset.path):
        contents |= (
            _scripts(dataset.path) if dataset.path.endswith(".lua") else {dataset.path: _packed(dataset.path)}
        )
    for step in steps:
        if key := file_key(step):
            path = getattr(step, key)
            contents |= _scripts(path) if path.endswith(".lua") else {path: _content(Path(path))}
    _check_size(contents)
    return contents


def _scripts(path: str) -> dict[str, bytes]:
    script, *modules = scripts_of(Path(path))
    return {path: _content(script), **{str(module): _content(module) for module in modules}}


def _content(path: Path) -> bytes:
    try:
        with safe_files.open_given(path) as file:
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(content) > BYTES_MAX:
        raise _too_large(path, f"{path} has more than {size(BYTES_MAX)}")
    return content


def _packed(text: str) -> bytes:
    path = Path(text)
    if path.is_dir():
        raise _too_large(path, f"{path} is a directory, and a ConfigMap has single files")
    head = head_of(path)
    if is_zip(head) or decompressing_program(head):
        return _content(path)
    packer, packed, read_bytes = zlib.compressobj(wbits=_GZIP), b"", 0
    try:
        with safe_files.open_given(path) as file:
            while chunk := file.read(_CHUNK_BYTES):
                read_bytes += len(chunk)
                packed += packer.compress(chunk)
                if read_bytes > _READ_BYTES_MAX:
                    raise _too_large(path, f"{path} has more than {size(_READ_BYTES_MAX)} before it is packed")
                if len(packed) > BYTES_MAX:
                    raise _too_large(path, f"packed with gzip, {path} has more than {size(BYTES_MAX)}")
    except OSError as error:
        raise unreadable(path, error) from error
    return packed + packer.flush()


def _check_size(contents: Mapping[str, bytes]) -> None:
    total = sum(map(len, contents.values()))
    if total > BYTES_MAX:
        largest = max(contents, key=lambda path: len(contents[path]))
        raise _too_large(
            Path(largest),
            f"{counted(len(contents), 'file')} with {size(total)}, {size(len(contents[largest]))} of them here",
        )


def _too_large(path: Path, evidence: str) -> UsageError:
    return UsageError(
        f"pods get own files by a ConfigMap, which has room for {size(BYTES_MAX)}",
        where=str(path),
        evidence=evidence,
        next_step=f"put a dump on a claim, and name it (`{CLAIM_EXAMPLE}`); keep a script in a directory without"
        " other Lua files; cut a log",
    )
