"""A sysbench mix of the shape of a captured workload, for when no statement and no row may leave.

Only counts are taken along: which share of the statements are reads of one row, ranges, changes, inserts and
deletes, how many came in a second, and how many a transaction had.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from volbench.errors import UsageError
from volbench.records.capture import Capture
from volbench.validation.fingerprint import fingerprint
from volbench.validation.slowlog import LoggedStatement

Kind = Literal[
    "point select", "simple range", "sum range", "order range", "distinct range", "update", "insert and delete"
]
OPTIONS: Mapping[Kind, tuple[str, int]] = {
    "point select": ("point_selects", 1), "simple range": ("simple_ranges", 1), "sum range": ("sum_ranges", 1),
    "order range": ("order_ranges", 1), "distinct range": ("distinct_ranges", 1),
    "update": ("non_index_updates", 1), "insert and delete": ("delete_inserts", 2),
}  # fmt: skip
"""sysbench's option for each kind, and how many statements one of it sends."""
STATEMENTS_MAX = 100
ERROR_MAX = 0.005
ROWS_OF_A_RANGE = 2.0
"""More rows than that, sent or examined by a SELECT on average, make it a range."""
_WRITES: Mapping[str, Kind] = {
    "insert": "insert and delete", "replace": "insert and delete", "delete": "insert and delete",
    "update": "update",
}  # fmt: skip
_ENDS = re.compile(r"commit\b|rollback\b")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What is taken along. `statements` by kind; `transactions` that ended; `other` statements by their verb."""

    statements: Mapping[Kind, int]
    other: Mapping[str, int]
    inserts: int
    deletes: int
    transactions: int
    seconds: float
    range_rows: float
    threads: int | None

    @property
    def per_s(self) -> float:
        """Statements of the kinds that a mix has."""
        return sum(self.statements.values()) / self.seconds

    def shares(self) -> dict[Kind, float]:
        """Of the statements that a mix has."""
        whole = sum(self.statements.values())
        return {kind: self.statements.get(kind, 0) / whole for kind in OPTIONS}


@dataclass(frozen=True, kw_only=True)
class Mix:
    """sysbench's options, transactions a second, and the largest error of a share."""

    options: Mapping[str, int | str]
    per_transaction: int
    rate: int
    error: float


def shape_of_capture(found: Capture) -> Shape:
    """The shape of a live server's digests. Raises UsageError where there is nothing to take along."""
    rows = (
        (fingerprint(one.digest_text), one.statements, one.rows_sent, one.rows_examined) for one in found.classes
    )
    return _shape(rows, seconds=lambda: found.seconds, threads=found.threads_running_max)


def shape_of_log(statements: Iterable[LoggedStatement]) -> Shape:
    """The shape of a slow log that has every statement. Raises UsageError where there is nothing to take along."""
    begin, end = float("inf"), 0.0

    def rows() -> Iterator[tuple[str, int, int, int]]:
        nonlocal begin, end
        for one in statements:
            begin, end = min(begin, one.at_s), max(end, one.at_s)
            yield fingerprint(one.sql), 1, one.rows_sent, one.rows_examined

    return _shape(rows(), seconds=lambda: max(end - begin, 1.0), threads=None)


def mix_of(shape: Shape) -> Mix:
    """The fewest statements a transaction whose whole numbers give all shares to half a percent, else the best."""
    best: Mix | None = None
    wanted = shape.shares()
    for length in range(1, min(STATEMENTS_MAX, max(1, int(shape.per_s))) + 1):
        counts = {kind: round(share * length / OPTIONS[kind][1]) for kind, share in wanted.items()}
        sent = sum(count * OPTIONS[kind][1] for kind, count in counts.items())
        if not sent or round(shape.per_s / sent) < 1:
            continue
        error = max(abs(counts[kind] * OPTIONS[kind][1] / sent - share) for kind, share in wanted.items())
        if best is None or error < best.error:
            best = Mix(
                options=_options(shape, counts), per_transaction=sent, rate=round(shape.per_s / sent), error=error
            )
        if best.error <= ERROR_MAX:
            break
    if best is None:
        raise UsageError(
            "less than one statement a second", where="--as-suite", evidence=f"{shape.per_s:.3g} a second",
            next_step="capture at a busier time",
        )  # fmt: skip
    return best


def suite_text(shape: Shape, mix: Mix, *, origin: str, notes: Iterable[str] = ()) -> str:
    """The suite, with what it does not keep as comments; `notes` are more of them."""
    options = "\n".join(f"      {name}: {value}" for name, value in mix.options.items())
    threads = max(16, 4 * (shape.threads or 16))
    return (
        f"# The shape of {origin}, without its statements and its data.\n"
        + "".join(f"# {line}\n" for line in (*not_kept(shape, mix), *notes))
        + "schema: 1\nname: shape\n"
        f"description: A sysbench mix with the shares and the rate of {origin}\n"
        "dataset:\n  tables: 8\n  rows: 1000000  # set it to what the server really has\n"
        "steps:\n  - kind: oltp\n    name: shape\n    test: oltp_read_write\n"
        f"    threads: {min(threads, 4096)}\n    rate: {mix.rate}\n    options:\n{options}\n"
        "    warmup: 30s\n    duration: 120s\nrepeats: 5\nseed: 1\n"
    )


def not_kept(shape: Shape, mix: Mix) -> Iterator[str]:
    """What a reader of its results has to know."""
    shares = ", ".join(f"{kind} {share:.1%}" for kind, share in shape.shares().items() if share)
    yield f"Shares: {shares}; each is kept to {max(mix.error, 0.0005):.1%} of all statements."
    kept = mix.rate * mix.per_transaction
    yield (
        f"Rate: {shape.per_s:.5g} statements a second became {kept}, in {mix.rate} transactions of "
        f"{mix.per_transaction}."
    )
    yield "Not kept: which rows are asked for, joins, indexes, sizes of rows, locks, bursts (arrivals are random)."
    yield "Not kept: which updates change an indexed column; all are taken as changing none."
    if shape.transactions:
        length = sum(shape.statements.values()) / shape.transactions
        yield f"Transactions had {length:.3g} statements each, and have {mix.per_transaction} here."
    if shape.inserts != shape.deletes:
        yield (
            f"sysbench deletes and inserts in pairs: {shape.inserts} inserts and {shape.deletes} deletes became as "
            "many statements, half of each."
        )
    if shape.other:
        told = ", ".join(f"{count} {verb}" for verb, count in Counter(shape.other).most_common(8))
        yield f"Left out: {told}."


def _options(shape: Shape, counts: Mapping[Kind, int]) -> dict[str, int | str]:
    found: dict[str, int | str] = {OPTIONS[kind][0]: count for kind, count in counts.items()}
    found |= {"index_updates": 0, "range_size": max(1, min(10_000, round(shape.range_rows)))}
    if not shape.transactions:
        found["skip_trx"] = "on"
    return found


def _shape(
    rows: Iterable[tuple[str, int, int, int]], *, seconds: Callable[[], float], threads: int | None
) -> Shape:
    counts, other = Counter[Kind](), Counter[str]()
    inserts = deletes = transactions = ranges = ranged = 0
    for bare, count, sent, examined in rows:
        kind = kind_of(bare, max(sent, examined) / count)
        verb = bare.split(" ", maxsplit=1)[0] if bare else ""
        inserts += count * (verb in {"insert", "replace"})
        deletes += count * (verb == "delete")
        transactions += count * bool(_ENDS.match(bare))
        if kind is None:
            other[verb] += count
            continue
        counts[kind] += count
        if kind.endswith("range"):
            # A sort counts its rows twice as examined; a sum sends one.
            rows_read = sent if kind in {"simple range", "order range"} else examined
            ranges, ranged = ranges + count, ranged + rows_read
    if not counts:
        raise UsageError("nothing in it that a mix could have", where="--as-suite", evidence=f"{dict(other)}")
    return Shape(
        statements=counts, other=other, inserts=inserts, deletes=deletes, transactions=transactions,
        seconds=seconds(), range_rows=ranged / ranges if ranges else 100.0, threads=threads,
    )  # fmt: skip


def kind_of(bare: str, rows: float) -> Kind | None:
    """The kind of a statement by its shape and the rows that it sent or examined; None for what a mix has not."""
    verb = bare.split(" ", maxsplit=1)[0]
    if verb in _WRITES:
        return _WRITES[verb]
    if verb not in {"select", "with"} or " from " not in f"{bare} ":
        return None
    return _kind_of_read(bare, rows)


def _kind_of_read(bare: str, rows: float) -> Kind:
    if rows <= ROWS_OF_A_RANGE:
        return "point select"
    if re.match(r"select distinct\b", bare):
        return "distinct range"
    if re.search(r"\b(sum|count|avg|min|max) ?\(|\bgroup by\b", bare):
        return "sum range"
    return "order range" if re.search(r"\border by\b", bare) else "simple range"
