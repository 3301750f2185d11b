"""What a row of the fuzzer's table is, and functions that make one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import mutations

from volbench.errors import VolbenchError

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "fixtures"
Mutate = Callable[..., bytes]
SAMPLED = (VolbenchError, ValueError)
"""What parsers that samplers call at each tick may raise."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A reader with its real inputs.

    Args:
        read: reads a file whole; its directory is empty but for it, and may be written to.
        seeds: the inputs that damage begins from.
        share: how many of 1,000 executions are of it.
        file: the name that its file has.
        mutate: what kind of damage.
        refusals: what it may raise.
        cpu_s: of CPU time that an execution may take, and more for a large input.
    """

    name: str
    read: Callable[[Path], object]
    seeds: Callable[[], Sequence[bytes]]
    share: float
    file: str = "input.txt"
    mutate: Mutate = mutations.mutated
    refusals: tuple[type[Exception], ...] = (VolbenchError,)
    cpu_s: float = 1.0


JsonReader = partial(Reader, mutate=mutations.mutated_json)
"""A reader of JSON."""


def files(*patterns: str, bytes_max: int = 6_000) -> Callable[[], Sequence[bytes]]:
    """The beginnings of files below the project's root, whole lines of them."""

    def read() -> Sequence[bytes]:
        paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern)) if path.is_file()]
        assert paths, patterns
        return tuple(_beginning(path.read_bytes(), bytes_max) for path in paths)

    return cache(read)


def _beginning(data: bytes, bytes_max: int) -> bytes:
    return data if len(data) <= bytes_max else data[: data.rfind(b"\n", 0, bytes_max) + 1] or data[:bytes_max]


def texts(*seeds: str) -> Callable[[], Sequence[bytes]]:
    """Inputs that stand here."""
    return lambda: tuple(seed.encode() for seed in seeds)


def of_text(parse: Callable[[str], object]) -> Callable[[Path], object]:
    """A parser of text as a reader of a file; what it generates is read to its end."""

    def read(path: Path) -> None:
        consume(parse(path.read_bytes().decode("utf-8", "replace")))

    return read


def of_bytes(parse: Callable[[bytes], object]) -> Callable[[Path], object]:
    """The same for bytes."""
    return lambda path: consume(parse(path.read_bytes()))


def consume(result: object) -> None:
    """Read a generator to its end."""
    if isinstance(result, Iterator):
        for _ in result:
            pass
