"""Tables that accompany the findings, as rows: costs per transaction, queries, associations, predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from volbench.core.records.named_metrics import CPU
from volbench.core.records.report import AssociationRow, QueryRow, TransactionRow, WhatIfRow
from volbench.results.explain.accounts.queries import QueryCost, together
from volbench.results.explain.accounts.what_if import OtherVolume, Outlook, VolumeOutlooks
from volbench.results.explain.accounts.what_if_response import predict_by_response
from volbench.results.explain.cause_relation import cause_of, first_cause, relation_of
from volbench.results.explain.evidence.association import Association, pooled
from volbench.results.explain.run import RunExplanation, StepView, valid_views
from volbench.results.explain.wording import number
from volbench.results.store.series import SeriesKey

QUERIES_MAX = 12
ASSOCIATIONS_MAX = 12
CPU_USE = frozenset({SeriesKey.of(CPU.user_ratio), SeriesKey.of(CPU.system_ratio)})
_About = tuple[str, str, int | None]
_Views = Mapping[tuple[str, str], Mapping[str, StepView]]


def transaction_rows(explained: RunExplanation, volumes: Sequence[str]) -> tuple[TransactionRow, ...]:
    """Per step and metric, each volume; `volumes`: names, the baseline first."""
    rows = []
    for (volume, step, threads), cells in _in_order(explained.views, volumes):
        baseline = _costs(_with_threads(explained.views.get((volumes[0], step), {}), threads))
        for metric, (value, unit, count) in _costs(cells).items():
            base = baseline.get(metric)
            ratio = value / base[0] if base is not None and base[0] > 0 else None
            rows.append(
                TransactionRow(
                    volume=volume,
                    step=step,
                    threads=threads,
                    metric=metric,
                    value=value,
                    unit=unit,
                    ratio=ratio,
                    cells=count,
                )
            )
    return tuple(rows)


def query_rows(explained: RunExplanation, volumes: Sequence[str]) -> tuple[QueryRow, ...]:
    """Per volume and step, the queries with most time."""
    rows: list[QueryRow] = []
    for (volume, step, threads), cells in _in_order(explained.views, volumes):
        first = _with_threads(explained.views.get((volumes[0], step), {}), threads)
        baseline = {cost.query: _mean_ms(cost) for cost in _queries(first)}
        costs, length_s = _queries(cells), sum(view.length_s for view in cells.values())
        total = sum(cost.time_s for cost in costs)
        rows += [
            _query_row(cost, (volume, step, threads), total, length_s, baseline.get(cost.query))
            for cost in costs[:QUERIES_MAX]
        ]
    return tuple(rows)


def association_rows(explained: RunExplanation, volumes: Sequence[str]) -> tuple[AssociationRow, ...]:
    """Per volume and step, the metrics that move most with p95 over its valid cells; `cell_id` is one to draw.

    Those whose sign makes them no candidate for a cause come last.
    """
    rows: list[AssociationRow] = []
    for (volume, step, _), cells in _in_order(explained.views, volumes):
        every = pooled([view.correlations for view in cells.values()])
        cpu = max((metric.rho for metric in every if metric.key in CPU_USE), key=abs, default=None)
        holding = sorted(
            (metric for metric in every if metric.holds), key=lambda metric: bool(metric.implausible_reason)
        )
        cause = cause_of(first_cause(explained.findings, volume, step))
        for association in holding[:ASSOCIATIONS_MAX]:
            cell = _clearest(cells, association)
            rows.append(
                AssociationRow(
                    volume=volume,
                    step=step,
                    cell_id=cell,
                    source=association.key.source,
                    metric=association.key.metric,
                    entity=association.key.entity,
                    rho=association.rho,
                    lag_s=association.lag * cells[cell].interval_s,
                    samples=association.samples,
                    effective_samples=association.effective_samples,
                    q_value=association.q_value,
                    cells=association.cells,
                    cpu_rho=cpu,
                    implausible_reason=association.implausible_reason,
                    first_cause=cause,
                    relation=relation_of(association, cause),
                    moves_along=association.moves_along(cause),
                )
            )
    return tuple(rows)


def _clearest(cells: Mapping[str, StepView], association: Association) -> str:
    """The cell that shows an association best."""

    def strength(cell: str) -> float:
        correlation = cells[cell].correlations.get(association.key, {}).get(association.lag)
        return 0.0 if correlation is None else correlation.rho * math.copysign(1.0, association.rho)

    return max(cells, key=strength)


def what_if_rows(
    explained: RunExplanation,
    volumes: Sequence[str],
    volumes_asked: Sequence[OtherVolume],
    own_volumes: Mapping[str, OtherVolume] | None = None,
) -> tuple[WhatIfRow, ...]:
    """Each step of each volume on each other volume, by the measured response where the counts confirm one.

    Args:
        explained: the run.
        volumes: names, in the report's order.
        volumes_asked: to predict for.
        own_volumes: by name, those of the run's volumes whose latencies are known.
    """
    if not volumes_asked:
        return ()
    rows: list[WhatIfRow] = []
    for (volume, step, threads), cells in _in_order(explained.views, volumes):
        response, demands = explained.measured.get(step), [view.demand for view in cells.values()]
        level = None if response is None else response.level(volume, threads)
        for volume_asked in volumes_asked:
            own_volume = (own_volumes or {}).get(volume)
            prediction = predict_by_response(demands, volume_asked, response, level, own_volume)
            rows += prediction_rows(prediction, (volume, step, threads))
    return tuple(rows)


def outlook_text(outlook: Outlook) -> str:
    """An outlook in a line."""
    text = _figure(outlook.tps if outlook.states_tps else None, outlook.tps_interval, "tps")
    if outlook.p95_interval is not None:
        text += ", p95 " + _figure(outlook.p95_ms if outlook.states_p95 else None, outlook.p95_interval, "ms")
    text += f"; {limited_by(outlook)} limits first"
    if outlook.regime == "burst" and outlook.lasts_s is not None:
        text += f", for {number(outlook.lasts_s)} s until its credits are spent"
    text += ", once its credits are spent" if outlook.regime == "baseline" else ""
    return "; ".join(filter(None, (text, outlook.method_text)))


def _figure(value: float | None, interval: tuple[float, float], unit: str) -> str:
    """A figure with its interval, or the interval alone."""
    span = f"{number(interval[0])} to {number(interval[1])}"
    return f"{span} {unit}" if value is None else f"about {number(value)} {unit} ({span})"


def limited_by(outlook: Outlook) -> str:
    """What limits first, with its figure: `3,000 IOPS (volume.iops)`, `CPU`, `latency`."""
    if outlook.bound_per_s is None:
        return outlook.bound
    is_bytes = outlook.bound_unit == "byte"
    amount = f"{number(outlook.bound_per_s / 2**20)} MiB/s" if is_bytes else f"{number(outlook.bound_per_s)} IOPS"
    return f"{amount} ({outlook.bound})"


def prediction_rows(prediction: VolumeOutlooks, about: _About) -> Iterator[WhatIfRow]:
    """Yield a row for each outlook, or one that says why there is none.

    Args:
        prediction: of a volume's step.
        about: the volume, the step, its threads.
    """
    volume, step, threads = about
    if prediction.cannot:
        yield WhatIfRow(
            volume=volume,
            step=step,
            threads=threads,
            spec=prediction.spec,
            unavailable_reason=prediction.cannot,
            text=f"cannot be predicted: {prediction.cannot}",
        )
    for cost in prediction.outlooks:
        yield WhatIfRow(
            volume=volume,
            step=step,
            threads=threads,
            spec=prediction.spec,
            performance_level=cost.regime,
            burst_duration_s=cost.lasts_s,
            tps=cost.tps if cost.states_tps else None,
            tps_interval=cost.tps_interval,
            latency_ms_p95=cost.p95_ms if cost.states_p95 else None,
            latency_interval=cost.p95_interval,
            limited_by=cost.bound,
            limit_per_s=cost.bound_per_s,
            method=cost.method,
            latency_ms_mean=cost.latency_ms,
            latency_ms_mean_interval=cost.latency_interval,
            text=outlook_text(cost) + (f"; {prediction.caveat}" if prediction.caveat else ""),
        )


def _in_order(views: _Views, volumes: Sequence[str]) -> Iterator[tuple[_About, Mapping[str, StepView]]]:
    """Valid cells by step and threads, then by volume in their order: other threads make another load."""
    for step in dict.fromkeys(step for _, step in views):
        of = [view for volume in volumes for view in views.get((volume, step), {}).values()]
        for threads in sorted({view.threads for view in of}, key=lambda cost: cost or 0):
            for volume in volumes:
                cells = _with_threads(views.get((volume, step), {}), threads)
                if cells:
                    yield (volume, step, threads), cells


def _with_threads(cells: Mapping[str, StepView], threads: int | None) -> dict[str, StepView]:
    return {cell: view for cell, view in valid_views(cells).items() if view.threads == threads}


def _costs(cells: Mapping[str, StepView]) -> dict[str, tuple[float, str, int]]:
    """Median over cells, unit, number of cells by metric."""
    values: dict[str, list[tuple[float, str]]] = {}
    for view in cells.values():
        for name, pair in view.per_transaction.values.items():
            values.setdefault(name, []).append(pair)
    return {name: (median(cost for cost, _ in pairs), pairs[0][1], len(pairs)) for name, pairs in values.items()}


def _queries(cells: Mapping[str, StepView]) -> tuple[QueryCost, ...]:
    return together([view.queries for view in cells.values()])


def _mean_ms(cost: QueryCost) -> float | None:
    return 1000 * cost.time_s / cost.statements if cost.statements > 0 else None


def _query_row(
    cost: QueryCost, about: _About, total_s: float, length_s: float, baseline_ms: float | None
) -> QueryRow:
    each_ms = _mean_ms(cost) or 0.0

    def each(seconds: float | None) -> float | None:
        return None if seconds is None or cost.statements <= 0 else 1000 * seconds / cost.statements

    volume, step, threads = about
    return QueryRow(
        volume=volume,
        step=step,
        threads=threads,
        query=cost.query,
        share=cost.time_s / total_s,
        per_s=cost.statements / length_s,
        mean_ms=each_ms,
        cpu_ms=each(cost.cpu_s),
        lock_ms=each(cost.lock_s),
        wait_ms=each(cost.waited_s),
        ratio=each_ms / baseline_ms if baseline_ms else None,
    )
