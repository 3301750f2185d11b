"""Fingerprints of statements, like those of pt-fingerprint and the server's digests."""

from __future__ import annotations

from volbench.core.sql.library import as_bytes, fingerprint_of


def fingerprint(sql: str) -> str:
    """Return the statement without comments and literals, with uniform lists, in lower case except quoted names.

    Comments that a server executes (`/*!`, `/*M!`) stay. A statement that was cut off shows nothing of its last
    value. Raises MissingPrerequisite without the lexer's library.
    """
    return fingerprint_of(as_bytes(sql), 0).decode("utf-8", "replace")
