"""volbench: what a storage volume does to MySQL, and why.

import volbench
run = volbench.run("suites/quick.yaml", volumes={"gp3": "path:/mnt/gp3", "io2": "path:/mnt/io2"})
run = volbench.open("latest")
run.summary.sentence, run.findings, run.metrics().to_pandas()
"""

from __future__ import annotations

import logging
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volbench.api import Run, run

    __all__ = ["Run", "__version__", "open", "run"]

__version__ = "0.2.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # cli/logs.py sets the log up; nobody else prints it


def open(path: str | PathLike[str]) -> Run:  # noqa: A001 - as gzip.open and tarfile.open
    """Return the results of the run in a directory; `volbench.api.Run` says what it offers."""
    from volbench.api import open_run  # noqa: PLC0415 - most commands open no run, and this imports pyarrow

    return open_run(path)


def __getattr__(name: str) -> object:
    """Return `run`, which most processes do not need: the planner and the runner take time to import."""
    if name == "run":
        from volbench.api import run  # noqa: PLC0415 - see above

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
