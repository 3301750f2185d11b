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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from volbench.core.sql.library import as_bytes
from volbench.core.sql.tokens import Charset, Dialect, Doubt, Kind, Tokens
from volbench.measure.workload.replay.logged_statement import LoggedStatement

_HINTS = (
    "BKA|NO_BKA|BNL|NO_BNL|DERIVED_CONDITION_PUSHDOWN|NO_DERIVED_CONDITION_PUSHDOWN|GROUP_INDEX|NO_GROUP_INDEX|"
    "HASH_JOIN|NO_HASH_JOIN|INDEX|NO_INDEX|INDEX_MERGE|NO_INDEX_MERGE|JOIN_FIXED_ORDER|JOIN_INDEX|NO_JOIN_INDEX|"
    "JOIN_ORDER|JOIN_PREFIX|JOIN_SUFFIX|MAX_EXECUTION_TIME|MERGE|NO_MERGE|MRR|NO_MRR|NO_ICP|NO_RANGE_OPTIMIZATION|"
    "ORDER_INDEX|NO_ORDER_INDEX|QB_NAME|RESOURCE_GROUP|SEMIJOIN|NO_SEMIJOIN|SKIP_SCAN|NO_SKIP_SCAN|SET_VAR|SUBQUERY"
)
_HINT = re.compile(rf"(?:\s*(?:{_HINTS})\s*(?:\((?:[\w@$.,=\s]|`[^`]*`|'[^'\\]*')*\))?\s*,?)+\s*", re.IGNORECASE)
_HINT_CHARACTERS_MAX = 10_000
_MYSQL_VERSIONS, _MARIADB_VERSIONS = range(30000, 91400), range(100000, 130400)
_SIGNIFICANT_DIGITS = re.compile(
    r"(?:DEC|DECIMAL|NUMERIC|FIXED)\s*\(\s*\d{1,2}\s*(?:,\s*\d{1,2}\s*)?\)"
    r"|(?:NOW|SYSDATE|CURTIME|CURRENT_TIME|CURRENT_TIMESTAMP|LOCALTIME|LOCALTIMESTAMP|UTC_TIME|UTC_TIMESTAMP|TIME"
    r"|DATETIME|TIMESTAMP)\s*\(\s*[0-6]\s*\)",
    re.IGNORECASE,
)
"""Digits that are part of a type or count decimals of seconds, and so are no data."""
_TYPOGRAPHIC = re.compile("[\u2018-\u201f\u2039\u203a\u00ab\u00bb]")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?P<time>[ T]\d\d:\d\d:\d\d(?P<fraction>\.\d{1,6})?)?|(?P<only>\d\d:\d\d:\d\d)")


class _AmbiguousError(Exception):
    """A statement whose literals cannot be distinguished from its names for certain."""


_MODES = (
    Dialect(),
    Dialect(no_escapes=True),
    Dialect(ansi_quotes=True),
    Dialect(ansi_quotes=True, no_escapes=True),
)
_DIFFERENT = Doubt.NESTED | Doubt.DOLLAR | Doubt.ZERO | Doubt.SPACE | Doubt.HINT | Doubt.FAULT


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
    text, names = as_bytes(sql), sql_mode is not None
    result: str | None = None
    try:
        for dialect in _dialects(text, sql_mode):
            masked_text = _masked(text, key, dialect, names=names)
            if result is not None and masked_text != result:
                return None
            result = masked_text
    except _AmbiguousError:
        return None
    return result


def redact_error(message: str) -> str:
    """Return the code of a server's error, since its message may quote a value; else the text before a colon."""
    code = re.match(r"\d+(?: \([0-9A-Z]{5}\))?", message)
    return f"error {code[0]}" if code else message.partition(":")[0]


def _dialects(text: bytes, sql_mode: str | None) -> Iterator[Dialect]:
    """Yield how a server may have read the text: in each mode that makes a difference, and character set."""
    modes: Sequence[Dialect] = _MODES
    if sql_mode is not None:
        session_modes = {mode.strip().upper() for mode in sql_mode.split(",")}
        modes = (
            Dialect(
                ansi_quotes=bool(session_modes & {"ANSI_QUOTES", "ANSI"}),
                no_escapes="NO_BACKSLASH_ESCAPES" in session_modes,
            ),
        )
    is_utf8 = True
    try:
        text.decode()
    except UnicodeDecodeError:
        is_utf8 = False
    for mode in modes:
        needless = (mode.ansi_quotes and b'"' not in text) or (mode.no_escapes and b"\\" not in text)
        if sql_mode is None and needless:
            continue
        for charset in Charset if not is_utf8 else (Charset.UTF8,):
            yield replace(mode, charset=charset)


def _masked(text: bytes, key: bytes, dialect: Dialect, *, names: bool) -> str:
    """Return the statement masked in one reading; `names`: whether "x" under ANSI_QUOTES certainly is a name.

    Raises _AmbiguousError where versions of servers disagree.
    """
    tokens = Tokens(text, dialect)
    out, before, executed = bytearray(), 0, False
    for kind, start, end, is_open in tokens:
        if start < before:
            continue  # of digits that are no data
        out += _space(text[before:start])
        before = end
        if kind == Kind.OPEN:
            _check_version(text[start:end])
        elif kind == Kind.WORD and (digits := _SIGNIFICANT_DIGITS.match(_window(text, start))):
            before = start + digits.end()
        executed = kind == Kind.OPEN or (executed and kind != Kind.CLOSE)
        out += as_bytes(_masked_token(Kind(kind), _decoded(text[start:before]), key, is_open=is_open, names=names))
    if executed or tokens.doubts & _DIFFERENT:
        raise _AmbiguousError
    out += _space(text[before:])
    return _decoded(bytes(out)).strip()


def _window(text: bytes, start: int) -> str:
    """Return what may be a type or a function with its digits."""
    return text[start : start + 64].decode("latin-1")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _masked_token(kind: Kind, text: str, key: bytes, *, is_open: bool, names: bool) -> str:
    if kind in {Kind.TEXT, Kind.NAME}:
        return _quoted(kind, text, key, is_open=is_open, names=names)
    match kind:
        case Kind.NUMBER:
            return _number(text, key)
        case Kind.BITS:
            quote = "'" if text[1] == "'" else ""
            return _digits_of(text[:2], text[2:].rstrip("'"), key) + quote
        case Kind.COMMENT | Kind.HINT:
            return _comment(kind, text, key)
        case Kind.WORD if not text.isascii() and _TYPOGRAPHIC.search(text):
            raise _AmbiguousError  # a value pasted from a text is part of a name to the server
    return {Kind.OPEN: f"{text} ", Kind.CLOSE: f" {text}"}.get(kind, text)


def _quoted(kind: Kind, text: str, key: bytes, *, is_open: bool, names: bool) -> str:
    if kind == Kind.TEXT:
        prefix = text[0] if text[0] in "nN" else ""
        return prefix + _string(text[len(prefix) :], key, closed=not is_open)
    if text[0] == '"' and not names:
        return _string(text, key, closed=not is_open)
    return f"{text[0]}masked{text[0]}" if is_open else text


def _space(text: bytes) -> bytes:
    return b" " if text else b""


def _check_version(opening: bytes) -> None:
    """Raise _AmbiguousError for an executed comment of a version that no server has."""
    digits = opening.lstrip(b"/*M!")
    if digits and int(digits) not in _MYSQL_VERSIONS and int(digits) not in _MARIADB_VERSIONS:
        raise _AmbiguousError


def _comment(kind: Kind, text: str, key: bytes) -> str:
    """Return a hint of MySQL with its values masked; a space for any other comment."""
    inside = text[3:-2]
    if kind != Kind.HINT or len(inside) > _HINT_CHARACTERS_MAX or not _HINT.fullmatch(inside):
        return " "
    return f"/*+{_masked(as_bytes(inside), key, Dialect(), names=True)} */"


def _pseudonym(text: str, key: bytes) -> bytes:
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")


def _string(text: str, key: bytes, *, closed: bool) -> str:
    """Return the masked string. Dates stay dates, since DATE'...' needs one; an empty string stays empty."""
    quote, inside = text[0], text[1:-1] if closed else text[1:]
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
