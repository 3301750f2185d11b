"""SQL of a table's rows: the text of a row, and number and sum of a chunk's rows.

A row's text is its columns joined as CONCAT_WS does, without NULLs, and a map of these; numbers and times as the
session prints them (UTC), binary values and strings as they are stored, strings in utf8mb4 where the servers store
them in different character sets: on MariaDB, converting takes longer than all the rest. A chunk's checksum is the
number of rows and the sum of 64 bits of each row's SHA-256 (equal rows add up, so that two more of them are seen).
The method is pt-table-checksum's, with more bits; MySQL from 9.6 on has no MD5() and SHA1(). Its default, XOR of
CRC32, is faster, and does not change when two rows exchange values of equal length: a CRC is affine.
"""

from __future__ import annotations

from volbench.validation.data.table import BYTES, STRINGS, Column, ComparedTable, quoted_name

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


def row_text(table: ComparedTable) -> str:
    """Return the SQL expression of a row's text."""
    texts = [_column_text(column) for column in table.columns] or ["''"]
    nulls = ", ".join(f"ISNULL({quoted_name(column.name)})" for column in table.columns if column.nullable)
    texts += [f"CONCAT({nulls})"] if nulls else []
    return f"CONCAT_WS('#', {', '.join(texts)})"


def chunk_query(table: ComparedTable, where: str) -> str:
    """Return the query for number of rows and sum of a chunk."""
    row_bits = f"CAST(CONV(LEFT(SHA2({row_text(table)}, 256), 16), 16, 10) AS UNSIGNED)"
    return f"SELECT COUNT(*), COALESCE(SUM({row_bits}), 0) FROM {table.quoted} WHERE {where}"


def _column_text(column: Column) -> str:
    name, base = quoted_name(column.name), column.base_type
    if base in _IN_HEX:
        return f"HEX({name})"
    if base in BYTES or (base in STRINGS and column.stored_alike):
        return f"CAST({name} AS BINARY)"
    if base in _CONVERTED:
        return f"CONVERT({name} USING utf8mb4)"
    if base == "float":
        return printed_float(column.name)
    return name


def printed_float(name: str) -> str:
    """Return the expression of a FLOAT in full: a bare column prints six digits, which hides the last bits."""
    return f"({quoted_name(name)} + 0e0)"
