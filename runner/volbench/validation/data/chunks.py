"""Conditions that divide a table in chunks along its primary key, whatever the key's types.

A chunk ends at the key of the row that is so many rows further in the key's order (pt-table-checksum's nibbling),
so that gaps in a key make no empty chunk and no chunk is larger for them. Rows of the candidate beyond the source's
last key are divided by its own keys. The bounds are literals that this module writes: an answer gives digits only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from volbench.validation.data.table import BYTES, STRINGS, Column, ComparedTable, quoted_name
from volbench.validation.source.server import Rows, SqlReader

CHUNK_ROWS = 100_000
"""At most, as long as a chunk's rows are few bytes: what is read row by row stays within an answer's size."""
STATEMENT_S_MAX = 10.0
"""No statement on the source should take longer: it holds old row versions and a thread."""
UNDIVIDED_BYTES_MAX = 1 << 30
"""Of a table without a key: a gigabyte takes 3 to 7 s (tests/benchmarks/checksums.py)."""
_CHUNKS_MAX = 10**8
"""Of a table: with as many, they would take years."""
_FIRST_ROWS = 10_000
ROWS_MIN = 100
"""Of a chunk: what takes too long for so few rows is not divided further."""
_TARGET_S = 1.0
"""For a chunk: a tenth of the longest, since the next one may be of longer rows."""
_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year")
_TIMES = ("date", "datetime", "timestamp", "time")
_LITERALS = {
    "number": re.compile(r"-?[0-9]{1,80}(?:\.[0-9]{1,40})?(?:e[-+]?[0-9]{1,3})?"),
    "time": re.compile(r"-?[0-9: .-]{1,40}"),
    "hex": re.compile(r"(?:[0-9A-F]{2}){0,8192}"),
}
Bound = tuple[str, ...]


@dataclass
class Pace:
    """Rows of the next chunk, by how long the last one took: as many as take a tenth of the longest time."""

    rows: int = _FIRST_ROWS

    def adapt(self, seconds: float, *, rows: int) -> None:
        """Take the time of a chunk with so many rows; the next one has at most twice as many."""
        next_rows = round(rows * _TARGET_S / max(seconds, 1e-6))
        self.rows = min(max(next_rows, ROWS_MIN), 2 * rows, CHUNK_ROWS)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A range of keys of at most so many rows on one side, after `low` and up to `high`, and its condition."""

    where: str
    rows: int
    low: Bound | None = None
    high: Bound | None = None
    is_divisible: bool = True


def divisible_key(table: ComparedTable) -> tuple[Column, ...]:
    """Return the first columns of the key that both servers sort alike; none where the table cannot be divided."""
    columns = {column.name: column for column in table.columns}
    key = (columns[name] for name in table.key if name in columns)
    return tuple(takewhile(lambda column: _kind(column) is not None, key))


def chunks_of(
    sides: Sequence[SqlReader], table: ComparedTable, pace: Pace, *, within: Chunk | None = None
) -> Iterator[Chunk]:
    """Yield chunks that divide the rows of each side, each row in one of them.

    Args:
        sides: source and candidate.
        table: on both.
        pace: asked for the number of rows before each chunk.
        within: divide this chunk only.

    Raises ValueError for an answer that is no key.
    """
    key = divisible_key(table)
    low, end = (None, None) if within is None else (within.low, within.high)
    chunks = 0
    for side in sides if key else ():
        while True:
            rows = pace.rows
            high = _next_bound(side, table, key, (low, end), rows)
            if high is None or high == end:
                break
            yield Chunk(where=_between(key, low, high), rows=rows, low=low, high=high)
            low, chunks = high, chunks + 1
            if chunks > _CHUNKS_MAX:
                raise ValueError("keys without an end")
    yield Chunk(where=_between(key, low, end), rows=pace.rows, low=low, high=end, is_divisible=bool(key))


def size_query(table: ComparedTable) -> str:
    """Return the query for the bytes of a table's data, as the server estimates them."""
    schema, name = (_text(text) for text in (table.schema, table.name))
    return (
        "SELECT COALESCE(data_length, 0) FROM information_schema.tables "
        f"WHERE table_schema = {schema} AND table_name = {name}"
    )


def bound_query(
    table: ComparedTable, key: Sequence[Column], low: Bound | None, rows: int, *, end: Bound | None = None
) -> str:
    """Return the query for the key that is so many rows further, up to an end."""
    names = ", ".join(quoted_name(column.name) for column in key)
    texts = ", ".join(_key_text(column) for column in key)
    return (
        f"SELECT {texts} FROM {table.quoted} FORCE INDEX (`PRIMARY`) WHERE {_between(key, low, end)} "
        f"ORDER BY {names} LIMIT {rows - 1}, 1"
    )


def _next_bound(
    side: SqlReader,
    table: ComparedTable,
    key: Sequence[Column],
    between: tuple[Bound | None, Bound | None],
    rows: int,
) -> Bound | None:
    low, end = between
    answer: Rows = side.query(bound_query(table, key, low, rows, end=end))
    if not answer:
        return None
    high = tuple(_literal(column, str(value)) for column, value in zip(key, answer[0], strict=True))
    if high == low:
        raise ValueError("a key that does not go on")
    return high


def _between(key: Sequence[Column], low: Bound | None, high: Bound | None) -> str:
    """Return the condition for keys after `low` and up to `high`."""
    conditions = []
    if low is not None:
        conditions += [*_first(key, low, ">"), _ordered(key, low, ">", ">")]
    if high is not None:
        conditions += [*_first(key, high, "<"), _ordered(key, high, "<", "<=")]
    return " AND ".join(conditions) or "TRUE"


def _first(key: Sequence[Column], bound: Bound, sign: str) -> list[str]:
    """Return what is true of the first column alone, by which servers find the range; none where it is all."""
    return [f"{quoted_name(key[0].name)} {sign}= {bound[0]}"] if len(key) > 1 else []


def _ordered(key: Sequence[Column], bound: Bound, sign: str, last: str) -> str:
    """Return a comparison of all columns, one after the other: row constructors use no index on old servers."""
    name = quoted_name(key[0].name)
    if len(key) == 1:
        return f"{name} {last} {bound[0]}"
    following = _ordered(key[1:], bound[1:], sign, last)
    return f"({name} {sign} {bound[0]} OR ({name} = {bound[0]} AND {following}))"


def _kind(column: Column) -> str | None:
    """Return how a column's values are written as literals; None where servers may sort them differently."""
    base = column.base_type
    if base in _NUMBERS:
        return "number"
    if base in _TIMES:
        return "time"
    if base in BYTES:
        return "bytes"
    return "text" if base in STRINGS and column.ordered_alike else None


def _key_text(column: Column) -> str:
    """Return the expression whose answer `_literal` takes."""
    name = quoted_name(column.name)
    kind = _kind(column)
    if kind == "text":
        return f"HEX(CONVERT({name} USING utf8mb4))"
    if kind == "bytes":
        return f"HEX({name})"
    # A bare FLOAT prints six digits, before which hundreds of rows may be.
    return f"CAST({name}{' + 0e0' if column.base_type == 'float' else ''} AS CHAR)"


def _literal(column: Column, value: str) -> str:
    """Return a literal of SQL. Raises ValueError for an answer that is none of its column."""
    kind = _kind(column) or ""
    if not _LITERALS.get(kind, _LITERALS["hex"]).fullmatch(value):
        raise ValueError(f"{value[:40]!r} is no key of type {column.type[:40]}")
    if kind == "number":
        return value
    if kind == "time":
        return f"'{value}'"
    return f"_utf8mb4 X'{value}'" if kind == "text" else f"X'{value}'"


def _text(text: str) -> str:
    return f"_utf8mb4 X'{text.encode().hex()}'"
