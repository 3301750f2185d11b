"""Where a history comes from: a plain series, a cell of a run, or what sysstat, iostat and CloudWatch recorded."""

from __future__ import annotations

from pathlib import Path

from volbench.analysis.credits.history import Assumed, History, read_plain_series
from volbench.errors import UsageError


def read_history(path: Path, assumed: Assumed, *, device: str = "") -> History:
    """The load that a file or a run's directory tells of.

    Args:
        path: a file, or the directory of a run or of one of its cells.
        assumed: what is taken for what it does not tell.
        device: which device of several; empty: the only one.

    Raises UsageError for what is no history, saying what is wrong with it.
    """
    if not path.exists():
        raise UsageError("there is no such file or directory", where=f"--from {path}")
    return read_plain_series(path, assumed)
