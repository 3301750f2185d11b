"""What the time budgets of lab runs come to: their sums, and the largest piece of the difference a cause makes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from causes.scoring import NONE
from volbench.core.records.cell import CellResult
from volbench.errors import RunUnreadable
from volbench.results.explain.accounts.time_budget import QUEUE, TimeBudget, time_budget
from volbench.results.explain.case import Case
from volbench.results.explain.run_cases import cases_of
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

TWINS_LAB = "test"
"""The lab whose runs have twins."""
TRUTH_FILE = "truth.json"
STEP = "load"
RISE_MIN = 1.2
"""Latency with the cause over latency without it, from which there is a difference to divide."""
SAMPLES_MIN = 3
_LOGS = frozenset({"redo_sync", "commit_log", "write_path", "binlog_sync", "binlog_group"})
_FILES = _LOGS | {"data_reads", "doublewrite", "other_files", "checkpoint"}
"""Pieces that a faster volume shortens."""
_CPU = frozenset({"cpu", "cpu_server", "cpu_queue", "cpu_between"})
PIECES: Mapping[str, frozenset[str]] = {
    "host.io_limit": _FILES,
    "storage.iops_limit": _FILES,
    "storage.throughput_limit": _FILES,
    "storage.burst_exhausted": _FILES,
    "storage.degraded": _FILES,
    "storage.stall": _FILES,
    "storage.read_latency": frozenset({"data_reads"}),
    "storage.sync_latency": _LOGS,
    "storage.metadata_latency": frozenset({"other_files"}),
    "memory.buffer_pool_small": frozenset({"data_reads"}),
    "interference.io": _FILES,
    "cpu.server_saturated": _CPU,
    "cpu.steal": _CPU,
    "interference.cpu": _CPU,
    "cpu.client_saturated": frozenset({"outside", "cpu_queue", "cpu_between"}),
    "lock.row_contention": frozenset({"row_locks"}),
    "redo.checkpoint_stall": frozenset({"write_path", "checkpoint"}),
}
"""Cause -> pieces that show it."""

Key = tuple[str, int, int]
_Pair = tuple[Mapping[str, float], Mapping[str, float]]
"""Milliseconds by piece without and with the cause."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run: what its pieces sum to, and what its difference consists of.

    `sum_ratio`: statement time that the server accounts over the client's latency; `accounted_ratio`: with what is
    accounted beyond the statements (`TimeBudget.outside_pieces` but `outside`). `cut_ratio`: clients over
    transactions, the part of them that the window's ends may cut. `cpu_ratio`: time on and before CPUs over the
    latency, of a closed loop. `largest` is empty without a difference; `expected` has the pieces of the causes that
    were made.
    """

    lab: str
    condition: str
    seed: int
    number: int
    sum_ratio: float | None
    unaccounted: float
    accounted_ratio: float | None = None
    cut_ratio: float = 0.0
    cpu_ratio: float | None = None
    latency_ms: float | None = None
    compared: str = ""
    largest: str = ""
    largest_share: float = 0.0
    expected: frozenset[str] = frozenset()

    @property
    def is_right(self) -> bool:
        """Whether the largest piece is one of the cause that was made."""
        return self.largest in self.expected


@dataclass(frozen=True, kw_only=True)
class LabRun:
    """One run of a lab with its load's case."""

    lab: str
    truth: Mapping[str, Any]
    case: Case
    budget: TimeBudget
    latency_ms: float | None
    phases: Sequence[tuple[float, float]]

    @property
    def mix(self) -> str:
        """The statement mix: only runs of one mix are compared."""
        return str(self.truth.get("load", {}).get("step", {}).get("test", "") or self.truth.get("test", ""))

    @property
    def key(self) -> Key:
        """Condition, seed and number: a run and its twin have the same."""
        return str(self.truth["condition"]), int(self.truth["seed"]), int(self.truth["number"])

    @property
    def is_clean(self) -> bool:
        """Whether nothing was made."""
        return list(self.truth["truth"]) == ["none"] and str(self.truth["condition"]).startswith("clean")


def runs(labs: Iterable[Path]) -> Iterator[LabRun]:
    """Runs whose cause is proven, with a budget of their load."""
    for lab in labs:
        for file in sorted(lab.glob(f"seed-*/*/*/{TRUTH_FILE}")):
            truth = {**json.loads(file.read_text(encoding="utf-8")), "seed": int(file.parts[-4].split("-")[1])}
            paths = next(iter(sorted(file.parent.glob("results/*/run.json"))), None)
            if paths is None or not truth.get("injected", True) or truth.get("failure"):
                continue
            try:
                yield from _runs(lab.name, truth, file.parent, RunDirectory.open(paths.parent))
            except RunUnreadable:
                continue


def _runs(lab: str, truth: Mapping[str, Any], entry: Path, directory: RunDirectory) -> Iterator[LabRun]:
    loaded = load_run(directory)
    for result in directory.results():
        for case in cases_of(loaded, result):
            budget = time_budget(case)
            if case.name != STEP or budget is None:
                continue
            step = next(step for step in result.steps if step.step == STEP)
            latency = step.metrics.get("latency_ms_mean")
            mix = {"test": step.parameters.get("test", "")}
            yield LabRun(
                lab=lab,
                truth={**mix, **truth},
                case=case,
                budget=budget,
                latency_ms=None if latency is None else latency.value,
                phases=_phases(truth, entry, result),
            )


def _phases(truth: Mapping[str, Any], directory: Path, result: CellResult) -> list[tuple[float, float]]:
    """When the cause was on, on the cell's clock; empty: all the time, or not known."""
    if truth.get("shape", "steady") == "steady":
        return []
    done = json.loads((directory / "done.json").read_text(encoding="utf-8"))
    actions = done.get("actions", [])
    phases: list[tuple[float, float]] = []
    for action in actions:
        at_s = (action["monotonic_ns"] - result.zero_monotonic_ns) / 1e9
        if action["injector"] == actions[0]["injector"] and action["switched_on"]:
            phases.append((at_s, float("inf")))
        elif action["injector"] == actions[0]["injector"] and phases:
            phases[-1] = (phases[-1][0], at_s)
    return phases


def outcomes(result: Iterable[LabRun], twins: Mapping[Key, LabRun]) -> Iterator[Outcome]:
    """What each run's budget came to."""
    every = list(result)
    clean = [run for run in every if run.is_clean]
    for run in every:
        outside = run.budget.pieces.get("unaccounted", 0.0)
        total = None if run.latency_ms is None else run.budget.statement_ms / run.latency_ms
        outcome = Outcome(
            lab=run.lab,
            condition=str(run.truth["condition"]),
            seed=int(run.truth["seed"]),
            number=int(run.truth["number"]),
            sum_ratio=total,
            latency_ms=run.latency_ms,
            accounted_ratio=_accounted(run),
            cut_ratio=_cut(run),
            cpu_ratio=None if run.case.rate or not run.latency_ms else run.budget.cpu_between_ms / run.latency_ms,
            unaccounted=outside / run.budget.statement_ms,
        )
        yield outcome if list(run.truth["truth"]) == ["none"] else _with_difference(outcome, run, clean, twins)


def _accounted(run: LabRun) -> float | None:
    """All accounted pieces over the client's latency."""
    if run.latency_ms is None:
        return None
    beyond = run.budget.outside_pieces(run.latency_ms)
    return (run.budget.statement_ms + sum(beyond.values()) - beyond.get("outside", 0.0)) / run.latency_ms


def _cut(run: LabRun) -> float:
    """Transactions that were under way at an end of the window, at most, over all: N / (X T)."""
    done = (run.case.tps or 0.0) * run.case.length_s
    return (run.case.threads or 0) / done if done else float("inf")


def _with_difference(
    outcome: Outcome, run: LabRun, clean: Sequence[LabRun], twins: Mapping[Key, LabRun]
) -> Outcome:
    expected = _expected(run.truth["truth"])
    twin = twins.get(run.key) if run.lab == TWINS_LAB else None
    if twin is not None and (twin.latency_ms is None) == (run.latency_ms is None):
        pair: _Pair | None = (_with_outside(twin), _with_outside(run))
        compared = "against its twin"
    elif run.phases:
        pair, compared = _within(run), "within the run"
    else:
        pair, compared = _against(run, clean), "against clean runs"
    if pair is None or sum(pair[1].values()) < RISE_MIN * sum(pair[0].values()):
        return replace(outcome, compared=compared, expected=expected)
    before, after = pair
    rises = {piece: after.get(piece, 0.0) - before.get(piece, 0.0) for piece in {*before, *after}}
    extra = sum(after.values()) - sum(before.values())
    if extra > rises.get(QUEUE, 0.0):  # as the report's sentence: a queue follows from the other pieces
        extra -= rises.pop(QUEUE, 0.0)
    largest = max(rises, key=lambda piece: rises[piece])
    share = rises[largest] / extra
    return replace(outcome, compared=compared, expected=expected, largest=largest, largest_share=share)


def _expected(truths: Sequence[str]) -> frozenset[str]:
    """The pieces of all causes that were made; none where "no cause" is right as well."""
    causes = [cause for truth in truths for cause in str(truth).split("|")]
    return (
        frozenset() if NONE in causes else frozenset().union(*(PIECES.get(cause, frozenset()) for cause in causes))
    )


def _within(run: LabRun) -> _Pair | None:
    """Pieces without and with the cause, from one run; buckets beside a change belong to neither."""
    t_s, width_s = run.case.grid.t_s, run.case.grid.width_s
    inside, neighbour = np.zeros(len(t_s), dtype=np.bool_), np.zeros(len(t_s), dtype=np.bool_)
    for on_s, off_s in run.phases:
        inside |= (t_s - width_s >= on_s) & (t_s <= off_s)
        for edge_s in (on_s, off_s):
            neighbour |= np.abs(t_s - width_s / 2 - edge_s) <= width_s
    budgets = []
    for mask in (~inside & ~neighbour, inside & ~neighbour):
        budget = (
            time_budget(replace(run.case, grid=run.case.grid.where(mask))) if mask.sum() >= SAMPLES_MIN else None
        )
        if budget is None:
            return None
        budgets.append(budget.pieces)
    return budgets[0], budgets[1]


def _against(run: LabRun, clean: Sequence[LabRun]) -> _Pair | None:
    """Pieces of the nearest clean run of the same lab and mix, and of this run, with what the client adds."""
    alike = [outcome for outcome in clean if outcome.lab == run.lab and outcome.mix == run.mix]
    if not alike:
        return None
    nearest = min(alike, key=lambda pair: abs((pair.case.threads or 0) - (run.case.threads or 0)))
    return _with_outside(nearest), _with_outside(run)


def _with_outside(run: LabRun) -> Mapping[str, float]:
    beyond = {} if run.latency_ms is None else run.budget.outside_pieces(run.latency_ms)
    return {**run.budget.pieces, **beyond}
