"""Thrift's compact protocol, as far as Parquet's metadata use it (https://github.com/apache/parquet-format).

Files of one kind have metadata of few layouts: numbers and smallest and largest values differ, fields do not. So a
layout that was decoded becomes a regular expression, which matches exactly what the decoder would read alike.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_DEPTH_MAX = 12
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_LAYOUTS_MAX = 16
"""Those that matched last."""
_LEARNT_MAX = 64
_LAYOUT_BYTES_MAX = 8_192
_DECODED_FIRST = 8
"""Structs that are decoded before a layout is learnt: it costs some milliseconds."""
_VARINT = rb"[\x80-\xff]{0,8}[\x00-\x7f]"

Fields = dict[int, "Fields"]
"""The wanted fields of a struct, by their numbers, and what is wanted of those; others are passed over."""
Value = int | list["Value"] | dict[int, "Value"] | None
Struct = dict[int, Value]


class BadMetadata(Exception):
    """The bytes are no Parquet metadata."""


class ThriftStruct(NamedTuple):
    """The wanted fields of a struct by their numbers, where it ends, and the bytes of its other fields."""

    values: Struct
    end: int
    remainder: bytes


class _Layout(NamedTuple):
    """A regular expression of structs of one layout; `values` has the number of a group for each number."""

    pattern: re.Pattern[bytes]
    values: Struct
    remainder: bytes


class Structs:
    """Reads structs of one type, and learns their layouts.

    Args:
        fields: those that are wanted.
        is_remainder_wanted: whether the bytes of other fields are returned; they are then a part of the layout.
    """

    def __init__(self, fields: Fields, *, is_remainder_wanted: bool = False) -> None:
        self._fields, self._is_remainder_wanted = fields, is_remainder_wanted
        self._layouts: list[_Layout] = []
        self._decoded = self._learnt = 0

    def read(self, data: bytes, at: int) -> ThriftStruct:
        """Return what is wanted of the struct that begins at a place. Raises BadMetadata."""
        for layout in self._layouts:
            if match := layout.pattern.match(data, at):
                if layout is not self._layouts[0]:
                    self._layouts = [layout, *(entry for entry in self._layouts if entry is not layout)]
                numbers = [_number(text) for text in match.groups()]
                return ThriftStruct(_filled(layout.values, numbers), match.end(), layout.remainder)
        decoder = _Decoder(data)
        values, end = decoder.struct(at, self._fields)
        remainder = decoder.remainder(at, self._fields) if self._is_remainder_wanted else b""
        self._decoded += 1
        if self._decoded > _DECODED_FIRST and self._learnt < _LEARNT_MAX and end - at <= _LAYOUT_BYTES_MAX:
            self._learnt += 1
            layout = _Learner(data, self._fields, self._is_remainder_wanted).layout(at)
            self._layouts = [layout, *self._layouts[: _LAYOUTS_MAX - 1]]
        return ThriftStruct(values, end, remainder)


def _number(text: bytes) -> int:
    value = 0
    for byte in reversed(text):
        value = value << 7 | byte & 127
    return (value >> 1) ^ -(value & 1)


def _filled(template: Struct, numbers: list[int]) -> Struct:
    return {field: _filled_value(value, numbers) for field, value in template.items()}


def _filled_value(template: Value, numbers: list[int]) -> Value:
    if isinstance(template, int):
        return numbers[template]
    if isinstance(template, dict):
        return _filled(template, numbers)
    return None if template is None else [_filled_value(value, numbers) for value in template]


class _Learner:
    """Makes a layout of a struct that the decoder has read."""

    def __init__(self, data: bytes, fields: Fields, is_remainder_wanted: bool) -> None:
        self._data, self._fields, self._decoder = data, fields, _Decoder(data)
        self._is_remainder_wanted = is_remainder_wanted
        self._parts: list[bytes] = []
        self._groups = 0

    def layout(self, at: int) -> _Layout:
        """Return the layout of the struct that begins at a place."""
        remainder = self._decoder.remainder(at, self._fields) if self._is_remainder_wanted else b""
        values, _ = self._struct(at, self._fields, is_remainder_wanted=self._is_remainder_wanted)
        return _Layout(re.compile(b"".join(self._parts), re.DOTALL), values, remainder)

    def _struct(self, at: int, fields: Fields | None, *, is_remainder_wanted: bool = False) -> tuple[Struct, int]:
        values, field = Struct(), 0
        while self._data[at]:
            field, kind, begin = self._decoder.field(at, field)
            self._exactly(at, begin)
            subfields = None if fields is None else fields.get(field)
            if subfields is None and is_remainder_wanted:
                at = self._decoder.end(kind, begin, 0)
                self._exactly(begin, at)
                continue
            value, at = self._value(kind, begin, subfields)
            if subfields is not None:
                values[field] = value
        self._exactly(at, at + 1)
        return values, at + 1

    def _value(self, kind: int, at: int, subfields: Fields | None) -> tuple[Value, int]:
        if kind == _STRUCT:
            return self._struct(at, subfields)
        if kind in (_LIST, _SET):
            return self._list(at, subfields)
        end = self._decoder.end(kind, at, 0)
        if kind not in _INTEGERS:
            self._exactly(at, end) if kind != _BINARY else self._text(at)
            return None, end
        if subfields is None:
            self._parts.append(_VARINT)
            return None, end
        self._parts.append(b"(" + _VARINT + b")")
        self._groups += 1
        return self._groups - 1, end

    def _list(self, at: int, subfields: Fields | None) -> tuple[Value, int]:
        kind, count, begin = self._decoder.list_head(at)
        self._exactly(at, begin)
        if kind in (_TRUE, _FALSE):
            self._exactly(begin, begin + count)
            return None, begin + count
        at, values = begin, list[Value]()
        for _ in range(count):
            value, at = self._value(kind, at, subfields)
            values.append(value)
        return values, at

    def _text(self, at: int) -> None:
        length, begin = self._decoder.varint(at)
        self._exactly(at, begin)
        self._parts.append(b".{%d}" % length)

    def _exactly(self, begin: int, end: int) -> None:
        self._parts.append(re.escape(self._data[begin:end]))


class _Decoder:
    """Decodes Thrift's compact protocol; every value takes at least one byte, so the data bound the work."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def struct(self, at: int, fields: Fields, depth: int = 0) -> tuple[Struct, int]:
        """Return the wanted fields of a struct by their numbers, and where it ends. Raises BadMetadata."""
        data, values, field = self._data, Struct(), 0
        try:
            while head := data[at]:
                at += 1
                if head >> 4:
                    field += head >> 4
                else:
                    field, at = self.zigzag(at)
                kind = head & 15
                if field in fields:
                    values[field], at = self._value(kind, at, fields[field], depth)
                else:
                    at = self.end(kind, at, depth)
        except IndexError as error:
            raise BadMetadata("the metadata are cut off") from error
        return values, at + 1

    def field(self, at: int, before: int) -> tuple[int, int, int]:
        """Return the number and kind of the field that begins at a place, and where its value begins."""
        head = self._data[at]
        if head >> 4:
            return before + (head >> 4), head & 15, at + 1
        number, begin = self.zigzag(at + 1)
        return number, head & 15, begin

    def remainder(self, at: int, fields: Fields) -> bytes:
        """Return the bytes of all fields that are not wanted of a struct that was read."""
        field, values = 0, list[bytes]()
        while self._data[at]:
            field, kind, begin = self.field(at, field)
            end = self.end(kind, begin, 0)
            if field not in fields:
                values.append(self._data[at:end])
            at = end
        return b"".join(values)

    def _value(self, kind: int, at: int, fields: Fields, depth: int) -> tuple[Value, int]:
        if kind in _INTEGERS:
            return self.zigzag(at)
        _check_depth(depth)  # of structs and of lists
        if kind == _STRUCT:
            return self.struct(at, fields, depth + 1)
        if kind in (_LIST, _SET):
            return self._list(at, fields, depth)
        return None, self.end(kind, at, depth)

    def end(self, kind: int, at: int, depth: int) -> int:
        """Return where a value ends that nobody asks for."""
        if kind in _INTEGERS:
            return self.varint(at)[1]
        _check_depth(depth)
        if kind == _BINARY:
            length, at = self.varint(at)
            if length > len(self._data) - at:
                raise BadMetadata("a text of the metadata is cut off")
            return at + length
        if kind == _STRUCT:
            return self.struct(at, {}, depth + 1)[1]
        if kind in (_LIST, _SET):
            return self._list_end(at, depth)
        if kind in (_TRUE, _FALSE):
            return at
        length = {_BYTE: 1, _DOUBLE: 8}.get(kind, len(self._data))
        if at + length > len(self._data):
            raise BadMetadata("the metadata have a type that Parquet does not use")
        return at + length

    def _list(self, at: int, fields: Fields, depth: int) -> tuple[Value, int]:
        kind, count, at = self.list_head(at)
        if kind in (_TRUE, _FALSE):
            return None, at + count
        values = list[Value]()
        for _ in range(count):
            value, at = self._value(kind, at, fields, depth + 1)
            values.append(value)
        return values, at

    def _list_end(self, at: int, depth: int) -> int:
        kind, count, at = self.list_head(at)
        if kind in (_TRUE, _FALSE):
            return at + count
        for _ in range(count):
            at = self.end(kind, at, depth + 1)
        return at

    def list_head(self, at: int) -> tuple[int, int, int]:
        """Return the kind of a list's values, how many they are, and where they begin."""
        head = self._data[at]
        count, at = head >> 4, at + 1
        if count == 15:
            count, at = self.varint(at)
        if count > len(self._data) - at:
            raise BadMetadata("a list of the metadata is cut off")
        return head & 15, count, at

    def varint(self, at: int) -> tuple[int, int]:
        data, value, shift = self._data, 0, 0
        while True:
            byte = data[at]
            at += 1
            if byte < 128:
                return value | byte << shift, at
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise BadMetadata("a number of the metadata has too many bits")

    def zigzag(self, at: int) -> tuple[int, int]:
        value, at = self.varint(at)
        return (value >> 1) ^ -(value & 1), at


def _check_depth(depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise BadMetadata("the metadata are nested too deeply")
