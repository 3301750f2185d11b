"""Writes the site: only what has changed since the last build, and nothing into a directory of somebody else's."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from volbench.core.base import safe_files
from volbench.core.base.ownership import refuse_planted
from volbench.core.base.text import counted
from volbench.errors import MissingPrerequisite, Refused, UsageError
from volbench.results.site import pages
from volbench.results.site.board import Board, RefusedPack, pack_files, read_board
from volbench.results.site.history import RECENT_RUNS, ChangeCache, MetricHistory, histories
from volbench.results.site.index import Index, IndexedRun, read_index
from volbench.results.site.junit import junit, regression_text
from volbench.results.site.pair import markdown, side_by_side
from volbench.results.site.summary import RunSummary
from volbench.results.store.files import read_file

INDEX_FILE = ".volbench-site.json"
"""In the site's directory: what it was made from; also the sign that volbench may write there."""
JUNIT_FILE = "regressions.xml"
BOARD_FILE = "board.html"
_FILE_OF_A_SITE = re.compile(r"(?:\w+/)?[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""A file in the site's directory, or in one below it."""


@dataclass(frozen=True, kw_only=True)
class BuiltSite:
    """What a build did.

    Args:
        read: reports that were read; the others were known.
        written: files of the site that changed.
        regressions: a sentence each.
        packs, refused: packs on the board, and those that are not.
    """

    index: Path
    runs: int
    unreadable: int
    read: int
    written: int
    regressions: tuple[str, ...]
    packs: int = 0
    refused: tuple[RefusedPack, ...] = ()


def build_site(
    results: Path,
    out: Path,
    *,
    pairs: Sequence[tuple[str, str]] = (),
    recent: int = RECENT_RUNS,
    copy_reports: bool = False,
    packs: Sequence[Path] = (),
) -> BuiltSite:
    """Write the site of all runs below a directory.

    Args:
        results: where the runs are.
        out: a new or empty directory, or one of an earlier build.
        pairs: names of two runs each, to put side by side; the latest runs and their predecessors are there anyway.
        recent: a worse level within so many of the latest runs is a regression.
        copy_reports: take the runs' report.html along, for a site that is published elsewhere.
        packs: result packs, or directories of them, for a board; one that cannot be used is named on it.

    Raises UsageError for a directory without runs and an unknown run, Refused for a directory that is not ours,
    MissingPrerequisite where it cannot be written.
    """
    refuse_planted(out)
    previous = _previous(out)
    board = read_board(pack_files(packs)) if packs else None
    index, read = read_index(results, previous)
    summaries = {run.name: run.summary for run in index.runs if run.summary is not None}
    cache = ChangeCache(index.changes)
    all_histories = histories(summaries.values(), names=list(summaries), cache=cache)
    try:
        out.mkdir(parents=True, exist_ok=True)
        writer = _Writer(out, dict(index.pages))
        _write_pages(
            writer,
            index,
            summaries,
            all_histories,
            results=results,
            recent=recent,
            copied=copy_reports,
            board=board,
        )
        for first, second in (*_neighbours(summaries), *(_checked(pair, summaries) for pair in pairs)):
            _write_pair(writer, (first, second), index, summaries)
        if copy_reports:
            _copy_reports(index.runs, results, writer)
        writer.finish()
        made = index.model_copy(update={"changes": cache.used, "pages": writer.pages})
        _replace(writer.out / INDEX_FILE, made.model_dump_json().encode())
    except OSError as error:
        raise MissingPrerequisite(
            "the site cannot be written", where=str(out), evidence=f"{type(error).__name__}: {error}"
        ) from error
    return BuiltSite(
        index=out / "index.html",
        runs=len(index.runs),
        unreadable=len(index.runs) - len(summaries),
        read=read,
        written=writer.written,
        regressions=tuple(filter(None, (regression_text(history, recent=recent) for history in all_histories))),
        packs=len(board.packs) if board else 0,
        refused=board.refused if board else (),
    )


def _previous(out: Path) -> Index | None:
    """Return the index of the last build; None for a new directory. Raise Refused for a foreign one."""
    if not out.exists():
        return None
    if not out.is_dir():
        raise Refused("the site needs a directory", where=str(out), next_step="choose another --out")
    try:
        content = (out / INDEX_FILE).read_bytes()
    except FileNotFoundError:
        if any(out.iterdir()):
            raise Refused(
                "the directory is not empty, and volbench did not make it",
                where=str(out),
                evidence=f"it has no {INDEX_FILE}",
                next_step="choose a new directory with --out",
            ) from None
        return None
    except OSError as error:
        raise MissingPrerequisite("the site cannot be read", where=str(out), evidence=str(error)) from error
    try:
        return Index.model_validate_json(content)
    except ValidationError:
        return None  # of another version, or damaged: everything is read again


class _Writer:
    """Writes files of a site whose content differs from the last build's, and removes those no longer made."""

    def __init__(self, out: Path, previous: dict[str, str]) -> None:
        self.out = out.resolve()
        self._previous = previous
        self.pages: dict[str, str] = {}
        self.written = 0

    def is_current(self, name: str, digest: str) -> bool:
        """Return whether the last build wrote this file of the same content; then it is kept."""
        if self._previous.get(name) == digest and (self.out / name).is_file():
            self.pages[name] = digest
            return True
        return False

    def write(self, name: str, content: str | bytes, *, digest: str | None = None) -> None:
        """Write a file unless it is current; `digest` of what it is made from, else of its content."""
        data = content.encode() if isinstance(content, str) else content
        digest = digest or _digest(data)
        if self.is_current(name, digest):
            return
        path = self.out / name
        path.parent.mkdir(exist_ok=True)
        _replace(path, data)
        self.pages[name] = digest
        self.written += 1

    def finish(self) -> None:
        """Remove the files of the last build that this one has not."""
        for name in filter(_FILE_OF_A_SITE.fullmatch, self._previous.keys() - self.pages.keys()):
            path = self.out / name
            with suppress(OSError), safe_files.held_directory(path.parent) as directory:  # gone, or behind a link
                os.unlink(path.name, dir_fd=directory)


def _write_pages(
    writer: _Writer,
    index: Index,
    summaries: dict[str, RunSummary],
    all_histories: Sequence[MetricHistory],
    *,
    results: Path,
    recent: int,
    copied: bool,
    board: Board | None,
) -> None:
    for name, content in pages.assets():
        writer.write(name, content)
    for run in index.runs:
        name, digest = f"data/{run.name}.js", _digest(repr((pages.version(), run.stamp)).encode())
        if run.summary is not None and not writer.is_current(name, digest):
            writer.write(name, pages.run_data(run.name, run.summary), digest=digest)
    by_page: dict[str, list[MetricHistory]] = {}
    for history in all_histories:
        by_page.setdefault(pages.history_page_name(history), []).append(history)
    for page, group in by_page.items():
        digest = _digest(
            repr((pages.version(), recent, [(history.points, history.changes) for history in group])).encode()
        )
        if not writer.is_current(page, digest):
            writer.write(page, pages.history_page(group, summaries, recent=recent), digest=digest)
    reports = None if copied else Path(os.path.relpath(results, writer.out)).as_posix()
    writer.write("index.html", pages.index_page(index, by_page, recent=recent, reports=reports, board=board))
    if board is not None:
        writer.write(BOARD_FILE, pages.board_page(board))
    writer.write("compare.html", pages.compare_page())
    writer.write(JUNIT_FILE, junit(all_histories, recent=recent))


def _write_pair(writer: _Writer, names: tuple[str, str], index: Index, summaries: Mapping[str, RunSummary]) -> None:
    """Write a pair's page and Markdown, unless both runs are those of the last build."""
    file = pages.pair_page_name(*names)
    stamps = {run.name: run.stamp for run in index.runs}
    digest = _digest(repr((pages.version(), [stamps[name] for name in names])).encode())
    if writer.is_current(f"{file}.html", digest) and writer.is_current(f"{file}.md", digest):
        return
    pair = side_by_side(names, summaries[names[0]], summaries[names[1]])
    writer.write(f"{file}.html", pages.pair_page(pair), digest=digest)
    writer.write(f"{file}.md", markdown(pair), digest=digest)


def _neighbours(summaries: dict[str, RunSummary]) -> Iterable[tuple[str, str]]:
    """Yield (predecessor, run) of the same suite for its latest runs: others are compared in the browser."""
    latest: dict[str, list[str]] = {}
    for name, run in summaries.items():
        latest.setdefault(run.suite, []).append(name)
    for names in latest.values():
        yield from zip(names[-RECENT_RUNS:], names[-RECENT_RUNS:][1:], strict=False)


def _checked(pair: tuple[str, str], summaries: dict[str, RunSummary]) -> tuple[str, str]:
    """Return the names of two runs, of their directories or paths. Raise UsageError for one that is unknown."""
    first, second = (Path(name).name for name in pair)
    for name in (first, second):
        if name not in summaries:
            raise UsageError(
                f"there is no run {name!r} with a report",
                where="pair",
                evidence=f"the site has {counted(len(summaries), 'run')}",
            )
    return first, second


def _copy_reports(runs: Iterable[IndexedRun], results: Path, writer: _Writer) -> None:
    for run in runs:
        if run.has_page:
            name, source = f"reports/{run.name}.html", results / run.name / "report.html"
            digest = json.dumps([source.stat().st_size, source.stat().st_mtime_ns])
            if not writer.is_current(name, digest):
                writer.write(name, read_file(source), digest=digest)


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that readers see the old or the new one; its directory must not be a link. Raise OSError."""
    with safe_files.held_directory(path.parent) as directory:
        safe_files.write_new(directory, path.name, content, mode=0o644, sync=False)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
