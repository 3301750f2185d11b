"""Checksums of tables on two servers, chunk by chunk, and the rows that differ.

A row's text is its columns joined as CONCAT_WS does, without NULLs, and a map of these; numbers and times as the
session prints them (UTC), binary values and strings as they are stored, strings in utf8mb4 where the servers store
them in different character sets: on MariaDB, converting takes longer than all the rest. A chunk's checksum is the
number of rows and the sum of 64 bits of each row's SHA-256 (equal rows add up, so that two more of them are seen).
The method is pt-table-checksum's, with more bits; MySQL from 9.6 on has no MD5() and SHA1(). Its default, XOR of
CRC32, is faster, and does not change when two rows exchange values of equal length: a CRC is affine.
"""

# ruff: noqa: S608 - names come from the server's own information_schema, and are quoted

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from volbench.core.base.text import counted
from volbench.machine.engine.answers import reads_answers, whole
from volbench.validation.catalog.objects import Attributes, Inventory
from volbench.validation.data.chunks import (
    CHUNK_ROWS,
    STATEMENT_S_MAX,
    UNDIVIDED_BYTES_MAX,
    Pace,
    chunk_conditions,
    divisible_key,
    size_query,
)
from volbench.validation.data.table import BYTES, STRINGS, Column, Table, quoted_name
from volbench.validation.data.throttle import Throttle
from volbench.validation.source.server import Rows, SqlReader

ROWS_NAMED_MAX = 5
CHUNKS_COUNTED_MAX = 10
"""Chunks whose differing rows are counted one by one: with more of them, a table differs as a whole."""
_IN_HEX = (
    "bit",
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "geomcollection",
)
_CONVERTED = (*STRINGS, "enum", "set", "json")


@dataclass(frozen=True, kw_only=True)
class TableComparison:
    """A table on two servers.

    Args:
        equal: None where some columns are not comparable.
        different_rows: that are missing, added or changed; None where no key tells rows apart.
        all_counted: whether there are no more of them.
    """

    table: str
    equal: bool | None
    source_rows: int
    candidate_rows: int
    chunks: int
    texts: tuple[str, ...] = ()
    different_rows: int | None = 0
    all_counted: bool = True


@dataclass(frozen=True, kw_only=True)
class _Differences:
    texts: tuple[str, ...] = ()
    rows: int | None = 0
    all_counted: bool = True


def tables_of(source: Inventory, candidate: Inventory) -> list[Table]:
    """Return the tables and columns that both sides have, without JSON columns that are text on the other side."""
    labels = source["table"].keys() & candidate["table"].keys()
    source_columns, candidate_columns = (_columns_by_table(side, labels) for side in (source, candidate))
    keys = _primary_keys(source)
    return [_table(label, source_columns[label], candidate_columns[label], keys[label]) for label in sorted(labels)]


def compare_tables(
    source: SqlReader,
    candidate: SqlReader,
    tables: Sequence[Table],
    progress: Callable[[str, float], None],
    *,
    values: bool = True,
) -> Iterator[TableComparison]:
    """Yield each table, read in full on both sides; with the keys of differing rows, or only their number."""
    throttle = Throttle(source, candidate)
    for index, table in enumerate(tables):
        progress(table.label, index / len(tables))
        yield _compare(source, candidate, table, throttle, values=values)


def row_text(table: Table) -> str:
    """Return the SQL expression of a row's text."""
    texts = [_column_text(column) for column in table.columns] or ["''"]
    nulls = ", ".join(f"ISNULL({quoted_name(column.name)})" for column in table.columns if column.nullable)
    texts += [f"CONCAT({nulls})"] if nulls else []
    return f"CONCAT_WS('#', {', '.join(texts)})"


def chunk_query(table: Table, where: str) -> str:
    """Return the query for number of rows and sum of a chunk."""
    row_bits = f"CAST(CONV(LEFT(SHA2({row_text(table)}, 256), 16), 16, 10) AS UNSIGNED)"
    return f"SELECT COUNT(*), COALESCE(SUM({row_bits}), 0) FROM {table.quoted} WHERE {where}"


def on_both(source: SqlReader, candidate: SqlReader, sql: str) -> tuple[Rows, Rows]:
    """Return the answers of both servers, which work at the same time. Raises StepFailed when either has failed."""
    with ThreadPoolExecutor(1, thread_name_prefix="candidate") as pool:
        candidate_rows = pool.submit(candidate.query, sql)
        return source.query(sql), candidate_rows.result()


@reads_answers("rows")
def _compare(
    source: SqlReader, candidate: SqlReader, table: Table, throttle: Throttle, *, values: bool
) -> TableComparison:
    if (large := _too_large_without_key(source, candidate, table)) is not None:
        return TableComparison(
            table=table.label, equal=None, source_rows=0, candidate_rows=0, chunks=0, texts=(large,)
        )
    rows, chunks, differing, pace = [0, 0], 0, [], Pace()
    for where in chunk_conditions((source, candidate), table, pace):
        throttle.wait()
        chunks += 1
        begun_s = time.monotonic()
        source_sums, candidate_sums = (
            _sums(answer) for answer in on_both(source, candidate, chunk_query(table, where))
        )
        pace.adapt(time.monotonic() - begun_s)
        rows = [rows[0] + source_sums[0], rows[1] + candidate_sums[0]]
        if source_sums != candidate_sums:
            differing.append(where)
    differences = _differences(source, candidate, table, differing, values=values) if differing else _Differences()
    texts = list(differences.texts)
    if table.incomparable:
        texts.append(f"not compared: {', '.join(table.incomparable)} (JSON on one side, text on the other)")
    equal = False if differing else (None if table.incomparable else True)
    return TableComparison(
        table=table.label,
        equal=equal,
        source_rows=rows[0],
        candidate_rows=rows[1],
        chunks=chunks,
        texts=tuple(texts),
        different_rows=differences.rows,
        all_counted=differences.all_counted,
    )


@reads_answers("sizes")
def _too_large_without_key(source: SqlReader, candidate: SqlReader, table: Table) -> str | None:
    """Return why a table that no key divides is not read, or None where one statement reads it soon enough."""
    if divisible_key(table):
        return None
    sizes = [whole(row[0][0]) for row in on_both(source, candidate, size_query(table)) if row]
    if max(sizes, default=0) <= UNDIVIDED_BYTES_MAX:
        return None
    return (
        f"not compared: no primary key divides its {max(sizes) / 2**20:,.0f} MiB, and one statement reads at most "
        f"{UNDIVIDED_BYTES_MAX >> 20} MiB within {STATEMENT_S_MAX:g} s"
    )


def _sums(answer: Rows) -> tuple[int, int]:
    """Return the number of rows and the sum of a chunk."""
    ((rows, row_sum, *_),) = answer
    return whole(rows), whole(row_sum)


def _differences(
    source: SqlReader, candidate: SqlReader, table: Table, differing: Sequence[str], *, values: bool
) -> _Differences:
    """Return the first differing rows by their key, and the number of them; without a key only that rows differ."""
    if not table.key:
        text = "rows differ; the table has no primary key to name them"
        return _Differences(texts=(text,), rows=None, all_counted=False)
    texts: list[str] = []
    all_counted = len(differing) <= CHUNKS_COUNTED_MAX
    for where in differing[:CHUNKS_COUNTED_MAX]:
        of_chunk, whole_chunk = _different_rows(source, candidate, table, where)
        texts += of_chunk
        all_counted = all_counted and whole_chunk
    count = len(texts)
    if not values:
        texts = [f"{counted(count, 'row that differs is', 'rows that differ are')} not named: keys are not stored"]
    elif count > ROWS_NAMED_MAX:
        texts[ROWS_NAMED_MAX:] = [f"and {counted(count - ROWS_NAMED_MAX, 'more row', 'more rows')}"]
    if not all_counted:
        texts.append(
            f"only {CHUNKS_COUNTED_MAX} of {counted(len(differing), 'chunk')} that differ were read row by row"
        )
    return _Differences(texts=tuple(texts), rows=count, all_counted=all_counted)


def _different_rows(source: SqlReader, candidate: SqlReader, table: Table, where: str) -> tuple[list[str], bool]:
    """Return a text for each differing row of a chunk, and whether all rows of the chunk were read."""
    keys = ", ".join(quoted_name(name) for name in table.key)
    floats = {column.name for column in table.columns if column.base_type == "float"}
    printed_keys = ", ".join(_printed_float(name) if name in floats else quoted_name(name) for name in table.key)
    each_row = (
        f"SELECT {printed_keys}, SHA2({row_text(table)}, 256) FROM {table.quoted} WHERE {where} "
        f"ORDER BY {keys} LIMIT {4 * CHUNK_ROWS}"
    )
    source_rows, candidate_rows = (
        {tuple(map(str, row[:-1])): str(row[-1]) for row in rows} for rows in on_both(source, candidate, each_row)
    )
    texts = [f"row {_key(k)} is missing on the candidate" for k in source_rows if k not in candidate_rows]
    texts += [f"row {_key(k)} is only on the candidate" for k in candidate_rows if k not in source_rows]
    texts += [
        f"row {_key(k)} has other values"
        for k in source_rows
        if k in candidate_rows and source_rows[k] != candidate_rows[k]
    ]
    return texts, max(len(source_rows), len(candidate_rows)) < 4 * CHUNK_ROWS


def _columns_by_table(side: Inventory, labels: Collection[str]) -> defaultdict[str, dict[str, Attributes]]:
    """Return the columns of each table by their names."""
    columns: defaultdict[str, dict[str, Attributes]] = defaultdict(dict)
    for name, attributes in side["column"].items():
        label = _table_of(name, labels)
        if label is not None:
            columns[label][name[len(label) + 1 :]] = attributes
    return columns


def _table_of(name: str, labels: Collection[str]) -> str | None:
    """Return the table in a column's name; the longest one, since names of tables may have dots."""
    label = name
    while "." in label:
        label = label.rpartition(".")[0]
        if label in labels:
            return label
    return None


def _primary_keys(side: Inventory) -> defaultdict[str, list[str]]:
    """Return the columns of each table's primary key in their order."""
    numbered: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for name, attributes in side["index"].items():
        label, separator, position = name.rpartition(".PRIMARY.")
        if separator:
            numbered[label].append((int(position), attributes["column"]))
    return defaultdict(
        list, {label: [column for _, column in sorted(of_key)] for label, of_key in numbered.items()}
    )


def _table(
    label: str, source: Mapping[str, Attributes], candidate: Mapping[str, Attributes], key: Sequence[str]
) -> Table:
    schema, _, name = label.partition(".")
    shared = [(column, source[column], candidate[column]) for column in source if column in candidate]
    json_mismatch = tuple(
        column
        for column, source_side, candidate_side in shared
        if (source_side["type"] == "json") != (candidate_side["type"] == "json")
    )
    columns = tuple(
        _column(column, source_side, candidate_side)
        for column, source_side, candidate_side in shared
        if column not in json_mismatch
    )
    return Table(schema=schema, name=name, columns=columns, key=tuple(key), incomparable=json_mismatch)


def _column(name: str, source_side: Attributes, candidate_side: Attributes) -> Column:
    return Column(
        name=name,
        type=source_side["type"],
        nullable=not source_side["nullable"] == candidate_side["nullable"] == "NO",
        # In utf8mb4 there is nothing to convert.
        stored_alike=source_side["charset"] == candidate_side["charset"] not in {"", "utf8mb4"},
        ordered_alike=all(source_side.get(name) == candidate_side.get(name) for name in ("charset", "collation")),
    )


def _column_text(column: Column) -> str:
    name, base = quoted_name(column.name), column.base_type
    if base in _IN_HEX:
        return f"HEX({name})"
    if base in BYTES or (base in STRINGS and column.stored_alike):
        return f"CAST({name} AS BINARY)"
    if base in _CONVERTED:
        return f"CONVERT({name} USING utf8mb4)"
    if base == "float":
        return _printed_float(column.name)
    return name


def _printed_float(name: str) -> str:
    """Return the expression of a FLOAT in full: a bare column prints six digits, which hides the last bits."""
    return f"({quoted_name(name)} + 0e0)"


def _key(key: tuple[str, ...]) -> str:
    return key[0] if len(key) == 1 else f"({', '.join(key)})"
