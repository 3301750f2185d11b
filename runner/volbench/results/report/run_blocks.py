"""One verdict of several runs: each run is a block, on another day, host, or pair of volumes of the two classes.

Two volumes of one class differ, and so do two days. Cells of one run share its copies of the volumes and its day,
so more cells of it say nothing about other copies: a run is one repeat (random effects). Its value for each volume
is the geometric mean over the blocks in which both volumes have a valid cell, and the runs are compared as the
cells of a run are, each against its neighbour (`results/stats/means.py`). Runs that share a copy of either volume
are one repeat, where the verdict is about the classes; with fewer than three it is about these volumes only.

Source: Follmann and Proschan, Valid inference in random effects meta-analysis, Biometrics 55 (1999).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from volbench.core.base.nearest import suggestion
from volbench.core.base.text import counted
from volbench.core.records.cell import CellResult
from volbench.core.records.run import VolumeSpec
from volbench.errors import IncomparableRuns, UsageError
from volbench.results.compare.compared_cells import rows_of
from volbench.results.compare.comparison import Comparison, GroupKey, compare, group_key
from volbench.results.compare.row import Row
from volbench.results.report.cross_run import (
    ComparedRun,
    compared_run,
    context_of,
    refuse_differing,
    refuse_unknown_metrics,
    with_metrics,
)
from volbench.results.report.rows.nodes import changed_together, host_name, hosts_by_volume
from volbench.results.stats.sequential import CELLS_MIN
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

HOST_FACTS = ("host.cpu_model", "host.cpus", "host.memory_bytes", "host.cloud_instance_type")
"""In which the runs may differ: both volumes of a run have the same host."""
_NAMED_CLASS = ("emulated", "storage-class")
"""Kinds of volumes whose SPEC names the class; of others it names a place."""

About = Literal["classes", "volumes"]


@dataclass(frozen=True, kw_only=True)
class PairOfRuns:
    """Which runs a pair of volumes is compared over, and what the verdict is about.

    Args:
        repeats: ids of the runs of each repeat: runs that share a copy are one where it is about the classes.
        copies: different volumes that the runs had under the two names.
        about: `classes` of the volumes, or only these `volumes`.
        notes: runs that were left out or lost cells, with the reason, and what is missing for the classes.
    """

    baseline: str
    candidate: str
    repeats: tuple[tuple[str, ...], ...]
    copies: tuple[int, int]
    about: About
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunBlocks:
    """The comparisons of volumes over runs; `runs` of a comparison counts repeats. `context`: differing facts."""

    groups: tuple[str, ...]
    pairs: tuple[PairOfRuns, ...]
    comparisons: tuple[Comparison, ...]
    context: Mapping[str, Mapping[str, str]]


def compare_run_blocks(
    directories: Sequence[RunDirectory], *, metrics: Sequence[str] = (), against: str = ""
) -> RunBlocks:
    """Compare volumes of the same names over several runs, each of which is one repeat.

    Args:
        directories: of CELLS_MIN runs or more.
        metrics: names of metrics to compare; empty: all.
        against: the volume that all others are compared with; empty: the first one of the first run.

    Raises UsageError for too few runs, one that is named twice, or unknown names; IncomparableRuns for runs that
    differ in more than host and day.
    """
    runs = [compared_run(load_run(directory)) for directory in directories]
    _check(runs)
    if metrics:
        refuse_unknown_metrics([cell for run in runs for cell in run.cells], metrics)
        runs = [replace(run, cells=tuple(with_metrics(cell, metrics) for cell in run.cells)) for run in runs]
    names = tuple(dict.fromkeys(volume.name for run in runs for volume in run.record.volumes))
    if against and against not in names:
        raise UsageError(f"there is no volume {against!r}", where="--against", next_step=suggestion(against, names))
    baseline = against or names[0]
    groups = (baseline, *(name for name in names if name != baseline))
    by_pair = [_compared(runs, baseline, candidate) for candidate in groups[1:]]
    return RunBlocks(
        groups=groups,
        pairs=tuple(pair for pair, _ in by_pair),
        comparisons=tuple(comparison for _, of_pair in by_pair for comparison in of_pair),
        context=context_of(runs, also=HOST_FACTS),
    )


def _check(runs: Sequence[ComparedRun]) -> None:
    ids = [run.record.run_id for run in runs]
    twice = sorted({run_id for run_id in ids if ids.count(run_id) > 1})
    if twice:
        raise UsageError("one run is one block", where="--blocks", evidence=f"{twice[0]} is named twice")
    if len(runs) < CELLS_MIN:
        raise UsageError(
            f"--blocks needs at least {CELLS_MIN} runs: each is one repeat, whatever the number of its cells",
            where="--blocks",
            evidence=counted(len(runs), "run"),
            next_step="run the suite on other days, hosts or copies of the volumes; or compare without --blocks",
        )
    refuse_differing(runs, "volume", but=HOST_FACTS)
    names = dict.fromkeys(volume.name for run in runs for volume in run.record.volumes)
    facts: dict[str, Callable[[ComparedRun], object]] = {
        "comparison.margin": lambda run: run.record.suite.comparison.margin,
        "comparison.confidence": lambda run: run.record.suite.comparison.confidence,
        **{f"volume {name}": _class_in(name) for name in names},
    }
    for name, fact in facts.items():
        values = {run.record.run_id: fact(run) for run in runs if fact(run) is not None}
        if len(set(values.values())) > 1:
            raise IncomparableRuns(
                f"these runs are no blocks of one verdict: they differ in {name}",
                where=", ".join(values),
                evidence=" | ".join(f"{run_id}: {value}" for run_id, value in values.items()),
                next_step="give runs whose volumes of one name are of one class",
            )


def _class_in(name: str) -> Callable[[ComparedRun], str | None]:
    """Return a fact of a run: the class of its volume of this name; None where it has none."""

    def of_run(run: ComparedRun) -> str | None:
        return next((_class_of(volume) for volume in run.record.volumes if volume.name == name), None)

    return of_run


def _class_of(spec: VolumeSpec) -> str:
    options = ",".join(f"{key}={value}" for key, value in sorted(spec.options.items()))
    return f"{spec.kind}:{spec.location}?{options}" if spec.kind in _NAMED_CLASS else spec.kind


def _compared(runs: Sequence[ComparedRun], baseline: str, candidate: str) -> tuple[PairOfRuns, list[Comparison]]:
    """Compare one pair over the runs that have both."""
    members, notes = [], []
    for run in runs:
        reason = _why_left_out(run, baseline, candidate)
        if reason:
            notes.append(f"{run.record.run_id} is left out: {reason}")
        else:
            members.append(run)
            notes += _lost_cells(run, baseline, candidate)
    pair = _pair_of(members, baseline, candidate, notes)
    by_id = {run.record.run_id: run for run in members}
    rows = [
        row
        for number, repeat in enumerate(pair.repeats)
        for row in _rows_of_repeat([by_id[run_id] for run_id in repeat], number, baseline, candidate)
    ]
    spec = runs[0].record.suite.comparison
    comparisons = compare(rows, (baseline, candidate), margin=spec.margin, alpha=1 - spec.confidence)
    return pair, [_of_runs(comparison) for comparison in comparisons]


def _of_runs(comparison: Comparison) -> Comparison:
    few = min(comparison.runs)
    if few >= CELLS_MIN:
        return comparison
    return replace(comparison, reason=f"{counted(few, 'run')} with a value of both; a verdict needs {CELLS_MIN}")


def _why_left_out(run: ComparedRun, baseline: str, candidate: str) -> str:
    """Return why a run is no block of a pair; empty where it is one."""
    hosts = hosts_by_volume(run.results, {cell.cell_id: cell.volume for cell in run.record.cells})
    for name in (baseline, candidate):
        if name not in {volume.name for volume in run.record.volumes}:
            return f"it has no volume {name}"
        if not any(cell.valid and cell.volume == name for cell in run.cells):
            return f"it has no valid cell of {name}{_disturbed_text(run, (name,))}"
    if changed_together(hosts.get(baseline, ()), hosts.get(candidate, ())):
        return "node and volume changed together"
    if _common_blocks(run, baseline, candidate):
        return ""
    return f"no block has a valid cell of both volumes{_disturbed_text(run, (baseline, candidate))}"


def _common_blocks(run: ComparedRun, baseline: str, candidate: str) -> set[int]:
    first, second = (
        {cell.block for cell in run.cells if cell.valid and cell.volume == name} for name in (baseline, candidate)
    )
    return first & second


def _lost_cells(run: ComparedRun, baseline: str, candidate: str) -> list[str]:
    blocks = {cell.block for cell in run.cells if cell.volume in (baseline, candidate)}
    pairs = len(_common_blocks(run, baseline, candidate))
    if pairs == len(blocks):
        return []
    return [
        f"{run.record.run_id}: {pairs} of {counted(len(blocks), 'block')} have valid cells of both and are used"
        f"{_disturbed_text(run, (baseline, candidate))}"
    ]


def _disturbed_text(run: ComparedRun, names: Sequence[str]) -> str:
    """Return how many cells of these volumes other work disturbed, in brackets; empty where it disturbed none.

    A comparison within the run may adjust for such work. A run's mean cannot: the slope would be another one in
    each run.
    """
    disturbed = {
        cell.cell_id for cell in run.cells if cell.volume in names and not cell.valid and cell.disturbances
    }
    if not disturbed:
        return ""
    verb = "is" if len(disturbed) == 1 else "are"
    return f" ({counted(len(disturbed), 'disturbed cell')} {verb} left out: runs are not adjusted for other work)"


def _pair_of(runs: Sequence[ComparedRun], baseline: str, candidate: str, notes: list[str]) -> PairOfRuns:
    copies = [{run.record.run_id: _copies(run, name) for run in runs} for name in (baseline, candidate)]
    counts = [len(frozenset().union(*of_volume.values())) for of_volume in copies]
    clusters = _clusters([run.record.run_id for run in runs], copies)
    about: About = "classes" if len(clusters) >= CELLS_MIN else "volumes"
    if about == "volumes":
        clusters = [(run.record.run_id,) for run in runs]
        notes = [
            *notes,
            f"the verdict is about these volumes, not about their classes: the runs have"
            f" {counted(counts[0], 'copy', 'copies')} of {baseline} and {counts[1]} of {candidate}, and"
            f" {CELLS_MIN} runs that share no copy are needed",
        ]
    return PairOfRuns(
        baseline=baseline,
        candidate=candidate,
        repeats=tuple(clusters),
        copies=(counts[0], counts[1]),
        about=about,
        notes=tuple(notes),
    )


def _copies(run: ComparedRun, name: str) -> frozenset[str]:
    """Return what tells the volumes that a run used under a name from others."""
    volume_of = {cell.cell_id: cell.volume for cell in run.record.cells}
    of_volume = [result for result in run.results if volume_of[result.cell_id] == name and result.status == "done"]
    return frozenset(_copy_of(result, run) for result in of_volume)


def _copy_of(result: CellResult, run: ComparedRun) -> str:
    """Return the identity of a cell's volume; an emulated one is the same model everywhere."""
    facts = result.volume_facts
    if facts.emulated_profile is not None:
        return f"emulated {facts.emulated_profile}"
    if uid := facts.persistent_volume_uid or facts.claim_uid:
        return uid
    if facts.nfs_server is not None:
        return f"{facts.nfs_server}:{facts.nfs_export}"
    host = host_name(result.host) or host_name(run.record.host) or "unknown"
    return f"{host} {facts.disk or facts.mount_source or facts.path}"


def _clusters(ids: Sequence[str], copies: Iterable[Mapping[str, frozenset[str]]]) -> list[tuple[str, ...]]:
    """Return the runs in groups without a common copy of either volume."""
    clusters: list[tuple[set[tuple[int, str]], list[str]]] = []
    sides = list(copies)
    for run_id in ids:
        keys = {(number, copy) for number, side in enumerate(sides) for copy in side[run_id]}
        members = [run_id]
        for cluster in [cluster for cluster in clusters if cluster[0] & keys]:
            clusters.remove(cluster)
            keys |= cluster[0]
            members = [*cluster[1], *members]
        clusters.append((keys, members))
    return [tuple(run_id for run_id in ids if run_id in members) for _, members in clusters]


def _rows_of_repeat(runs: Sequence[ComparedRun], number: int, baseline: str, candidate: str) -> list[Row]:
    """Return a row for each metric and volume: the geometric mean over the runs of a repeat."""
    values: dict[tuple[GroupKey, str, str], list[Row]] = {}
    for run in runs:
        for key, row in _rows_of_run(run, baseline, candidate).items():
            values.setdefault(key, []).append(row)
    return [
        _mean_row(rows, cell=f"repeat {number + 1} of {rows[0].volume}", block=number) for rows in values.values()
    ]


def _rows_of_run(run: ComparedRun, baseline: str, candidate: str) -> dict[tuple[GroupKey, str, str], Row]:
    """Return a row for each step, metric and volume, over the blocks in which both have a valid cell."""
    groups: dict[tuple[GroupKey, str], dict[str, list[Row]]] = {}
    for row in rows_of(run.cells, run.record.suite.comparison):
        if row.valid and row.volume in (baseline, candidate):
            groups.setdefault((group_key(row), row.metric), {}).setdefault(row.volume, []).append(row)
    means: dict[tuple[GroupKey, str, str], Row] = {}
    for (key, metric), sides in groups.items():
        if len(sides) < 2:
            continue
        common = set.intersection(*({row.block for row in side} for side in sides.values()))
        for volume, side in sides.items():
            rows = [row for row in side if row.block in common]
            if rows:
                means[key, metric, volume] = _mean_row(rows, cell=run.record.run_id, block=0)
    return means


def _mean_row(rows: Sequence[Row], *, cell: str, block: int) -> Row:
    """Return one row for several: their geometric mean; without a value where one has none that is positive."""
    values = [row.value for row in rows]
    positive = [value for value in values if value is not None and math.isfinite(value) and value > 0]
    is_beyond = any(row.is_beyond for row in rows)
    value = math.exp(math.fsum(map(math.log, positive)) / len(positive)) if len(positive) == len(values) else None
    if value is None and not is_beyond:
        value = min((value for value in values if value is not None and math.isfinite(value)), default=None)
    return replace(
        rows[0], cell=cell, block=block, value=value, is_beyond=is_beyond, node="", shares={}, bounds=None
    )
