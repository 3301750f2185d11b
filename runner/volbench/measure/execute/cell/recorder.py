"""Writes what steps measure, from any thread, to the cell's two tables."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from volbench.core.records.series import HistogramRow, SeriesRow
from volbench.results.store.run_directory import HISTOGRAMS_FILE, SERIES_FILE

if TYPE_CHECKING:
    from volbench.results.store.histograms import HistogramWriter
    from volbench.results.store.series import SeriesWriter


class CellRecorder:
    """Appends to series.parquet and histograms.parquet; see `recording`."""

    def __init__(self, out: Path, stack: ExitStack) -> None:
        self._out = out
        self._stack = stack
        self._writers: tuple[SeriesWriter, HistogramWriter] | None = None
        self._lock = threading.RLock()

    def series(self, rows: Iterable[SeriesRow]) -> None:
        """Append rows of series.parquet."""
        with self._lock:
            self.open()[0].append(rows)

    def histogram(self, row: HistogramRow) -> None:
        """Append one row of histograms.parquet."""
        self.histograms((row,))

    def histograms(self, rows: Iterable[HistogramRow]) -> None:
        """Append rows of histograms.parquet."""
        with self._lock:
            self.open()[1].append(rows)

    def open(self) -> tuple[SeriesWriter, HistogramWriter]:
        """Begin both tables, if that is not done yet, and return their writers."""
        from volbench.results.store.histograms import HistogramWriter  # noqa: PLC0415 - imports a library of 0.1 s
        from volbench.results.store.series import SeriesWriter  # noqa: PLC0415

        with self._lock:
            if self._writers is None:
                self._writers = (
                    self._stack.enter_context(SeriesWriter(self._out / SERIES_FILE)),
                    self._stack.enter_context(HistogramWriter(self._out / HISTOGRAMS_FILE)),
                )
            return self._writers


@contextmanager
def recording(out: Path) -> Iterator[CellRecorder]:
    """Write both tables. They exist only if the block ends without an exception, and then they are complete."""
    with ExitStack() as stack:
        recorder = CellRecorder(out, stack)
        yield recorder
        recorder.open()
