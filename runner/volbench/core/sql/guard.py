"""Whether a statement only reads, under each reading that a server, a version or a sql_mode may have of it."""

from __future__ import annotations

from enum import IntEnum

from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.library import as_bytes, judged
from volbench.errors import Refused


class Allowed(IntEnum):
    """What a statement may be."""

    QUERY = 0
    """A query of somebody else: SELECT, WITH, TABLE, VALUES, SHOW, EXPLAIN."""
    OWN = 1
    """A query, or a statement with which volbench sets up a session that reads."""
    REPLAY = 2
    """What a replay sends to a candidate that is thrown away: data of its schemas may change, nothing else."""
    COMPARED = 3
    """A query that two servers are sent: SELECT or WITH."""


class Answer(IntEnum):
    """What the guard says of a statement."""

    PASSES = 0
    ACTS = 1
    AMBIGUOUS = 2
    """Servers, versions or sessions read it differently."""
    FAILS = 3
    """It is an error of syntax: nothing tells what was meant."""
    NO_TEXT = 4
    """It is no UTF-8."""


WHY_SKIPPED = {
    Answer.ACTS: "that do more than read",
    Answer.AMBIGUOUS: "that servers or their sql_modes read differently",
    Answer.FAILS: "whose literals or comments do not end",
    Answer.NO_TEXT: "that are no UTF-8",
}
"""Reasons for which statements are skipped, after their number."""


def judge(sql: str, allowed: Allowed = Allowed.QUERY) -> tuple[Answer, str]:
    """Return the answer and its reason, the rest of a sentence about the statement; empty where it passes.

    Raises MissingPrerequisite without the lexer's library.
    """
    answer, reason = judged(as_bytes(sql), allowed)
    return Answer(answer), reason


def refuse_writes(sql: str) -> None:
    """Raise Refused for anything but one reading statement, or one that sets up a session which reads."""
    answer, reason = judge(sql, Allowed.OWN)
    if answer is Answer.PASSES:
        return
    raise Refused(
        f"a statement is not sent to the source: it {reason}",
        where="source",
        evidence=fingerprint(sql)[:200],
        next_step="leave it out; volbench sends what only reads under each reading of servers, versions and modes",
    )
