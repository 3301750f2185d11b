"""volbench: what a storage volume does to MySQL, and why.

import volbench
run = volbench.open("results/20260131T120000Z-quick-1a2b3c")
run.summary.sentence, run.findings, run.metrics().to_pandas()
"""

from __future__ import annotations

import logging
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volbench.api import Run

__version__ = "0.2.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # cli/logs.py sets the log up; nobody else prints it


def open(path: str | PathLike[str]) -> Run:  # noqa: A001 - as gzip.open and tarfile.open
    """The results of the run in a directory; `volbench.api.Run` says what it offers."""
    from volbench.api import open_run  # noqa: PLC0415 - most commands open no run, and this imports pyarrow

    return open_run(path)
