"""A run's directory: `results/<utc>-<suite>-<id>/`, the only thing that the two halves of volbench share."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from volbench.core.base import safe_files
from volbench.core.base.marker import owner_fault
from volbench.core.base.nearest import nearest_match
from volbench.core.base.ownership import refuse_planted
from volbench.core.records.cell import CELL_SCHEMA, RESULT_SCHEMA, CellResult, CellSpec
from volbench.core.records.run import RUN_SCHEMA, JournalEvent, RunRecord
from volbench.errors import MissingPrerequisite, Refused, RunUnreadable, UsageError
from volbench.results.store.files import CELLS, open_file, read_record, write_record
from volbench.results.store.journal import Journal
from volbench.results.store.references import check_run

RUN_FILE = "run.json"
JOURNAL_FILE = "journal.jsonl"
CELL_FILE = "cell.json"
RESULT_FILE = "result.json"
SERIES_FILE = "series.parquet"
HISTOGRAMS_FILE = "histograms.parquet"
TEMPLATE_FILE = "template.json"


def _nearest_run(path: Path) -> str:
    """Return the run with the most similar name in the directory that a path names, else below results/."""
    for results in dict.fromkeys((path.parent, Path("results"))):
        names = [file.parent.name for file in results.glob(f"*/{RUN_FILE}")]
        if names:
            match = nearest_match(path.name, names)
            return f"perhaps you meant {results / match}" if match else f"the newest run is {results / max(names)}"
    return "there is no run below results/ yet"


def new_run_id(suite: str, *, now: datetime | None = None) -> str:
    """Return `<utc>-<suite>-<id>`: sorts by time, unique by 6 random hex digits."""
    moment = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    return f"{moment}-{suite}-{secrets.token_hex(3)}"


class RunDirectory:
    """Reads and writes one run's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal(path / JOURNAL_FILE)

    @classmethod
    def create(cls, results: Path, run: RunRecord) -> RunDirectory:
        """Make `results/<run_id>` and write run.json.

        Raises Refused if it is there already or another user made a directory above it, see `refuse_planted`;
        MissingPrerequisite where it cannot be made.
        """
        path = results / run.run_id
        refuse_planted(results)
        try:
            path.mkdir(parents=True, exist_ok=False)
            _write_plan(path, run)
        except FileExistsError as error:
            if not path.is_dir():  # a file has the name of one of the directories above
                raise _not_made(path, error) from error
            raise Refused("the run's directory is there already", where=str(path)) from error
        except OSError as error:
            raise _not_made(path, error) from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Return an existing run.

        Raises UsageError when the directory is not a run's, RunUnreadable when damaged.
        """
        if not (path / RUN_FILE).is_file():
            if not path.exists():
                raise UsageError(
                    "there is no such run",
                    where=str(path),
                    evidence=_nearest_run(path),
                    next_step="`volbench list` shows the runs below results/; give one elsewhere by its directory",
                )
            reports = [file for name in ("report.html", "report.md") if (file := path / name).is_file()]
            example = "give a directory below results/, such as results/20260131T120000Z-quick-1a2b3c"
            raise UsageError(
                "not a run's directory: it has no run.json",
                where=str(path),
                next_step=f"the directory holds a finished report only: read {reports[0]}" if reports else example,
            )
        return cls(path.resolve())  # containers are given parts of it by absolute paths

    @property
    def run(self) -> RunRecord:
        """run.json. Raises RunUnreadable, also for names that it has twice or does not have."""
        run = read_record(self.path / RUN_FILE, RunRecord, schema=RUN_SCHEMA)
        check_run(run, self.path / RUN_FILE)
        return run

    def events(self) -> list[JournalEvent]:
        """Return the journal's events in order."""
        return self.journal.events()

    def cell_dir(self, cell_id: str) -> Path:
        """Return where the cell's files are."""
        return self.path / CELLS / cell_id

    def write_cell(self, cell: CellSpec) -> Path:
        """Write cell.json into a new directory for the cell; returns the directory."""
        directory = self.cell_dir(cell.cell_id)
        for parent in (directory.parent, directory):
            parent.mkdir(exist_ok=True)
        write_record(directory / CELL_FILE, cell)
        return directory

    def cell(self, cell_id: str) -> CellSpec | None:
        """Return the cell as its agent was told, or None before it was placed."""
        path = self.cell_dir(cell_id) / CELL_FILE
        return read_record(path, CellSpec, schema=CELL_SCHEMA) if path.exists() else None

    def result(self, cell_id: str) -> CellResult | None:
        """Return the cell's result, or None while it has none."""
        path = self.cell_dir(cell_id) / RESULT_FILE
        if not path.exists():
            return None
        result = read_record(path, CellResult, schema=RESULT_SCHEMA)
        if result.cell_id != cell_id:
            raise RunUnreadable("the result is of another cell", where=str(path), evidence=result.cell_id[:100])
        return result

    def results(self) -> list[CellResult]:
        """Return the results of the planned cells that have one, in planned order."""
        results = (self.result(cell.cell_id) for cell in self.run.cells)
        return [result for result in results if result is not None]

    def attempts(self, cell_id: str) -> int:
        """Return how many earlier attempts of the cell were kept apart."""
        return len(self._kept_attempts(cell_id))

    def set_attempt_apart(self, cell_id: str) -> Path | None:
        """Move an unfinished or failed attempt out of the way, keeping it; returns its new place."""
        directory = self.cell_dir(cell_id)
        if not directory.exists():
            return None
        apart = directory.with_name(f"{cell_id}.attempt-{len(self._kept_attempts(cell_id)) + 1}")
        directory.rename(apart)
        return apart

    def put_back(self, cell_id: str, apart: Path | None = None) -> None:
        """Exchange the cell's attempt for one that was set apart, the last; interrupted, the cell is undone."""
        directory, apart = self.cell_dir(cell_id), apart or self._kept_attempts(cell_id)[-1]
        moved = apart.with_name(f"{apart.name}.new")
        if directory.exists():
            directory.rename(moved)
        apart.rename(directory)
        if moved.exists():
            moved.rename(apart)

    def put_back_done(self, cell_id: str) -> bool:
        """Exchange the cell's attempt for the last one before it that was done. Return whether there is one."""
        for apart in reversed(self._kept_attempts(cell_id)):
            path = apart / RESULT_FILE
            if path.exists() and read_record(path, CellResult, schema=RESULT_SCHEMA).status == "done":
                self.put_back(cell_id, apart)
                return True
        return False

    def last_attempt(self, cell_id: str) -> CellResult | None:
        """Return the result of the attempt that was set apart last, if it left one."""
        attempts = self._kept_attempts(cell_id)
        path = attempts[-1] / RESULT_FILE if attempts else None
        return read_record(path, CellResult, schema=RESULT_SCHEMA) if path is not None and path.exists() else None

    def failed_attempts(self) -> list[tuple[Path, CellResult]]:
        """Return earlier attempts that left a result, in order of their names."""
        attempts = []
        for attempt in sorted((self.path / "cells").glob("*.attempt-*")):
            try:
                attempts.append((attempt, read_record(attempt / RESULT_FILE, CellResult, schema=RESULT_SCHEMA)))
            except RunUnreadable:
                continue  # an attempt that was killed before it could say anything
        return attempts

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Only one orchestrator at a time works on a run.

        Raises Refused naming the one that does, and for a run that another user could change meanwhile.
        """
        self._refuse_foreign()
        try:
            descriptor = open_file(self.path / ".lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EINVAL, errno.EMLINK, errno.ENXIO):
                raise
            raise Refused(
                "the run's lock file is not one that volbench made",
                where=str(self.path / ".lock"),
                evidence=f"{error.strerror or error}",
                next_step="look what it is with `ls -la`, and remove it if no volbench works on this run",
            ) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.pread(descriptor, 100, 0).decode(errors="replace").strip()
                raise Refused(
                    "another volbench works on this run",
                    where=str(self.path),
                    evidence=f"the lock is held by process {holder or 'unknown'}",
                    next_step="wait for it, or end it with Ctrl-C in its terminal, then `volbench resume RUN`",
                ) from error
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def _refuse_foreign(self) -> None:
        refuse_planted(self.path)
        for directory in (self.path, self.path / CELLS):
            try:
                with safe_files.held_directory(directory) as descriptor:
                    fault = owner_fault(descriptor, directory)
            except FileNotFoundError:
                continue
            except NotADirectoryError:
                fault = "it is a symbolic link or a file"
            if fault is not None:
                raise Refused(
                    "the run's directory is not this user's own",
                    where=str(directory),
                    evidence=fault,
                    next_step="work on it as that user, or on a copy of your own without links (cp -rL)",
                )

    def done_of_each_volume(self) -> dict[str, int]:
        """Return how many cells of each volume with a planned cell are done."""
        volume_of = {cell.cell_id: cell.volume for cell in self.run.cells}
        done = Counter(volume_of[result.cell_id] for result in self.results() if result.status == "done")
        return {name: done[name] for name in dict.fromkeys(volume_of.values())}

    def extend(self, run: RunRecord, *, budget_s: float | None = None) -> None:
        """Record that the run gets a longer plan, then replace run.json; the cells so far stay as they are.

        Ended between the two, the run has its shorter plan and goes on with it: no cell of it is skipped.
        """
        details: dict[str, Any] = {"cells": len(run.cells) - len(self.run.cells), "repeats": run.suite.repeats}
        if budget_s is not None:
            details["budget_s"] = budget_s
        self.journal.append("run_extended", **details)
        write_record(self.path / RUN_FILE, run)

    def _kept_attempts(self, cell_id: str) -> list[Path]:
        attempts = (self.path / "cells").glob(f"{cell_id}.attempt-*")
        return sorted(attempts, key=lambda path: (len(path.name), path.name))


def _write_plan(path: Path, run: RunRecord) -> None:
    """Write what a new run's directory begins with; if that fails, the directory, which nobody saw, is gone."""
    try:
        (path / CELLS).mkdir()
        write_record(path / RUN_FILE, run)
    except BaseException:
        for erase in ((path / RUN_FILE).unlink, (path / CELLS).rmdir, path.rmdir):
            with suppress(OSError):
                erase()
        raise


def _not_made(path: Path, error: OSError) -> MissingPrerequisite:
    return MissingPrerequisite(
        "the run's directory cannot be made",
        where=str(path),
        evidence=f"{error.strerror or error} (user {os.geteuid()})",
        next_step="give this user a directory that it may write to, or name another with --out",
    )


def find_runs(results: Path) -> list[RunDirectory]:
    """Return all run directories below results/, oldest first; foreign entries are passed over."""
    if not results.is_dir():
        return []
    return [RunDirectory(path.parent) for path in sorted(results.glob(f"*/{RUN_FILE}"))]


def has_runs(results: Path) -> bool:
    """Return whether there is a run's directory below results/, without looking at all of them."""
    return next(results.glob(f"*/{RUN_FILE}"), None) is not None
