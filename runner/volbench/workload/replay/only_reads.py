"""Whether a statement only reads."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from volbench.errors import Refused
from volbench.workload.replay.fingerprint import TOKEN, fingerprint

_READS = re.compile(
    r"\s*\(*\s*(SELECT|SHOW|EXPLAIN|WITH|USE\s+`|SET\s+SESSION\s|START\s+TRANSACTION\s+WITH\s+CONSISTENT\s+SNAPSHOT|ROLLBACK)",
    re.IGNORECASE,
)
_WRITES = re.compile(
    r"\bINTO\b|\bFOR\s+(UPDATE|SHARE)\b|\bLOCK\b|\bPROCEDURE\s+ANALYSE\b|\b(NEXT|PREVIOUS)\s+VALUE\s+FOR\b|\.\s*NEXTVAL\b"
    r"|\bANALYZE\b|\bEXPLAIN\s+(INSERT|UPDATE|DELETE|REPLACE)\b|:="
    r"|^\W*WITH\b.*\b(UPDATE|DELETE)\b",
    re.IGNORECASE,
)
_EXECUTED_COMMENT = re.compile(r"/\*M?!", re.IGNORECASE)
_SEPARATOR = re.compile(r"[^\x09-\x0d\x20-\x7e]")
"""Outside of literals and quoted names: characters that Python and a server may take for white space, or not."""
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
_CALL = re.compile(r"(?P<before>\.\s*)?(?P<name>`(?:[^`]|``)*`|[\w$]+)(?P<space>\s*)\(")
_KEYWORD_TEXT = (
    "select from where and or not xor in exists on using as by having when then else case any all some union except"
    " intersect distinct distinctrow join like rlike regexp between div mod interval over index key partition row"
    " limit offset against match binary lateral straight_join values with columns time timestamp datetime char"
    " varchar decimal dec numeric fixed float double nchar escape table sql_no_cache"
    " sql_calc_found_rows of is"
)
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())


def refuse_writes(sql: str) -> None:
    """Raise Refused for anything but one reading statement. Literals are ignored, so data cannot pose as SQL."""
    bare = fingerprint(sql)
    plain = _QUOTED.sub("`x`", bare)
    if _READS.match(bare) and not _WRITES.search(plain) and ";" not in plain and not _is_ambiguous(sql, bare):
        return
    raise Refused(
        "volbench was about to send a statement that may write to the source",
        where="source",
        evidence=" ".join(bare.split())[:200],
        next_step="leave it out; volbench sends statements only that read under every reading",
    )


def _is_ambiguous(sql: str, bare: str) -> bool:
    """Whether servers may read the text otherwise, or it calls a function that is not known to compute only."""
    if _EXECUTED_COMMENT.search(sql) or _SEPARATOR.search(TOKEN.sub("", sql)) or "\\" in TOKEN.sub("", sql):
        return True
    return any(not _computes(call) for call in _CALL.finditer(bare))


def _computes(call: re.Match[str]) -> bool:
    name = call["name"].strip("`").lower()
    is_bare = not call["name"].startswith("`") and not call["before"]
    if is_bare and (name in _KEYWORDS or name.isdigit()):
        return True
    following = call.string[call.end("name") :]
    if re.match(r"\s*\([\w`, ]*\)\s*as\s*\(", following) or re.search(
        r"[)\s]as\s+$|\)\s*$", call.string[: call.start()]
    ):
        return is_bare or not call["before"]  # names of columns, after that of a table
    builtin = _builtin().get(name)
    return not call["before"] and builtin is not None and (not builtin or (is_bare and not call["space"]))


@cache
def _builtin() -> dict[str, bool]:
    """Names of built-in functions, and whether the parser knows them only with `(` at once after the bare name."""
    text = (Path(__file__).parent / "functions.txt").read_text(encoding="ascii")
    names = " ".join(line for line in text.splitlines() if not line.startswith("#")).split()
    return {name.rstrip("!"): name.endswith("!") for name in names}
