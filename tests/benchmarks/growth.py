"""How a report and the columns of many tables grow: CPU time and peak memory at a size and at four times that size.

    python tests/benchmarks/growth.py [CASE ...]

Each size is measured in a process of its own; what it reads is made before, not timed. Growth is the exponent of
CPU time over size: 1 is linear, 2 is quadratic. Ends with 1 above a limit, of the exponent, which holds on a busy
machine too, and of memory a unit. What it measured is in docs/limits.md.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SUPPORT = str(Path(__file__).resolve().parents[1] / "support")
sys.path[:0] = [SUPPORT, str(Path(__file__).parent)]

from long_run import make_run
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.steps.oltp import OltpStep

TIMES = 4
EXPONENT_MAX = 1.4
"""Above 1 by what other work adds to CPU times, and caches that no longer suffice."""
_STEPS = (OltpStep(name="load", warmup_s=2, duration_s=10.0),)
_MEASURED = """
import json, sys, time
from pathlib import Path
from process_usage import peak_mib
{imports}
path = Path(sys.argv[1])
begun_s = time.process_time()
{code}
print()
print(json.dumps([time.process_time() - begun_s, peak_mib()]))
"""
_REPORT_IMPORTS = """
from volbench.results.report.render import write_reports
from volbench.results.store.run_directory import RunDirectory"""
_REPORT = "write_reports(RunDirectory.open(path))"
_FINDINGS_IMPORTS = """
from volbench.results.report.build import report_of
from volbench.results.report.formats.html import html
from volbench.results.report.page_data import page_data
from volbench.results.report.render import text_of
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory"""
_FINDINGS = """
loaded = load_run(RunDirectory.open(path))
report = report_of(loaded)
count, rows = int((path.parent / "count").read_text()), report.findings
repeated = [rows[number % len(rows)].model_copy(update={"step": f"step-{number}"}) for number in range(count)]
many = report.model_copy(update={"findings": tuple(repeated)})
page, text = html(many, page_data(many, loaded)), text_of(many, "md")
assert all(f"step-{number}" in page for number in (0, count - 1)) and text"""
_OBJECTS_IMPORTS = """
from volbench.validation.data.checksums import tables_of"""
_OBJECTS = """
sides = json.loads(path.read_text())
assert len(tables_of(*sides)) == len(sides[0]["table"])"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What grows: `make` writes it with so many units, `code` reads it. `mib_max` is of the larger size."""

    size: int
    unit: str
    make: Callable[[Path, int], Path]
    imports: str
    code: str
    mib_max: float


def cells(directory: Path, count: int) -> Path:
    """A run of two volumes with so many cells."""
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=1.2))
    return build_run(directory, Synthetic(volumes=volumes, repeats=count // 2, steps=_STEPS)).path


def volumes(directory: Path, count: int) -> Path:
    """A run of so many volumes with five cells each."""
    members = tuple(SyntheticVolume(name=f"v{number}", speed=1 + number / 1000) for number in range(count))
    return build_run(directory, Synthetic(volumes=members, repeats=5, steps=_STEPS)).path


def findings(directory: Path, count: int) -> Path:
    """A run with a stall, and the number of steps that shall have its finding."""
    members = (SyntheticVolume(name="a", stall_s=(20.0, 24.0)), SyntheticVolume(name="b", speed=1.2))
    path = build_run(directory, Synthetic(volumes=members, repeats=5)).path
    (directory / "count").write_text(str(count))
    return path


def samples(directory: Path, count: int) -> Path:
    """A run of one cell with so many samples of 200 series."""
    return make_run(directory, hours=count / 200 / 3600, metrics=200, cells=1).path


def objects(directory: Path, count: int) -> Path:
    """The catalogs of two servers with so many tables of ten columns."""
    column = {"type": "int", "nullable": "NO", "charset": "", "collation": "", "default": "", "extra": ""}
    names = [f"s.t{number}" for number in range(count)]
    side = {
        "table": {name: {"engine": "InnoDB"} for name in names},
        "column": {f"{name}.c{position}": column for name in names for position in range(10)},
        "index": {f"{name}.PRIMARY.1": {"column": "c0"} for name in names},
    }
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "sides.json"
    path.write_text(json.dumps([side, side]))
    return path


CASES = {
    "samples": Case(
        size=1_000_000, unit="samples", make=samples, imports=_REPORT_IMPORTS, code=_REPORT, mib_max=330
    ),
    "cells": Case(size=250, unit="cells", make=cells, imports=_REPORT_IMPORTS, code=_REPORT, mib_max=600),
    "volumes": Case(size=5, unit="volumes", make=volumes, imports=_REPORT_IMPORTS, code=_REPORT, mib_max=600),
    "many_volumes": Case(size=50, unit="volumes", make=volumes, imports=_REPORT_IMPORTS, code=_REPORT, mib_max=400),
    "findings": Case(
        size=2_500, unit="findings", make=findings, imports=_FINDINGS_IMPORTS, code=_FINDINGS, mib_max=400
    ),
    "objects": Case(size=1_250, unit="tables", make=objects, imports=_OBJECTS_IMPORTS, code=_OBJECTS, mib_max=600),
}


def main() -> int:
    """Measure each case, print, judge."""
    missed = [_judged(CASES[name]) for name in sys.argv[1:] or CASES]
    return int(any(missed))


def _judged(case: Case) -> bool:
    """Print a case and return whether a limit is missed."""
    figures = []
    for size in (case.size, TIMES * case.size):
        with tempfile.TemporaryDirectory(prefix="volbench-growth-", dir="/var/tmp") as directory:
            figures.append(_measured(case, case.make(Path(directory), size)))
    (small_s, small_mib), (large_s, large_mib) = figures
    exponent = math.log(large_s / small_s) / math.log(TIMES)
    print(
        f"{TIMES * case.size:,} {case.unit}: {large_s:.1f} s CPU, {large_mib:.0f} MiB (at most {case.mib_max:g}); "
        f"{case.size:,}: {small_s:.1f} s, {small_mib:.0f} MiB; growth {exponent:.2f} (at most {EXPONENT_MAX:g}); "
        f"load {os.getloadavg()[0]:.0f}",
        flush=True,
    )
    return exponent > EXPONENT_MAX or large_mib > case.mib_max


def _measured(case: Case, path: Path) -> tuple[float, float]:
    """CPU seconds, and MiB at the peak."""
    code = _MEASURED.format(imports=case.imports, code=case.code)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
        env={**os.environ, "PYTHONPATH": SUPPORT},
    )
    seconds, mib = json.loads(done.stdout.splitlines()[-1])
    return seconds, mib


if __name__ == "__main__":
    sys.exit(main())
