"""Makes a pack of a run: its records and tables, without names of the machine and of its network."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from volbench import __version__
from volbench.core.base import safe_files
from volbench.core.base.parse import parse_record_json
from volbench.core.base.text import counted
from volbench.core.records.cell import CellResult
from volbench.core.records.facts import HostFacts, VolumeFacts
from volbench.core.records.pack import PACK_FILE, PACK_SUFFIX, PackedFile, PackRecord
from volbench.core.records.run import RunRecord
from volbench.core.records.steps import Step
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.records.steps.replay import ReplayStep
from volbench.core.suite.bundled import bundled_path
from volbench.errors import MissingPrerequisite, Refused, UsageError
from volbench.results.store.files import read_file
from volbench.results.store.loaded_run import LoadedRun, load_run
from volbench.results.store.run_directory import (
    CELL_FILE,
    HISTOGRAMS_FILE,
    JOURNAL_FILE,
    RESULT_FILE,
    RUN_FILE,
    SERIES_FILE,
    RunDirectory,
)

_HIDDEN_KEYS = frozenset({"hostname", "nfs_server", "nfs_export", "mount_source", "loop_backing_file"})
"""Facts that name a machine or a network of the user's, and say nothing of a volume's speed."""
_SCRIPTS = Path("suites/lua")
_HIDDEN = "hidden"
_NAME_CHARACTERS_MIN = 4
"""A shorter name may be part of any word."""
_PACK_BYTES_MAX = 256 << 20
_FIRST_MOMENT = (1980, 1, 1, 0, 0, 0)
"""Of every file in the archive: the same run makes the same bytes."""


@dataclass(frozen=True, kw_only=True)
class MadePack:
    """A pack that was written.

    Args:
        digest: SHA-256 of the file, which its maker publishes.
        without_class: volumes whose class of storage is not known.
    """

    path: Path
    digest: str
    bytes: int
    record: PackRecord
    without_class: tuple[str, ...]


def make_pack(
    directory: RunDirectory,
    out: Path | None = None,
    *,
    storage_classes: Mapping[str, str] | None = None,
    region: str | None = None,
    with_own_data: bool = False,
) -> MadePack:
    """Write a run as a pack.

    Args:
        directory: of the run; unfinished runs are packed as they are, and say so.
        out: a new file; None: `RUN_ID.volbench.zip` in the working directory.
        storage_classes: volume -> class of storage, where the run's facts do not tell it.
        region: where the machine is; None: what the run's facts tell.
        with_own_data: pack a run over data, statements or scripts of the user's own too.

    Raises RunUnreadable; UsageError for an unknown volume or a label that is none; Refused for a run over own data
    and for a file that is there; MissingPrerequisite where the file cannot be written.
    """
    loaded = load_run(directory)
    if not with_own_data:
        _refuse_own_data(loaded.run)
    if not loaded.results:
        raise UsageError("the run has no cell that is done: there is nothing to pack", where=loaded.run.run_id)
    files = dict(_files(directory, loaded))
    record = _record(loaded, files, storage_classes or {}, region)
    content = _archive(record, files)
    path = out or Path(f"{loaded.run.run_id}{PACK_SUFFIX}")
    _write(path, content)
    return MadePack(
        path=path,
        digest=hashlib.sha256(content).hexdigest(),
        bytes=len(content),
        record=record,
        without_class=tuple(
            volume.name for volume in loaded.run.volumes if volume.name not in record.storage_classes
        ),
    )


def storage_class_of(facts: VolumeFacts) -> str | None:
    """Return the class of storage that facts of a volume tell; None where they do not."""
    if facts.emulated_profile is not None:
        return facts.emulated_profile
    if facts.memory_backed:
        return "memory"
    if facts.nfs_version is not None:
        return f"nfs {facts.nfs_version}"
    if facts.disk_model and "Instance Storage" in facts.disk_model:
        return "instance store"
    return None


def region_of(host: HostFacts) -> str | None:
    """Return the region of an availability zone of AWS, such as eu-central-1 of eu-central-1b; None otherwise."""
    zone = host.zone or ""
    return zone[:-1] if zone[-1:].isalpha() and zone[-2:-1].isdigit() else None


def _refuse_own_data(run: RunRecord) -> None:
    own = [step.name for step in run.suite.steps if _is_own(step)]
    dataset = run.suite.dataset
    if dataset.kind != "sysbench" and not (dataset.kind == "script" and _is_bundled(dataset.path)):
        own.append(f"dataset.kind {run.suite.dataset.kind}")
    if own:
        raise Refused(
            "the run is over data or statements of your own, which its records may show",
            where=run.run_id,
            evidence=", ".join(own),
            next_step="if others may see them, repeat with --with-own-data",
        )


def _is_own(step: Step) -> bool:
    return isinstance(step, ReplayStep) or (
        isinstance(step, OltpStep) and bool(step.script) and not _is_bundled(step.script)
    )


def _is_bundled(script: str) -> bool:
    """Return whether a script is one of volbench's own."""
    return Path(script) == bundled_path(_SCRIPTS / Path(script).name).absolute()


def _files(directory: RunDirectory, loaded: LoadedRun) -> Iterator[tuple[str, bytes]]:
    names = _private_names(directory, loaded)
    yield RUN_FILE, _without_names(read_file(directory.path / RUN_FILE), names)
    journal = [event.model_dump_json() for event in loaded.events]
    yield JOURNAL_FILE, "".join(f"{_replaced(line, names)}\n" for line in journal).encode()
    for result in loaded.results:
        cell = directory.cell_dir(result.cell_id)
        for name in (CELL_FILE, RESULT_FILE):
            yield f"cells/{result.cell_id}/{name}", _without_names(read_file(cell / name), names)
        for name in (SERIES_FILE, HISTOGRAMS_FILE):
            if (cell / name).is_file():
                yield f"cells/{result.cell_id}/{name}", read_file(cell / name, bytes_max=_PACK_BYTES_MAX)


def _private_names(directory: RunDirectory, loaded: LoadedRun) -> list[str]:
    """Return what names the user's machines and network, wherever it stands: a SPEC and a command have it too.

    Longest first, since an export may hold its server's name.
    """
    names: set[str | None] = {loaded.run.host.hostname}
    names |= {volume.location for volume in loaded.run.volumes if volume.kind == "nfs"}
    for result in loaded.results:
        facts, cell = result.volume_facts, directory.cell(result.cell_id)
        names |= {result.host.hostname, facts.nfs_server, facts.nfs_export}
        if cell is not None and cell.attach is not None:
            names |= {cell.attach.host, cell.attach.socket, cell.attach.option_file}
    long_names = {name for name in names if name and len(name) >= _NAME_CHARACTERS_MIN}
    return sorted(long_names, key=lambda name: (-len(name), name))


def _without_names(content: bytes, names: list[str]) -> bytes:
    """Return a record without names of machines; that it has one stays visible."""
    document = json.dumps(_hidden(parse_record_json(content)), indent=1, ensure_ascii=False)
    return f"{_replaced(document, names)}\n".encode()


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _HIDDEN if key in _HIDDEN_KEYS and isinstance(item, str) else _hidden(item)
            for key, item in value.items()
        }
    return [_hidden(element) for element in value] if isinstance(value, list) else value


def _replaced(text: str, names: list[str]) -> str:
    for name in names:
        text = text.replace(name, _HIDDEN)
    return text


def _record(
    loaded: LoadedRun, files: Mapping[str, bytes], storage_classes: Mapping[str, str], region: str | None
) -> PackRecord:
    volumes = [volume.name for volume in loaded.run.volumes]
    unknown = sorted(storage_classes.keys() - set(volumes))
    if unknown:
        raise UsageError(
            f"there is no volume {unknown[0]!r} in the run",
            where="--class",
            evidence=f"it has {', '.join(volumes)}",
        )
    class_labels = {name: label for name, label in _known_classes(loaded) if label}
    try:
        return PackRecord(
            volbench_version=__version__,
            run_id=loaded.run.run_id,
            region=region or region_of(loaded.results[0].host),
            storage_classes={**class_labels, **storage_classes},
            files={
                name: PackedFile(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
                for name, content in files.items()
            },
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise UsageError(
            "a label has letters, digits and ` ._+/-` only, and at most 60 of them",
            where=".".join(str(key) for key in fault["loc"]),
            evidence=repr(fault["input"])[:80],
        ) from error


def _known_classes(loaded: LoadedRun) -> Iterator[tuple[str, str | None]]:
    volume_of = {cell.cell_id: cell.volume for cell in loaded.run.cells}
    first: dict[str, CellResult] = {}
    for result in loaded.results:
        first.setdefault(volume_of[result.cell_id], result)
    for name, result in first.items():
        yield name, storage_class_of(result.volume_facts)


def _archive(record: PackRecord, files: Mapping[str, bytes]) -> bytes:
    total = sum(map(len, files.values()))
    if total > _PACK_BYTES_MAX:
        raise Refused(
            "the run is too large for a pack",
            where=record.run_id,
            evidence=f"{counted(len(files), 'file')} of {total >> 20} MiB; at most {_PACK_BYTES_MAX >> 20} fit",
            next_step="pack a run with fewer or shorter cells",
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        document = record.model_dump_json(indent=1, by_alias=True).encode() + b"\n"
        for name, content in {PACK_FILE: document, **files}.items():
            entry = zipfile.ZipInfo(name, _FIRST_MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> None:
    if path.exists() or path.is_symlink():
        raise Refused("the file is there already", where=str(path), next_step="name another one with --out")
    try:
        with safe_files.held_directory(path.parent) as directory:
            safe_files.write_new(directory, path.name, content, mode=0o644)
    except OSError as error:
        raise MissingPrerequisite("the pack cannot be written", where=str(path), evidence=str(error)) from error
