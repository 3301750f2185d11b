"""Figures of an observation computed from the lines of its ring, with nothing of volbench."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median

Counters = dict[tuple[str, str], float]


def ticks(directory: Path) -> dict[int, Counters]:
    """Number of a tick -> source and name -> counter, summed over entities."""
    keys: dict[int, list[list[str]]] = {}
    result: dict[int, Counters] = {}
    for line in _lines(directory):
        if "keys" in line:
            keys[line["keys"]] = line["names"]
        for source, (_, number, values) in line.get("read", {}).items():
            counters = result.setdefault(line["tick"], {})
            for (name, _), value in zip(keys[number], values, strict=True):
                counters[source, name] = counters.get((source, name), 0.0) + value
    return result


def _lines(directory: Path) -> Iterator[dict]:  # type: ignore[type-arg]
    for path in sorted(directory.glob("ring/*.jsonl")):
        yield from map(json.loads, path.read_text().splitlines())


def statement_ms(counters: dict[int, Counters], first: int, last: int) -> float:
    """Mean of the statements that ended in the ticks from `first` to `last`, from counters of the server, ms."""
    begin, end = counters[first - 1], counters[last]
    count = end["performance_schema", "statements"] - begin["performance_schema", "statements"]
    return (end["performance_schema", "statement_ps"] - begin["performance_schema", "statement_ps"]) / 1e9 / count


def per_second(counters: dict[int, Counters], first: int, last: int, *, source: str, name: str) -> float:
    """Median of a counter's increments in the ticks from `first` to `last`."""
    return median(
        counters[tick][source, name] - counters[tick - 1][source, name] for tick in range(first, last + 1)
    )


def seconds_without_writes(counters: dict[int, Counters], first: int, last: int) -> int:
    """Ticks in which the volume completed no write."""
    name = ("diskstats", "writes")
    return sum(counters[tick][name] == counters[tick - 1][name] for tick in range(first, last + 1))
