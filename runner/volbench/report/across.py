"""Comparisons across runs: what may be compared, what must not, and the facts that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volbench.analysis.comparison import Comparison
from volbench.errors import MustNotCompare, UsageError
from volbench.records.report import CellRow, Report
from volbench.records.run import RunRecord
from volbench.report.build import build_report
from volbench.report.compared import compared_cells
from volbench.store.run_directory import RunDirectory

SHOWN_BYTES = 200


@dataclass(frozen=True, kw_only=True)
class AcrossRuns:
    """Comparisons of groups of cells from several runs; `noted` are facts that differ and may explain something."""

    groups: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    noted: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class _Run:
    record: RunRecord
    report: Report


_Fact = Callable[[_Run], object]
_MUST_AGREE: dict[str, _Fact] = {
    "dataset": lambda run: run.record.suite.dataset.model_dump(),
    "steps": lambda run: [step.model_dump() for step in run.record.suite.steps],
    "engine.config": lambda run: run.record.suite.server.config,
    "engine.flavor": lambda run: run.report.engine and run.report.engine.flavor,
    "engine.version": lambda run: run.report.engine and run.report.engine.version,
    "target": lambda run: run.record.target,
    "host.cpu_model": lambda run: run.record.host.cpu_model,
    "host.cpus": lambda run: run.record.host.cpus,
    "host.memory_bytes": lambda run: run.record.host.memory_bytes,
}
"""Facts that change the numbers by themselves; where they differ, a difference says nothing of the volume."""
_NOTED: dict[str, _Fact] = {
    "host.hostname": lambda run: run.record.host.hostname,
    "host.kernel": lambda run: run.record.host.kernel,
    "volbench": lambda run: run.record.volbench_version,
    "started_at": lambda run: run.record.started_at,
}


def compare_runs(
    directories: Sequence[RunDirectory], *, by: str = "volume", metrics: Sequence[str] = ()
) -> AcrossRuns:
    """Compare cells of several runs, grouped by volume or by a fact in which the runs may then differ.

    Args:
        directories: at least one run; the first group of the first run is the baseline.
        by: `volume`, `run`, or one of the facts that must agree otherwise, such as `engine.version`.
        metrics: only these; empty: all.

    Raises MustNotCompare naming the facts that differ, UsageError for a `by` that is none.
    """
    if by not in {"volume", "run", *_MUST_AGREE}:
        raise UsageError(
            f"cannot compare by {by!r}", where="--by", evidence=f"known: volume, run, {', '.join(_MUST_AGREE)}"
        )
    runs = [_Run(record=directory.run, report=build_report(directory)) for directory in directories]
    _refuse_differing(runs, by)
    cells = [_regrouped(cell, run, by, several=len(runs) > 1) for run in runs for cell in run.report.cells]
    groups = _in_order(runs, cells, by)
    if len(groups) < 2:
        raise UsageError(
            f"there is nothing to compare: every cell belongs to {by} {groups[0] if groups else 'none'!r}",
            where="volbench compare",
            next_step="compare by another fact, for example --by run",
        )
    if metrics:
        cells = [_only(cell, metrics) for cell in cells]
    return AcrossRuns(
        groups=groups,
        comparisons=tuple(compared_cells(cells, groups, runs[0].record.suite.comparison)),
        noted=_differing(runs, _NOTED),
    )


def _in_order(runs: Sequence[_Run], cells: Sequence[CellRow], by: str) -> tuple[str, ...]:
    """The groups that have cells; volumes in the order in which the runs name them, not that of their cells."""
    named = [volume.name for run in runs for volume in run.record.volumes] if by == "volume" else []
    present = dict.fromkeys(cell.volume for cell in cells)
    return tuple(dict.fromkeys([*(name for name in named if name in present), *present]))


def _refuse_differing(runs: Sequence[_Run], by: str) -> None:
    differing = {
        name: values
        for name, values in _differing(runs, _MUST_AGREE).items()
        if name != by and not name.startswith(f"{by}.")
    }
    if differing:
        raise MustNotCompare(
            "these runs must not be compared: they differ in more than their volumes",
            where=", ".join(run.record.run_id for run in runs),
            evidence="; ".join(
                f"{name}: " + " | ".join(f"{run}: {value}" for run, value in values.items())
                for name, values in differing.items()
            ),
            next_step=f"run them alike, or compare by what differs: --by {_fact_of(next(iter(differing)))}",
        )


def _differing(runs: Sequence[_Run], facts: Mapping[str, _Fact]) -> dict[str, dict[str, str]]:
    """Fact -> run -> value, for facts that differ; of a fact with parts only the parts that do."""
    found: dict[str, dict[str, str]] = {}
    for name, fact in facts.items():
        by_run = {run.record.run_id: dict(_leaves(name, fact(run))) for run in runs}
        for leaf in dict.fromkeys(leaf for leaves in by_run.values() for leaf in leaves):
            values = {run_id: leaves.get(leaf, "absent") for run_id, leaves in by_run.items()}
            if len(set(values.values())) > 1:
                found[leaf] = {run_id: value[:SHOWN_BYTES] for run_id, value in values.items()}
    return found


def _fact_of(leaf: str) -> str:
    return next(name for name in _MUST_AGREE if leaf == name or leaf.startswith(f"{name}."))


def _leaves(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(f"{name}.{key}", part)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _leaves(f"{name}.{number}", part)
    else:
        yield name, "absent" if value is None else str(value)


def _regrouped(cell: CellRow, run: _Run, by: str, *, several: bool) -> CellRow:
    """The cell under its group's name; its id is unique over the runs."""
    if by == "volume":
        group = cell.volume
    elif by == "run":
        group = f"{run.record.run_id}/{cell.volume}"
    else:
        group = str(_MUST_AGREE[by](run))[:SHOWN_BYTES]
    cell_id = f"{run.record.run_id}/{cell.cell_id}" if several else cell.cell_id
    return cell.model_copy(update={"volume": group, "cell_id": cell_id})


def _only(cell: CellRow, metrics: Iterable[str]) -> CellRow:
    kept = {name: value for name, value in cell.metrics.items() if name in set(metrics)}
    return cell.model_copy(update={"metrics": kept})
