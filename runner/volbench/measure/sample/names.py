"""Lists of names in samples.jsonl: each name once in a file, and each list as ranges of the names before it.

A source of the server names other statements and waits at every tick, in hundreds of lists that differ by one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from volbench.measure.sample.interface import Key

LISTS_MAX = 1_000
"""Lists that a writer knows again, of all sources; a list that it has forgotten is written once more."""


class NamesWriter:
    """Numbers lists of names, and tells the line that a list needs before its first use; names of each source."""

    def __init__(self) -> None:
        self._positions: dict[str, dict[Key, int]] = {}
        self._lists: dict[tuple[str, tuple[Key, ...]], int] = {}
        self._next = 0

    def number(self, source: str, names: tuple[Key, ...]) -> tuple[int, dict[str, Any] | None]:
        """Return the number of a list, and its line where it has not been written."""
        number = self._lists.get((source, names))
        if number is not None:
            return number, None
        if len(self._lists) >= LISTS_MAX:
            self._lists.clear()
        positions = self._positions.setdefault(source, {})
        new_names = [name for name in names if name not in positions]
        for name in new_names:
            positions[name] = len(positions)
        number = self._lists[source, names] = self._next
        self._next += 1
        ranges = _ranges([positions[name] for name in names])
        return number, {"keys": number, "source": source, "names": new_names, "of": ranges}


class NamesReader:
    """The lists of one file, as its lines give them."""

    def __init__(self) -> None:
        self._names: dict[str, list[Key]] = {}
        self._lists: dict[int, tuple[Key, ...]] = {}

    def __getitem__(self, number: int) -> tuple[Key, ...]:
        """Return a list. Raises KeyError for one that no line has given."""
        return self._lists[number]

    def add(self, line: Any) -> None:
        """Take a line of names. Raises ValueError, KeyError or TypeError for one that no writer writes."""
        number = line["keys"]
        if type(number) is not int or number != len(self._lists):
            raise ValueError("lists of names are not numbered one by one")
        new_names = [(name, entity) for name, entity in line["names"]]
        if "of" not in line:  # schema 1, in which each line has its list whole
            self._lists[number] = tuple(new_names)
            return
        names = self._names.setdefault(line["source"], [])
        names += new_names
        of_list: list[Key] = []
        for first, count in line["of"]:
            if not (first >= 0 and 0 < count <= len(names) - first) or len(of_list) + count > len(names):
                raise ValueError("a list of names that are not there, or twice")
            of_list += names[first : first + count]
        self._lists[number] = tuple(of_list)


def _ranges(positions: Sequence[int]) -> list[list[int]]:
    """Return ascending positions as ranges, each its first and how many."""
    ranges: list[list[int]] = []
    for position in positions:
        if ranges and sum(ranges[-1]) == position:
            ranges[-1][1] += 1
        else:
            ranges.append([position, 1])
    return ranges
