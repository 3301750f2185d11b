"""The knee of each fio curve against queue depth, where waiting begins: with intervals, and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volbench.core.base.text import number
from volbench.core.records.report import CellRow, CurvePointRow, CurveRow, FindingRow
from volbench.results.explain.cause_info import GROUPS
from volbench.results.explain.causes import CAUSES
from volbench.results.report.rows.verdict.lead import is_hint
from volbench.results.stats.knee import DepthPoint, curve, knee

_MEAN = "latency_ms_mean"
_POINT_PARAMETERS = ("iodepth", "numjobs", "rw")
NOT_FOUND = "whether that limit is the volume's or this machine's was not found"


def curve_rows(
    cells: Sequence[CellRow], volumes: Sequence[str], findings: Sequence[FindingRow] = (), *, confidence: float
) -> tuple[CurveRow, ...]:
    """Return a curve for each step, pattern and volume with at least two depths; only valid cells count.

    Args:
        cells: of the run.
        volumes: names, in the order of the report.
        findings: of the run: they tell whose limit it is that a curve meets.
        confidence: of the intervals.
    """
    groups: dict[tuple[str, str, str], dict[int, list[tuple[float, float]]]] = {}
    for cell in cells:
        depth, jobs = cell.parameters.get("iodepth"), cell.parameters.get("numjobs", 1)
        measured = {"fio_iops", _MEAN} <= set(cell.metrics)
        if cell.kind != "fio" or not isinstance(depth, int) or not isinstance(jobs, int) or not measured:
            continue
        parameters = " ".join(
            f"{name}={value}" for name, value in cell.parameters.items() if name not in _POINT_PARAMETERS
        )
        measurements = groups.setdefault((cell.step, parameters, cell.volume), {}).setdefault(depth * jobs, [])
        if cell.valid:
            measurements.append((cell.metrics["fio_iops"].value, cell.metrics[_MEAN].value))
    order = sorted(groups, key=lambda key: (key[0], key[1], list(volumes).index(key[2])))
    rows = (_row(key, curve(groups[key], confidence=confidence), findings) for key in order)
    return tuple(row for row in rows if len(row.points) > 1)


def curve_lines(rows: Sequence[CurveRow]) -> Iterator[str]:
    """Yield one sentence for each curve."""
    yield from (f"{row.step} on {row.volume}: {row.text}" for row in rows)


def _whose(findings: Sequence[FindingRow], step: str, volume: str) -> str:
    """Return whose limit it is that more requests do not pass: that of the likely causes of the step."""
    causes = [
        CAUSES[finding.cause]
        for finding in findings
        if (finding.step, finding.volume) == (step, volume) and finding.cause in CAUSES and not is_hint(finding)
    ]
    of_volume = next((cause for cause in causes if cause.group == GROUPS[0]), None)
    elsewhere = next((cause for cause in causes if cause.group in GROUPS[2:-1]), None)
    if elsewhere is None:
        return NOT_FOUND if of_volume is None else f"the limit is the volume's ({of_volume.name})"
    title = f"{elsewhere.title[:1].lower()}{elsewhere.title[1:]}"
    if of_volume is None:
        return f"the limit is not the volume's: {title}"
    return f"the limit may be the volume's ({of_volume.name}), and {title}"


def _row(key: tuple[str, str, str], points: Sequence[DepthPoint], findings: Sequence[FindingRow]) -> CurveRow:
    step, parameters, volume = key
    knee_point = knee(points)
    if knee_point is not None:
        text = (
            f"saturated from about {number(knee_point.depth)} requests in flight on, at "
            f"{number(knee_point.iops)} IOPS; a single request takes {number(knee_point.alone_ms)} ms;"
            f" {_whose(findings, step, volume)}"
        )
    elif points and points[0].depth == 1:
        text = f"not saturated up to {points[-1].depth} requests in flight: throughput still grows"
    else:
        text = "depth 1 was not measured, so the saturation point is not known"
    return CurveRow(
        volume=volume,
        step=step,
        parameters=parameters,
        points=tuple(
            CurvePointRow(
                depth=point.depth,
                iops=point.iops.value,
                iops_ci=point.iops.ci,
                latency_ms=point.latency_ms.value,
                latency_ci=point.latency_ms.ci,
                cells=point.cells,
            )
            for point in points
        ),
        knee_depth=knee_point.depth if knee_point else None,
        plateau_iops=knee_point.iops if knee_point else None,
        text=text,
    )
