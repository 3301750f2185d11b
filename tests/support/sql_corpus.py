"""Statements that act, or that servers read differently, and statements that only read; and mutants of both."""

from __future__ import annotations

import json
import random
from pathlib import Path

_DIRECTORY = Path(__file__).parents[1] / "fixtures" / "sql"


def _texts(name: str) -> tuple[str, ...]:
    """The texts of a file, of all its groups."""
    read = json.loads((_DIRECTORY / name).read_text())
    return tuple(read) if isinstance(read, list) else tuple(text for group in read.values() for text in group)


ACTING = _texts("acting.json")
"""They write files and rows, call functions, lock, wait, draw from sequences, change sessions and the server."""
READING = _texts("reading.json")
PIECES = _texts("pieces.json")
"""Of expressions: literals, names, comments, operators."""
OBSCURING = (
    *(("", ""), ("/**/", ""), ("/*!50000 ", "*/"), ("/*!", "*/"), ("/*!99999 ", "*/"), ("/*!80000", "*/")),
    *(
        ("/*M!", "*/"),
        ("/*!100500 ", "*/"),
        ("\u00a0", ""),
        ("\n#\n", ""),
        ("-- \n", ""),
        ("--\t\n", ""),
        ("--", ""),
    ),
    *(("/*/ '", "*/"), ("\x0b", "\x0c"), ("/*+ ", "*/"), ("'", "'"), ("\\", ""), ("/* /* */", ""), ("$$", "$$")),
    *(("\x00", ""), ("\x1f", ""), ("'\\' ", "'"), ('"', '"'), ("`", "`"), ("(", ")"), ("{x ", "}")),
)
"""Texts to put before and after a word."""


def mutant(chosen: random.Random, sql: str) -> str:
    """The statement with some of its words wrapped, quoted, cased or divided in another way."""
    pieces = sql.split(" ")
    for _ in range(chosen.randint(1, 3)):
        at = chosen.randrange(len(pieces))
        before, after = chosen.choice(OBSCURING)
        method = chosen.random()
        if method < 0.55:
            pieces[at] = before + pieces[at] + after
        elif method < 0.75:
            pieces.insert(at, before + after)
        elif method < 0.85:
            pieces[at] = pieces[at].swapcase()
        else:
            pieces[at] = pieces[at].replace("(", f"{before}{after}(", 1)
    return chosen.choice((" ", " ", " ", "\t", "\n", "/**/")).join(pieces)
