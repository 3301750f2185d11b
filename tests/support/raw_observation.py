"""Figures of an observation computed from the lines of its ring, with nothing of volbench."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median

Counters = dict[tuple[str, str], float]


def ticks(directory: Path) -> dict[int, Counters]:
    """Number of a tick -> source and name -> counter, summed over entities."""
    result: dict[int, Counters] = {}
    for line, keys in _named_lines(directory):
        for source, (_, number, values) in line.get("read", {}).items():
            counters = result.setdefault(line["tick"], {})
            for (name, _), value in zip(keys[number], values, strict=True):
                counters[source, name] = counters.get((source, name), 0.0) + value
    return result


def _named_lines(directory: Path) -> Iterator[tuple[dict, dict[int, list[list[str]]]]]:  # type: ignore[type-arg]
    """Yield each line with the names that it may refer to: a set of keys is pieces of its source's names."""
    for path in sorted(directory.glob("ring/*.jsonl")):
        names: dict[str, list[list[str]]] = {}
        keys: dict[int, list[list[str]]] = {}
        for line in map(json.loads, path.read_text().splitlines()):
            if "keys" in line:
                of_source = names.setdefault(line["source"], [])
                of_source += line["names"]
                pieces = (of_source[start : start + count] for start, count in line["of"])
                keys[line["keys"]] = [name for piece in pieces for name in piece]
            yield line, keys


def digest_readings(directory: Path) -> dict[int, dict[str, dict[str, float]]]:
    """Tick of each reading of digests -> text of a statement -> by how much its counters grew."""
    result: dict[int, dict[str, dict[str, float]]] = {}
    for line, keys in _named_lines(directory):
        if "digests" in line.get("read", {}):
            _, number, values = line["read"]["digests"]
            texts = dict(entity.split(" ", 1) for name, entity in keys[number] if name == "digest_text")
            of_tick = result.setdefault(line["tick"], {})
            for (name, entity), value in zip(keys[number], values, strict=True):
                if name != "digest_text":
                    of_tick.setdefault(texts[entity], {})[name] = value
    return result


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
