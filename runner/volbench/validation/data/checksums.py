"""Checksums of tables on two servers, chunk by chunk, and the rows that differ.

A row's text is its columns joined as CONCAT_WS does, with a map of its NULLs; numbers and times as the session
prints them (UTC), binary values in hex, strings in utf8mb4. A chunk's checksum is the number of rows, the exclusive
or of 64 bits of their SHA-256, and the sum of their CRC32 (which also detects two equal rows that appear or go).
The method is pt-table-checksum's, with more bits; MySQL from 9.6 on has no MD5() and SHA1().
"""

# ruff: noqa: S608 - names come from the server's own information_schema, and are quoted

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from volbench.validation.catalog.objects import Inventory
from volbench.validation.source.server import SqlReader

CHUNK_ROWS = 100_000
ROWS_NAMED_MAX = 5
_BINARY = ("binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob", "bit", "geometry", "point",
           "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
           "geomcollection")  # fmt: skip
_TEXT = ("char", "varchar", "text", "tinytext", "mediumtext", "longtext", "enum", "set")
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table to compare: columns with their types, key, and columns that are not comparable."""

    schema: str
    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    incomparable: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """schema.table"""
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        """`schema`.`table`"""
        return f"{_name(self.schema)}.{_name(self.name)}"


@dataclass(frozen=True, kw_only=True)
class TableComparison:
    """A table on two servers. `equal` is None where some columns are not comparable."""

    table: str
    equal: bool | None
    source_rows: int
    candidate_rows: int
    chunks: int
    texts: tuple[str, ...] = ()


def tables_of(source: Inventory, candidate: Inventory) -> list[Table]:
    """Return the tables and columns that both sides have, without JSON columns that are text on the other side."""
    return [_table(source, candidate, name) for name in sorted(source["table"].keys() & candidate["table"].keys())]


def compare_tables(
    source: SqlReader,
    candidate: SqlReader,
    tables: Sequence[Table],
    progress: Callable[[str, float], None],
    *,
    values: bool = True,
) -> Iterator[TableComparison]:
    """Yield each table, read in full on both sides; with the keys of differing rows, or only their number."""
    for index, table in enumerate(tables):
        progress(table.label, index / len(tables))
        yield _compare(source, candidate, table, values=values)


def row_text(table: Table) -> str:
    """Return the SQL expression of a row's text."""
    texts = ", ".join(f"COALESCE({_column_text(name, kind)}, '')" for name, kind in table.columns)
    nulls = ", ".join(f"ISNULL({_name(name)})" for name, _ in table.columns)
    return f"CONCAT_WS('#', {texts}, CONCAT({nulls}))"


def chunk_query(table: Table, where: str) -> str:
    """Return the query for number of rows, exclusive or and sum of a chunk."""
    text = row_text(table)
    return (
        f"SELECT COUNT(*), COALESCE(BIT_XOR(CAST(CONV(LEFT(SHA2({text}, 256), 16), 16, 10) AS UNSIGNED)), 0), "
        f"COALESCE(SUM(CRC32({text})), 0) FROM {table.quoted} WHERE {where}"
    )


def _compare(source: SqlReader, candidate: SqlReader, table: Table, *, values: bool) -> TableComparison:
    rows, chunks, differing = [0, 0], 0, []
    for where in _chunks(source, candidate, table):
        chunks += 1
        source_sums, candidate_sums = (
            tuple(map(int, side.query(chunk_query(table, where))[0])) for side in (source, candidate)
        )
        rows = [rows[0] + source_sums[0], rows[1] + candidate_sums[0]]
        if source_sums != candidate_sums:
            differing.append(where)
    texts = _describe_differences(source, candidate, table, differing, values=values) if differing else []
    if table.incomparable:
        texts.append(f"not compared: {', '.join(table.incomparable)} (JSON on one side, text on the other)")
    equal = False if differing else (None if table.incomparable else True)
    return TableComparison(
        table=table.label, equal=equal, source_rows=rows[0], candidate_rows=rows[1], chunks=chunks,
        texts=tuple(texts),
    )  # fmt: skip


def _chunks(source: SqlReader, candidate: SqlReader, table: Table) -> Iterator[str]:
    """Yield conditions that partition the rows of both sides: ranges of an integer key, else the whole table."""
    kinds = dict(table.columns)
    if not table.key or kinds.get(table.key[0], "").split("(")[0].split()[0] not in _INTEGERS:
        yield "TRUE"
        return
    key = _name(table.key[0])
    all_bounds = [
        side.query(f"SELECT MIN({key}), MAX({key}), COUNT(*) FROM {table.quoted}")[0]
        for side in (source, candidate)
    ]
    bounds = [bound for bound in all_bounds if bound[0] is not None]
    if not bounds:
        yield "TRUE"
        return
    low, high = min(int(bound[0]) for bound in bounds), max(int(bound[1]) for bound in bounds)
    chunk_count = max(1, -(-max(int(bound[2]) for bound in bounds) // CHUNK_ROWS))
    step = -(-(high - low + 1) // chunk_count)
    for first in range(low, high + 1, step):
        yield f"{key} >= {first} AND {key} <= {min(first + step - 1, high)}"


def _describe_differences(
    source: SqlReader, candidate: SqlReader, table: Table, differing: Sequence[str], *, values: bool
) -> list[str]:
    """Return the first differing rows by their key; without a key only that rows differ."""
    if not table.key:
        return ["rows differ; the table has no primary key to name them"]
    keys = ", ".join(_name(name) for name in table.key)
    rows_by_key = [
        {
            tuple(map(str, row[:-1])): str(row[-1])
            for row in side.query(
                f"SELECT {keys}, SHA2({row_text(table)}, 256) FROM {table.quoted} WHERE {differing[0]} "
                f"ORDER BY {keys} LIMIT {4 * CHUNK_ROWS}"
            )
        }
        for side in (source, candidate)
    ]
    source_rows, candidate_rows = rows_by_key
    texts = [f"row {_key(k)} is missing on the candidate" for k in source_rows if k not in candidate_rows]
    texts += [f"row {_key(k)} is only on the candidate" for k in candidate_rows if k not in source_rows]
    texts += [
        f"row {_key(k)} has other values"
        for k in source_rows
        if k in candidate_rows and source_rows[k] != candidate_rows[k]
    ]
    if not values:
        return [f"{len(texts)} rows of the first chunk that differs; their keys are not stored"]
    more = len(texts) - ROWS_NAMED_MAX
    return texts[:ROWS_NAMED_MAX] + ([f"and {more} more rows in this chunk"] if more > 0 else [])


def _table(source: Inventory, candidate: Inventory, label: str) -> Table:
    schema, _, name = label.partition(".")
    source_types = {
        column.removeprefix(f"{label}."): attributes["type"]
        for column, attributes in source["column"].items()
        if column.startswith(f"{label}.")
    }
    candidate_types = {
        column.removeprefix(f"{label}."): attributes["type"]
        for column, attributes in candidate["column"].items()
        if column.startswith(f"{label}.")
    }
    shared = [column for column in source_types if column in candidate_types]
    json_mismatch = tuple(
        column for column in shared if (source_types[column] == "json") != (candidate_types[column] == "json")
    )
    key = [
        (int(index.rpartition(".")[2]), attributes["column"])
        for index, attributes in source["index"].items()
        if index.startswith(f"{label}.PRIMARY.")
    ]
    return Table(
        schema=schema,
        name=name,
        columns=tuple((column, source_types[column]) for column in shared if column not in json_mismatch),
        key=tuple(column for _, column in sorted(key)),
        incomparable=json_mismatch,
    )


def _column_text(name: str, kind: str) -> str:
    base = kind.split("(", maxsplit=1)[0].split(maxsplit=1)[0]
    if base in _BINARY:
        return f"HEX({_name(name)})"
    if base in _TEXT or base == "json":
        return f"CONVERT({_name(name)} USING utf8mb4)"
    if base == "float":
        return f"({_name(name)} + 0e0)"  # a bare column prints six digits, which hides the last bits
    return _name(name)


def _key(key: tuple[str, ...]) -> str:
    return key[0] if len(key) == 1 else f"({', '.join(key)})"


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
