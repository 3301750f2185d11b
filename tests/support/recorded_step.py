"""Steps of real runs as small files: all series of a step on its grid, and the facts that rules read.

`python -m recorded_step RUN STEP FILE` (with `runner` and `tests/support` on the path) writes one from a run.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volbench.results.explain.case import Case
from volbench.results.explain.evidence.disks_below import DisksBelow
from volbench.results.explain.run import cases_of
from volbench.results.stats.grid import Grid
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory
from volbench.results.store.series import SeriesKey

DIRECTORY = Path(__file__).parents[1] / "fixtures" / "real-kernels" / "injections"
DIGITS, QUIET_INTERVALS = 4, 5
FACTS = ("name", "kind", "disk", "threads", "rate", "mount_options", "journal", "cpus", "latency_ms", "elsewhere")
VARIABLES = ("innodb_flush_method", "innodb_log_writer_threads", "innodb_flush_log_at_trx_commit", "log_bin")
_OF_DEVICES = ("diskstats", "mountstats")
Floats = NDArray[np.float64]


def recorded_step(name: str) -> Case:
    """A step by the name of its file. Before it, the cell has some intervals in which the device has no queue."""
    facts = json.loads((DIRECTORY / f"{name}.json").read_text(encoding="utf-8"))
    below, quiet_ms, columns = (facts.pop(key) for key in ("below", "quiet_ms", "columns"))
    begin_s, width_s, buckets = (facts.pop(key) for key in ("begin_s", "width_s", "buckets"))
    grid = Grid(
        t_s=begin_s + width_s * np.arange(1, buckets + 1, dtype=np.float64),
        width_s=width_s,
        columns={_key(text): _values(values, buckets) for text, values in columns.items()},
    )
    facts |= {key: tuple(facts[key]) for key in ("mount_options", "journal", "elsewhere")}
    return Case(
        **facts,
        grid=grid,
        whole=grid if quiet_ms is None else _with_quiet(grid, facts["disk"], quiet_ms),
        below=None
        if below is None
        else DisksBelow(names=tuple(below["names"]), write_copies=below["write_copies"]),
    )


def write_step(case: Case, file: Path) -> None:
    """Write a step, its figures with DIGITS digits; a series that never changes as one number."""
    facts = {name: getattr(case, name) for name in FACTS}
    facts |= {
        "variables": {name: case.variables[name] for name in VARIABLES if name in case.variables},
        "below": None if case.below is None else asdict(case.below),
        "quiet_ms": case.base_await_ms,
        "begin_s": float(case.grid.t_s[0]) - case.grid.width_s,
        "width_s": case.grid.width_s,
        "buckets": len(case.grid),
        "columns": {
            f"{key.source} {key.metric} {key.entity}": _shortened(values)
            for key, values in sorted(case.grid.columns.items(), key=lambda item: str(item[0]))
            if np.isfinite(values).any()
        },
    }
    lines = json.dumps(facts, indent=0, default=list).replace("[\n", "[").replace(",\n", ", ").replace("\n]", "]")
    file.write_text(lines.replace(', "', ',\n"') + "\n", encoding="utf-8")


def _shortened(values: Floats) -> float | list[float | None]:
    short = [None if np.isnan(value) else float(f"{value:.{DIGITS}g}") for value in values.tolist()]
    return short if len(set(short)) > 1 or short[0] is None else short[0]


def _key(text: str) -> SeriesKey:
    source, metric, entity = text.split(" ", 2)
    return SeriesKey(source=source, metric=metric, entity=entity)


def _values(values: float | list[float | None], buckets: int) -> Floats:
    every = values if isinstance(values, list) else [values] * buckets
    return np.array([np.nan if value is None else value for value in every], dtype=np.float64)


def _with_quiet(grid: Grid, disk: str | None, quiet_ms: float) -> Grid:
    """The grid after some intervals with ten reads of the device each, one after the other."""
    quiet: dict[str, Any] = {
        "reads_per_s": 10.0,
        "writes_per_s": 0.0,
        "r_await_ms": quiet_ms,
        "aqu_sz": quiet_ms / 100,
    }
    before = {
        key: quiet.get(key.metric, np.nan) if key.source in _OF_DEVICES and disk in (None, key.entity) else np.nan
        for key in grid.columns
    }
    return Grid(
        t_s=np.concatenate([grid.t_s[0] - grid.width_s * np.arange(QUIET_INTERVALS, 0, -1), grid.t_s]),
        width_s=grid.width_s,
        columns={
            key: np.concatenate([np.full(QUIET_INTERVALS, before[key]), values])
            for key, values in grid.columns.items()
        },
    )


def main(run: Path, step: str, file: Path) -> None:
    """Write a step of a run."""
    directory = RunDirectory.open(run)
    loaded = load_run(directory)
    (case,) = (case for result in directory.results() for case in cases_of(loaded, result) if case.name == step)
    write_step(case, file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
