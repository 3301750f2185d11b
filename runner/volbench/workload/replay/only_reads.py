"""Whether a statement only reads."""

from __future__ import annotations

import re

from volbench.errors import Refused
from volbench.workload.replay.fingerprint import fingerprint

_READS = re.compile(
    r"\s*\(*\s*(SELECT|SHOW|EXPLAIN|WITH|USE\s+`|SET\s+SESSION\s|START\s+TRANSACTION\s+WITH\s+CONSISTENT\s+SNAPSHOT|ROLLBACK)",
    re.IGNORECASE,
)
_WRITES = re.compile(
    r"\bINTO\s+(OUTFILE|DUMPFILE|@)|\bFOR\s+(UPDATE|SHARE)\b|\bLOCK\s+IN\s+SHARE\b|\bGET_LOCK\s*\("
    r"|\bANALYZE\b|\bEXPLAIN\s+(INSERT|UPDATE|DELETE|REPLACE)\b"
    r"|^\W*WITH\b.*\b(UPDATE|DELETE)\b",
    re.IGNORECASE,
)


def refuse_writes(sql: str) -> None:
    """Raise Refused for anything but one reading statement. Literals are ignored, so data cannot pose as SQL."""
    bare = fingerprint(sql)
    if _READS.match(bare) and not _WRITES.search(bare) and ";" not in bare:
        return
    raise Refused(
        "volbench was about to send a statement that may write to the source",
        where="source",
        evidence=" ".join(bare.split())[:200],
        next_step="please report this fault of volbench",
    )
