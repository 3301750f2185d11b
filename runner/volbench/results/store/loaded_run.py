"""A run as it was read once: what reports, explanations and comparisons are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from volbench.core.records.cell import CellResult
from volbench.core.records.run import JournalEvent, RunRecord
from volbench.errors import RunUnreadable
from volbench.results.store.added import series_files
from volbench.results.store.histograms import Histograms, load_histograms
from volbench.results.store.references import check_events, check_result
from volbench.results.store.run_directory import HISTOGRAMS_FILE, JOURNAL_FILE, RESULT_FILE, RunDirectory
from volbench.results.store.series import Series, SeriesKey, read_series

TABLES_BYTES_MAX = 384 << 20
"""Tables that are kept in memory; those beyond are read again by whoever needs them once more."""
_Table = TypeVar("_Table")


class _Tables:
    """Tables by their file, with the fault of those that cannot be read."""

    def __init__(self) -> None:
        self._tables: dict[Path, object] = {}
        self._bytes = 0

    def get(self, path: Path, read: Callable[[Path], _Table], size: Callable[[_Table], int]) -> _Table:
        """Return the table, read at most once while it is kept. Raises RunUnreadable, also when asked again."""
        if path not in self._tables:
            try:
                table = read(path)
            except RunUnreadable as error:
                self._tables[path] = error
                raise
            self._bytes += size(table)
            if self._bytes > TABLES_BYTES_MAX:
                self._bytes -= size(table)
                return table
            self._tables[path] = table
        table_or_fault = self._tables[path]
        if isinstance(table_or_fault, RunUnreadable):
            raise table_or_fault
        return cast("_Table", table_or_fault)


@dataclass(frozen=True, kw_only=True)
class LoadedRun:
    """The records of a run, and the tables of its cells as they are needed.

    Records are read when the run is loaded. A cell's tables are read at first use and then kept, up to
    TABLES_BYTES_MAX for the run: a cell of 24 h may have 300 MB.
    """

    path: Path
    run: RunRecord
    results: tuple[CellResult, ...]
    events: tuple[JournalEvent, ...]
    failed_attempts: tuple[tuple[Path, CellResult], ...]
    _tables: _Tables = field(default_factory=_Tables, repr=False, compare=False)

    def cell_dir(self, cell_id: str) -> Path:
        """Return where the cell's files are."""
        return RunDirectory(self.path).cell_dir(cell_id)

    def has_series(self, cell_id: str) -> bool:
        """Return whether the cell has any samples, its own or added ones."""
        return bool(series_files(self.cell_dir(cell_id)))

    def series_by_file(self, cell_id: str) -> tuple[Mapping[SeriesKey, Series], ...]:
        """Return the cell's own series first, then those of each file that was added. Raises RunUnreadable."""
        return tuple(
            self._tables.get(path, read_series, _series_bytes) for path in series_files(self.cell_dir(cell_id))
        )

    def series(self, cell_id: str) -> dict[SeriesKey, Series]:
        """Return all series of a cell; where the cell has one itself, that one. Raises RunUnreadable."""
        series: dict[SeriesKey, Series] = {}
        for of_file in self.series_by_file(cell_id):
            series = {**of_file, **series}
        return series

    def histograms(self, cell_id: str) -> Histograms:
        """Return the cell's histograms; none where it has no such table. Raises RunUnreadable."""
        path = self.cell_dir(cell_id) / HISTOGRAMS_FILE
        if not path.exists():
            return Histograms()
        return self._tables.get(path, load_histograms, lambda histograms: histograms.nbytes)


def load_run(directory: RunDirectory) -> LoadedRun:
    """Read the records of a run, each file once.

    Raises RunUnreadable naming a file that is damaged, foreign, or does not fit the others.
    """
    run = directory.run
    planned = (directory.result(cell.cell_id) for cell in run.cells)
    results = tuple(result for result in planned if result is not None)
    for result in results:
        check_result(run, result, directory.cell_dir(result.cell_id) / RESULT_FILE)
    events = tuple(directory.events())
    check_events(run, events, directory.path / JOURNAL_FILE)
    return LoadedRun(
        path=directory.path,
        run=run,
        results=results,
        events=events,
        failed_attempts=tuple(directory.failed_attempts()),
    )


def _series_bytes(series: Mapping[SeriesKey, Series]) -> int:
    times = {id(samples.t_s): samples.t_s.nbytes for samples in series.values()}
    return sum(times.values()) + sum(samples.t_s.nbytes for samples in series.values())
