"""Python 3.11.2, which Debian 12 has, matches possessive and atomic groups wrongly (CPython issue 106052).

Possessive quantifiers of one character or one class of characters are right there.
"""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "runner/volbench"
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+|\(\?>")


def test_no_group_is_possessive_or_atomic() -> None:
    lines = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if POSSESSIVE_GROUP.search(line)
    ]
    assert lines == []
