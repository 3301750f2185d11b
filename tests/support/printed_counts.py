"""Counts such as `20 of 21` that pages and docstrings print, and sentences that they stand in."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNT = re.compile(
    r"(?<![\w.,/\[^-])(?P<smaller>\d+(?:,\d{3})*) of (?:(?:the|their|its|these|those|all) )*"
    r"(?P<larger>\d+(?:,\d{3})*)"
    r"(?![\d.]*\d|[\w%/*-]| ?(?:%|ms|s|min|KB|MB|GB|KiB|MiB|GiB|TiB|IOPS)\b| (?:January|February|March|April|May"
    r"|June|July|August|September|October|November|December)\b)"
)
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\([^)]*\)")


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A count in a text: where it is, and the text around it."""

    start: int
    end: int
    text: str


def plain(text: str) -> str:
    """Return a page's sentences in one line, without code blocks, marks and addresses of links."""
    text = _LINK.sub("]", _CODE.sub(" ", text))
    return " ".join(text.replace("**", "").replace("[", "").replace("]", "").replace("`", "").split())


def counts_of(text: str) -> Iterator[Printed]:
    """Yield the counts of a text that `plain` gave."""
    for match in COUNT.finditer(text):
        smaller, larger = (int(match[name].replace(",", "")) for name in ("smaller", "larger"))
        if smaller <= larger:
            around = text[max(0, match.start() - 60) : match.end() + 60]
            yield Printed(start=match.start(), end=match.end(), text=around)


def tracked(pattern: str) -> list[str]:
    """Return the repository's files of a pattern of git."""
    done = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def pattern_of(text: str) -> re.Pattern[str]:
    """Return what finds a sentence: `#` stands for a number, `…` for anything in between."""
    escaped = re.escape(plain(text)).replace(r"\#", r"[\d,.]+").replace("\\…", "…").replace("…", r".*?")
    return re.compile(escaped)
