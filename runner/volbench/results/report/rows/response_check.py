"""Whether two accounts of the same difference agree: the server's own times, and what a millisecond costs.

The budget has what a transaction's reads take on each volume, by the server's instruments, and its interval is that
of cells. The response has what longer reads cost it: b x (difference of awaits), with the interval of b. Neither
knows of the other. What longer reads save before CPUs is no part of the reads' time, so the response is taken
without it, where a signal tells it. Where both intervals lie apart, one of them leaves something out, and that is
said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from volbench.core.base.text import counted, number
from volbench.core.records.report import TimeDifferenceRow
from volbench.results.explain.run import RunExplanation, response_views
from volbench.results.response.levels import VolumeLoad, levels_of
from volbench.results.response.model import Response, Slope

PIECES_OF_TERMS: Mapping[str, tuple[str, ...]] = {
    "read": ("data_reads",),
    "redo_sync": ("redo_sync",),
    "binlog_sync": ("binlog_sync",),
    "log_sync": ("redo_sync", "binlog_sync", "binlog_group"),
}
"""What a wait's milliseconds are in the budget; of both logs together, also waits for others' group commits."""
_NAMES: Mapping[str, str] = {
    "read": "reads of data files",
    "redo_sync": "syncs of the redo log",
    "binlog_sync": "syncs of the binary log",
    "log_sync": "syncs of the logs",
}
_Interval = tuple[float, float]


def disagreement_sentences(explained: RunExplanation, rows: Sequence[TimeDifferenceRow]) -> tuple[str, ...]:
    """Return a sentence for each wait of which budget and response disagree beyond both intervals.

    Args:
        explained: the run.
        rows: differences of all pieces, steps and pairs of volumes.
    """
    pairs: dict[tuple[str, int | None, str], list[TimeDifferenceRow]] = {}
    for row in rows:
        pairs.setdefault((row.step, row.threads, row.candidate), []).append(row)
    return tuple(text for of_pair in pairs.values() for text in _of_pair(explained, of_pair))


def _of_pair(explained: RunExplanation, rows: Sequence[TimeDifferenceRow]) -> Iterator[str]:
    first = rows[0]
    response = explained.responses.get(first.step)
    if not isinstance(response, Response):
        return
    used = [view.waits for view in response_views(explained.views, first.step) if view.waits is not None]
    for slope in response.slopes:
        pieces = [row for row in rows if row.piece in PIECES_OF_TERMS.get(slope.term, ())]
        levels = {(level.volume, level.threads): level for level in levels_of(used, [slope.term])}
        ends = (levels.get((name, first.threads)) for name in (first.baseline, first.candidate))
        text = _disagreement(slope, pieces, *ends)
        if text:
            yield text


def _disagreement(
    slope: Slope, pieces: Sequence[TimeDifferenceRow], baseline: VolumeLoad | None, candidate: VolumeLoad | None
) -> str:
    """Return the sentence on one wait; empty where both agree, or one of them has no interval."""
    intervals = [row.ci for row in pieces if row.ci is not None]
    if not (slope.is_sharp or slope.low > 0):  # neither told apart from none, nor as precise as the server's count
        return ""
    if slope.is_held or baseline is None or candidate is None or not pieces or len(intervals) < len(pieces):
        return ""
    budget_ms = sum(row.difference_ms for row in pieces)
    budget = (sum(low for low, _ in intervals), sum(high for _, high in intervals))
    change_ms = candidate.awaits_ms[slope.term] - baseline.awaits_ms[slope.term]
    waits = slope.waits
    response_ms = waits.value * change_ms
    ends = sorted((waits.low * change_ms, waits.high * change_ms))
    low, high = ends[0], ends[1]
    if low <= budget[1] and budget[0] <= high:
        return ""
    first = pieces[0]
    threads = f", {counted(first.threads, 'thread')}" if first.threads is not None else ""
    if abs(response_ms) > abs(budget_ms):
        meaning = "something else moved with them, such as a shortage of CPU, or locks that are held meanwhile"
    else:
        meaning = "part of that time held up no transaction, or the volumes differ in more than their waits"
    return (
        f"Two accounts of {_NAMES[slope.term]} disagree ({first.step}{threads}): by the server's own times they"
        f" take a transaction {_change(budget_ms, budget)} on {first.candidate} than on {first.baseline}, by what a"
        f" millisecond costs {_change(response_ms, (low, high))}. So {meaning}."
    )


def _change(ms: float, interval: _Interval) -> str:
    """`43 ms [41, 45] more`, or less."""
    sign = 1 if ms >= 0 else -1
    ends = sorted(sign * end for end in interval)
    return f"{number(sign * ms)} ms [{number(ends[0])}, {number(ends[1])}] {'more' if sign > 0 else 'less'}"
