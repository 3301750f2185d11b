"""Moments that findings speak of, cell by cell: what the timelines mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from volbench.core.records.cell import CellResult
from volbench.core.records.report import MomentRow
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.run import RunExplanation

_CONCURRENT_KINDS = ("dump", "restore")


def moment_rows(
    explained: RunExplanation, results: Iterable[CellResult], volume_of: Mapping[str, str]
) -> tuple[MomentRow, ...]:
    """Return the moments of all cells that were explained, by cell and time.

    Args:
        explained: the run's causes, cell by cell.
        results: of the cells, for what ran beside a load.
        volume_of: volume by cell.
    """
    moments = [*_of_causes(explained), *_of_steps(results, volume_of)]
    return tuple(sorted(moments, key=lambda moment: (moment.cell_id, moment.t_s)))


def _of_causes(explained: RunExplanation) -> Iterator[MomentRow]:
    for (volume, step), views in explained.views.items():
        for cell_id, view in views.items():
            for cause in view.explanation.findings:
                moment = CAUSES[cause.cause].moment if cause.cause in CAUSES else ""
                if moment:
                    yield MomentRow(
                        cell_id=cell_id,
                        volume=volume,
                        step=step,
                        t_s=cause.window_s[0],
                        end_s=cause.window_s[1],
                        cause=cause.cause,
                        text=moment,
                    )


def _of_steps(results: Iterable[CellResult], volume_of: Mapping[str, str]) -> Iterator[MomentRow]:
    for result in results:
        for step in result.steps:
            load, separator, _ = step.step.partition("/")
            if separator and step.kind in _CONCURRENT_KINDS:
                yield MomentRow(
                    cell_id=result.cell_id,
                    volume=volume_of[result.cell_id],
                    step=load,
                    t_s=step.window_s[0],
                    end_s=step.window_s[1],
                    text=f"{step.parameters.get('tool', step.kind)} begins",
                )
