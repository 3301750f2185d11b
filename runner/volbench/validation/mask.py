"""Slow logs without their data: each literal under a pseudonym, so that equal values stay equal, and no more.

Where a literal ends depends on the session's sql_mode, which a log does not tell: a backslash before a quote
escapes it, or not (NO_BACKSLASH_ESCAPES, and in names under ANSI_QUOTES). So a statement is read in each way that
a server may have read it, and one that comes out differently is left out.
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

from volbench.validation.slowlog import LoggedStatement

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
"""Digits that are part of a type or count decimals of seconds: others there would be no SQL."""
_TOKEN = re.compile(
    rf"""(?P<kept>{_SIGNIFICANT_DIGITS.pattern})"""
    r"""|(?P<comment>/\*(?!M?!).*?(?:\*/|\Z)|(?:--(?=[\x00-\x20]|\Z)|\#)[^\n]*)"""
    r"""|(?P<open>/\*M?!(?:\d{5,6})?)|(?P<close>\*/)"""
    r"""|(?P<bits>(?<![\w$.`@])[xXbB]'[^']*(?:'|\Z))"""
    r"""|(?P<quote>['"])"""
    r"""|(?P<name>`(?:[^`]|``)*`|@@?[\w.$]+)"""
    r"""|(?P<cut>`.*\Z)"""
    r"""|(?P<dollar>(?<![\w$])\$\w*\$)"""
    r"""|(?P<number>(?<![\w$])(?:0[xX][0-9a-fA-F]+|0b[01]+)(?![\w$])"""
    r"""|(?<![\w$.`])\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w$])|(?<![\w$`])\.\d+(?:[eE][+-]?\d+)?(?![\w$]))"""
    r"""|(?P<word>[\w$]+)""",
    re.DOTALL | re.IGNORECASE,
)
"""What is no text between tokens, whichever begins first: each may hold what looks like the others."""
_STRING_ENDS = {
    (quote, escapes): re.compile(rf"(?:[^{quote}{escape}]|{quote}{quote}{more})*({quote}|\Z)", re.DOTALL)
    for quote in "'\""
    for escapes, escape, more in ((True, r"\\", r"|\\(?:.|\Z)"), (False, "", ""))
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?P<time>[ T]\d\d:\d\d:\d\d(?P<fraction>\.\d{1,6})?)?|(?P<only>\d\d:\d\d:\d\d)")


class _AmbiguousError(Exception):
    """A statement whose literals cannot be told from its names for certain."""


@dataclass(frozen=True)
class _Reading:
    """Whether a backslash escapes a quote, in strings of either quote; and whether "x" is a name."""

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
    """The lines of a slow log in Percona Server's form: times, connections and shapes as they were, users left out.

    Args:
        key: of the pseudonyms; a random one that nobody keeps, if left out, so that they cannot be tried out.
        sql_mode: of the sessions that sent the statements; None: not known.
        on_skipped: is called with each statement that cannot be masked for certain, and so is not in the lines.
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
        if statement.schema is not None:  # as Percona Server does: `use` could not say that there is none
            yield f"# Schema: {statement.schema}  Last_errno: 0  Killed: 0\n"
        yield (
            f"# Query_time: {statement.query_s:.6f}  Lock_time: {statement.lock_s:.6f} Rows_sent: {statement.rows_sent}  "
            f"Rows_examined: {statement.rows_examined}\n"
        )
        if statement.routine:
            yield f"# Stored_routine: {statement.routine}\n"
        yield f"SET timestamp={statement.at_s:.6f};\n"
        yield f"{sql};\n"


def masked_sql(sql: str, key: bytes, *, sql_mode: str | None = None) -> str | None:
    """The statement with pseudonyms for its literals; None where it is not certain what its literals are.

    Comments go, since they may hold data. Hints that MySQL knows and comments that it executes stay, with their
    literals masked. Numbers keep their digits' number, hexadecimal and bit values their length, dates stay dates.
    """
    try:
        results = {_masked(sql, key, reading) for reading in _readings(sql_mode)}
    except _AmbiguousError:
        return None
    return results.pop() if len(results) == 1 else None


def redact_error(message: str) -> str:
    """Of a server's error its code alone, since its words may quote anything; of ours what is before the colon."""
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
    """The statement in one reading. Raises _NotClear for what servers of other versions read differently."""
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
            case "dollar":
                raise _AmbiguousError
            case _:
                pieces.append(_plain(kind, text, key))
    if executed:
        raise _AmbiguousError
    pieces.append(_space(sql[at:]))
    return "".join(pieces).strip()


def _plain(kind: str, text: str, key: bytes) -> str:
    """What reads the same everywhere."""
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
    """Whether all servers that a log may be of execute it is not known for versions that no server has."""
    match = _VERSION_COMMENT.match(token[0])
    version = int(match["version"]) if match and match["version"] else None
    if executed or (version is not None and version not in _MYSQL_VERSIONS and version not in _MARIADB_VERSIONS):
        raise _AmbiguousError
    return True


def _comment(text: str, before: str, key: bytes) -> str:
    """A hint of MySQL's stays, with its values masked; everything else goes."""
    inside = text[3:-2]
    if not (text.startswith("/*+") and text.endswith("*/") and _BEFORE_A_HINT.search(before)):
        return " "
    if not _HINT.fullmatch(inside):
        return " "
    return f"/*+{_masked(inside, key, _READINGS[0])} */"


def _pseudonym(text: str, key: bytes) -> bytes:
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")


def _string(text: str, key: bytes, reading: _Reading, *, closed: bool) -> str:
    """Dates stay dates, since DATE'...' takes nothing else; an empty string stays empty."""
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
    """As many digits; the first is no zero where there are several, and none is beyond 64 bits that was not."""
    if len(digits) < 2:
        return str(digest[0] % 10) if digits else ""
    first = "1" if len(digits) in (19, 20) else str(1 + digest[0] % 9)
    following = _stretched(digest[1:], len(digits) - 1, 10)
    return first + ("0" + following[1:] if len(digits) == 20 else following)


def _digits_of(prefix: str, digits: str, key: bytes) -> str:
    """A hexadecimal or bit value of the same length."""
    return prefix + _stretched(_pseudonym(prefix + digits, key), len(digits), 2 if "b" in prefix.lower() else 16)


def _stretched(digest: bytes, length: int, base: int) -> str:
    """So many digits of a base, taken from the digest over and over."""
    return "".join("0123456789abcdef"[digest[at % len(digest)] % base] for at in range(length))


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
