"""Runs as they are named on the command line: a directory, a run's id, or `latest`."""

from __future__ import annotations

from pathlib import Path

from volbench.results.store.run_directory import RUN_FILE

LATEST = "latest"
RESULTS = Path("results")


def run_path(name: Path) -> Path:
    """Return the directory that a name means; a name that means none is returned as it is.

    `latest` is the newest run below results/, `latest` in a directory of results the newest run there. A run's id
    is looked for below results/. A directory of that name comes first.
    """
    if name.is_dir():
        return name
    if name.name == LATEST:
        results = RESULTS if name.parent == Path() else name.parent
        return max(results.glob(f"*/{RUN_FILE}"), key=lambda path: path.parent.name, default=name / RUN_FILE).parent
    below = RESULTS / name
    return below if len(name.parts) == 1 and (below / RUN_FILE).is_file() else name


def run_paths(names: list[Path]) -> list[Path]:
    """Return the directory of each name."""
    return [run_path(name) for name in names]
