"""The same queries on two servers: the same rows, the same plan, and not slower by an exact test.

Each class of queries runs alternately on source and candidate, so that both are measured at the same time. A query
whose rows differ between two executions on the source is not deterministic, and its rows are not compared. A query
that fails on both servers, that this account may not run, or that a limit cut off is no evidence of anything.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

from volbench.core.base.parse import parse_json
from volbench.core.base.text import counted
from volbench.core.sql.fingerprint import fingerprint
from volbench.errors import Refused, StepFailed
from volbench.results.stats.corrections import holm
from volbench.results.stats.statistics import Shift, judge, shift_of
from volbench.validation.queries.classes import QueryClass
from volbench.validation.source.server import Rows, SqlReader

ROUNDS_MIN = 5
Result = Literal[
    "equal", "differs", "not deterministic", "error on both", "error on the candidate", "error on the source"
]
SLOWER_MARGIN = 0.5
"""A class is slower only beyond this share: a difference that a user notices, not one that a clock resolves."""
QUICK_S, QUICK_ROUNDS = 0.5, 4
"""With the fewest rounds all times of one side must exceed all of the other; quick queries get more rounds."""
CONFIRMATION_DELAY_S = 2.0
FASTEST_JUDGED_S = 0.0005
"""Below half a millisecond on both sides the client and the socket dominate the ratio of times."""
_NOT_ALLOWED = frozenset((1044, 1045, 1095, 1142, 1143, 1227, 1345, 1370, 1410))
"""Error codes of a privilege that the account of the validation has not, whatever the application's may."""
_CUT_OFF = frozenset(
    (1028, 1040, 1053, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1226, 1317, 1969, 2006, 2013, 2055, 3024, 3572)
)
"""Error codes of limits, time-outs, interruptions and lost connections, of MySQL and MariaDB."""


@dataclass(frozen=True, kw_only=True)
class QueryComparison:
    """One class on both servers.

    `shift` is that of the time of the slowest sample; `rows` counts the source's rows of all equal samples.
    `error_code` is the server's, 0 for a failure without one. `unproven`: it took longer than the margin allows,
    which its rounds do not prove.
    """

    query: QueryClass
    result: Result
    text: str = ""
    sample: str = ""
    rows: int = 0
    error_code: int = 0
    shift: Shift | None = None
    slower: bool = False
    unproven: bool = False
    source_ms: float | None = None
    candidate_ms: float | None = None
    plans: tuple[str, str] | None = None

    @property
    def proves_nothing(self) -> bool:
        """Return whether it failed for a reason that says nothing about the candidate's data."""
        if self.result == "error on both":
            return True
        return self.result.startswith("error on the") and self.error_code in {0, *_NOT_ALLOWED, *_CUT_OFF}

    @property
    def is_wrong(self) -> bool:
        """Return whether the candidate answers otherwise than the source."""
        return self.result == "differs" or (self.result.startswith("error on the") and not self.proves_nothing)

    @property
    def plan_changed(self) -> bool:
        """Return whether the two optimizers access the tables differently."""
        return self.plans is not None and self.plans[0] != self.plans[1]


def compare_queries(
    source: SqlReader,
    candidate: SqlReader,
    classes: Sequence[QueryClass],
    progress: Callable[[str, float], None],
    *,
    rounds: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
    pause: Callable[[float], None] = time.sleep,
) -> list[QueryComparison]:
    """Compare every class on both servers; slower ones with Holm's correction over all timed classes.

    A class that seems slower, proven or not, is measured again a little later, and the second measurement counts:
    all rounds of a class take milliseconds, so a checkpoint or another process that hits one server for as long
    would look the same. So a class is slower when it is in both.

    Args:
        source: server.
        candidate: server.
        classes: to compare.
        progress: called with a fingerprint and a share.
        rounds: executions of a sample; by default the fewest that can pass Holm's correction.
        clock: seconds.
        pause: waits for seconds.
    """
    compared = []
    rounds = rounds or rounds_for(len(classes))
    for index, query in enumerate(classes):
        progress(query.fingerprint[:60], index / len(classes))
        compared.append(_compare_class(_Pair(source, candidate, clock), query, rounds))
    judged = list(_with_verdicts(compared))
    if any(map(_seems_slower, judged)):
        pause(CONFIRMATION_DELAY_S)
    repeated = [
        _compare_class(_Pair(source, candidate, clock), comparison.query, rounds)
        for comparison in judged
        if _seems_slower(comparison)
    ]
    second = iter(list(_with_verdicts(repeated)))
    return [
        _confirmed(comparison, next(second)) if _seems_slower(comparison) else comparison for comparison in judged
    ]


def _seems_slower(comparison: QueryComparison) -> bool:
    return comparison.slower or comparison.unproven


def _confirmed(first: QueryComparison, second: QueryComparison) -> QueryComparison:
    """Return the second measurement: slower where both prove it, unproven where only the second one does."""
    slower = first.slower and second.slower
    return replace(second, slower=slower, unproven=_seems_slower(second) and not slower)


def rounds_for(classes: int, *, alpha: float = 0.05) -> int:
    """Return the fewest rounds whose smallest p-value, 2 / C(2n, n), passes Holm's correction over the classes."""
    rounds = ROUNDS_MIN
    while 2 * max(1, classes) / math.comb(2 * rounds, rounds) > alpha:
        rounds += 1
    return rounds


def _compare_class(pair: _Pair, query: QueryClass, rounds: int) -> QueryComparison:
    """Return the first sample that differs, else one that proves nothing, else the slowest on the candidate."""
    compared: list[QueryComparison] = []
    for sample in query.samples:
        comparison = _compare_sample(pair, query, sample, rounds)
        if comparison.is_wrong:
            return comparison
        compared.append(comparison)
    worst = max(compared, key=lambda comparison: (_doubt(comparison), comparison.candidate_ms or 0.0))
    return replace(worst, rows=sum(comparison.rows for comparison in compared))


def _doubt(comparison: QueryComparison) -> int:
    """Return 2 for what proves nothing, 1 for rows that were not compared, 0 for equal ones."""
    return 2 if comparison.proves_nothing else int(comparison.result != "equal")


def _compare_sample(pair: _Pair, query: QueryClass, sample: str, rounds: int) -> QueryComparison:
    began = pair.clock()
    executions = [pair.ask(query.schema, sample) for _ in range(rounds + 1)]
    if pair.clock() - began < QUICK_S:
        executions += [pair.ask(query.schema, sample) for _ in range(QUICK_ROUNDS)]
    of_source, of_candidate = zip(*executions, strict=True)
    failure = _failure(of_source, of_candidate)
    if failure is not None:
        return QueryComparison(query=query, sample=sample, **failure)
    result, text = _result(sample, of_source, of_candidate)
    rows = len(of_source[0].rows) if result == "equal" else 0
    base = QueryComparison(query=query, result=result, text=text, sample=sample, rows=rows)
    # The first round warms both caches: its rows count, its times do not.
    source_s, candidate_s = (
        [execution.seconds for execution in executions_of_side[1:]]
        for executions_of_side in (of_source, of_candidate)
    )
    return replace(
        base,
        shift=shift_of(source_s, candidate_s) if min(source_s) > 0 and min(candidate_s) > 0 else None,
        source_ms=sorted(source_s)[len(source_s) // 2] * 1000,
        candidate_ms=sorted(candidate_s)[len(candidate_s) // 2] * 1000,
        plans=_plans(pair.source, pair.candidate, sample),
    )


@dataclass(frozen=True, kw_only=True)
class _Execution:
    rows: tuple[tuple[str, ...], ...] = ()
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class _Pair:
    source: SqlReader
    candidate: SqlReader
    clock: Callable[[], float]

    def ask(self, schema: str, sample: str) -> tuple[_Execution, _Execution]:
        """Return both executions, the source's first."""
        return self._ask(self.source, schema, sample), self._ask(self.candidate, schema, sample)

    def _ask(self, server: SqlReader, schema: str, sample: str) -> _Execution:
        try:
            if schema:
                server.query(f"USE `{schema.replace('`', '``')}`")
            before = self.clock()
            rows = server.query(sample)
            seconds = self.clock() - before
        except StepFailed as error:
            return _Execution(error=error.evidence.split(";")[0] or error.what)
        except Refused as error:
            return _Execution(error=f"not sent: {error.what}")
        return _Execution(rows=tuple(tuple(map(_text, row)) for row in rows), seconds=seconds)


class _Failure(TypedDict):
    result: Result
    text: str
    error_code: int


def _failure(of_source: Sequence[_Execution], of_candidate: Sequence[_Execution]) -> _Failure | None:
    """Return the failure of any execution, the candidate's where both sides have one."""
    on_source, on_candidate = (
        next((execution.error for execution in side if execution.error), "") for side in (of_source, of_candidate)
    )
    error = on_candidate or on_source
    if not error:
        return None
    side: Result = (
        "error on both"
        if on_source and on_candidate
        else "error on the source"
        if on_source
        else "error on the candidate"
    )
    code = re.match(r"\d{4,5}", error)
    return _Failure(result=side, text=error, error_code=int(code[0]) if code else 0)


def _result(sample: str, of_source: Sequence[_Execution], of_candidate: Sequence[_Execution]) -> tuple[Result, str]:
    ordered = " order by " in fingerprint(sample)
    rows = [
        execution.rows if ordered else tuple(sorted(execution.rows)) for execution in (*of_source, *of_candidate)
    ]
    source_rows, candidate_rows = rows[: len(of_source)], rows[len(of_source) :]
    if len(set(source_rows)) > 1:
        return "not deterministic", "the source itself returns different rows each time"
    if set(candidate_rows) == {source_rows[0]}:
        return "equal", ""
    if ordered and {tuple(sorted(execution)) for execution in candidate_rows} == {tuple(sorted(source_rows[0]))}:
        return "differs", "the same rows in another order"
    return "differs", _first_difference(source_rows[0], candidate_rows[0])


def _first_difference(source_rows: Rows | tuple[Any, ...], candidate_rows: Rows | tuple[Any, ...]) -> str:
    if len(source_rows) != len(candidate_rows):
        return f"{counted(len(source_rows), 'row')} became {len(candidate_rows)}"
    at = next(
        (number for number, pair in enumerate(zip(source_rows, candidate_rows, strict=True)) if pair[0] != pair[1]),
        0,
    )
    return f"row {at + 1}: {str(source_rows[at])[:80]} became {str(candidate_rows[at])[:80]}"


def _with_verdicts(compared: Sequence[QueryComparison]) -> Iterator[QueryComparison]:
    timed = [comparison for comparison in compared if _can_be_timed(comparison)]
    adjusted = dict(
        zip(
            map(id, timed),
            holm([comparison.shift.p_value for comparison in timed if comparison.shift]),
            strict=True,
        )
    )
    for comparison in compared:
        if id(comparison) in adjusted and comparison.shift is not None:
            verdict = judge(
                comparison.shift, better="lower", margin=SLOWER_MARGIN, p_adjusted=adjusted[id(comparison)]
            ).verdict
            is_beyond = comparison.shift.ratio > 1 + SLOWER_MARGIN
            yield replace(comparison, slower=verdict == "worse", unproven=is_beyond and verdict != "worse")
        else:
            yield comparison


def _can_be_timed(comparison: QueryComparison) -> bool:
    slowest_ms = max(comparison.source_ms or 0.0, comparison.candidate_ms or 0.0)
    return comparison.shift is not None and slowest_ms >= FASTEST_JUDGED_S * 1000


def _plans(source: SqlReader, candidate: SqlReader, sample: str) -> tuple[str, str] | None:
    try:
        first, second = (
            plan_text(parse_json(str(server.query(f"EXPLAIN FORMAT=JSON {sample}")[0][0])))
            for server in (source, candidate)
        )
    except (StepFailed, Refused, ValueError, IndexError):
        return None
    return first, second


def plan_text(plan: Any) -> str:
    """Return the access to each table, in order: `orders all, customers eq_ref PRIMARY`; for both flavors' JSON."""
    return ", ".join(_accesses(plan))


def _accesses(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "table_name" in node and ("access_type" in node or "key" in node or "index_name" in node):
            description = (node["table_name"], str(node.get("access_type", "")).lower(), node.get("key"))
            yield " ".join(str(item) for item in (*description, node.get("index_name")) if item)
        for value in node.values():
            yield from _accesses(value)
    elif isinstance(node, list):
        for value in node:
            yield from _accesses(value)


def _text(value: Any) -> str:
    """Return one value as both servers print it: numbers by value, everything else by text."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)
