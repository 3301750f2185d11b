"""All runs of a directory as summaries. A report that has not changed since the last time is not read again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from volbench import __version__
from volbench.core.records.base import Record
from volbench.core.records.report import REPORT_SCHEMA, Report
from volbench.errors import MissingPrerequisite, RunUnreadable, UsageError
from volbench.results.site.change_points import ChangePoint
from volbench.results.site.summary import SUMMARY_SCHEMA, RunSummary, summarise
from volbench.results.store.files import read_record
from volbench.results.store.run_directory import RUN_FILE

REPORT_FILE = "report.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")


class IndexedRun(Record):
    """One directory of RESULTS: the summary of its report, or why there is none.

    Args:
        stamp: size and time of the report that was read.
    """

    name: str
    stamp: tuple[int, int]
    summary: RunSummary | None = None
    fault: str = ""
    has_page: bool = False


class Index(Record):
    """What the site knows of RESULTS; also the file that makes the next build quick."""

    made_by: str = Field(description="Version of volbench and of the summaries.")
    runs: tuple[IndexedRun, ...] = ()
    changes: dict[str, tuple[ChangePoint, ...]] = Field(
        default_factory=dict, description="Digest of a history's values -> its change points."
    )
    pages: dict[str, str] = Field(default_factory=dict, description="File of the site -> digest of what it shows.")


def current_version() -> str:
    """Return what an index must be made by to be used again."""
    return f"volbench {__version__}, summaries {SUMMARY_SCHEMA}"


def read_index(results: Path, previous: Index | None) -> tuple[Index, int]:
    """Return the index of all runs, oldest first, and how many reports were read.

    Args:
        results: a directory of runs; entries that are no runs are passed over.
        previous: of the last build, if it is of this version.

    Raises UsageError when there is no such directory, or no run in it.
    """
    if not results.is_dir():
        raise UsageError("there is no such directory of results", where=str(results))
    previous_runs = (
        {run.name: run for run in previous.runs} if previous and previous.made_by == current_version() else {}
    )
    runs = [_indexed(directory, previous_runs) for directory in sorted(results.iterdir()) if _is_run(directory)]
    if not runs:
        raise UsageError(
            "there is no run in the directory",
            where=str(results),
            next_step="name the directory that `volbench run` writes to, such as results",
        )
    read = sum(previous_runs.get(run.name) is not run for run in runs)
    runs.sort(key=lambda run: (run.summary.started_at if run.summary else "", run.name))
    carried_over = {"changes": previous.changes, "pages": previous.pages} if previous and previous_runs else {}
    return Index(made_by=current_version(), runs=tuple(runs), **carried_over), read


def _is_run(directory: Path) -> bool:
    return bool(_NAME.fullmatch(directory.name)) and (
        (directory / REPORT_FILE).is_file() or (directory / RUN_FILE).is_file()
    )


def _indexed(directory: Path, previous_runs: Mapping[str, IndexedRun]) -> IndexedRun:
    report, page = directory / REPORT_FILE, (directory / "report.html").is_file()
    try:
        status = report.stat()
    except FileNotFoundError:
        fault = f"no report yet: volbench report {directory}"
        return IndexedRun(name=directory.name, stamp=(0, 0), fault=fault)
    stamp = (status.st_size, status.st_mtime_ns)
    run = previous_runs.get(directory.name)
    if run is not None and run.stamp == stamp and run.has_page == page:
        return run
    try:
        summary = summarise(read_record(report, Report, schema=REPORT_SCHEMA))
    except (RunUnreadable, MissingPrerequisite) as error:
        return IndexedRun(name=directory.name, stamp=stamp, fault=str(error), has_page=page)
    return IndexedRun(name=directory.name, stamp=stamp, summary=summary, has_page=page)
