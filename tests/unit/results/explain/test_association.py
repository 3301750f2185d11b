from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from volbench.results.explain.evidence import association
from volbench.results.explain.evidence.association import (
    Association,
    benjamini_hochberg,
    cell_correlations,
    pooled,
)
from volbench.results.stats.centred_series import CentredSeries, effective_size
from volbench.results.stats.grid import Grid
from volbench.results.stats.segmentation import midranks
from volbench.results.store.series import SeriesKey

P95 = SeriesKey(source="client", metric="latency_ms_p95")
AWAIT = SeriesKey(source="diskstats", metric="r_await_ms", entity="sda")


def walk(seed: int, size: int = 120) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).normal(0, 1, size))


def grid(**columns: np.ndarray) -> Grid:
    size = len(next(iter(columns.values())))
    named = {P95: columns.pop("p95")} | {
        SeriesKey(source="diskstats", metric=name, entity="sda"): column for name, column in columns.items()
    }
    return Grid(t_s=np.arange(1.0, size + 1), width_s=1.0, columns=named)


def associations(grids: Sequence[Grid], latency: SeriesKey) -> tuple[Association, ...]:
    return pooled([cell_correlations(each, latency) for each in grids])


def test_finds_the_metric_that_leads_and_its_lag() -> None:
    await_ms = np.exp(walk(1) / 10)
    p95 = np.roll(await_ms, 2) ** 3 * 40
    p95[:2] = np.nan
    first = associations([grid(p95=p95, r_await_ms=await_ms, other=walk(2))], P95)[0]
    assert (first.key, first.lag, first.holds) == (AWAIT, 2, True)
    assert first.rho == pytest.approx(1.0, abs=0.05)


def test_two_walks_that_share_nothing_are_not_associated() -> None:
    """Undifferenced, most pairs of random walks correlate."""
    retained = sum(
        any(association.holds for association in associations([grid(p95=walk(seed), other=walk(1000 + seed))], P95))
        for seed in range(100)
    )
    assert retained <= 8


def test_shuffling_the_seconds_destroys_it() -> None:
    await_ms = np.exp(walk(3) / 10)
    p95 = await_ms * 40
    assert associations([grid(p95=p95, r_await_ms=await_ms)], P95)[0].holds
    retained = 0
    for seed in range(40):
        shuffled = np.random.default_rng(seed).permutation(p95)
        retained += any(
            association.holds for association in associations([grid(p95=shuffled, r_await_ms=await_ms)], P95)
        )
    assert retained <= 4


def test_units_do_not_matter() -> None:
    await_ms, p95 = np.exp(walk(4) / 10), np.exp(walk(5) / 10)
    scaled = cell_correlations(grid(p95=p95 / 1000, r_await_ms=await_ms * 1e6), P95)
    assert cell_correlations(grid(p95=p95, r_await_ms=await_ms), P95) == scaled


def test_many_metrics_by_chance_are_not_believed() -> None:
    columns = {f"m{n}": walk(n) for n in range(100, 160)}
    assert sum(association.holds for association in associations([grid(p95=walk(6), **columns)], P95)) <= 3


def test_constant_short_or_absent_series_say_nothing() -> None:
    assert associations([grid(p95=walk(7, 100), other=np.ones(100))], P95) == ()
    assert associations([grid(p95=walk(1, 10), other=walk(2, 10))], P95) == ()
    assert associations([grid(p95=walk(1))], AWAIT) == ()


def test_neighbours_that_are_alike_count_for_less() -> None:
    smooth = np.convolve(np.random.default_rng(8).normal(0, 1, 300), np.ones(10) / 10, "valid")
    assert effective_size(CentredSeries(smooth), CentredSeries(smooth)) < 100
    rough = np.random.default_rng(9).normal(0, 1, 290)
    assert effective_size(CentredSeries(rough), CentredSeries(smooth)) > 200


def test_benjamini_hochberg() -> None:
    """The worked example of their paper's procedure: q is p x m / rank, never falling."""
    keys = [SeriesKey(source="s", metric=str(n)) for n in range(4)]
    q = benjamini_hochberg(dict(zip(keys, [0.01, 0.04, 0.03, 0.5], strict=True)))
    assert [q[key] for key in keys] == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])


def cells(seed: int, count: int, size: int, *, coupled: bool) -> list[Grid]:
    """Short cells of one step, each at a level of its own; `coupled`: latency follows one of the metrics."""
    made = []
    for cell in range(count):
        metric, noise = walk(1000 * seed + cell, size), walk(1000 * seed + 500 + cell, size)
        level = 100.0 * cell
        made.append(grid(p95=level + (metric + noise / 4 if coupled else noise), r_await_ms=level + metric))
    return made


def test_short_cells_are_pooled() -> None:
    """One cell of eight seconds says nothing, five of them do."""
    short = cells(1, 5, 9, coupled=True)
    assert associations(short[:1], P95) == ()
    first = associations(short, P95)[0]
    assert (first.key, first.lag, first.cells, first.holds) == (AWAIT, 0, 5, True)
    assert first.rho > 0.6


def test_levels_that_differ_between_cells_are_no_association() -> None:
    false = sum(
        any(row.holds for row in associations(cells(seed, 5, 9, coupled=False), P95)) for seed in range(100)
    )
    assert false <= 8


def closed_loop_grid(seed: int, *, own: float) -> Grid:
    """Throughput of four clients, a rate that follows it, and a waiting time that the latency follows."""
    rng = np.random.default_rng(seed)
    own_part = rng.normal(0, 1, 200)
    latency = 20 + rng.normal(0, 1, 200) + own * own_part
    tps = 4000 / latency
    columns = {
        SeriesKey(source="client", metric="latency_ms_p95"): 2 * latency * np.exp(rng.normal(0, 0.01, 200)),
        SeriesKey(source="client", metric="tps"): tps,
        SeriesKey(source="innodb", metric="commits_per_s"): tps * np.exp(rng.normal(0, 0.005, 200)),
        SeriesKey(source="diskstats", metric="r_await_ms", entity="vda"): 1
        + 0.1 * latency
        + rng.normal(0, 0.02, 200),
    }
    return Grid(t_s=np.arange(1.0, 201.0), width_s=1.0, columns=columns)


def test_a_rate_that_is_the_throughput_of_a_closed_loop_is_left_out() -> None:
    """p95 of four clients falls when commits a second rise, since both are what the clients finish."""
    latency = SeriesKey(source="client", metric="latency_ms_p95")
    grid = closed_loop_grid(1, own=0.0)
    in_closed = {row.key.metric for row in pooled([cell_correlations(grid, latency, is_closed=True)]) if row.holds}
    in_open = {row.key.metric for row in pooled([cell_correlations(grid, latency)]) if row.holds}
    assert in_closed == {"r_await_ms"}
    assert in_open == {"r_await_ms", "commits_per_s"}


def test_what_explains_less_than_a_twentieth_of_the_latency_is_left_out() -> None:
    """A correlation of 0.15 over 10,000 seconds is beyond chance, and of no use to anybody."""
    rng = np.random.default_rng(2)
    base = rng.normal(0, 1, 3600)
    latency = SeriesKey(source="client", metric="latency_ms_p95")
    columns = {
        latency: 20 + base,
        SeriesKey(source="vm", metric="weak"): 0.15 * base + rng.normal(0, 1, 3600),
        SeriesKey(source="vm", metric="strong"): base + rng.normal(0, 1, 3600),
    }
    grid = Grid(t_s=np.arange(1.0, 3601.0), width_s=1.0, columns=columns)
    rows = {row.key.metric: row for row in pooled([cell_correlations(grid, latency)])}
    assert rows["weak"].q_value < 0.05
    assert not rows["weak"].holds
    assert rows["strong"].holds


def waits_grid(each_ms: float) -> Grid:
    """Writes of a log that are longer in the seconds in which p95 is, whatever share of a transaction they are."""
    rng = np.random.default_rng(3)
    base = rng.normal(0, 1, 200)
    tps = np.full(200, 100.0) + rng.normal(0, 0.1, 200)
    written_ms = each_ms * (1 + 0.1 * base)
    columns = {
        SeriesKey(source="client", metric="latency_ms_p95"): 60 + 5 * base + rng.normal(0, 0.5, 200),
        SeriesKey(source="client", metric="tps"): tps,
        SeriesKey(source="performance_schema", metric="file_write_s_per_s", entity="binlog"): written_ms
        * tps
        / 1000,
        SeriesKey(source="performance_schema", metric="file_write_ms", entity="binlog"): written_ms,
    }
    return Grid(t_s=np.arange(1.0, 201.0), width_s=1.0, columns=columns)


@pytest.mark.parametrize(("each_ms", "named"), [(0.016, set()), (10.0, {"file_write_s_per_s", "file_write_ms"})])
def test_a_time_that_is_too_short_to_move_p95_is_left_out(each_ms: float, named: set[str]) -> None:
    """Of 0.016 ms a transaction, the slowest twentieth has 0.32 ms at most; p95 moves by 5 ms."""
    latency = SeriesKey(source="client", metric="latency_ms_p95")
    rows = pooled([cell_correlations(waits_grid(each_ms), latency, is_closed=True)])
    assert all(abs(row.rho) > 0.9 for row in rows)
    assert {row.key.metric for row in rows if row.holds} == named


def test_cpu_use_that_only_follows_the_throughput_of_a_closed_loop_is_left_out() -> None:
    """Slow seconds finish less and so use less CPU; the CPU that a neighbour takes rises, and stays."""
    rng = np.random.default_rng(4)
    latency_ms = 20 + rng.normal(0, 1, 200)
    tps = 4000 / latency_ms
    latency = SeriesKey(source="client", metric="latency_ms_p95")
    columns = {
        latency: 2 * latency_ms * np.exp(rng.normal(0, 0.01, 200)),
        SeriesKey(source="client", metric="tps"): tps,
        SeriesKey(source="tasks", metric="cpus_used", entity="server"): 0.005
        * tps
        * np.exp(rng.normal(0, 0.005, 200)),
        SeriesKey(source="tasks", metric="cpus_used", entity="other"): 0.05 * latency_ms + rng.normal(0, 0.01, 200),
    }
    grid = Grid(t_s=np.arange(1.0, 201.0), width_s=1.0, columns=columns)
    closed = {row.key.entity for row in pooled([cell_correlations(grid, latency, is_closed=True)]) if row.holds}
    opened = {row.key.entity for row in pooled([cell_correlations(grid, latency)]) if row.holds}
    assert closed == {"other"}
    assert opened == {"server", "other"}


def test_a_metric_that_is_no_rate_is_never_made_to_correlate_by_the_throughput() -> None:
    """What rises with p95 and with the throughput is no restatement: its own correlation stays as it is."""
    rng = np.random.default_rng(5)
    shared, noise = rng.normal(0, 1, 200), rng.normal(0, 1, 200)
    latency = SeriesKey(source="client", metric="latency_ms_p95")
    columns = {
        latency: 40 + shared - noise,
        SeriesKey(source="client", metric="tps"): 100 + shared + noise,
        SeriesKey(source="innodb", metric="history_list_length"): 50 + shared + rng.normal(0, 0.3, 200),
    }
    grid = Grid(t_s=np.arange(1.0, 201.0), width_s=1.0, columns=columns)
    (closed,), (opened,) = (
        pooled([cell_correlations(grid, latency, is_closed=closed)]) for closed in (True, False)
    )
    assert closed.rho == opened.rho


def test_what_all_metrics_are_compared_with_is_ranked_once_for_each_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[int] = []

    def counted(values: np.ndarray) -> np.ndarray:
        ranked.append(len(values))
        return midranks(values)

    monkeypatch.setattr(association, "midranks", counted)
    metrics = {f"metric_{number}": walk(number) for number in range(20)}
    of_disk = grid(p95=walk(31), **metrics)
    closed = Grid(t_s=of_disk.t_s, width_s=1.0, columns={**of_disk.columns, association.THROUGHPUT: walk(32)})
    assert len(cell_correlations(closed, P95, is_closed=True)) == 20
    assert len(ranked) == (20 + 2) * len(association.LAGS)
