"""Reports of synthetic volumes that differ in speed, for tests of headlines."""

from __future__ import annotations

from pathlib import Path

from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run

from volbench.core.records.report import ComparisonRow, Report
from volbench.results.report.build import build_report


def report_of(results: Path, *speeds: float, repeats: int = 5, **changes: object) -> Report:
    """Return the report of volumes a, b, c... of these speeds."""
    volumes = tuple(SyntheticVolume(name=name, speed=speed) for name, speed in zip("abcdefghijklm", speeds))  # noqa: B905
    changes.setdefault("steps", (OLTP,))
    expected = Synthetic(volumes=volumes, repeats=repeats, **changes)  # type: ignore[arg-type]
    return build_report(build_run(results, expected))


def tps_of(report: Report, candidate: str = "b") -> ComparisonRow:
    """Return the comparison of a candidate's transactions a second."""
    return next(row for row in report.comparisons if (row.candidate, row.metric) == (candidate, "tps"))
