"""Changes of values within their types, as a file may have them that is well formed and wrong.

Every change is a pure function of a `random.Random` and the seeds: numbers stay numbers of their kind, texts stay
texts, lists stay lists; names are exchanged for others of the same file, and keys are left out.
"""

from __future__ import annotations

import io
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from ruamel.yaml import YAML

from structured.edges import REAL, TEXTS, WHOLE

BYTES_MAX = 400_000
_REPEATS = (2, 3, 50, 500)
Tree = Any
Path = tuple[str | int, ...]


def typed_json(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a document of JSON with one to four values changed within their types."""
    return _with_json(rng, rng.choice(seeds))


def typed_lines(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return lines of JSON: some with changed values, or lines left out, repeated, exchanged or reversed."""
    lines = rng.choice(seeds).split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        full = [number for number, line in enumerate(lines) if line[:1] in (b"{", b"[")]
        if full and rng.random() < 0.7:
            at = rng.choice(full)
            lines[at] = _with_json(rng, lines[at])
        else:
            lines = _other_order(rng, lines)
    return b"\n".join(lines)[:BYTES_MAX]


def _with_json(rng: random.Random, data: bytes) -> bytes:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return data
    return json.dumps(_changed(rng, tree, rng.choice((1, 1, 1, 2, 3, 4)))).encode()[:BYTES_MAX]


def typed_yaml(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a document of YAML with one to four values changed within their types."""
    yaml = YAML(typ="safe", pure=True)
    data = rng.choice(seeds)
    try:
        tree = yaml.load(io.BytesIO(data))
    except Exception:  # noqa: BLE001 - the beginning of a document may be none
        return data
    if not isinstance(tree, dict | list):
        return data
    tree = _changed(rng, tree, rng.choice((1, 1, 1, 2, 3, 4)))
    return json.dumps(tree, default=str).encode()[:BYTES_MAX]  # JSON is YAML, and keeps every character


def _changed(rng: random.Random, tree: Tree, times: int) -> Tree:
    for _ in range(times):
        tree = _one_change(rng, tree)
    return tree


def _leaves(tree: Tree, path: Path = ()) -> list[tuple[Path, Tree]]:
    results = [(path, tree)]
    if isinstance(tree, dict):
        for key, value in tree.items():
            results += _leaves(value, (*path, key))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            results += _leaves(value, (*path, number))
    return results


def _one_change(rng: random.Random, tree: Tree) -> Tree:
    """Return the tree with another value at one place, at all places of its kind, or without it."""
    every = _leaves(tree)
    by_shape: dict[Path, list[Path]] = {}
    for path, _ in every[1:]:
        by_shape.setdefault(tuple("*" if isinstance(key, int) else key for key in path), []).append(path)
    if not by_shape:
        return tree
    shape = rng.choice(list(by_shape))  # a list of a thousand rows is no more than one key
    path = rng.choice(by_shape[shape])
    values = dict(every)
    action = rng.random()
    if action < 0.08:
        return _replaced(tree, path, None, remove=True)
    if action < 0.16:
        same = [value for alternative, value in every if type(value) is type(values[path]) and alternative != path]
        return _replaced(tree, path, rng.choice(same)) if same else tree
    value = _another(rng, values[path])
    paths = by_shape[shape] if action > 0.85 else [path]
    for each in paths[:200]:
        tree = _replaced(tree, each, value)
    return tree


def _replaced(tree: Tree, path: Path, value: Tree, *, remove: bool = False) -> Tree:
    key, remainder = path[0], path[1:]
    if isinstance(tree, dict):
        if key not in tree:
            return tree
        if remove and not remainder:
            return {name: piece for name, piece in tree.items() if name != key}
        return {**tree, key: _replaced(tree[key], remainder, value, remove=remove) if remainder else value}
    if not isinstance(tree, list) or not isinstance(key, int) or key >= len(tree):
        return tree
    if remove and not remainder:
        return tree[:key] + tree[key + 1 :]
    return [
        *tree[:key],
        _replaced(tree[key], remainder, value, remove=remove) if remainder else value,
        *tree[key + 1 :],
    ]


def _another(rng: random.Random, value: Tree) -> Tree:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((rng.choice(WHOLE), rng.choice(WHOLE), -value, value + 1, value - 1, value * 1000))
    if isinstance(value, float):
        total = round(value) if math.isfinite(value) else 0
        return rng.choice((rng.choice(REAL), rng.choice(REAL), -value, value * 1e6, value * 1e-6, total))
    if isinstance(value, str):
        return rng.choice(TEXTS) if rng.random() < 0.75 else value + rng.choice(TEXTS)
    if isinstance(value, list):
        return _another_list(rng, value)
    return _another_object(rng, value) if isinstance(value, dict) else rng.choice((0, 1.5, "x", [], {}))


def _another_list(rng: random.Random, value: list[Tree]) -> list[Tree]:
    match rng.randrange(5):
        case 0:
            return []
        case 1:
            return value[::-1]
        case 2:
            return value[: len(value) // 2]
        case 3 if value:
            return [*value, rng.choice(value)]
        case _:
            return (value * rng.choice(_REPEATS))[:2_000]


def _another_object(rng: random.Random, value: dict[str, Tree]) -> dict[str, Tree]:
    if not value:
        return {rng.choice(TEXTS): 1}
    key = rng.choice(list(value))
    match rng.randrange(4):
        case 0:
            return {}
        case 1:
            return {(rng.choice(TEXTS) if name == key else name): piece for name, piece in value.items()}
        case 2:
            second = rng.choice(list(value))
            return {**value, key: value[second], second: value[key]}
        case _:
            return {**value, rng.choice(TEXTS): value[key]}


# Text of other programs


_NUMBER = re.compile(rb"(?<![\w.])-?\d+(\.\d+)?(?![\w.]|:\d)")
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d")
_TOKEN = re.compile(rb"[A-Za-z_][\w/%.-]*")
_WHOLE_TEXT = tuple(str(number).encode() for number in WHOLE)
_REAL_TEXT = (
    b"0.00",
    b"-1.00",
    b"0.01",
    b"99999999.99",
    b"100000000000000000000.00",
    b"1.50",
    b"100.00",
    b"1" * 300 + b".0",
)


def typed_text(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return text of another program: other numbers, other words, lines in another order."""
    data = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        match rng.randrange(6):
            case 0 | 1:
                data = _number_in(rng, data)
            case 2:
                data = _word_in(rng, data)
            case 3:
                data = _clock_in(rng, data)
            case 4:
                data = b"\n".join(_other_order(rng, data.split(b"\n")))
            case _:
                data = _column_in(rng, data)
    return data[:BYTES_MAX]


def _number_in(rng: random.Random, data: bytes) -> bytes:
    locations = list(_NUMBER.finditer(data))
    if not locations:
        return data
    for location in sorted(
        rng.sample(locations, min(len(locations), rng.choice((1, 1, 3, 20)))), key=lambda pair: -pair.start()
    ):
        new = rng.choice(_REAL_TEXT if location[1] else _WHOLE_TEXT)
        data = data[: location.start()] + new + data[location.end() :]
    return data


def _word_in(rng: random.Random, data: bytes) -> bytes:
    locations = list(_TOKEN.finditer(data))
    if not locations:
        return data
    location = rng.choice(locations)
    new = rng.choice(locations)[0] if rng.random() < 0.5 else rng.choice(TEXTS).encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        return data.replace(location[0], new, 50)
    return data[: location.start()] + new + data[location.end() :]


def _clock_in(rng: random.Random, data: bytes) -> bytes:
    """Equal stamps, and times out of order."""
    locations = list(_CLOCK.finditer(data))
    if len(locations) < 2:
        return _number_in(rng, data)
    location, second = rng.sample(locations, 2)
    if rng.random() < 0.2:
        return _CLOCK.sub(second[0], data)
    return data[: location.start()] + second[0] + data[location.end() :]


def _column_in(rng: random.Random, data: bytes) -> bytes:
    """A column with one number in all of its lines: no variance, a zero denominator."""
    lines = data.split(b"\n")
    tabled = [number for number, line in enumerate(lines) if len(_NUMBER.findall(line)) > 2]
    if not tabled:
        return _number_in(rng, data)
    at = rng.randrange(len(_NUMBER.findall(lines[rng.choice(tabled)])))
    new = {False: rng.choice(_WHOLE_TEXT), True: rng.choice(_REAL_TEXT)}
    for number in tabled:
        locations = list(_NUMBER.finditer(lines[number]))
        if at < len(locations):
            location, line = locations[at], lines[number]
            lines[number] = line[: location.start()] + new[location[1] is not None] + line[location.end() :]
    return b"\n".join(lines)


def _other_order(rng: random.Random, lines: list[bytes]) -> list[bytes]:
    if not lines:
        return lines
    at, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    line, remainder = lines[at], lines[at + 1 :]
    orders = (
        [*lines[:at], *remainder],
        [*lines[:at], lines[second], line, *remainder],
        [*lines[:at], *lines[at:][::-1]],
        lines[:at],
        [*lines[:at], *[line] * rng.choice(_REPEATS), *remainder],
        [{at: lines[second], second: line}.get(number, text) for number, text in enumerate(lines)],
    )
    return rng.choice(orders)


# Parquet


_INTEGERS = (0, 1, -1, 2, 4095, 4096, 2**31 - 1, -(2**31), 2**40, 2**50, 2**62, 2**63 - 1)


@cache
def _table(data: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(data))


def typed_table(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a table with other values of the columns' types, in one row, in all, or in another order."""
    table = _table(rng.choice(seeds))
    metadata = table.schema.metadata
    for _ in range(rng.choice((1, 1, 2, 3))):
        with suppress(pa.ArrowException, IndexError, TypeError, ValueError, OverflowError):  # of another type
            table = _another_table(rng, table)
    file = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), file)
    return file.getvalue()


def _another_table(rng: random.Random, table: pa.Table) -> pa.Table:
    if not len(table):
        return table
    match rng.randrange(6):
        case 0:
            return table.take(rng.sample(range(len(table)), len(table)))
        case 1:
            return table.slice(0, rng.randrange(len(table)))
        case 2:
            return pa.concat_tables([table] * rng.choice((2, 3)))
    name = rng.choice(table.schema.names)
    field = table.schema.field(name)
    values = table.column(name).to_pylist()
    new = _of_kind(rng, field.type, values)
    rows = (
        range(len(values))
        if rng.random() < 0.3
        else [rng.randrange(len(values)) for _ in range(rng.choice((1, 1, 5)))]
    )
    for row in rows:
        values[row] = new
    column = pa.array(values, type=pa.string() if pa.types.is_dictionary(field.type) else field.type)
    if pa.types.is_dictionary(field.type):
        column = column.dictionary_encode()
    return table.set_column(table.schema.get_field_index(name), field, column)


def _of_kind(rng: random.Random, kind: pa.DataType, values: Sequence[Tree]) -> Tree:
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_integer(kind):
        fitting = [number for number in _INTEGERS if abs(number) < 2 ** (kind.bit_width - 1)]
        return rng.choice(fitting)
    if pa.types.is_floating(kind):
        return rng.choice((*REAL, float("nan"), float("inf"), -float("inf")))
    if pa.types.is_list(kind):
        length = len(rng.choice(values))
        return [_of_kind(rng, kind.value_type, ()) for _ in range(rng.choice((0, 1, length, length)))]
    second = str(rng.choice(values))
    return rng.choice((second, rng.choice([text for text in TEXTS if text.isprintable()]), "client", "server"))


Mutate = Callable[[random.Random, Sequence[bytes]], bytes]
