"""A metric that moves with p95 is held against the first cause of its step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volbench.core.records.named_metrics import (
    CPU,
    Client,
    Diskstats,
    Emulator,
    Innodb,
    NamedMetric,
    PerformanceSchema,
    Tasks,
)
from volbench.core.records.sources import SAMPLED
from volbench.results.explain.cause_relation import counterparts, relation_by_descriptors, relation_of
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.evidence.association import Along, Association, cell_correlations, pooled
from volbench.results.explain.topics import CONTAINS, WITHOUT_TOPIC, topic_of
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

LIMIT, SYNCS, POOL = "storage.iops_limit", "storage.sync_latency", "memory.buffer_pool_small"
P95 = SeriesKey.of(Client.latency_ms_p95)
READS = SeriesKey.of(Diskstats.r_await_ms, "vda")
TABLES = SeriesKey.of(PerformanceSchema.wait_s_per_s, "table")
FILES = SeriesKey.of(PerformanceSchema.wait_s_per_s, "file_data")
RUNNABLE = SeriesKey.of(CPU.runnable_threads)
SECONDS = 121
NAMELESS = frozenset({"server.stall"})
"""Causes that say of no metric that it moves: a stand of all clients is seen by the clients alone."""


def test_each_sampled_metric_has_a_topic_or_none_on_purpose() -> None:
    """But for times and counts of statements, which are the latency by other names."""
    without = {
        NamedMetric(source, name)
        for source, metrics in SAMPLED.items()
        for name in metrics
        if topic_of(source, name, "table") is None
    }
    of_statements = without - WITHOUT_TOPIC
    assert {(metric.source, metric.name.partition("_")[0]) for metric in of_statements} == {
        ("performance_schema", "statement"),
        ("performance_schema", "query"),
    }


def test_each_cause_says_what_it_accounts_for() -> None:
    assert {name for name, info in CAUSES.items() if not info.accounts_for} == NAMELESS


def test_no_topic_contains_itself() -> None:
    for topic in CONTAINS:
        below, further = {topic}, set(CONTAINS[topic])
        while further:
            assert topic not in further
            below |= further
            further = {share for each in further for share in CONTAINS.get(each, ())}


@pytest.mark.parametrize(
    ("metric", "entity", "cause", "relation"),
    [
        (Diskstats.r_await_ms, "vda", LIMIT, "accounted for"),
        (Diskstats.w_await_ms, "vda", LIMIT, "accounted for"),
        (Diskstats.r_await_ms, "vda", SYNCS, "not accounted for"),
        (Diskstats.w_await_ms, "vda", SYNCS, "accounted for"),
        (PerformanceSchema.file_read_ms, "data", LIMIT, "layer above"),
        (PerformanceSchema.file_read_ms, "data", POOL, "accounted for"),
        (PerformanceSchema.file_read_ms, "data", SYNCS, "not accounted for"),
        (PerformanceSchema.wait_s_per_s, "table", LIMIT, "layer above"),
        (PerformanceSchema.wait_s_per_s, "table", SYNCS, "not accounted for"),
        (PerformanceSchema.wait_s_per_s, "table", "lock.row_contention", "layer above"),
        (PerformanceSchema.wait_s_per_s, "tables", LIMIT, "not known"),
        (Tasks.cpus_used, "emulator", POOL, "served"),
        (Tasks.run_delay_s_per_s, "emulator", POOL, "not accounted for"),
        (Tasks.cpus_used, "server", "cpu.server_saturated", "accounted for"),
        (Innodb.questions_per_s, "", LIMIT, "restated"),
        (CPU.user_ratio, "", LIMIT, "not accounted for"),
        (Diskstats.r_await_ms, "vda", "none", "not accounted for"),
        (CPU.user_ratio, "", "none", "accounted for"),
        (CPU.user_ratio, "", "server.stall", "not known"),
        (CPU.user_ratio, "", "storage.iops_limits", "not known"),
        (Emulator.late_ratio, "", LIMIT, "not known"),
        (CPU.user_ratio, "", "", ""),
    ],
)
def test_a_metric_is_what_descriptors_say(metric: NamedMetric, entity: str, cause: str, relation: str) -> None:
    assert relation_by_descriptors(SeriesKey.of(metric, entity), 0.5, cause) == relation


def test_what_moves_against_its_direction_is_no_cause_whatever_is_named() -> None:
    for cause in (LIMIT, ""):
        assert relation_by_descriptors(SeriesKey.of(Innodb.questions_per_s), -0.7, cause) == "reversed"


@pytest.mark.parametrize(
    ("source", "cause", "relation"),
    [
        ("diskstats", LIMIT, "accounted for"),
        ("diskstats@log", LIMIT, "not accounted for"),
        ("diskstats@log", f"{LIMIT}@log", "accounted for"),
        ("diskstats", f"{LIMIT}@log", "not accounted for"),
    ],
)
def test_of_a_layout_a_device_belongs_to_the_causes_of_its_own_volume(
    source: str, cause: str, relation: str
) -> None:
    key = SeriesKey(source=source, metric=Diskstats.w_await_ms.name, entity="vda")
    assert relation_by_descriptors(key, 0.5, cause) == relation


def step_of(cpu: float, seed: int = 5) -> Grid:
    """Return a step: reads of the volume make p95, and so do tasks that are ready to run, as far as `cpu` says.

    `table` has the reads, and `cpu` times what the tasks are.
    """
    random = np.random.default_rng(seed)
    reads, tasks, noise = random.standard_normal((3, SECONDS))
    columns = {
        READS: 5 + reads + 0.2 * noise,
        FILES: 4 + reads + 0.3 * random.standard_normal(SECONDS),
        TABLES: 20 + reads + cpu * tasks + 0.3 * random.standard_normal(SECONDS),
        RUNNABLE: 10 + tasks,
        P95: 50 + reads + cpu * tasks + 0.3 * noise,
    }
    return Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)


def associated(grid: Grid, cause: str, key: SeriesKey) -> Association:
    correlations = cell_correlations(grid, P95, counterparts=counterparts(grid, P95, [cause]))
    return next(each for each in pooled([correlations]) if each.key == key)


def test_a_layer_above_moves_along_with_the_waits_below_it() -> None:
    table = associated(step_of(cpu=0.0), LIMIT, TABLES)
    assert table.moves_along(LIMIT) is True
    assert relation_of(table, LIMIT) == "layer above"


def test_a_layer_above_whose_part_for_others_moves_p95_does_not_move_along() -> None:
    """Tasks that are ready to run are in it, and make nearly all of the changes."""
    table = associated(step_of(cpu=6.0), LIMIT, TABLES)
    assert table.moves_along(LIMIT) is False
    assert relation_of(table, LIMIT) == "layer above"


def test_what_shows_the_wait_of_the_cause_moves_along_with_it() -> None:
    """Tasks that are ready whenever a read ends. A partial correlation would leave them a part of their own."""
    grid = step_of(cpu=0.0)
    along = grid.columns[READS] + 0.5 * np.random.default_rng(8).standard_normal(SECONDS)
    moved = Grid(t_s=grid.t_s, width_s=1.0, columns={**grid.columns, RUNNABLE: along})
    runnable = associated(moved, LIMIT, RUNNABLE)
    assert runnable.holds
    assert relation_of(runnable, LIMIT) == "shared"


@pytest.mark.parametrize("cpu", [1.0, 6.0])
def test_what_moves_p95_by_itself_is_not_accounted_for(cpu: float) -> None:
    runnable = associated(step_of(cpu=cpu), LIMIT, RUNNABLE)
    assert runnable.holds
    assert relation_of(runnable, LIMIT) == "not accounted for"
    assert runnable.moves_along(LIMIT) is False


def test_a_cause_whose_metrics_were_not_sampled_is_compared_by_descriptors_alone() -> None:
    grid = step_of(cpu=1.0)
    sampled = {key: column for key, column in grid.columns.items() if key in (P95, RUNNABLE)}
    runnable = associated(Grid(t_s=grid.t_s, width_s=1.0, columns=sampled), LIMIT, RUNNABLE)
    assert runnable.moves_along(LIMIT) is None
    assert relation_of(runnable, LIMIT) == "not accounted for"


@pytest.mark.parametrize(
    ("rho", "of_latency", "effective", "moves"),
    [
        (0.35, 0.5, 90.0, True),
        (0.29, 0.5, 90.0, False),
        (0.35, -0.5, 90.0, False),
        (0.21, 0.2, 400.0, False),
        (0.23, 0.2, 400.0, True),
        (0.23, 0.2, 60.0, False),
    ],
)
def test_it_moves_along_where_both_are_as_close_as_each_is_to_p95(
    rho: float, of_latency: float, effective: float, moves: bool
) -> None:
    """A twentieth of the variance is 0.224 squared; 60 pairs give 0.23 by chance more often than 5 in 100."""
    association = Association(
        key=RUNNABLE,
        rho=0.6,
        lag=0,
        samples=120,
        effective_samples=effective,
        p_value=0.0,
        q_value=0.0,
        along={LIMIT: Along(rho=rho, rho_of_latency=of_latency)},
    )
    assert association.moves_along(LIMIT) is moves
    assert association.moves_along(SYNCS) is None


def test_cells_are_weighted_as_they_are_for_the_correlation_itself() -> None:
    cells = [
        cell_correlations(grid, P95, counterparts=counterparts(grid, P95, [LIMIT]))
        for grid in (step_of(cpu=1.0, seed=1), step_of(cpu=1.0, seed=2))
    ]
    together = next(each for each in pooled(cells) if each.key == RUNNABLE).along[LIMIT]
    alone = [next(each for each in pooled([cell]) if each.key == RUNNABLE).along[LIMIT] for cell in cells]
    assert min(each.rho for each in alone) <= together.rho <= max(each.rho for each in alone)


def drawn(random: np.random.Generator, *, is_one_wait: bool, seconds: int = 60, error: float = 0.3) -> Grid:
    """Return a step whose p95 shows the reads, and either the same reads or tasks too, all with errors."""
    reads, tasks = random.standard_normal((2, seconds))
    of_reads, of_tasks, of_p95 = error * random.standard_normal((3, seconds))
    columns = {
        READS: 5 + reads + of_reads,
        RUNNABLE: 10 + (reads if is_one_wait else tasks) + of_tasks,
        P95: 50 + reads + (0.0 if is_one_wait else tasks) + of_p95,
    }
    return Grid(t_s=np.arange(1.0, seconds + 1), width_s=1.0, columns=columns)


def moved_along(*, is_one_wait: bool) -> tuple[int, int]:
    """Of drawn steps whose association holds: those that move along, and all."""
    random = np.random.default_rng(2)
    steps = [
        associated(drawn(random, is_one_wait=is_one_wait, seconds=seconds, error=error / 10), LIMIT, RUNNABLE)
        for seconds in (30, 60, 120)
        for error in range(1, 7)
        for _ in range(20)
    ]
    holding = [step for step in steps if step.holds]
    return sum(step.moves_along(LIMIT) is True for step in holding), len(holding)


def test_the_documentation_counts_drawn_steps() -> None:
    """It had counts of draws that nobody could make again."""
    (of_one_wait, holding_one), (of_two_waits, holding_two) = (
        moved_along(is_one_wait=is_one) for is_one in (True, False)
    )
    page = " ".join((Path(__file__).parents[4] / "docs/statistics.md").read_text(encoding="utf-8").split())
    assert f"{of_one_wait} of {holding_one} that show one wait moved along," in page
    assert f"along, and {of_two_waits} of {holding_two} that show two" in page


@pytest.mark.parametrize(("is_one_wait", "relation"), [(True, "shared"), (False, "not accounted for")])
def test_one_wait_is_told_from_two_in_drawn_steps(is_one_wait: bool, relation: str) -> None:
    """Of a partial correlation a part was left in 49 of 60 steps that show one wait."""
    random = np.random.default_rng(1)
    steps = [associated(drawn(random, is_one_wait=is_one_wait), LIMIT, RUNNABLE) for _ in range(40)]
    holding = [step for step in steps if step.holds]
    assert len(holding) >= 36
    assert sum(relation_of(step, LIMIT) == relation for step in holding) >= 0.95 * len(holding)
