"""What the HTML page shows in addition to the report: plain data, made once from the tables of the run's cells."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.core.records.report import Report
from volbench.results.report.views.cost_tables import SmallMultiples, small_multiples
from volbench.results.report.views.distribution import Distribution, distributions
from volbench.results.report.views.sessions import SessionChart, session_charts
from volbench.results.report.views.timeline import Timelines, timelines
from volbench.results.store.loaded_run import LoadedRun


@dataclass(frozen=True, kw_only=True)
class SourceProblem:
    """What is missing of a sampler's values, and on which volumes."""

    source: str
    problem: str
    volumes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PageData:
    """Series and histograms of a run's cells, small enough for one page."""

    timelines: Timelines
    distributions: tuple[Distribution, ...]
    small_multiples: tuple[SmallMultiples, ...]
    session_charts: tuple[SessionChart, ...]
    source_problems: tuple[SourceProblem, ...]


def page_data(report: Report, loaded: LoadedRun) -> PageData:
    """Return the page's data. Damaged tables of cells are named in `timelines` and leave gaps.

    Args:
        report: of the run; it says which cells are valid and which metrics correlate.
        loaded: the same run.
    """
    return PageData(
        timelines=timelines(loaded),
        distributions=tuple(distributions(loaded, report.cells, [volume.name for volume in report.volumes])),
        small_multiples=tuple(small_multiples(loaded, report.associations)),
        session_charts=session_charts(loaded, report),
        source_problems=source_problems(loaded),
    )


def source_problems(loaded: LoadedRun) -> tuple[SourceProblem, ...]:
    """Return the sources that were absent or missed ticks, sorted."""
    volume_of = {cell.cell_id: cell.volume for cell in loaded.run.cells}
    volumes_by_problem: dict[tuple[str, str], list[str]] = {}
    for result in loaded.results:
        for source in result.sources:
            missed_ticks = f"{source.ticks_missed} of {source.ticks_due} ticks missed in a cell"
            problem = (
                (missed_ticks if source.ticks_missed else "") if source.available else source.reason or "absent"
            )
            volumes = volumes_by_problem.setdefault((source.source, problem), []) if problem else []
            if volume_of[result.cell_id] not in volumes:
                volumes.append(volume_of[result.cell_id])
    return tuple(
        SourceProblem(source=source, problem=problem, volumes=tuple(volumes))
        for (source, problem), volumes in sorted(volumes_by_problem.items())
    )
