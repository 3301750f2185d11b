"""Dataset templates: data directories made once, cleanly shut down, kept in a cache to be copied to volumes.

CACHE/KEY/.volbench-owned.json   the mark of volbench's directories
CACHE/KEY/complete.json          written last: without it there is no template
CACHE/KEY/data/                  the data directory
CACHE/KEY.lock                   locked (flock) by the preparing process, which works on CACHE/KEY.partial
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from volbench.core.base import ownership, safe_files
from volbench.core.plan.cost import dataset_bytes, server_bytes
from volbench.core.records.base import Record, Scalar
from volbench.core.records.cell import CellPlaces, ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.layout import ComponentPlaces
from volbench.errors import StepFailed, UsageError
from volbench.machine.engine.connection import write_private
from volbench.machine.engine.dataset import Progress, TableRecord, fill, sysbench_version
from volbench.machine.engine.encryption import encrypt_undo
from volbench.machine.engine.own_data.physical_copy import (
    FIRST_START,
    disarm,
    is_physical_copy,
    place_physical_copy,
)
from volbench.machine.engine.roles import role_directories, role_of_file
from volbench.machine.engine.seeding import seed_roles
from volbench.machine.engine.server import ACCOUNT_FILE, Server
from volbench.machine.engine.supervisor import Supervisor
from volbench.machine.engine.sysbench.config import sysbench_program
from volbench.machine.engine.template_key import TEMPLATE_SCHEMA, template_key
from volbench.machine.volume.copying import CopyStats, copy_tree, no_progress
from volbench.machine.volume.space import require_space

COMPLETE_FILE = "complete.json"
DATA_DIR = "data"
PREPARE_TIMEOUT_S = 6 * 3600.0
_DATA_DIR_MODE = 0o700
_LOCK_POLL_S = 0.5

_PREPARING_OPTIONS: dict[str, Scalar] = {
    # Nothing is measured here, and after a crash the work starts over: no syncs, no binary log to copy.
    "innodb_flush_log_at_trx_commit": 0,
    "innodb_doublewrite": False,
    "log_bin": False,
    "sync_binlog": 0,
    "performance_schema": False,
    # A slow shutdown purges and merges everything, so that a cell does not begin with that work.
    "innodb_fast_shutdown": 0,
}


class TemplateRecord(Record):
    """complete.json."""

    schema_: int = Field(default=TEMPLATE_SCHEMA, alias="schema")
    key: str
    flavor: str
    version: str
    dataset: DatasetSpec
    tables: dict[str, TableRecord]
    files: int
    data_bytes: int
    sysbench: str
    made_at: str
    made_in_s: float
    notes: tuple[str, ...] = Field(default=(), description="What of a dump was left out or changed.")

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def sha256(self) -> str:
        """A hash over names, rows and checksums of the tables."""
        values = {name: [table.rows, table.checksum] for name, table in self.tables.items()}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Template:
    """A complete template."""

    path: Path
    record: TemplateRecord

    @property
    def data_dir(self) -> Path:
        """The directory to copy."""
        return self.path / DATA_DIR


def template_path(cache: Path, dataset: DatasetSpec, server: Server, run_id: str = "") -> Path:
    """Return the path of the template for that dataset and server; runs the server's binary for its version."""
    return cache / template_key(dataset, server.spec, server.identity, run_id)


def verify_template(path: Path) -> Template:
    """Return a template that is complete and has not changed since.

    Raises StepFailed (cause `template_missing` or `template_damaged`) otherwise.
    """
    try:
        record = TemplateRecord.model_validate_json((path / COMPLETE_FILE).read_bytes())
    except FileNotFoundError as error:
        raise StepFailed(
            "the dataset's template does not exist",
            where="template",
            evidence=str(path),
            next_step="`volbench run` prepares the template before its first cell",
            cause="template_missing",
        ) from error
    except (OSError, ValidationError) as error:
        raise _damaged(path, str(error)[:300]) from error
    try:
        files, data_bytes = _measure(path / DATA_DIR)
    except OSError as error:
        raise _damaged(path, str(error)) from error
    if (files, data_bytes) != (record.files, record.data_bytes) or not (path / DATA_DIR / ACCOUNT_FILE).is_file():
        before = f"{record.files} files of {record.data_bytes} bytes when the template was built"
        raise _damaged(path, f"{files} files of {data_bytes} bytes; {before}")
    return Template(path=path, record=record)


def prepare_template(
    *,
    spec: ServerSpec,
    dataset: DatasetSpec,
    paths: CellPlaces,
    supervisor: Supervisor,
    run_id: str = "",
    progress: Progress = lambda _text, _fraction: None,
    cancelled: threading.Event | None = None,
    timeout_s: float = PREPARE_TIMEOUT_S,
) -> Template:
    """Return the template of a dataset; build it if it is not in the cache `paths.template_dir` yet.

    Safe against crashes and against processes that prepare the same template: they wait for each other.

    Args:
        paths: of the preparing agent; its `data_dir` is unused, the server works in the cache itself.
        supervisor: of `paths.control_dir`, with no server running.

    Raises MissingPrerequisite without sysbench, server or space; StepFailed if any step fails.
    """
    cancelled = cancelled or threading.Event()
    cache = Path(paths.template_dir)
    path = template_path(cache, dataset, Server(spec=spec, paths=paths, supervisor=supervisor), run_id)
    with _locked(cache / f"{path.name}.lock", timeout_s, cancelled, progress):
        if (path / COMPLETE_FILE).exists():
            try:
                return verify_template(path)
            except StepFailed:
                progress("the template in the cache is damaged: building it again", None)
        _check_space(cache, dataset, spec)
        ownership.remove(path)
        partial = cache / f"{path.name}.partial"
        ownership.remove(partial)
        ownership.claim(partial, purpose="template")
        own = {"data_dir": str(partial / DATA_DIR), "server_data_dir": "", "layout": ()}
        template_paths = paths.model_copy(update=own)
        server = Server(spec=_preparing(spec), paths=template_paths, supervisor=supervisor)
        started_s = time.monotonic()
        notes: list[str] = []
        try:
            tables = _build(server, dataset, notes, timeout_s=timeout_s, cancelled=cancelled, progress=progress)
        except BaseException:
            if dataset.is_own:  # it may be large, and may never load
                ownership.remove(partial)
            raise
        if os.geteuid() == 0:
            _take_ownership(partial / DATA_DIR)
        files, data_bytes = _remove_instance_files(partial)
        record = TemplateRecord(
            key=path.name,
            flavor=server.identity.flavor,
            version=server.identity.version,
            dataset=dataset,
            tables=tables,
            files=files,
            data_bytes=data_bytes,
            sysbench="" if dataset.is_own else sysbench_version(),
            made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            made_in_s=time.monotonic() - started_s,
            notes=tuple(notes),
        )
        _publish(partial, path, record)
    return Template(path=path, record=record)


def seed(
    template_dir: Path,
    data_dir: Path,
    *,
    components: Sequence[ComponentPlaces] = (),
    workers: int = 4,
    progress: Callable[[int, int], None] = no_progress,
) -> CopyStats:
    """Copy a template's data to a new or empty data directory, for a server that runs as this process's user.

    Args:
        template_dir: CACHE/KEY, as `template_path` names it.
        components: of a layout: the files of their roles go to their volumes.
        progress: called with bytes done and bytes in all.

    Raises StepFailed for a template that is missing or damaged, and what `copy_tree` raises.
    """
    template = verify_template(template_dir)
    # No reflink: the first write to a shared extent is a copy on write, which the other volumes do not pay.
    directories = role_directories(components)
    stats = copy_tree(
        template.data_dir,
        data_dir,
        workers=workers,
        progress=progress,
        reflink=False,
        select=lambda name: role_of_file(name) not in directories,
    )
    seed_roles(template.data_dir, directories, workers=workers)
    for directory in (data_dir, *directories.values()):
        directory.chmod(_DATA_DIR_MODE)
        if os.geteuid() == 0:
            _take_ownership(directory)
    return stats


def _preparing(spec: ServerSpec) -> ServerSpec:
    """Return the server's specification with options that make the preparation fast."""
    return spec.model_copy(update={"config": {**spec.config, **_PREPARING_OPTIONS}})


def _build(
    server: Server,
    dataset: DatasetSpec,
    notes: list[str],
    *,
    timeout_s: float,
    cancelled: threading.Event,
    progress: Progress,
) -> dict[str, TableRecord]:
    if not dataset.is_own:
        sysbench_program()
    physical = is_physical_copy(dataset)
    if physical and server.spec.encryption != "none":
        raise UsageError(
            "a physical copy stays as it is: volbench encrypts tables that it loads",
            where="engine.encryption",
            evidence=f"{dataset.path} is a physical copy",
            next_step="load a dump of those data, or set engine.encryption: none",
        )
    try:
        if physical:
            place_physical_copy(dataset, server.data_dir, server.identity, progress)
            if os.geteuid() == 0:
                _take_ownership(server.data_dir)
            server.adopt()
        else:
            progress("initialising a data directory", None)
            server.initialise()
        progress("starting the server", None)
        server.start(FIRST_START if physical else None)
        if physical:
            for note in disarm(server):
                progress(note, None)
                notes.append(note)
        tables = fill(
            server,
            dataset,
            timeout_s=timeout_s,
            cancelled=cancelled,
            progress=progress,
            notes=notes,
        )
        if server.spec.encryption == "all":
            encrypt_undo(server.query, server.identity, timeout_s=timeout_s)
        server.check_encryption()
        progress("shutting down, everything purged and flushed", None)
        server.stop()
    except BaseException:
        if server.alive():
            server.kill()
        raise
    return tables


def _remove_instance_files(partial: Path) -> tuple[int, int]:
    """Remove what a copy must not have; return the number of files left and their bytes."""
    data_dir = partial / DATA_DIR
    (data_dir / "auto.cnf").unlink(missing_ok=True)  # the server's UUID: each copy gets its own
    temporary = partial / "tmp"
    if temporary.exists():
        ownership.discard(temporary)
    return _measure(data_dir)


def _publish(partial: Path, path: Path, record: TemplateRecord) -> None:
    write_private(partial / COMPLETE_FILE, record.model_dump_json(by_alias=True, indent=1))
    for directory in (partial, partial / DATA_DIR):
        safe_files.sync_path(directory)
    partial.rename(path)
    safe_files.sync_path(path.parent)


@contextmanager
def _locked(lock_file: Path, timeout_s: float, cancelled: threading.Event, progress: Progress) -> Iterator[None]:
    until = time.monotonic() + timeout_s
    with os.fdopen(safe_files.open_own(lock_file, os.O_RDWR | os.O_CREAT)) as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= until or cancelled.is_set():
                    raise StepFailed(
                        "timeout while another volbench prepares the same template",
                        where="template",
                        evidence=f"{lock_file} is locked; `fuser -v {lock_file}` names the process",
                    ) from error
                progress("waiting for another volbench that prepares this template", None)
                cancelled.wait(_LOCK_POLL_S)
        yield


def _check_space(cache: Path, dataset: DatasetSpec, spec: ServerSpec) -> None:
    require_space(
        cache,
        dataset_bytes(dataset) + server_bytes(spec),
        purpose="the dataset's template",
        next_step="free some space, or name another cache directory with VOLBENCH_CACHE",
    )


def _measure(directory: Path) -> tuple[int, int]:
    """Return the number of files below a directory and the sum of their sizes."""
    files = sizes = 0
    for root, _, names in os.walk(directory, onerror=_raise):
        for name in names:
            files += 1
            sizes += (Path(root) / name).lstat().st_size
    return files, sizes


def _raise(error: OSError) -> None:
    raise error


def _damaged(path: Path, evidence: str) -> StepFailed:
    return StepFailed(
        "the dataset's template is damaged",
        where="template",
        evidence=f"{path}: {evidence}",
        next_step="`volbench run` prepares the template again before its first cell",
        cause="template_damaged",
    )


def _take_ownership(data_dir: Path) -> None:
    """Change the owner to root, whose copy has kept the owners of the template's files."""
    for root, directories, files in os.walk(data_dir):
        for name in (".", *directories, *files):
            os.chown(Path(root) / name, os.geteuid(), os.getegid(), follow_symlinks=False)
