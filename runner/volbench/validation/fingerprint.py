"""Statements of one shape under one name, as pt-fingerprint and the server's digests have them."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"/\*(?!M?!).*?\*/|(?:--\s|#)[^\n]*", re.DOTALL)
_LITERAL = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|\b0x[0-9a-f]+\b|\bx'[0-9a-f]*'"""
    r"""|(?<![\w`.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b""",
    re.IGNORECASE,
)
_LIST = re.compile(r"\(\s*\?(?:\s*,\s*\?)+\s*\)")
_VALUES = re.compile(r"(\bvalues?\s*\([^()]*\))(?:\s*,\s*\([^()]*\))+", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


def fingerprint(sql: str) -> str:
    """The statement without comments and literals, lists of any length alike, in lower case but for quoted names.

    Comments that a server executes (`/*!`, `/*M!`) stay.
    """
    shape = _LITERAL.sub("?", _COMMENT.sub(" ", sql))
    shape = _VALUES.sub(r"\1", _LIST.sub("(?+)", shape))
    shape = _SPACE.sub(" ", shape).strip().removesuffix(";").strip()
    return "".join(part if part.startswith("`") else part.lower() for part in re.split(r"(`[^`]*`)", shape))
