"""Slow logs without their data: each literal under a pseudonym, so that equal values stay equal, and no more."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from volbench.validation.fingerprint import TOKEN
from volbench.validation.slowlog import LoggedStatement


def masked(statements: Iterable[LoggedStatement], *, key: bytes | None = None) -> Iterator[str]:
    """The lines of a slow log in Percona Server's form: times, connections and shapes as they were, users left out.

    Args:
        key: of the pseudonyms; a random one that nobody keeps, if left out, so that they cannot be tried out.
    """
    key = key or secrets.token_bytes(32)
    for one in statements:
        yield f"# Time: {_iso(one.at_s + one.query_s)}\n"
        yield f"# User@Host: app[app] @ masked []  Id: {one.connection}\n"
        if one.schema is not None:  # as Percona Server does: `use` could not say that there is none
            yield f"# Schema: {one.schema}  Last_errno: 0  Killed: 0\n"
        yield (
            f"# Query_time: {one.query_s:.6f}  Lock_time: {one.lock_s:.6f} Rows_sent: {one.rows_sent}  "
            f"Rows_examined: {one.rows_examined}\n"
        )
        if one.routine:
            yield f"# Stored_routine: {one.routine}\n"
        yield f"SET timestamp={one.at_s:.6f};\n"
        yield f"{masked_sql(one.sql, key)};\n"


def masked_sql(sql: str, key: bytes) -> str:
    """Comments go, since they may hold data; numbers keep their number of digits."""
    return " ".join(TOKEN.sub(lambda found: _pseudonym(found, key), sql).split())


def without_values(words: str) -> str:
    """Of a server's error its code alone, since its words may quote anything; of ours what is before the colon."""
    code = re.match(r"\d+(?: \([0-9A-Z]{5}\))?", words)
    return f"error {code[0]}" if code else words.partition(":")[0]


def _pseudonym(found: re.Match[str], key: bytes) -> str:
    text = found[0]
    if found["comment"] is not None:
        return " "
    if found["name"] is not None:
        return text
    digest = hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")
    if text[0] in "'\"":
        return f"'{digest.hex()[:8]}'" if len(text) > 2 else "''"
    if not text.lstrip("-").isdigit():
        return str(digest[0] + 1)
    digits = len(text.lstrip("-"))
    low = 10 ** (digits - 1) if digits > 1 else 0
    return str(low + int.from_bytes(digest) % (10**digits - low))


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
