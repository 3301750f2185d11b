"""Where waiting begins: the knee of each of fio's curves against queue depth, with intervals, and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volbench.analysis.knee import CurvePoint, curve, knee
from volbench.records.report import CellRow, CurvePointRow, CurveRow
from volbench.report.wording import number

_MEAN = "latency_ms_mean"
_FREE = ("iodepth", "numjobs", "rw")


def curve_rows(cells: Sequence[CellRow], volumes: Sequence[str], *, confidence: float) -> tuple[CurveRow, ...]:
    """A curve for each step, pattern and volume with at least two depths; only valid cells count."""
    found: dict[tuple[str, str, str], dict[int, list[tuple[float, float]]]] = {}
    for cell in cells:
        queue, jobs = cell.parameters.get("iodepth"), cell.parameters.get("numjobs", 1)
        measured = {"fio_iops", _MEAN} <= set(cell.metrics)
        if cell.kind != "fio" or not isinstance(queue, int) or not isinstance(jobs, int) or not measured:
            continue
        rest = " ".join(f"{name}={value}" for name, value in cell.parameters.items() if name not in _FREE)
        at = found.setdefault((cell.step, rest, cell.volume), {}).setdefault(queue * jobs, [])
        if cell.valid:
            at.append((cell.metrics["fio_iops"].value, cell.metrics[_MEAN].value))
    order = sorted(found, key=lambda key: (key[0], key[1], list(volumes).index(key[2])))
    rows = (_row(key, curve(found[key], confidence=confidence)) for key in order)
    return tuple(row for row in rows if len(row.points) > 1)


def curve_lines(rows: Sequence[CurveRow]) -> Iterator[str]:
    """One sentence a curve."""
    yield from (f"{row.step} on {row.volume}: {row.text}" for row in rows)


def _row(key: tuple[str, str, str], points: Sequence[CurvePoint]) -> CurveRow:
    step, parameters, volume = key
    at = knee(points)
    if at is not None:
        text = (
            f"from about {number(at.depth)} requests under way on, more of them only wait: {number(at.iops)} IOPS "
            f"is all there is, and one request alone takes {number(at.alone_ms)} ms"
        )
    elif points and points[0].depth == 1:
        text = f"no knee up to {points[-1].depth} requests under way: throughput still grows"
    else:
        text = "depth 1 was not measured, so where waiting begins is not known"
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
        knee_depth=at.depth if at else None,
        plateau_iops=at.iops if at else None,
        text=text,
    )
