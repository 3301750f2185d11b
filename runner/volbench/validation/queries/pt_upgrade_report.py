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
_MESSAGE_CHARACTERS_MAX = 240


@dataclass(frozen=True, kw_only=True)
class RowExample:
    """How the rows of one query differ; pt-upgrade prints at most three rows."""

    rows: int
    missing_rows: bool
    same_by_value: bool


@dataclass(frozen=True, kw_only=True)
class QueryClassReport:
    """One class: queries that differ by kind (at most three of each), and the message of the first."""

    identity: str
    text: str
    kinds: Mapping[str, int]
    messages: Mapping[str, str]
    row_examples: tuple[RowExample, ...]


def parse_stats(printed: str) -> dict[str, int]:
    """Return the counts at the end of the report; none in an incomplete report."""
    sections = _STATS.split(printed)
    return (
        {match["name"]: int(match["count"]) for match in _STAT.finditer(sections[-1])} if len(sections) > 1 else {}
    )


def parse_classes(printed: str) -> Iterator[QueryClassReport]:
    """Yield each class that differs, in printed order."""
    ends = list(_STATS.finditer(printed))
    for head, text in _blocks(_CLASS, printed[: ends[-1].start()] if ends else printed):
        yield _class(head["identity"], text)


def _blocks(heads: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each heading with the text below it."""
    headings = list(heads.finditer(text))
    for index, head in enumerate(headings):
        yield head, text[head.end() : headings[index + 1].start() if index + 1 < len(headings) else len(text)]


def _class(identity: str, text: str) -> QueryClassReport:
    kinds: dict[str, int] = {}
    messages: dict[str, str] = {}
    rows: list[RowExample] = []
    for head, below in _blocks(_KIND, text):
        examples = _EXAMPLE.split(below)[1:]
        kinds[head["kind"]] = int(head["count"])
        messages[head["kind"]] = _message(examples[0] if examples else "")
        if head["kind"] == "Row":
            rows += map(_row_example, examples)
    return QueryClassReport(identity=identity, text=text, kinds=kinds, messages=messages, row_examples=tuple(rows))


def _message(example: str) -> str:
    """Return the message without the query at its end, which has literals, and without an error's copy of it."""
    message, _, _ = example.strip("\n").rpartition("\n\n")
    message = re.sub(r' \[for Statement ".*?"\](?=\n|\Z)', "", message, flags=re.DOTALL)
    return " ".join(message.split())[:_MESSAGE_CHARACTERS_MAX]


def _row_example(example: str) -> RowExample:
    lines = example.splitlines()
    source_rows, candidate_rows = ([line[2:] for line in lines if line.startswith(mark)] for mark in ("< ", "> "))
    return RowExample(
        rows=sum(line.startswith("@ row ") for line in lines),
        missing_rows=any(re.fullmatch(r"@ first \d+ of \d+ missing rows", line) for line in lines),
        same_by_value=bool(source_rows)
        and len(source_rows) == len(candidate_rows)
        and all(map(_same_by_value, source_rows, candidate_rows)),
    )


def _same_by_value(source_row: str, candidate_row: str) -> bool:
    """Return whether two rows differ only in the form of numbers."""
    source_values, candidate_values = source_row.split(","), candidate_row.split(",")
    return len(source_values) == len(candidate_values) and all(map(_same_number, source_values, candidate_values))


def _same_number(source_text: str, candidate_text: str) -> bool:
    if source_text == candidate_text:
        return True
    try:
        return f"{float(source_text):.12g}" == f"{float(candidate_text):.12g}"
    except ValueError:
        return False
