"""What each text of a statement cost over a stretch of an observation.

Digests are read every ten seconds, and a busy machine reads them late. A rate therefore counts for exactly the time
between its two readings; on a grid of seconds, a reading that came half a second late lost 5 % of its statements.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.server.digests import METRICS
from volbench.measure.sample.server.performance_schema import PerformanceSchemaSampler
from volbench.results.explain.wording import number, percent

STATEMENTS_SHOWN = 10
TEXTLESS_MIN = 0.1
"""Less than this of the statements' time without a text is not mentioned: digests are read every ten seconds."""
_COUNT, _TIME = "query_per_s", "query_s_per_s"
_TIME_OF_ALL = "statement_s_per_s"
_ADDED = frozenset({_TIME_OF_ALL, *(metric for metric, _ in METRICS.values())})


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What one text of a statement cost over some time; None: not kept by this server."""

    text: str
    statements: float
    time_s: float
    share: float
    mean_ms: float
    cpu_s: float | None
    lock_s: float | None
    rows_examined: float | None
    rows_sent: float | None
    rows_affected: float | None
    tmp_disk_tables: float | None

    @property
    def waited_s(self) -> float | None:
        """Neither CPU nor table locks: files, commits, rows, and a CPU; None without CPU times."""
        return None if self.cpu_s is None else max(0.0, self.time_s - self.cpu_s - (self.lock_s or 0.0))


@dataclass(frozen=True)
class _Intervals:
    """Begins and ends, seconds since the observation's zero, and the rate between them."""

    begin_s: array[float] = field(default_factory=lambda: array("d"))
    end_s: array[float] = field(default_factory=lambda: array("d"))
    per_s: array[float] = field(default_factory=lambda: array("d"))

    def touch(self, t0_s: float, t1_s: float) -> bool:
        return bool(np.any((np.asarray(self.end_s) > t0_s) & (np.asarray(self.begin_s) < t1_s)))

    def total(self, t0_s: float, t1_s: float) -> float:
        overlap_s = np.minimum(self.end_s, t1_s) - np.maximum(self.begin_s, t0_s)
        return float(np.sum(np.clip(overlap_s, 0.0, None) * np.asarray(self.per_s)))


@dataclass(frozen=True)
class StatementRates:
    """Rates of statements by text and metric, each with the time that it is about."""

    _intervals: dict[tuple[str, str], _Intervals] = field(default_factory=dict)

    def add(self, begin_s: float, rows: Iterable[SeriesRow]) -> None:
        """Take what two readings of a source came to.

        Args:
            begin_s: of the first reading, seconds since the observation's zero.
            rows: of the second; those of other sources and metrics, and zeros that mark a begin, are left out.
        """
        for row in rows:
            if row.source == PerformanceSchemaSampler.source and row.metric in _ADDED and row.t_s > begin_s:
                intervals = self._intervals.setdefault((row.metric, row.entity), _Intervals())
                intervals.begin_s.append(begin_s)
                intervals.end_s.append(row.t_s)
                intervals.per_s.append(row.value)

    def statements(self, t0_s: float = -np.inf, t1_s: float = np.inf) -> Iterator[Statement]:
        """Texts of statements in a stretch of time, the one with most time first; shares are of all statements.

        Args:
            t0_s, t1_s: seconds since the observation's zero; a rate counts for the part of its time in between.
        """
        times = {
            text: intervals.total(t0_s, t1_s)
            for (metric, text), intervals in self._intervals.items()
            if metric == _TIME
        }
        together = max(self._total(_TIME_OF_ALL, "", t0_s, t1_s) or 0.0, sum(times.values()))
        for text in sorted(times, key=lambda text: -times[text]):
            count = self._total(_COUNT, text, t0_s, t1_s) or 0.0
            if count <= 0 or together <= 0:
                continue
            optional = {
                name: self._total(metric, text, t0_s, t1_s)
                for name, metric in (
                    ("cpu_s", "query_cpu_s_per_s"),
                    ("lock_s", "query_lock_s_per_s"),
                    ("rows_examined", "query_rows_examined_per_s"),
                    ("rows_sent", "query_rows_sent_per_s"),
                    ("rows_affected", "query_rows_affected_per_s"),
                    ("tmp_disk_tables", "query_tmp_disk_tables_per_s"),
                )
            }
            yield Statement(
                text=text,
                statements=count,
                time_s=times[text],
                share=times[text] / together,
                mean_ms=1000 * times[text] / count,
                **optional,
            )

    def _total(self, metric: str, text: str, t0_s: float, t1_s: float) -> float | None:
        intervals = self._intervals.get((metric, text))
        return None if intervals is None or not intervals.touch(t0_s, t1_s) else intervals.total(t0_s, t1_s)


def textless_note(statements: Sequence[Statement]) -> str:
    """Return how much of all statements' time has no text; empty where it is little.

    Args:
        statements: all of a stretch of time.
    """
    share = 1 - sum(statement.share for statement in statements)
    if not statements or share < TEXTLESS_MIN:
        return ""
    return (
        f"{percent(share)} of the time of all statements is of statements without a text: the server keeps no"
        " digest of them (MariaDB keeps none of prepared statements), or its table of digests is full."
    )


def count_text(statement: Statement) -> str:
    """Return how often it ran; the counters are read every ten seconds, so a stretch cuts through counts."""
    return number(round(statement.statements)) if statement.statements >= 0.5 else "under 1"


def top_by(statements: Sequence[Statement], name: str) -> list[Statement]:
    """Those with most of a figure; without those that have none."""
    statements_with_figure = [statement for statement in statements if getattr(statement, name)]
    return sorted(statements_with_figure, key=lambda statement: -getattr(statement, name))[:STATEMENTS_SHOWN]
