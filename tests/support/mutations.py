"""Damage to files as it comes about: copied while it was written, blocks of zeros after a crash, edited, hostile.

Every mutation is a pure function of a `random.Random` and its input, so that a seed names an input for ever.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

INPUT_BYTES_MAX = 50_000
NUMBERS = (
    "0",
    "-0",
    "-1",
    "1",
    "00",
    "7.5",
    ".5",
    "5.",
    "1e5",
    "1e308",
    "1e309",
    "-1e309",
    "1e-400",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "Infinity",
    "NaN",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "9" * 400,
    "9" * 5000,
    "1.2.3",
    "...",
    ".",
    "-",
    "--5",
    "+3",
    "1_000",
    "0x1f",
    "1,5",
    "1,234,567",
    "٣",
    "²",
    "½",
    "\uff11",
    "1e",
    "1e+",
    "100%",
    "5GiB",
    "-5%",
    "253402300800",
    "-62135596801",
    "1e18",
)
WORDS = (
    "",
    " ",
    "\t",
    "\x00",
    "\x1b[31m",
    "\x85",
    "\u2028",
    "\ufeff",
    "\ud800",
    "é",
    "\u202e",
    "[red]",
    "'",
    '"',
    "`",
    "\\",
    "/",
    "../../..",
    "#",
    "# ",
    "--",
    "/*",
    "*/",
    "{",
    "}",
    "[",
    "]",
    "{}",
    "[]",
    "null",
    "true",
    ":",
    "::",
    "=",
    "?",
    "&",
    "&a",
    "*a",
    "!!python/object:os.system",
    "!x",
    "|",
    ">",
    "%",
    "@",
    ",",
    ";",
    "\r",
    "\r\n",
    "\n\n",
    "TS ",
    "all",
    "Device",
    "DEV",
    "CPU",
    "tps",
    "%idle",
    "none",
    "Average:",
    "A" * 3000,
)
TIMES = (
    "0000-00-00T00:00:00",
    "9999-12-31T23:59:59.999999Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-02-30T00:00:00Z",
    "2026-01-31T25:61:61",
    "2026-01-31",
    "2026-W01-1",
    "24:00:00",
    "23:59:60",
    "99:99:99",
    "2026-01-31T14:00:00",
    "2026-01-31T14:00:00+00:00",
    "0001-01-01",
    "9999-12-31",
    "1969-12-31T23:59:59",
    "2026-01-31T14:00:00+23:59:59.999999",
    "12:00:00 AM",
    "2026-01-31T24:00:00",
)
JSON_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
    2**31,
    2**63,
    2**64,
    10**30,
    10**400,
    "",
    "x",
    "1",
    "nan",
    "\ud800",
    "\x00",
    [],
    {},
    [[]],
    [None],
    [1, 2],
    {"a": 1},
    {"": None},
    "9" * 5000,
    "2026-01-31T14:00:00Z",
    "9999-12-31T23:59:59-14:00",
    "0001-01-01T00:00:00+14:00",
    -(2**63) - 1,
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?|\d\d:\d\d:\d\d")
_TOKEN = re.compile(rb"[^\s,;:=]+")

Mutation = Callable[[random.Random, bytes], bytes]


def mutated(rng: random.Random, seeds: Sequence[bytes], kinds: Sequence[Mutation] | None = None) -> bytes:
    """One of the seeds with one to four kinds of damage."""
    data = rng.choice(seeds)
    if rng.random() < 0.05:
        return _spliced(rng, data, rng.choice(seeds))[:INPUT_BYTES_MAX]
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = rng.choice(kinds or MUTATIONS)(rng, data)[:INPUT_BYTES_MAX]
    return data


def mutated_json(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """JSON whose values, keys and lists changed but which is still JSON; at times damage to its text as well."""
    if rng.random() < 0.25:
        return mutated(rng, seeds)
    try:
        tree = json.loads(rng.choice(seeds))
    except (ValueError, RecursionError):  # a line may be damaged already
        return mutated(rng, seeds)
    for _ in range(rng.choice((1, 1, 2, 3))):
        tree = _with_another_part(rng, tree)
    return json.dumps(tree).encode()[:INPUT_BYTES_MAX]


def mutated_lines(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Objects, one a line: one of them changed."""
    lines = rng.choice(seeds).split(b"\n")
    full = [number for number, line in enumerate(lines) if line.startswith(b"{")]
    if not full or rng.random() < 0.3:
        return mutated(rng, seeds)
    for at in rng.choices(full, k=rng.choice((1, 1, 2))):
        lines[at] = mutated_json(rng, [lines[at]])
    return b"\n".join(lines)


def _with_another_part(rng: random.Random, tree: Any) -> Any:
    """The tree with one node replaced, removed or repeated; walks down by chance."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        return _with_another_value(rng, tree)
    if isinstance(tree, list) and tree and rng.random() < 0.9:
        return _with_another_element(rng, tree)
    if isinstance(tree, int | float) and not isinstance(tree, bool) and abs(tree) < 2**70 and rng.random() < 0.4:
        return rng.choice((-tree, 0, tree * 1e300, tree + 0.5, 2**64, float("nan"), -1))
    return rng.choice(JSON_VALUES)


def _with_another_value(rng: random.Random, tree: dict[str, Any]) -> dict[str, Any]:
    key, action = rng.choice(list(tree)), rng.random()
    if action < 0.1:
        return {name: value for name, value in tree.items() if name != key}
    if action < 0.15:
        return {**tree, rng.choice(("", "x", "schema", "a" * 2000, "\ud800")): rng.choice(JSON_VALUES)}
    if action < 0.2:
        return {**tree, key: tree[rng.choice(list(tree))]}
    return {**tree, key: _with_another_part(rng, tree[key])}


def _with_another_element(rng: random.Random, tree: list[Any]) -> list[Any]:
    at, action = rng.randrange(len(tree)), rng.random()
    if action < 0.1:
        return tree[:at] + tree[at + 1 :]
    if action < 0.2:
        return [*tree, tree[at]]
    return [*tree[:at], _with_another_part(rng, tree[at]), *tree[at + 1 :]]


def _span(rng: random.Random, data: bytes, length_max: int = 64) -> tuple[int, int]:
    at = rng.randrange(len(data) + 1)
    return at, min(len(data), at + rng.randint(1, length_max))


def _cut(rng: random.Random, data: bytes) -> bytes:
    """A copy of a file that was still being written."""
    return data[: rng.randrange(len(data) + 1)]


def _cut_front(rng: random.Random, data: bytes) -> bytes:
    """A log that was rotated, or the end of one."""
    return data[rng.randrange(len(data) + 1) :]


def _zeros(rng: random.Random, data: bytes) -> bytes:
    """A block that a crash never wrote."""
    at, _ = _span(rng, data)
    length = rng.choice((1, 8, 64, 512, 4096))
    return data[:at] + bytes(length) + (data[at + length :] if rng.random() < 0.7 else b"")


def _bit(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _bytes(rng: random.Random, data: bytes) -> bytes:
    at, to = _span(rng, data, 8)
    return data[:at] + rng.randbytes(rng.randint(1, 8)) + data[rng.choice((at, to)) :]


def _without(rng: random.Random, data: bytes) -> bytes:
    at, to = _span(rng, data)
    return data[:at] + data[to:]


def _repeated(rng: random.Random, data: bytes) -> bytes:
    at, to = _span(rng, data)
    return data[:at] + data[at:to] * rng.choice((2, 3, 50)) + data[to:]


def _replaced(rng: random.Random, data: bytes, pattern: re.Pattern[bytes], arguments: Sequence[str]) -> bytes:
    locations = list(pattern.finditer(data))
    if not locations:
        return data
    for choice in rng.choices(locations, k=rng.choice((1, 1, 1, 3))):
        term = rng.choice(arguments).encode("utf-8", "surrogatepass")
        if rng.random() < 0.03:
            data = data.replace(choice[0], term, 20)
        else:
            data = data[: choice.start()] + term + data[choice.end() :]
    return data


def _number(rng: random.Random, data: bytes) -> bytes:
    return _replaced(rng, data, _NUMBER, NUMBERS)


def _time(rng: random.Random, data: bytes) -> bytes:
    return _replaced(rng, data, _TIME, TIMES)


def _replace_word(rng: random.Random, data: bytes) -> bytes:
    return _replaced(rng, data, _TOKEN, (*WORDS, *NUMBERS, *TIMES))


def _inserted(rng: random.Random, data: bytes) -> bytes:
    at, _ = _span(rng, data)
    return data[:at] + rng.choice((*WORDS, *NUMBERS, *TIMES)).encode("utf-8", "surrogatepass") + data[at:]


def _swapped_words(rng: random.Random, data: bytes) -> bytes:
    locations = list(_TOKEN.finditer(data))
    if len(locations) < 2:
        return data
    first, second = sorted(rng.sample(locations, 2), key=lambda pair: pair.start())
    between = data[first.end() : second.start()]
    return data[: first.start()] + second[0] + between + first[0] + data[second.end() :]


def _lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[second])
        case 2:
            lines[at], lines[second] = lines[second], lines[at]
        case 3:
            lines[at:] = reversed(lines[at:])
        case 4:
            lines[at:at] = lines[at:second] * rng.choice((1, 2, 10))
        case _:
            lines[at] = lines[at] * rng.choice((2, 20))
    return b"\n".join(lines)


def _ends(rng: random.Random, data: bytes) -> bytes:
    """Line ends of another system, a byte order mark, or an encoding of another one."""
    match rng.randrange(5):
        case 0:
            return data.replace(b"\n", b"\r\n")
        case 1:
            return data.replace(b"\n", b"\r")
        case 2:
            return b"\xef\xbb\xbf" + data
        case 3:
            return data.decode("utf-8", "replace").encode("utf-16")
        case _:
            return data.replace(b" ", rng.choice((b"\t", b"\xa0", b"", b"\xc2\xa0")))


def _deep(rng: random.Random, data: bytes) -> bytes:
    """Nesting without an end, where a value was."""
    at, to = _span(rng, data)
    depth = rng.choice((100, 3000, 30_000))
    opening = rng.choice((b"[", b'{"a":', b"(", b"- ", b"{a: ", b"/*", b"a:\n "))
    return data[:at] + opening * depth + data[to:]


def _bomb(rng: random.Random, data: bytes) -> bytes:
    """Aliases of aliases: 10^9 values in 500 bytes."""
    levels = [b"a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    levels += [b"a%d: &a%d [%s]" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 9)]
    lines = data.split(b"\n")
    at = rng.randrange(len(lines) + 1)
    return b"\n".join([*lines[:at], *levels, *lines[at:]])


def _spliced(rng: random.Random, data: bytes, alternative: bytes) -> bytes:
    """The beginning of one file and the end of another."""
    return _cut(rng, data) + _cut_front(rng, alternative)


MUTATIONS: tuple[Mutation, ...] = (
    _cut,
    _cut,
    _cut_front,
    _zeros,
    _zeros,
    _bit,
    _bit,
    _bytes,
    _without,
    _repeated,
    _number,
    _number,
    _number,
    _number,
    _time,
    _time,
    _replace_word,
    _replace_word,
    _replace_word,
    _inserted,
    _inserted,
    _swapped_words,
    _lines,
    _lines,
    _lines,
    _ends,
    _deep,
    _bomb,
)
