"""Copies of a run's directory in a bucket: the plan before the first cell, then after each cell, and at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from volbench.core.base.text import size
from volbench.errors import VolbenchError
from volbench.measure.execute.run import CellState
from volbench.results.store.bucket import Bucket
from volbench.results.store.run_directory import RunDirectory


@contextmanager
def copied(directory: RunDirectory, bucket: Bucket | None, say: Callable[[str], None]) -> Iterator[None]:
    """Copy the run's directory when the block ends, also when a cell failed.

    The plan is copied first, so that a bucket that refuses writes fails before anything is measured.
    """
    if bucket is None:
        yield
        return
    bucket.copy(directory.path)
    try:
        yield
    except VolbenchError:
        try:
            _copy(directory, bucket, say)
        except VolbenchError as error:
            say(str(error))  # the command ends with the run's own failure
        raise
    _copy(directory, bucket, say)


def copying(
    watch: Callable[[CellState], None], directory: RunDirectory, bucket: Bucket | None, say: Callable[[str], None]
) -> Callable[[CellState], None]:
    """Return a watcher that also copies the run's directory when a cell has ended and the next one begins.

    A bucket that refuses then is only reported: the measurement goes on, and the copy at the end fails with it.
    """
    if bucket is None:
        return watch
    lock = Lock()
    current = ""

    def watch_and_copy(state: CellState) -> None:
        nonlocal current
        watch(state)
        if state.cell_id == current or not lock.acquire(blocking=False):
            return
        try:
            if current:
                bucket.copy(directory.path)
        except VolbenchError as error:
            say(f"not copied after cell {current}: {error.what}: {error.evidence}")
        finally:
            current = state.cell_id
            lock.release()

    return watch_and_copy


def _copy(directory: RunDirectory, bucket: Bucket, say: Callable[[str], None]) -> None:
    copy = bucket.copy(directory.path)
    amounts = f"{copy.files} files, {size(copy.size_bytes)}, each read back and compared"
    say(f"copied to {copy.destination}: {amounts}; {copy.unchanged} already existed")
