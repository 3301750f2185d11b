"""Comparisons across runs: which runs are comparable, and the facts in which they differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volbench.core.base.nearest import suggestion
from volbench.core.base.parse import optional_whole
from volbench.core.records.cell import CellResult
from volbench.core.records.facts import HostFacts
from volbench.core.records.report import CellRow, ServerRow
from volbench.core.records.run import RunRecord
from volbench.errors import IncomparableRuns, UsageError
from volbench.results.compare.compared_cells import compared_cells
from volbench.results.compare.comparison import Comparison
from volbench.results.report.rows.cells import cell_rows, server_row
from volbench.results.report.rows.nodes import (
    declared_placements,
    host_name,
    hosts_by_volume,
    without_verdict_across_nodes,
)
from volbench.results.store.loaded_run import LoadedRun, load_run
from volbench.results.store.run_directory import RunDirectory

VALUE_CHARACTERS_MAX = 200
ABSENT = "absent"
MEMORY_TOLERANCE = 0.02
"""Kernels keep a part of the memory for themselves, each version another one."""


@dataclass(frozen=True, kw_only=True)
class CrossRunComparison:
    """Comparisons of groups of cells from several runs; `context` are differing facts that may explain them."""

    groups: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    context: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """What is compared of a run."""

    record: RunRecord
    engine: ServerRow | None
    cells: tuple[CellRow, ...]
    results: tuple[CellResult, ...]

    @property
    def hosts(self) -> tuple[HostFacts, ...]:
        """Of the cells: the orchestrator may have run elsewhere. Without a result, the orchestrator's."""
        return tuple(result.host for result in self.results) or (self.record.host,)


_Fact = Callable[[ComparedRun], object]


def _host_fact(name: str) -> _Fact:
    """Return a fact of the cells' hosts; several values in one run are joined."""

    def fact(run: ComparedRun) -> object:
        values = {host_name(host) if name == "hostname" else getattr(host, name) for host in run.hosts}
        texts = sorted(str(value) for value in values if value is not None)
        return " and ".join(texts) or None

    return fact


_COMPARABILITY_FACTS: dict[str, _Fact] = {
    "dataset": lambda run: run.record.suite.dataset.model_dump(),
    "steps": lambda run: [step.model_dump() for step in run.record.suite.steps],
    "engine.config": lambda run: run.record.suite.server.config,
    "engine.encryption": lambda run: run.record.suite.server.encryption,
    "engine.flavor": lambda run: run.engine and run.engine.flavor,
    "engine.version": lambda run: run.engine and run.engine.version,
    "target": lambda run: run.record.target,
    "host.cpu_model": _host_fact("cpu_model"),
    "host.cpus": _host_fact("cpus"),
    "host.memory_bytes": _host_fact("memory_bytes"),
    "host.cloud_instance_type": _host_fact("cloud_instance_type"),
}
"""Facts that change the figures by themselves; runs that differ in them do not compare volumes."""
_WHERE_KNOWN = {"host.cloud_instance_type"}
"""Facts that refuse only where every run knows them: older runs and other clouds do not."""
_CONTEXT_FACTS: dict[str, _Fact] = {
    "host.hostname": _host_fact("hostname"),
    "host.kernel": _host_fact("kernel"),
    "volbench": lambda run: run.record.volbench_version,
    "started_at": lambda run: run.record.started_at,
}


def compare_runs(
    directories: Sequence[RunDirectory], *, by: str = "volume", metrics: Sequence[str] = (), against: str = ""
) -> CrossRunComparison:
    """Compare cells of several runs, grouped by volume or by a fact in which the runs may then differ.

    Args:
        directories: at least one run.
        by: `volume`, `run`, or one of the facts that must otherwise be equal, such as `engine.version`.
        metrics: names of metrics to compare; empty: all.
        against: the group that all others are compared with. Empty: by run, each volume with itself in the first
            run that has it, where a later one has it too; else the first group of the first run.

    Raises IncomparableRuns naming the facts that differ, UsageError for an unknown `by`, metric or group.
    """
    if by not in {"volume", "run", *_COMPARABILITY_FACTS}:
        raise UsageError(
            f"cannot compare by {by!r}",
            where="--by",
            evidence=f"known: volume, run, {', '.join(_COMPARABILITY_FACTS)}",
        )
    runs = [compared_run(load_run(directory)) for directory in directories]
    refuse_differing(runs, by)
    cells = [_regrouped(cell, run, by, several=len(runs) > 1) for run in runs for cell in run.cells]
    groups = _ordered_groups(runs, cells, by)
    if len(groups) < 2:
        raise UsageError(
            f"there is nothing to compare: every cell belongs to {by} {groups[0] if groups else 'none'!r}",
            where="volbench compare",
            next_step="compare by another fact, for example --by run",
        )
    if metrics:
        refuse_unknown_metrics(cells, metrics)
        cells = [with_metrics(cell, metrics) for cell in cells]
    families = _families(groups, by, against)
    return CrossRunComparison(
        groups=groups,
        comparisons=tuple(row for family in families for row in _compared(runs, cells, family)),
        context=context_of(runs),
    )


def context_of(runs: Sequence[ComparedRun], *, also: Collection[str] = ()) -> dict[str, dict[str, str]]:
    """Return differing facts that may explain a difference: fact -> run -> value; `also` those of these names."""
    more = {name: fact for name, fact in _COMPARABILITY_FACTS.items() if name in also}
    return _differing(runs, _CONTEXT_FACTS | more)


def compared_run(loaded: LoadedRun) -> ComparedRun:
    """Return what is compared of a run. Its series are not read."""
    return ComparedRun(
        record=loaded.run,
        engine=server_row(loaded.results),
        cells=cell_rows(loaded.run, loaded.results),
        results=loaded.results,
    )


def _compared(runs: Sequence[ComparedRun], cells: Sequence[CellRow], groups: Sequence[str]) -> list[Comparison]:
    """Compare the groups; without a verdict where one run had each of two volumes on nodes of its own."""
    comparisons = compared_cells(cells, groups, runs[0].record.suite.comparison, of_one_run=False)
    for run in runs:
        hosts = hosts_by_volume(run.results, {cell.cell_id: cell.volume for cell in run.record.cells})
        comparisons = without_verdict_across_nodes(comparisons, hosts, declared_placements(run.record))
    return comparisons


def _ordered_groups(runs: Sequence[ComparedRun], cells: Sequence[CellRow], by: str) -> tuple[str, ...]:
    """Return the groups that have cells; volumes in the order of the runs' volumes, not of their cells."""
    declared = [(run.record.run_id, volume.name) for run in runs for volume in run.record.volumes]
    names = {"volume": [name for _, name in declared], "run": [_run_group(*pair) for pair in declared]}
    present = dict.fromkeys(cell.volume for cell in cells)
    return tuple(dict.fromkeys([*(name for name in names.get(by, ()) if name in present), *present]))


def _run_group(run_id: str, volume: str) -> str:
    return f"{run_id}/{volume}"


def _families(groups: Sequence[str], by: str, against: str) -> list[tuple[str, ...]]:
    """Return the groups that are compared with one another, the baseline of each family first. Raise UsageError."""
    if against:
        if against not in groups:
            raise UsageError(
                f"there is no group {against!r}",
                where="--against",
                evidence=f"the groups are {', '.join(groups)}",
                next_step=suggestion(against, groups),
            )
        return [(against, *(group for group in groups if group != against))]
    by_volume: dict[str, list[str]] = {}
    for group in groups:
        by_volume.setdefault(group.rpartition("/")[2], []).append(group)
    families = [tuple(of_volume) for of_volume in by_volume.values() if len(of_volume) > 1]
    if by != "run" or not families:
        return [tuple(groups)]
    alone = [group for of_volume in by_volume.values() if len(of_volume) == 1 for group in of_volume]
    return [*families, *((groups[0], group) for group in alone if group != groups[0])]


def refuse_unknown_metrics(cells: Sequence[CellRow], metrics: Sequence[str]) -> None:
    """Raise UsageError for a metric that no cell has."""
    measured = dict.fromkeys(name for cell in cells for name in cell.metrics)
    for name in metrics:
        if name not in measured:
            raise UsageError(
                f"no cell of these runs has a metric {name!r}",
                where="--metric",
                next_step=suggestion(name, measured),
            )


def refuse_differing(runs: Sequence[ComparedRun], by: str, *, but: Collection[str] = ()) -> None:
    """Raise IncomparableRuns for runs that differ in more than volumes and `by`; facts in `but` may differ."""
    differing = {
        name: values
        for name, values in _differing(runs, _COMPARABILITY_FACTS).items()
        if name not in {by, *but} and not name.startswith(f"{by}.") and not _may_differ(name, values.values())
    }
    if differing:
        raise IncomparableRuns(
            "these runs are not comparable: they differ in more than their volumes",
            where=", ".join(run.record.run_id for run in runs),
            evidence="; ".join(
                f"{name}: " + " | ".join(f"{run}: {value}" for run, value in values.items())
                for name, values in differing.items()
            ),
            next_step="repeat them with equal settings, or compare by the difference: "
            f"--by {_fact_of(next(iter(differing)))}",
        )


def _may_differ(name: str, values: Collection[str]) -> bool:
    """Return whether a difference says nothing: an unknown value, or what kernels keep of equal memory."""
    sizes = [size for value in values if (size := optional_whole(value)) is not None]
    if name == "host.memory_bytes" and len(sizes) == len(values):
        return max(sizes) <= min(sizes) * (1 + MEMORY_TOLERANCE)
    return name in _WHERE_KNOWN and ABSENT in values


def _differing(runs: Sequence[ComparedRun], facts: Mapping[str, _Fact]) -> dict[str, dict[str, str]]:
    """Return fact -> run -> value for facts that differ; of a nested fact only the items that differ."""
    differing: dict[str, dict[str, str]] = {}
    for name, fact in facts.items():
        leaves_by_run = {run.record.run_id: dict(_leaves(name, fact(run))) for run in runs}
        for leaf in dict.fromkeys(leaf for leaves in leaves_by_run.values() for leaf in leaves):
            values = {run_id: leaves.get(leaf, ABSENT) for run_id, leaves in leaves_by_run.items()}
            if len(set(values.values())) > 1:
                differing[leaf] = {run_id: value[:VALUE_CHARACTERS_MAX] for run_id, value in values.items()}
    return differing


def _fact_of(leaf: str) -> str:
    return next(name for name in _COMPARABILITY_FACTS if leaf == name or leaf.startswith(f"{name}."))


def _leaves(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(f"{name}.{key}", item)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(f"{name}.{number}", item)
    else:
        yield name, ABSENT if value is None else str(value)


def _regrouped(cell: CellRow, run: ComparedRun, by: str, *, several: bool) -> CellRow:
    """Return the cell under its group's name, with an id that is unique over the runs."""
    if by == "volume":
        group = cell.volume
    elif by == "run":
        group = _run_group(run.record.run_id, cell.volume)
    else:
        group = str(_COMPARABILITY_FACTS[by](run))[:VALUE_CHARACTERS_MAX]
    cell_id = f"{run.record.run_id}/{cell.cell_id}" if several else cell.cell_id
    return cell.model_copy(update={"volume": group, "cell_id": cell_id})


def with_metrics(cell: CellRow, metrics: Iterable[str]) -> CellRow:
    """Return the cell with these metrics alone."""
    selected = {name: value for name, value in cell.metrics.items() if name in set(metrics)}
    return cell.model_copy(update={"metrics": selected})
