"""What a millisecond of the volume costs each load and each class of its statements: rows, points and sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from volbench.core.base.text import number
from volbench.core.records.report import NoResponseRow, ResponsePointRow, ResponseRow
from volbench.results.explain.run import RunExplanation, StepView, response_views
from volbench.results.response.estimate import (
    ADVICE_BETWEEN,
    LOG_SYNC,
    UNDETERMINED,
    advice_for_load,
    estimate,
    with_one_log,
)
from volbench.results.response.model import NoResponse, Response, Slope
from volbench.results.response.samples import CellSamples

QUERIES_MAX = 12
POINTS_MAX = 300
"""Of one step: more marks than a chart of this size can show apart."""
POINT_S = 6.0
"""Of a point: as long as the blocks that the intervals are computed from."""
TITLES: Mapping[str, str] = {
    "read": "a read of data files",
    "redo_sync": "a sync of the redo log",
    "binlog_sync": "a sync of the binary log",
    LOG_SYNC: "a sync of a log",
    "write": "a write that is waited for",
}
NONE_MAX = 0.1
"""Share of the latency that waits of one kind take at most, where their slope may be 0."""
QUERY_TEXT_MAX = 60
"""Characters of a statement within a sentence."""
_PLURALS: Mapping[str, str] = {
    "read": "reads",
    "redo_sync": "redo log syncs",
    "binlog_sync": "binary log syncs",
    LOG_SYNC: "log syncs",
    "write": "writes",
}
_Statistic = Literal["mean", "p50", "p95", "p99"]
_LEVELS: Mapping[float, _Statistic] = {0.5: "p50", 0.95: "p95", 0.99: "p99"}


@dataclass(frozen=True, kw_only=True)
class ResponseTables:
    """All rows of a run's responses."""

    rows: tuple[ResponseRow, ...]
    undetermined: tuple[NoResponseRow, ...]
    points: tuple[ResponsePointRow, ...]
    open_loops: frozenset[str] = frozenset()


def response_tables(
    explained: RunExplanation, volumes: Sequence[str], open_loops: Collection[str] = ()
) -> ResponseTables:
    """Return the responses of every step with transactions, over all volumes and thread levels together.

    Args:
        explained: the run.
        volumes: names, in the report's order.
        open_loops: steps whose load has a rate of its own.
    """
    rows: list[ResponseRow] = []
    undetermined: list[NoResponseRow] = []
    points: list[ResponsePointRow] = []
    for step in dict.fromkeys(name for _, name in explained.views):
        views = response_views(explained.views, step, volumes)
        cells = [view.waits for view in views if view.waits is not None]
        is_valid = bool(views) and all(view.valid for view in views)
        if not cells:
            continue
        response = explained.responses.get(step) or estimate(cells)
        if isinstance(response, NoResponse):
            advice = advice_for_load(response.advice_for(step), has_rate=step in open_loops)
            undetermined.append(NoResponseRow(step=step, reason=response.reason, advice=advice))
            continue
        of_step = list(_rows(response, step))
        for level, statistic in _LEVELS.items():
            of_percentile = estimate(cells, latency_level=level)
            if _is_comparable(of_percentile, response):
                of_step += _rows(of_percentile, step, statistic=statistic)
        for query, of_query in _by_query(views).items():
            of_step += _rows(estimate(of_query), step, query=query)
        rows += [row.model_copy(update={"valid": is_valid}) for row in of_step]
        points += _points(step, cells, response)
    return ResponseTables(
        rows=tuple(rows), undetermined=tuple(undetermined), points=tuple(points), open_loops=frozenset(open_loops)
    )


def response_sentences(tables: ResponseTables, *, of_step: str | None = None) -> tuple[str, ...]:
    """Return a sentence for each load whose response is determined; where none is sharp, one on what would help.

    Args:
        of_step: of this step only.
    """
    if of_step is not None:
        tables = ResponseTables(
            rows=tuple(row for row in tables.rows if row.step == of_step),
            undetermined=tuple(row for row in tables.undetermined if row.step == of_step),
            points=(),
            open_loops=tables.open_loops,
        )
    steps = dict.fromkeys(row.step for row in tables.rows)
    sentences = [text for step in steps if (text := _sentence(tables.rows, step))]
    if not sentences and tables.undetermined:
        first = tables.undetermined[0]
        return (
            f"What a millisecond of the volume costs is not determined: {first.reason}. To determine it,"
            f" {first.advice}.",
        )
    return tuple(sentences) or tuple(
        text
        for step in list(steps)[:1]
        if (text := _wide_sentence(tables.rows, step, has_rate=step in tables.open_loops))
    )


UNKNOWN = "not known"
"""In place of a slope that says nothing."""


def is_told(row: ResponseRow) -> bool:
    """Return whether a row's interval is narrow enough for a sentence: a slope, or that there is hardly any."""
    if row.ci is None:
        return False
    half = (row.ci[1] - row.ci[0]) / 2
    at_most_ms = max(abs(end) for end in row.ci) * row.await_ms
    return half <= abs(row.slope) / 2 or at_most_ms <= NONE_MAX * row.latency_ms


def slope_text(row: ResponseRow) -> str:
    """Return a slope with its interval; not known where none was estimated, or it may exceed all latency."""
    if row.ci is None:
        return number(row.slope) if row.counted is not None else UNKNOWN
    if (row.ci[1] - row.ci[0]) / 2 * row.await_ms > row.latency_ms:
        return UNKNOWN
    low, high = map(number, row.ci)
    return f"{number(row.slope)} [{f'about {low}' if low == high else f'{low}, {high}'}]"


def cost_text(row: ResponseRow) -> str:
    """Return a slope in a table; one below zero is no cost, since no wait makes a transaction faster."""
    text = slope_text(row)
    if row.slope > 0 or row.ci is None or text == UNKNOWN:
        return text
    return f"nothing that shows {text.partition(' ')[2]}"


def counted_text(row: ResponseRow) -> str:
    """Return the server's count: one number, or from and to, or at most."""
    if row.counted is None:
        return ""
    low, high = (number(count) for count in row.counted)
    if row.counted[0] == 0 < row.counted[1]:
        return f"at most {high}"
    return low if low == high else f"{low} to {high}"


def agreement_text(row: ResponseRow) -> str:
    """Return how the slope stands to the server's count; empty where nothing can be said."""
    waits = _PLURALS[row.term]
    if row.counted is None or row.agreement == "open":
        return ""
    if row.agreement == "agrees":
        count = f"and the server counts {counted_text(row)} {waits} of one"
        return f"{_cpu_wait_text(row)}, {count}" if agrees_without_cpu_wait(row) else count
    also = "" if row.less_cpu_wait is None else f", also without waits for CPUs ({_less_cpu_wait_text(row)} ms)"
    if row.agreement == "below":
        return (
            f"less than the {counted_text(row)} {waits} that the server counts{also}: some may run in parallel or"
            " ahead, or the volumes differ in more than their waits"
        )
    return (
        f"more than the {counted_text(row)} {waits} that the server counts{also}: others wait meanwhile, for locks"
        " or in a queue"
    )


def count_note(row: ResponseRow) -> str:
    """Return in a word or two how the slope stands to the server's count; empty where it agrees or is open."""
    if row.agreement in ("below", "above"):
        return row.agreement
    return f"{number(row.less_cpu_wait or 0)} without waits for CPUs" if agrees_without_cpu_wait(row) else ""


def agrees_without_cpu_wait(row: ResponseRow) -> bool:
    """Return whether the count agrees with the slope only without what it saves or adds before CPUs."""
    if row.agreement != "agrees" or row.less_cpu_wait is None or row.counted is None or row.ci is None:
        return False
    return row.ci[1] < row.counted[0] or row.counted[1] < row.ci[0]


def _cpu_wait_text(row: ResponseRow) -> str:
    change = row.slope - (row.less_cpu_wait or 0)
    verb = "falls" if change < 0 else "rises"
    return (
        f"while its wait for CPUs {verb} by {number(abs(change))} ms ({_less_cpu_wait_text(row)} ms without that)"
    )


def _less_cpu_wait_text(row: ResponseRow) -> str:
    return f"{number(row.less_cpu_wait or 0)} [{', '.join(map(number, row.less_cpu_wait_ci or ()))}]"


def _sentence(rows: Iterable[ResponseRow], step: str) -> str:
    """Return the sentence on one load; empty where no slope is sharp."""
    of_step = [row for row in rows if row.step == step and row.statistic == "mean"]
    sharp = [row for row in of_step if not row.query and is_told(row)]
    if not sharp:
        return ""
    load = f"a transaction of {step}"
    load += "" if sharp[0].valid else " (with disturbed cells)"
    phrases: list[str] = []
    for row in sorted(sharp, key=lambda row: -abs(row.slope) * row.await_ms):
        subject = f"each millisecond of {TITLES[row.term]} costs {load if not phrases else 'it'}"
        if row.ci is not None and row.ci[0] <= 0:
            phrases.append(f"{subject} nothing that shows, {slope_text(row)} ms")
        else:
            clauses = (f"{subject} {slope_text(row)} ms", _query_text(of_step, row), agreement_text(row))
            phrases.append(", ".join(filter(None, clauses)))
    text = "; ".join(phrases)
    return f"{text[:1].upper()}{text[1:]}."


def _wide_sentence(rows: Iterable[ResponseRow], step: str, *, has_rate: bool) -> str:
    """Return what is known of a load none of whose slopes is sharp: the one of most effect, and what would help."""
    of_step = [row for row in rows if row.step == step and row.statistic == "mean" and not row.query]
    if not of_step:
        return ""
    row = max(of_step, key=lambda row: abs(row.slope) * row.await_ms)
    text = slope_text(row)
    advice = advice_for_load(ADVICE_BETWEEN if row.method == "between" else UNDETERMINED.advice, has_rate=has_rate)
    figure = "" if text == UNKNOWN else f": each millisecond of {TITLES[row.term]} {text} ms"
    return (
        f"What a millisecond of the volume costs a transaction of {step} is not known well{figure}. To know it,"
        f" {advice}."
    )


def _query_text(rows: Sequence[ResponseRow], about: ResponseRow) -> str:
    """Return the class of statements that pays most of one wait."""
    queries = [row for row in rows if row.query and row.term == about.term and is_told(row) and row.slope > 0]
    if not queries or about.slope <= 0:
        return ""
    first = max(queries, key=lambda row: row.slope)
    return f"one {_shortened(first.query)} {number(first.slope)} ms of it"


def _shortened(query: str) -> str:
    text = query if len(query) <= QUERY_TEXT_MAX else query[: QUERY_TEXT_MAX - 3] + "..."
    return f'"{text.replace("`", "")}"'


def _by_query(views: Sequence[StepView]) -> dict[str, list[CellSamples]]:
    """Return the classes of statements with most time, each with its cells."""
    time_s: dict[str, float] = {}
    cells: dict[str, list[CellSamples]] = {}
    for view in views:
        for query, samples in view.waits_by_query.items():
            cells.setdefault(query, []).append(samples)
            spent = float(np.nansum(samples.latency_ms * samples.finished))
            time_s[query] = time_s.get(query, 0.0) + spent
    first = sorted(time_s, key=lambda query: -time_s[query])[:QUERIES_MAX]
    return {query: cells[query] for query in first}


def _is_comparable(of_percentile: Response | NoResponse, response: Response) -> bool:
    """Return whether a percentile's slopes are of the same volumes, by the same method, as the mean's.

    A slow volume finishes too few transactions in an interval for their p95: that of the others is another load's.
    """
    return (
        isinstance(of_percentile, Response)
        and of_percentile.method == response.method
        and of_percentile.volumes == response.volumes
    )


def _rows(
    response: Response | NoResponse, step: str, *, query: str = "", statistic: _Statistic = "mean"
) -> Iterator[ResponseRow]:
    if isinstance(response, NoResponse):
        return
    for slope in response.slopes:
        yield _row(response, slope, step, query, statistic)


def _row(response: Response, slope: Slope, step: str, query: str, statistic: _Statistic) -> ResponseRow:
    less = slope.less_cpu_wait
    return ResponseRow(
        step=step,
        query=query,
        statistic=statistic,
        term=slope.term,
        title=TITLES[slope.term],
        slope=slope.value,
        ci=None if slope.is_held else (slope.low, slope.high),
        counted=None if slope.counted is None else (slope.counted.low, slope.counted.high),
        agreement=slope.agreement,
        less_cpu_wait=None if less is None else less.value,
        less_cpu_wait_ci=None if less is None else (less.low, less.high),
        await_ms=slope.await_ms,
        moved_ms=slope.moved_ms,
        latency_ms=response.latency_ms,
        intercept_ms=response.intercept_ms,
        method=response.method,
        intervals=response.intervals,
        cells=response.cells,
        variance_share=slope.variance_share,
        notes=response.notes,
    )


def _points(step: str, cells: Sequence[CellSamples], response: Response) -> list[ResponsePointRow]:
    """Return the points of the wait that most of the latency's movement comes from, at most POINTS_MAX."""
    term = max(response.slopes, key=lambda slope: abs(slope.value) * (slope.moved_ms[1] - slope.moved_ms[0])).term
    points = []
    for cell in map(with_one_log, cells):
        if term not in cell.awaits_ms:
            continue
        size = max(1, round(POINT_S / cell.interval_s))
        for start in range(0, len(cell), size):
            rows = slice(start, start + size)
            weights, awaits, latency = cell.finished[rows], cell.awaits_ms[term][rows], cell.latency_ms[rows]
            usable = np.isfinite(awaits) & np.isfinite(latency) & (weights > 0)
            if usable.any():
                await_ms, latency_ms = (
                    float(np.average(column[usable], weights=weights[usable])) for column in (awaits, latency)
                )
                points.append(
                    ResponsePointRow(
                        step=step, term=term, volume=cell.volume, await_ms=await_ms, latency_ms=latency_ms
                    )
                )
    every = -(-len(points) // POINTS_MAX) if points else 1
    return points[::every]
