"""Parquet tables written row group by row group, so that a crash leaves no half file under the final name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from volbench.core.base import safe_files
from volbench.core.base.parse import NUMBER_MAX
from volbench.core.base.system_errors import refusal_of_system
from volbench.errors import RunUnreadable, VolbenchError
from volbench.results.store.files import open_file
from volbench.results.store.footer import (
    FOOTER_BYTES_MAX,
    PAGES_MAX,
    ColumnChunk,
    ParquetBytes,
    pages,
    read_footer,
)
from volbench.results.store.thrift import BadMetadata

Row = TypeVar("Row")
Columns = dict[str, list[Any]]

SCHEMA_KEY = b"volbench_schema"
TABLE_SCHEMA = 1
TABLE_BYTES_MAX = 1 << 30
ROWS_MAX = 50_000_000
"""A day at one sample a second of 570 series."""
ROW_GROUPS_MAX = 10_000
GROUP_BYTES_MAX = 256 << 20
"""Of a row group, decompressed; those that volbench writes have at most 50 MiB."""
VALUES_IN_GROUP_MAX = 1 << 24
"""Of one column in a row group, with every entry of a list."""
NAME_BYTES_MAX = 4_096
"""Of a source, metric, entity or step."""


class TableWriter(Generic[Row]):
    """Writes one table; the file appears under its name when the `with` block ends well, and not at all otherwise.

    Subclasses say the Arrow schema, how many rows make a row group, and how rows become columns.
    """

    arrow_schema: pa.Schema
    rows_in_group: int

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f".{path.name}.partial")
        self._file: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[Row] = []
        self.rows_written = 0

    def append(self, rows: Iterable[Row]) -> None:
        """Take rows; full row groups go to disk at once."""
        for row in rows:
            self._pending.append(row)
            if len(self._pending) >= self.rows_in_group:
                self._flush()

    def columns_of(self, rows: list[Row]) -> Columns:
        """Return the rows as one list for each column of the schema."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        schema = self.arrow_schema.with_metadata({SCHEMA_KEY: str(TABLE_SCHEMA).encode()})
        self._partial.unlink(missing_ok=True)
        self._file = os.fdopen(open_file(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush()
            self._close_writer()
            if kind is None and self._file is not None:
                self._file.flush()
                os.fsync(self._file.fileno())
                self._partial.replace(self._path)
                safe_files.sync_path(self._path.parent)
        finally:
            with suppress(pa.ArrowException, OSError):  # why the table was not finished is told already
                self._close_writer()
            if self._file is not None:
                self._file.close()
            self._partial.unlink(missing_ok=True)

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _flush(self) -> None:
        if not self._pending:
            return
        if self._writer is None:
            raise ValueError("rows are taken only inside the `with` block")
        self._writer.write_table(pa.table(self.columns_of(self._pending), schema=self.arrow_schema))
        self.rows_written += len(self._pending)
        self._pending = []


def open_table(path: Path, schema: pa.Schema) -> pq.ParquetFile:
    """Return the table, with every size that the file states checked before a library opens it; no value is read.

    Raises RunUnreadable: absent, truncated, foreign, newer schema, larger than what volbench writes.
    """
    try:
        descriptor = open_file(path)
        try:
            _check_sizes(path, ParquetBytes(descriptor))
            # Opened again by the library, which then closes it. It would keep all of the wanted columns compressed.
            file = pq.ParquetFile(f"/proc/self/fd/{descriptor}", pre_buffer=False)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise RunUnreadable("no such file", where=str(path)) from error
    except (pa.ArrowException, BadMetadata, OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    actual = file.schema_arrow  # made anew by each look
    version = (actual.metadata or {}).get(SCHEMA_KEY, b"").decode(errors="replace")
    missing = sorted(set(schema.names) - set(actual.names))
    mistyped = [] if missing else [field.name for field in schema if not _fits(actual, field)]
    if missing or mistyped or version != str(TABLE_SCHEMA):
        file.close()
        raise RunUnreadable(
            "the file is not one that this volbench reads",
            where=str(path),
            evidence=f"schema {version or 'none'}, columns missing: {', '.join(missing) or 'none'}, "
            f"of another type: {', '.join(mistyped) or 'none'}",
            next_step="use the volbench version that wrote it",
        )
    return file


def check_table(path: Path, descriptor: int, schema: pa.Schema, descriptions: set[bytes]) -> bytes:
    """Check an open table that something else will read, whose pages that bounds itself.

    A library opens the first table of each description, and not those that are described alike.

    Args:
        descriptions: those of columns that were checked; the table's is added.

    Returns its bytes if it is small. Raises RunUnreadable as `open_table` does.
    """
    try:
        file = ParquetBytes(descriptor)
        description = _check_sizes(path, file, are_pages_checked=False)
    except (BadMetadata, OSError) as error:
        raise unreadable(path, error) from error
    if description not in descriptions:
        open_table(path, schema).close()
        descriptions.add(description)
    return file.whole


def unreadable(path: Path, error: Exception) -> VolbenchError:
    """Return what to raise for a table that is absent, cut off or of another kind."""
    return refusal_of_system(error, str(path)) or RunUnreadable(
        "the file is truncated or is not Parquet",
        where=str(path),
        evidence=str(error).splitlines()[0],
        next_step="remove its cell's directory and run `volbench resume RUN`, or take the run from a backup",
    )


def batches(path: Path, schema: pa.Schema, *, rows: int = 65_536) -> Iterator[pa.RecordBatch]:
    """Yield the table in pieces of at most `rows` rows, their values checked. Raises RunUnreadable."""
    with open_table(path, schema) as file:
        for batch in read_batches(path, file, schema.names, rows=rows):
            _check_values(batch, path)
            yield batch


def read_batches(
    path: Path, file: pq.ParquetFile, columns: Sequence[str], *, rows: int = 65_536
) -> Iterator[pa.RecordBatch]:
    """Yield columns of an open table in pieces of at most `rows` rows; memory does not grow with the table.

    Values are not checked. Raises RunUnreadable for damage in the middle.
    """
    try:
        yield from file.iter_batches(batch_size=rows, columns=list(columns))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> VolbenchError:
    """Return what to raise for a table that a library cannot read to its end."""
    evidence = str(error).splitlines()[0]
    return refusal_of_system(error, str(path)) or RunUnreadable(
        "the file is damaged", where=str(path), evidence=evidence
    )


def _check_sizes(path: Path, file: ParquetBytes, *, are_pages_checked: bool = True) -> bytes:
    """Raises RunUnreadable for a table that would take more memory or time than any that volbench writes.

    pyarrow's own view of the columns is not asked for: it ends the process for one that makes no sense.
    Returns what the footer describes without sizes.
    """
    _check_limit(path, "bytes", file.size, TABLE_BYTES_MAX)
    _check_limit(path, "bytes of metadata", file.footer_bytes(), FOOTER_BYTES_MAX)
    footer = read_footer(file, groups_max=ROW_GROUPS_MAX)
    _check_limit(path, "rows", footer.rows, ROWS_MAX)
    _check_limit(path, "row groups", len(footer.groups), ROW_GROUPS_MAX)
    pages_left = PAGES_MAX
    for number, group in enumerate(footer.groups):
        decompressed = max(group.bytes, sum(chunk.bytes for chunk in group.chunks))
        _check_limit(path, f"bytes, decompressed, in row group {number}", decompressed, GROUP_BYTES_MAX)
        for chunk in group.chunks:
            _check_limit(path, f"values of a column in row group {number}", chunk.values, VALUES_IN_GROUP_MAX)
            if are_pages_checked:
                pages_left -= _check_pages(path, file, chunk, number, pages_left)
    return footer.description


def _check_pages(path: Path, file: ParquetBytes, chunk: ColumnChunk, number: int, pages_max: int) -> int:
    """Check the pages of a column, which state their sizes once more, and return how many they are."""
    count = decompressed = 0
    for page in pages(file, chunk):
        count += 1
        decompressed += page.bytes
        if count <= pages_max and decompressed <= GROUP_BYTES_MAX and page.values <= VALUES_IN_GROUP_MAX:
            continue
        _check_limit(path, "pages", count + PAGES_MAX - pages_max, PAGES_MAX)
        _check_limit(path, f"bytes, decompressed, in row group {number}", decompressed, GROUP_BYTES_MAX)
        _check_limit(path, f"values of a column in row group {number}", page.values, VALUES_IN_GROUP_MAX)
    return count


def _check_limit(path: Path, quantity: str, amount: int, most: int) -> None:
    if amount > most:
        raise RunUnreadable(
            "the table is larger than what volbench reads",
            where=str(path),
            evidence=f"{amount:,} {quantity}, at most {most:,}",
            next_step="take the run from a copy that you trust, or leave its cell out",
        )


def check_name(path: Path, name: str) -> None:
    """Raises RunUnreadable for the name of a series or step that is longer than any that volbench writes."""
    _check_limit(path, "bytes of a name", len(name.encode("utf-8", "surrogatepass")), NAME_BYTES_MAX)


def check_series_count(path: Path, series: int, most: int) -> None:
    """Raises RunUnreadable for more series than any cell has."""
    _check_limit(path, "series", series, most)


def _fits(actual: pa.Schema, expected: pa.Field) -> bool:
    """Return whether a column is once in the file, and of the type that volbench writes.

    Names may be a dictionary.
    """
    if len(actual.get_all_field_indices(expected.name)) != 1:
        return False
    kinds = [
        getattr(kind, "value_type", kind) if pa.types.is_dictionary(kind) else kind
        for kind in (actual.field(expected.name).type, expected.type)
    ]
    return bool(kinds[0].equals(kinds[1]))


def _check_values(batch: pa.RecordBatch, path: Path) -> None:
    """Raises RunUnreadable for nulls and for numbers that are not finite: nothing that volbench writes has them."""
    for name in batch.schema.names:
        column = batch.column(name)
        flat = values_of_lists(column) if pa.types.is_list(column.type) else column
        if column.null_count or flat.null_count or (pa.types.is_floating(flat.type) and not _are_measured(flat)):
            raise damaged_values(path, name)
        if pa.types.is_string(flat.type):
            _check_limit(path, f"bytes of a name in the column {name}", _bytes_of_longest(flat), NAME_BYTES_MAX)


def _are_measured(values: pa.Array) -> bool:
    """Return whether all are numbers of at most NUMBER_MAX; none of them is null."""
    return bool((np.abs(values.to_numpy()) <= NUMBER_MAX).all())  # NaN is less than nothing


def _bytes_of_longest(texts: pa.Array) -> int:
    """Return the length of the longest text in UTF-8; none of them is null.

    By what Arrow says of where each begins: each process that reads a table would import pyarrow.compute for it.
    """
    begins = texts.buffers()[1] if len(texts) else None
    if begins is None:
        return 0
    return int(np.diff(np.frombuffer(begins, np.int32, len(texts) + 1, 4 * texts.offset)).max())


def values_of_lists(lists: pa.ListArray) -> pa.Array:
    """Return the values of all lists, none of which is null: `flatten` would import pyarrow.compute for it."""
    begin, end = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return lists.values[begin:end]


def damaged_values(path: Path, name: str) -> RunUnreadable:
    """Return what to raise for a column with values that volbench does not write."""
    evidence = f"the column {name} contains values that are not numeric, or too large to be measured"
    return RunUnreadable("the file is damaged", where=str(path), evidence=evidence)
