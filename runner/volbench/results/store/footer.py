"""What a Parquet file says about its own size, read without a Parquet library.

A library decodes a page as large as the file asks for, and some end the process for metadata that make no sense.
So the sizes of a file that somebody else made are read first, from the Thrift compact protocol that the format
defines (https://github.com/apache/parquet-format), and a library opens the file after they were checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = b"PAR1"
FOOTER_BYTES_MAX = 16 << 20
"""10,000 row groups of five columns, at 250 bytes each, are 12 MiB."""
PAGES_MAX = 300_000
_PAGE_HEADER_BYTES = 512
_PAGE_HEADER_BYTES_MAX = 1 << 20
_DEPTH_MAX = 12
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_WHOLE_FILE_BYTES = 64 << 10
"""Of a file that is read at once: a call for each page costs more than its bytes."""

Fields = dict[int, "Fields"]
"""The fields of a struct that are kept, by their numbers, and what is kept of those; others are passed over."""
_FOOTER: Fields = {3: {}, 4: {1: {3: {5: {}, 6: {}, 7: {}, 9: {}, 11: {}}}, 2: {}, 3: {}}}
_PAGE: Fields = {2: {}, 3: {}, 5: {1: {}}, 7: {1: {}}, 8: {1: {}}}
Value = int | list["Value"] | dict[int, "Value"] | None
Struct = dict[int, Value]


class BadFooter(Exception):
    """The bytes are no Parquet metadata."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One column of one row group, as the footer describes it; `bytes` are decompressed."""

    values: int
    bytes: int
    compressed_bytes: int
    first_page: int


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """`bytes` are decompressed, of all columns."""

    rows: int
    bytes: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, kw_only=True)
class Footer:
    """The sizes that a file's footer states. None of them is checked."""

    rows: int
    groups: tuple[RowGroup, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a page's header states: its size decompressed, and its values (of a dictionary: its entries)."""

    bytes: int
    values: int


class ParquetBytes:
    """The bytes of an open Parquet file; a small one is read once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._whole = os.pread(descriptor, self.size, 0) if self.size <= _WHOLE_FILE_BYTES else b""

    def at(self, start: int, length: int) -> tuple[bytes, int]:
        """Return bytes and where in them `start` is; `length` of them from there, fewer at the file's end."""
        if self._whole:
            return self._whole, start
        return os.pread(self._descriptor, length, start), 0

    def footer_bytes(self) -> int:
        """Return the length of the footer, as the file's last bytes state it. Raises BadFooter, OSError."""
        data, at = self.at(max(0, self.size - 8), 8)
        tail = data[at : at + 8]
        if self.size < 12 or tail[4:] != MAGIC:
            raise BadFooter("the file does not end as Parquet files do")
        length = int.from_bytes(tail[:4], "little")
        if length > self.size - 12:
            raise BadFooter("the footer is longer than the file")
        return length


def read_footer(file: ParquetBytes, *, groups_max: int) -> Footer:
    """Return the sizes in the footer of an open file; no page is read.

    Args:
        file: its footer has at most FOOTER_BYTES_MAX; ask `footer_bytes` before.
        groups_max: row groups to read; a file with more is returned without any, but with as many empty ones.

    Raises BadFooter, OSError.
    """
    length = file.footer_bytes()
    data, at = file.at(file.size - 8 - length, length)
    metadata, _ = _Reader(data[at : at + length]).struct(0, _FOOTER)
    groups = _structs(metadata.get(4))
    if len(groups) > groups_max:
        return Footer(rows=_number(metadata.get(3)), groups=(RowGroup(rows=0, bytes=0, chunks=()),) * len(groups))
    return Footer(
        rows=_number(metadata.get(3)),
        groups=tuple(
            RowGroup(
                rows=_number(group.get(3)),
                bytes=_number(group.get(2)),
                chunks=tuple(_chunk(chunk.get(3)) for chunk in _structs(group.get(1))),
            )
            for group in groups
        ),
    )


def pages(file: ParquetBytes, chunk: Chunk) -> Iterator[Page]:
    """Yield what each page's header of a chunk states, without reading the page. Raises BadFooter, OSError."""
    at, end = chunk.first_page, chunk.first_page + chunk.compressed_bytes
    while at < end:
        header, length = _page_header(file, at)
        compressed = _number(header.get(3))
        if compressed > end - at:
            raise BadFooter("a page is longer than its column")
        kind = next((_struct(header[field]) for field in (5, 7, 8) if header.get(field) is not None), {})
        yield Page(bytes=_number(header.get(2)), values=_number(kind.get(1, 0)))
        at += length + compressed


def _page_header(file: ParquetBytes, at: int) -> tuple[Struct, int]:
    size = _PAGE_HEADER_BYTES
    while True:
        data, start = file.at(at, size)
        try:
            header, end = _Reader(data).struct(start, _PAGE)
        except BadFooter:
            if size >= _PAGE_HEADER_BYTES_MAX or len(data) - start < size:
                raise
            size *= 8  # with the smallest and the largest name in it
        else:
            return header, end - start


def _chunk(value: Value) -> Chunk:
    metadata = _struct(value)
    pages_at = [_number(metadata[field]) for field in (9, 11) if metadata.get(field) is not None]
    return Chunk(
        values=_number(metadata.get(5)),
        bytes=_number(metadata.get(6)),
        compressed_bytes=_number(metadata.get(7)),
        first_page=min((offset for offset in pages_at if offset), default=0),
    )


def _number(value: Value) -> int:
    if not isinstance(value, int) or value < 0:
        raise BadFooter("a size is absent or is no number")
    return value


def _struct(value: Value) -> Struct:
    if not isinstance(value, dict):
        raise BadFooter("a part of the metadata is absent")
    return value


def _structs(value: Value) -> list[Struct]:
    if not isinstance(value, list):
        raise BadFooter("the list of row groups or columns is absent")
    return [_struct(entry) for entry in value]


class _Reader:
    """Decodes Thrift's compact protocol; every value takes at least one byte, so the data bound the work."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def struct(self, at: int, fields: Fields, depth: int = 0) -> tuple[Struct, int]:
        """Return the wanted fields of a struct by their numbers, and where it ends. Raises BadFooter."""
        data, values, field = self._data, Struct(), 0
        try:
            while head := data[at]:
                at += 1
                if head >> 4:
                    field += head >> 4
                else:
                    field, at = self._zigzag(at)
                kind = head & 15
                if field in fields:
                    values[field], at = self._value(kind, at, fields[field], depth)
                elif kind in _INTEGERS:
                    while data[at] > 127:
                        at += 1
                    at += 1
                else:
                    at = self._end(kind, at, depth)
        except IndexError as error:
            raise BadFooter("the metadata are cut off") from error
        return values, at + 1

    def _value(self, kind: int, at: int, fields: Fields, depth: int) -> tuple[Value, int]:
        if kind in _INTEGERS:
            return self._zigzag(at)
        _check_depth(depth)  # of structs and of lists
        if kind == _STRUCT:
            return self.struct(at, fields, depth + 1)
        if kind in (_LIST, _SET):
            return self._list(at, fields, depth)
        return None, self._end(kind, at, depth)

    def _end(self, kind: int, at: int, depth: int) -> int:
        """Return where a value ends that nobody asks for."""
        if kind in _INTEGERS:
            return self._varint(at)[1]
        _check_depth(depth)
        if kind == _BINARY:
            length, at = self._varint(at)
            if length > len(self._data) - at:
                raise BadFooter("a text of the metadata is cut off")
            return at + length
        if kind == _STRUCT:
            return self.struct(at, {}, depth + 1)[1]
        if kind in (_LIST, _SET):
            return self._list_end(at, depth)
        if kind in (_TRUE, _FALSE):
            return at
        length = {_BYTE: 1, _DOUBLE: 8}.get(kind, len(self._data))
        if at + length > len(self._data):
            raise BadFooter("the metadata have a type that Parquet does not use")
        return at + length

    def _list(self, at: int, fields: Fields, depth: int) -> tuple[list[Value], int]:
        kind, count, at = self._list_head(at)
        values = list[Value]()
        value: Value
        for _ in range(count):
            if kind in (_TRUE, _FALSE):
                value, at = self._data[at], at + 1
            else:
                value, at = self._value(kind, at, fields, depth + 1)
            values.append(value)
        return values, at

    def _list_end(self, at: int, depth: int) -> int:
        kind, count, at = self._list_head(at)
        if kind in (_TRUE, _FALSE):
            return at + count
        for _ in range(count):
            at = self._end(kind, at, depth + 1)
        return at

    def _list_head(self, at: int) -> tuple[int, int, int]:
        """Return the kind of a list's values, how many they are, and where they begin."""
        head = self._data[at]
        count, at = head >> 4, at + 1
        if count == 15:
            count, at = self._varint(at)
        if count > len(self._data) - at:
            raise BadFooter("a list of the metadata is cut off")
        return head & 15, count, at

    def _varint(self, at: int) -> tuple[int, int]:
        data, value, shift = self._data, 0, 0
        while True:
            byte = data[at]
            at += 1
            if byte < 128:
                return value | byte << shift, at
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise BadFooter("a number of the metadata has too many bits")

    def _zigzag(self, at: int) -> tuple[int, int]:
        value, at = self._varint(at)
        return (value >> 1) ^ -(value & 1), at


def _check_depth(depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise BadFooter("the metadata are nested too deeply")
