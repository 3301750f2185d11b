"""Comparisons across runs: what may be compared, what must not, and the facts that differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volbench.analysis.comparison import Comparison
from volbench.errors import MustNotCompare, UsageError
from volbench.records.cell import CellResult
from volbench.records.facts import HostFacts
from volbench.records.report import CellRow, Report
from volbench.records.run import RunRecord
from volbench.report.build import build_report
from volbench.report.compared import compared_cells
from volbench.report.nodes import host_name, hosts_by_volume, without_verdict_across_nodes
from volbench.store.run_directory import RunDirectory

SHOWN_BYTES = 200
ABSENT = "absent"
MEMORY_TOLERANCE = 0.02
"""Kernels keep a part of the memory for themselves, each version another one."""


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
    results: tuple[CellResult, ...]

    @property
    def hosts(self) -> tuple[HostFacts, ...]:
        """Of the cells: the orchestrator may have run elsewhere. Without a result, the orchestrator's."""
        return tuple(result.host for result in self.results) or (self.record.host,)


_Fact = Callable[[_Run], object]


def _of_hosts(name: str) -> _Fact:
    """Return a fact of the cells' hosts; several values in one run are joined."""

    def fact(run: _Run) -> object:
        values = {host_name(host) if name == "hostname" else getattr(host, name) for host in run.hosts}
        known = sorted(str(value) for value in values if value is not None)
        return " and ".join(known) or None

    return fact


_MUST_AGREE: dict[str, _Fact] = {
    "dataset": lambda run: run.record.suite.dataset.model_dump(),
    "steps": lambda run: [step.model_dump() for step in run.record.suite.steps],
    "engine.config": lambda run: run.record.suite.server.config,
    "engine.flavor": lambda run: run.report.engine and run.report.engine.flavor,
    "engine.version": lambda run: run.report.engine and run.report.engine.version,
    "target": lambda run: run.record.target,
    "host.cpu_model": _of_hosts("cpu_model"),
    "host.cpus": _of_hosts("cpus"),
    "host.memory_bytes": _of_hosts("memory_bytes"),
    "host.cloud_instance_type": _of_hosts("cloud_instance_type"),
}
"""Facts that change the numbers by themselves; where they differ, a difference says nothing of the volume."""
_WHERE_KNOWN = {"host.cloud_instance_type"}
"""Facts that refuse only where every run knows them: older runs and other clouds do not."""
_NOTED: dict[str, _Fact] = {
    "host.hostname": _of_hosts("hostname"),
    "host.kernel": _of_hosts("kernel"),
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
    runs = [_Run(record=directory.run, report=build_report(directory), results=tuple(directory.results()))
            for directory in directories]  # fmt: skip
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
        comparisons=tuple(_compared(runs, cells, groups)),
        noted=_differing(runs, _NOTED),
    )


def _compared(runs: Sequence[_Run], cells: Sequence[CellRow], groups: Sequence[str]) -> list[Comparison]:
    """Compare the groups; without a verdict where one run had each of two volumes on nodes of its own."""
    comparisons = compared_cells(cells, groups, runs[0].record.suite.comparison)
    for run in runs:
        hosts = hosts_by_volume(run.results, {cell.cell_id: cell.volume for cell in run.record.cells})
        comparisons = without_verdict_across_nodes(comparisons, hosts)
    return comparisons


def _in_order(runs: Sequence[_Run], cells: Sequence[CellRow], by: str) -> tuple[str, ...]:
    """The groups that have cells; volumes in the order in which the runs name them, not that of their cells."""
    named = [volume.name for run in runs for volume in run.record.volumes] if by == "volume" else []
    present = dict.fromkeys(cell.volume for cell in cells)
    return tuple(dict.fromkeys([*(name for name in named if name in present), *present]))


def _refuse_differing(runs: Sequence[_Run], by: str) -> None:
    differing = {
        name: values
        for name, values in _differing(runs, _MUST_AGREE).items()
        if name != by and not name.startswith(f"{by}.") and not _may_differ(name, values.values())
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


def _may_differ(name: str, values: Collection[str]) -> bool:
    """Return whether a difference says nothing: an unknown value, or what kernels keep of equal memory."""
    if name == "host.memory_bytes" and all(value.isdigit() for value in values):
        sizes = [int(value) for value in values]
        return max(sizes) <= min(sizes) * (1 + MEMORY_TOLERANCE)
    return name in _WHERE_KNOWN and ABSENT in values


def _differing(runs: Sequence[_Run], facts: Mapping[str, _Fact]) -> dict[str, dict[str, str]]:
    """Fact -> run -> value, for facts that differ; of a fact with parts only the parts that do."""
    found: dict[str, dict[str, str]] = {}
    for name, fact in facts.items():
        by_run = {run.record.run_id: dict(_leaves(name, fact(run))) for run in runs}
        for leaf in dict.fromkeys(leaf for leaves in by_run.values() for leaf in leaves):
            values = {run_id: leaves.get(leaf, ABSENT) for run_id, leaves in by_run.items()}
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
        yield name, ABSENT if value is None else str(value)


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
