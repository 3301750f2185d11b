"""What one run of the lab shows: its truth, and the findings of its report.json."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from explain.runner import DONE_FILE, TRUTH_FILE, run_directory_of
from explain.truths import Known, known_of
from volbench.errors import VolbenchError
from volbench.results.report.build import build_report
from volbench.results.report.render import render
from volbench.results.store.files import write_atomically
from volbench.results.store.run_directory import SERIES_FILE, RunDirectory

NONE, NOTHING, FAILED = "none", "(nothing named)", "(run failed)"


@dataclass(frozen=True, kw_only=True)
class Named:
    """One finding: cause, confidence, share, window, and evidence values by metric."""

    cause: str
    confidence: float | None
    share: float | None = None
    window_s: tuple[float, float] | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One run: what was made, what was named for it (the first is the report's first), and what it cost.

    `truths` are values that were set or seen by the lab: caps, the second at which credits ran out.
    """

    condition: str
    number: int
    split: str
    lab_seed: int
    seed: int
    truth: tuple[str, ...]
    accepted: tuple[str, ...]
    drawn: Mapping[str, Any]
    named: tuple[Named, ...]
    wall_s: float
    failure: str = ""
    invalid_reasons: tuple[str, ...] = ()
    run_id: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    truths: Mapping[str, float] = field(default_factory=dict)
    forecast: Mapping[str, float] = field(default_factory=dict)

    @property
    def top(self) -> str:
        """The first cause named."""
        if self.failure:
            return FAILED
        return self.named[0].cause if self.named else NOTHING

    @property
    def causes(self) -> tuple[str, ...]:
        """All that were named, in order."""
        return tuple(finding.cause for finding in self.named)


def read_places(root: Path, *, without: str = "") -> list[Observed]:
    """All runs that are done below a directory; their reports are made anew, with the rules as they are now.

    Args:
        without: a source of samples that the rules are not shown.
    """
    return [observed(done.parent, without=without) for done in sorted(root.glob(f"*/seed-*/*/*/{DONE_FILE}"))]


def observed(result: Path, *, without: str = "") -> Observed:
    """One run."""
    truth = json.loads((result / TRUTH_FILE).read_text(encoding="utf-8"))
    done = json.loads((result / DONE_FILE).read_text(encoding="utf-8"))
    directory = run_directory_of(result)
    failure, report, answers = done["failure"], None, Known()
    if directory is not None and not failure:
        try:
            report = report_of(directory, without)
            answers = known_of(directory, truth["volume"], truth["drawn"])
        except VolbenchError as error:
            failure = f"{error.what} ({error.where})"
    cells = [] if report is None else [cell for cell in report["cells"] if cell["step"] == "load"]
    return Observed(
        condition=truth["condition"],
        number=truth["number"],
        split=truth["split"],
        lab_seed=truth["lab_seed"],
        seed=truth["seed"],
        truth=tuple(truth["truth"]),
        accepted=tuple(truth["accepted"]),
        drawn=truth["drawn"],
        named=() if report is None else tuple(_named(row) for row in report["findings"]),
        wall_s=done["wall_s"],
        failure=failure or ("" if cells else "no cell was measured"),
        invalid_reasons=tuple(reason for cell in cells for reason in cell["invalid_reasons"]),
        run_id="" if report is None else report["run_id"],
        metrics={name: value["value"] for cell in cells for name, value in cell["metrics"].items()},
        truths=answers.truths,
        forecast=answers.forecast,
    )


def report_of(directory: RunDirectory, without: str = "") -> dict[str, Any]:
    """A run's report.json with the rules as they are now.

    Args:
        without: a source of samples that the rules are not shown.
    """
    return _report_without(directory, without) if without else _report(directory)


def _report(directory: RunDirectory) -> dict[str, Any]:
    """report.json, written anew; scores read the file."""
    path = directory.path / "report.json"
    write_atomically(path, render(build_report(directory), directory, "json"))
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def _report_without(directory: RunDirectory, source: str) -> dict[str, Any]:
    """The report of a copy of the run, whose series lack one source."""
    with tempfile.TemporaryDirectory(prefix="volbench-lab-") as result:
        copy = Path(result) / directory.path.name
        shutil.copytree(directory.path, copy, ignore=shutil.ignore_patterns("raw", "report.*"))
        for path in copy.glob(f"cells/*/{SERIES_FILE}"):
            table = pq.read_table(path)
            pq.write_table(table.filter(pc.not_equal(table["source"].cast(pa.string()), source)), path)
        return _report(RunDirectory.open(copy))


def _named(row: Mapping[str, Any]) -> Named:
    window = row.get("window_s")
    return Named(
        cause=row["cause"],
        confidence=row.get("confidence"),
        share=row.get("share"),
        window_s=None if window is None else (window[0], window[1]),
        evidence={item["metric"]: item["value"] for item in row["evidence"]},
    )
