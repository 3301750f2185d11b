"""The report that pt-upgrade prints: its classes of queries with their differences, and its counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_CLASS = re.compile(r"^#{72}\n# Query class (?P<identity>[0-9A-F]{16})\n#{72}\n", re.MULTILINE)
_KIND = re.compile(
    r"^##\n## (?P<kind>Row|Warning|Query time|Query errors|SQL errors)(?: diffs)?: (?P<count>[0-9]{1,18})\n##\n",
    re.MULTILINE,
)
_STATS = re.compile(r"^#-{71}\n# Stats\n#-{71}\n", re.MULTILINE)
_STAT = re.compile(r"^(?P<name>[a-z_]+) +(?P<count>[0-9]{1,18})$", re.MULTILINE)
_EXAMPLE = re.compile(r"^-- \d+\.\n", re.MULTILINE)
_WORDS_MAX = 240


@dataclass(frozen=True, kw_only=True)
class RowExample:
    """How one query's rows differ: at most three rows of it are printed."""

    rows: int
    missing_rows: bool
    same_by_value: bool


@dataclass(frozen=True, kw_only=True)
class ClassSaid:
    """One class: how many queries differ by kind (three of each at most), and the words of the first."""

    identity: str
    text: str
    kinds: Mapping[str, int]
    words: Mapping[str, str]
    row_examples: tuple[RowExample, ...]


def stats_said(printed: str) -> dict[str, int]:
    """Its own counts, which are printed last; none when it did not come so far."""
    parts = _STATS.split(printed)
    return {found["name"]: int(found["count"]) for found in _STAT.finditer(parts[-1])} if len(parts) > 1 else {}


def classes_said(printed: str) -> Iterator[ClassSaid]:
    """Each class that differs, in the order in which they are printed."""
    ends = list(_STATS.finditer(printed))
    for head, text in _blocks(_CLASS, printed[: ends[-1].start()] if ends else printed):
        yield _class(head["identity"], text)


def _blocks(heads: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each heading with what stands below it."""
    found = list(heads.finditer(text))
    for at, head in enumerate(found):
        yield head, text[head.end() : found[at + 1].start() if at + 1 < len(found) else len(text)]


def _class(identity: str, text: str) -> ClassSaid:
    kinds: dict[str, int] = {}
    words: dict[str, str] = {}
    rows: list[RowExample] = []
    for head, below in _blocks(_KIND, text):
        examples = _EXAMPLE.split(below)[1:]
        kinds[head["kind"]] = int(head["count"])
        words[head["kind"]] = _words(examples[0] if examples else "")
        if head["kind"] == "Row":
            rows += map(_row_example, examples)
    return ClassSaid(identity=identity, text=text, kinds=kinds, words=words, row_examples=tuple(rows))


def _words(example: str) -> str:
    """Without the query, which stands last and has literals; and without the one that an error repeats."""
    said, _, _ = example.strip("\n").rpartition("\n\n")
    said = re.sub(r' \[for Statement ".*?"\](?=\n|\Z)', "", said, flags=re.DOTALL)
    return " ".join(said.split())[:_WORDS_MAX]


def _row_example(example: str) -> RowExample:
    lines = example.splitlines()
    ours, theirs = ([line[2:] for line in lines if line.startswith(mark)] for mark in ("< ", "> "))
    return RowExample(
        rows=sum(line.startswith("@ row ") for line in lines),
        missing_rows=any(re.fullmatch(r"@ first \d+ of \d+ missing rows", line) for line in lines),
        same_by_value=bool(ours) and len(ours) == len(theirs) and all(map(_same_by_value, ours, theirs)),
    )


def _same_by_value(ours: str, theirs: str) -> bool:
    """Whether two rows differ only in how numbers are printed."""
    left, right = ours.split(","), theirs.split(",")
    return len(left) == len(right) and all(map(_same_number, left, right))


def _same_number(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    try:
        return f"{float(ours):.12g}" == f"{float(theirs):.12g}"
    except ValueError:
        return False
