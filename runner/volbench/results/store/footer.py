"""What a Parquet file says about its own size, read without a Parquet library.

A library decodes a page as large as the file asks for, and some end the process for metadata that make no sense.
So the sizes of a file that somebody else made are read first, from the Thrift compact protocol that the format
defines (https://github.com/apache/parquet-format), and a library opens the file after they were checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from volbench.results.store.thrift import BadMetadata, Struct, Structs, Value

MAGIC = b"PAR1"
FOOTER_BYTES_MAX = 16 << 20
"""10,000 row groups of five columns, at 250 bytes each, are 12 MiB."""
PAGES_MAX = 300_000
_PAGE_HEADER_BYTES = 512
_PAGE_HEADER_BYTES_MAX = 1 << 20
_WHOLE_FILE_BYTES = 64 << 10
"""Of a file that is read at once: a call for each page costs more than its bytes."""

_FOOTERS = Structs(
    {3: {}, 4: {1: {3: {5: {}, 6: {}, 7: {}, 9: {}, 11: {}}}, 2: {}, 3: {}}}, is_remainder_wanted=True
)
_PAGES = Structs({2: {}, 3: {}, 5: {1: {}}, 7: {1: {}}, 8: {1: {}}})


class ColumnChunk(NamedTuple):
    """One column of one row group, as the footer describes it; `bytes` are decompressed."""

    values: int
    bytes: int
    compressed_bytes: int
    first_page: int


class RowGroup(NamedTuple):
    """`bytes` are decompressed, of all columns."""

    rows: int
    bytes: int
    chunks: tuple[ColumnChunk, ...]


class Footer(NamedTuple):
    """The sizes that a file's footer states. None of them is checked.

    `description` has the bytes of all else that it states: columns, their types, key-values.
    """

    rows: int
    groups: tuple[RowGroup, ...]
    description: bytes


class Page(NamedTuple):
    """What a page's header states: its size decompressed, and its values (of a dictionary: its entries)."""

    bytes: int
    values: int


class ParquetBytes:
    """The bytes of an open Parquet file; a small one is read once, and is `whole`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self.whole = os.pread(descriptor, self.size, 0) if self.size <= _WHOLE_FILE_BYTES else b""

    def at(self, start: int, length: int) -> tuple[bytes, int]:
        """Return bytes and where in them `start` is; `length` of them from there, fewer at the file's end."""
        if self.whole:
            return self.whole, start
        return os.pread(self._descriptor, length, start), 0

    def footer_bytes(self) -> int:
        """Return the length of the footer, as the file's last bytes state it. Raises BadMetadata, OSError."""
        data, at = self.at(max(0, self.size - 8), 8)
        tail = data[at : at + 8]
        if self.size < 12 or tail[4:] != MAGIC:
            raise BadMetadata("the file does not end as Parquet files do")
        length = int.from_bytes(tail[:4], "little")
        if length > self.size - 12:
            raise BadMetadata("the footer is longer than the file")
        return length


def read_footer(file: ParquetBytes, *, groups_max: int) -> Footer:
    """Return the sizes in the footer of an open file; no page is read.

    Args:
        file: its footer has at most FOOTER_BYTES_MAX; ask `footer_bytes` before.
        groups_max: row groups to read; a file with more is returned without any, but with as many empty ones.

    Raises BadMetadata, OSError.
    """
    length = file.footer_bytes()
    data, at = file.at(file.size - 8 - length, length)
    metadata, _, description = _FOOTERS.read(data[at : at + length], 0)
    rows, listed = _number(metadata.get(3)), _structs(metadata.get(4))
    if len(listed) > groups_max:
        return Footer(rows, (RowGroup(rows=0, bytes=0, chunks=()),) * len(listed), description)
    groups = [
        RowGroup(
            rows=_number(group.get(3)),
            bytes=_number(group.get(2)),
            chunks=tuple([_chunk(chunk.get(3)) for chunk in _structs(group.get(1))]),
        )
        for group in listed
    ]
    return Footer(rows, tuple(groups), description)


def pages(file: ParquetBytes, chunk: ColumnChunk) -> Iterator[Page]:
    """Yield what each page's header of a chunk states, without reading the page. Raises BadMetadata, OSError."""
    at, end = chunk.first_page, chunk.first_page + chunk.compressed_bytes
    while at < end:
        header, length = _page_header(file, at)
        compressed = _number(header.get(3))
        if compressed > end - at:
            raise BadMetadata("a page is longer than its column")
        of_kind = header.get(5) or header.get(7) or header.get(8)
        yield Page(_number(header.get(2)), _number(_struct(of_kind).get(1, 0)) if of_kind else 0)
        at += length + compressed


def _page_header(file: ParquetBytes, at: int) -> tuple[Struct, int]:
    size = _PAGE_HEADER_BYTES
    while True:
        data, start = file.at(at, size)
        try:
            header, end, _ = _PAGES.read(data, start)
        except BadMetadata:
            if size >= _PAGE_HEADER_BYTES_MAX or len(data) - start < size:
                raise
            size *= 8  # with the smallest and the largest name in it
        else:
            return header, end - start


def _chunk(value: Value) -> ColumnChunk:
    metadata = _struct(value)
    pages_at = [_number(metadata[field]) for field in (9, 11) if metadata.get(field) is not None]
    return ColumnChunk(
        values=_number(metadata.get(5)),
        bytes=_number(metadata.get(6)),
        compressed_bytes=_number(metadata.get(7)),
        first_page=min((offset for offset in pages_at if offset), default=0),
    )


def _number(value: Value) -> int:
    if not isinstance(value, int) or value < 0:
        raise BadMetadata("a size is absent or is no number")
    return value


def _struct(value: Value) -> Struct:
    if not isinstance(value, dict):
        raise BadMetadata("a part of the metadata is absent")
    return value


def _structs(value: Value) -> list[Struct]:
    if not isinstance(value, list):
        raise BadMetadata("the list of row groups or columns is absent")
    return [_struct(entry) for entry in value]
