"""Text that is safe in Markdown: nothing from outside becomes markup, and what is between backticks stays code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from volbench.core.base.text import counted

ROWS_MAX = 24
LISTED_MAX = 5
SENTENCES_MAX = 12
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~!])")
_CODE = re.compile(r"(`[^`|]+`)")
_QUOTE = "'"


def first_texts(texts: Sequence[str], count: int, noun: str) -> Iterator[str]:
    """Yield the first texts, and how many further ones there are: what is left out is not hidden."""
    yield from texts[:count]
    if len(texts) > count:
        yield f"{counted(len(texts) - count, f'further {noun}')}: see report.json."


def escaped(text: str) -> str:
    """Return a text of which nothing is markup but code: within a pair of backticks nothing else can be."""
    pieces = _CODE.split(" ".join(text.split()))
    return "".join(piece if number % 2 else _without_markup(piece) for number, piece in enumerate(pieces))


def code(text: str) -> str:
    """Return a text as code, on one line and without backticks."""
    return f"`{' '.join(text.replace('`', _QUOTE).split())}`"


def fenced(lines: Sequence[str]) -> Iterable[str]:
    """Return a code block whose fence is longer than any run of backticks within."""
    ticks = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, ticks + 1)
    return (f"{fence}sh", *(" ".join(line.split()) for line in lines), fence)


def _without_markup(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("&", "&amp;").replace("@", "&#64;")
