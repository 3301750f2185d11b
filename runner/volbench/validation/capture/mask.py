"""Slow logs without their data: each literal becomes a pseudonym, so that only equality of values stays visible.

The end of a literal depends on the session's sql_mode, which a log does not have: a backslash before a quote
escapes the quote or not (NO_BACKSLASH_ESCAPES, and in names under ANSI_QUOTES). So a statement is parsed in each
way in which a server may have parsed it; a statement with different results is skipped.
Sources: MySQL's sql/sql_lex.cc; MySQL Reference Manual, chapters "Literal Values" and "Comments"; MariaDB's
"Comment Syntax" for /*M! and for the versions that it executes.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from volbench.workload.replay.logged_statement import LoggedStatement

_HINTS = (
    "BKA|NO_BKA|BNL|NO_BNL|DERIVED_CONDITION_PUSHDOWN|NO_DERIVED_CONDITION_PUSHDOWN|GROUP_INDEX|NO_GROUP_INDEX|"
    "HASH_JOIN|NO_HASH_JOIN|INDEX|NO_INDEX|INDEX_MERGE|NO_INDEX_MERGE|JOIN_FIXED_ORDER|JOIN_INDEX|NO_JOIN_INDEX|"
    "JOIN_ORDER|JOIN_PREFIX|JOIN_SUFFIX|MAX_EXECUTION_TIME|MERGE|NO_MERGE|MRR|NO_MRR|NO_ICP|NO_RANGE_OPTIMIZATION|"
    "ORDER_INDEX|NO_ORDER_INDEX|QB_NAME|RESOURCE_GROUP|SEMIJOIN|NO_SEMIJOIN|SKIP_SCAN|NO_SKIP_SCAN|SET_VAR|SUBQUERY"
)
_HINT = re.compile(rf"(?:\s*(?:{_HINTS})\s*(?:\((?:[\w@$.,=\s]|`[^`]*`|'[^'\\]*')*\))?\s*,?)+\s*", re.IGNORECASE)
_BEFORE_A_HINT = re.compile(r"(?:^|[^\w$.`@])(?:SELECT|INSERT|REPLACE|UPDATE|DELETE)\s*\Z", re.IGNORECASE)
_VERSION_COMMENT = re.compile(r"/\*M?!(?P<version>\d{5,6})?")
_MYSQL_VERSIONS, _MARIADB_VERSIONS = range(30000, 91400), range(100000, 130400)
_SIGNIFICANT_DIGITS = re.compile(
    r"(?<![\w$.`@])(?:(?:DEC|DECIMAL|NUMERIC|FIXED)\s*\(\s*\d{1,2}\s*(?:,\s*\d{1,2}\s*)?\)"
    r"|(?:NOW|SYSDATE|CURTIME|CURRENT_TIME|CURRENT_TIMESTAMP|LOCALTIME|LOCALTIMESTAMP|UTC_TIME|UTC_TIMESTAMP|TIME"
    r"|DATETIME|TIMESTAMP)\s*\(\s*[0-6]\s*\))",
    re.IGNORECASE,
)
"""Digits that are part of a type or count decimals of seconds, and so are no data."""
_TOKEN = re.compile(
    rf"""(?P<kept>{_SIGNIFICANT_DIGITS.pattern})"""
    r"""|(?P<comment>/\*(?!M?!).*?(?:\*/|\Z)|(?:--(?=[\x00-\x20]|\Z)|\#)[^\n]*)"""
    r"""|(?P<open>/\*M?!(?:\d{5,6})?)|(?P<close>\*/)"""
    r"""|(?P<bits>(?<![\w$.`@])[xXbB]'[^']*(?:'|\Z))"""
    r"""|(?P<quote>['"])"""
    r"""|(?P<name>`(?:[^`]|``)*`|@@?[\w.$]+)"""
    r"""|(?P<cut>`.*\Z)"""
    r"""|(?P<dollar>(?<![\w$])\$\w*\$)"""
    r"""|(?P<typographic>[\u2018-\u201f\u2039\u203a\u00ab\u00bb])"""
    r"""|(?P<number>(?<![\w$])(?:0[xX][0-9a-fA-F]+|0b[01]+)(?![\w$])"""
    r"""|(?<![\w$.`])\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w$])|(?<![\w$`])\.\d+(?:[eE][+-]?\d+)?(?![\w$]))"""
    r"""|(?P<word>[\w$]+)""",
    re.DOTALL | re.IGNORECASE,
)
"""Tokens, whichever begins first: each may contain what looks like the others."""
_STRING_ENDS = {
    (quote, escapes): re.compile(rf"(?:[^{quote}{escape}]|{quote}{quote}{more})*({quote}|\Z)", re.DOTALL)
    for quote in "'\""
    for escapes, escape, more in ((True, r"\\", r"|\\(?:.|\Z)"), (False, "", ""))
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?P<time>[ T]\d\d:\d\d:\d\d(?P<fraction>\.\d{1,6})?)?|(?P<only>\d\d:\d\d:\d\d)")


class _AmbiguousError(Exception):
    """A statement whose literals cannot be distinguished from its names for certain."""


@dataclass(frozen=True)
class _Reading:
    """Whether a backslash escapes a quote in strings of either quote, and whether "x" is a name."""

    single: bool
    double: bool
    names: bool = False


_READINGS = (_Reading(single=True, double=True), _Reading(single=False, double=False), _Reading(True, double=False))


def masked(
    statements: Iterable[LoggedStatement],
    *,
    key: bytes | None = None,
    sql_mode: str | None = None,
    on_skipped: Callable[[LoggedStatement], object] | None = None,
) -> Iterator[str]:
    """Yield the lines of a slow log in Percona Server's form, with its times and connections, without users.

    Args:
        statements: of the original log.
        key: of the pseudonyms; by default a random key that is not stored, so that values cannot be guessed.
        sql_mode: of the sessions that sent the statements; None: not known.
        on_skipped: called with each statement that cannot be masked for certain and is skipped.
    """
    key = key or secrets.token_bytes(32)
    for statement in statements:
        sql = masked_sql(statement.sql, key, sql_mode=sql_mode)
        if sql is None:
            if on_skipped is not None:
                on_skipped(statement)
            continue
        yield f"# Time: {_iso(statement.at_s + statement.query_s)}\n"
        yield f"# User@Host: app[app] @ masked []  Id: {statement.connection}\n"
        if statement.schema is not None:  # as Percona Server does: `use` cannot express that there is none
            yield f"# Schema: {statement.schema}  Last_errno: 0  Killed: 0\n"
        yield (
            f"# Query_time: {statement.query_s:.6f}  Lock_time: {statement.lock_s:.6f} "
            f"Rows_sent: {statement.rows_sent}  Rows_examined: {statement.rows_examined}\n"
        )
        if statement.routine:
            yield f"# Stored_routine: {statement.routine}\n"
        yield f"SET timestamp={statement.at_s:.6f};\n"
        yield f"{sql};\n"


def masked_sql(sql: str, key: bytes, *, sql_mode: str | None = None) -> str | None:
    """Return the statement with pseudonyms for its literals; None where its literals are ambiguous.

    Comments are removed, since they may have data. Hints of MySQL and executed comments stay, with masked literals.
    Numbers keep their number of digits, hexadecimal and bit values their length, dates stay dates.
    """
    try:
        results = {_masked(sql, key, reading) for reading in _readings(sql_mode)}
    except _AmbiguousError:
        return None
    return results.pop() if len(results) == 1 else None


def redact_error(message: str) -> str:
    """Return the code of a server's error, since its message may quote a value; else the text before a colon."""
    code = re.match(r"\d+(?: \([0-9A-Z]{5}\))?", message)
    return f"error {code[0]}" if code else message.partition(":")[0]


def _readings(sql_mode: str | None) -> tuple[_Reading, ...]:
    if sql_mode is None:
        return _READINGS
    modes = {mode.strip().upper() for mode in sql_mode.split(",")}
    escapes = "NO_BACKSLASH_ESCAPES" not in modes
    names = "ANSI_QUOTES" in modes or "ANSI" in modes
    return (_Reading(single=escapes, double=escapes and not names, names=names),)


def _masked(sql: str, key: bytes, reading: _Reading) -> str:
    """Return the statement masked in one reading. Raises _AmbiguousError where versions of servers disagree."""
    pieces: list[str] = []
    at, executed = 0, False
    while token := _TOKEN.search(sql, at):
        pieces.append(_space(sql[at : token.start()]))
        at, kind, text = token.end(), str(token.lastgroup), token[0]
        match kind:
            case "quote":
                end = _STRING_ENDS[text, reading.single if text == "'" else reading.double].match(sql, at)
                at = end.end() if end else len(sql)
                pieces.append(_string(sql[token.start() : at], key, reading, closed=bool(end and end[1])))
            case "comment":
                pieces.append(_comment(text, sql[: token.start()], key))
            case "open":
                executed = _open_executed_comment(token, executed)
                pieces.append(text + " ")
            case "close":
                if not executed:
                    raise _AmbiguousError
                executed = False
                pieces.append(" " + text)
            case "dollar" | "typographic":  # a value pasted from a text is part of a name to the server
                raise _AmbiguousError
            case _:
                pieces.append(_plain(kind, text, key))
    if executed:
        raise _AmbiguousError
    pieces.append(_space(sql[at:]))
    return "".join(pieces).strip()


def _plain(kind: str, text: str, key: bytes) -> str:
    """Return a token that all servers read alike, masked."""
    match kind:
        case "bits":
            return _digits_of(text[:2], text[2:].rstrip("'"), key) + "'"
        case "number":
            return _number(text, key)
        case "cut":
            return "`masked`"
        case _:
            return text


def _space(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _open_executed_comment(token: re.Match[str], executed: bool) -> bool:
    """Return True for an executed comment. Raises _AmbiguousError for a version that no server has."""
    match = _VERSION_COMMENT.match(token[0])
    version = int(match["version"]) if match and match["version"] else None
    if executed or (version is not None and version not in _MYSQL_VERSIONS and version not in _MARIADB_VERSIONS):
        raise _AmbiguousError
    return True


def _comment(text: str, before: str, key: bytes) -> str:
    """Return a hint of MySQL with its values masked; a space for any other comment."""
    inside = text[3:-2]
    if not (text.startswith("/*+") and text.endswith("*/") and _BEFORE_A_HINT.search(before)):
        return " "
    if not _HINT.fullmatch(inside):
        return " "
    return f"/*+{_masked(inside, key, _READINGS[0])} */"


def _pseudonym(text: str, key: bytes) -> bytes:
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")


def _string(text: str, key: bytes, reading: _Reading, *, closed: bool) -> str:
    """Return the masked string. Dates stay dates, since DATE'...' needs one; an empty string stays empty."""
    quote, inside = text[0], text[1:-1] if closed else text[1:]
    if quote == '"' and reading.names:
        return text if closed else '"masked"'
    if closed and not inside:
        return text
    digest = _pseudonym(inside, key)
    date = _DATE.fullmatch(inside)
    if date is None:
        return f"{quote}{digest.hex()[:8]}{quote}"
    clock = f"{digest[4] % 24:02}:{digest[5] % 60:02}:{digest[6] % 60:02}"
    if date["only"]:
        return f"{quote}{clock}{quote}"
    day = f"{1971 + digest[0] % 66}-{1 + digest[2] % 12:02}-{1 + digest[3] % 28:02}"
    fraction = date["fraction"] or ""
    fraction = fraction and "." + str(int.from_bytes(digest[8:12]) + 10**6)[-len(fraction) + 1 :]
    return f"{quote}{day}{f' {clock}{fraction}' if date['time'] else ''}{quote}"


def _number(text: str, key: bytes) -> str:
    if text[:2].lower() in ("0x", "0b") and len(text) > 2:
        return _digits_of(text[:2], text[2:], key)
    digest = _pseudonym(text, key)
    mantissa, exponent, power = re.fullmatch(r"([\d.]+)(?:([eE][+-]?)(\d+))?", text).groups()  # type: ignore[union-attr]
    integer, point, decimals = mantissa.partition(".")
    masked_mantissa = _integer(integer, digest) + point + _stretched(digest[16:], len(decimals), 10)
    return masked_mantissa + (f"{exponent}{_stretched(digest[8:], min(2, len(power)), 3)}" if exponent else "")


def _integer(digits: str, digest: bytes) -> str:
    """Return as many digits, without a leading zero, and within 64 bits where the value was."""
    if len(digits) < 2:
        return str(digest[0] % 10) if digits else ""
    first = "1" if len(digits) in (19, 20) else str(1 + digest[0] % 9)
    following = _stretched(digest[1:], len(digits) - 1, 10)
    return first + ("0" + following[1:] if len(digits) == 20 else following)


def _digits_of(prefix: str, digits: str, key: bytes) -> str:
    """Return a hexadecimal or bit value of the same length."""
    return prefix + _stretched(_pseudonym(prefix + digits, key), len(digits), 2 if "b" in prefix.lower() else 16)


def _stretched(digest: bytes, length: int, base: int) -> str:
    """Return digits of a base from the digest, repeated as needed."""
    return "".join("0123456789abcdef"[digest[at % len(digest)] % base] for at in range(length))


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
