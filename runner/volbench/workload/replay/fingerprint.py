"""Fingerprints of statements, like those of pt-fingerprint and the server's digests."""

from __future__ import annotations

import re
from functools import lru_cache

TOKEN = re.compile(
    r"""(?P<comment>/\*(?!M?!).*?(?:\*/|\Z)|(?:--(?=\s|\Z)|\#)[^\n]*)"""
    r"""|(?P<literal>'(?:[^'\\]|\\.|'')*(?:'|\Z)|"(?:[^"\\]|\\.|"")*(?:"|\Z)|\b0x[0-9a-f]+\b|\bx'[0-9a-f]*'"""
    r"""|(?<![\w`.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b|(?<![\w`])\.\d+(?:e[+-]?\d+)?\b)"""
    r"""|(?P<name>`(?:[^`]|``)*(?:`|\Z))""",
    re.IGNORECASE | re.DOTALL,
)
"""Comments, literals and quoted names, whichever begins first: each may contain what looks like the others.

An unclosed token extends to the end, so that a truncated statement shows nothing of its last value.
"""
_LIST = re.compile(r"\(\s*\?(?:\s*,\s*\?)+\s*\)")
_VALUES = re.compile(r"(\bvalues?\s*\([^()]*\))(?:\s*,\s*\([^()]*\))+", re.IGNORECASE)
_NOT_SIMPLE = re.compile(r"[\"\\#]|--|/\*|''|[xX]'")
"""Other quotes, escapes and comments, with which a quote or a number may be part of another token."""
_SIMPLE_NAMES = re.compile(r"[^`]*+(?:`\w++`[^`]*+)*\Z")
_SIMPLE_STRING = re.compile(r"'[^']+'")
_SIMPLE_NUMBER = re.compile(r"(?<![\w.'`-])\d+(?![\w.])")
_SPACE = re.compile(r"\s+")


def fingerprint(sql: str) -> str:
    """Return the statement without comments and literals, with uniform lists, in lower case except quoted names.

    Comments that a server executes (`/*!`, `/*M!`) stay.
    """
    skeleton = skeleton_of(sql)
    return _fingerprint(sql) if skeleton is None else _fingerprint_once(skeleton)


def skeleton_of(sql: str) -> str | None:
    """Return the statement without plain numbers and strings; None where they cannot be told from other tokens.

    Statements with one skeleton have one fingerprint. Workloads repeat few skeletons, so a cache has most of them.
    """
    if _NOT_SIMPLE.search(sql) is not None or ("`" in sql and _SIMPLE_NAMES.match(sql) is None):
        return None
    numberless = _SIMPLE_NUMBER.sub("0", sql)
    return _SIMPLE_STRING.sub("''", numberless) if "'" in sql else numberless


def _fingerprint(sql: str) -> str:
    shape = TOKEN.sub(_placeholder, sql)
    shape = _VALUES.sub(r"\1", _LIST.sub("(?+)", shape))
    shape = _SPACE.sub(" ", shape).strip().removesuffix(";").strip()
    if not shape.isascii():  # an identifier in another character set; a fingerprint is UTF-8
        shape = shape.encode("utf-8", "replace").decode()
    return "".join(piece if piece.startswith("`") else piece.lower() for piece in re.split(r"(`[^`]*`)", shape))


_fingerprint_once = lru_cache(maxsize=4096)(_fingerprint)


def _placeholder(match: re.Match[str]) -> str:
    if match["comment"] is not None:
        return " "
    return "?" if match["literal"] is not None else match[0]
