"""How accounts log in, and what holds them back: plugins, passwords, locks, expiry, TLS and limits.

Passwords' hashes stay on the servers: each answers with a digest of its hash under a salt of this validation, which
is compared and forgotten.
"""

# ruff: noqa: S608 - the salt is our own, in hex

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volbench.errors import StepFailed
from volbench.records.gate import Decision
from volbench.records.parse import parse_json
from volbench.records.validation import CheckRow
from volbench.validation.grants import account_name
from volbench.validation.source import Reads

PLUGINS = (
    "SELECT plugin_name FROM information_schema.plugins "
    "WHERE plugin_type = 'AUTHENTICATION' AND plugin_status = 'ACTIVE'"
)
_LIMITS = ("max_questions", "max_updates", "max_connections", "max_user_connections")
_NEEDED = ("ssl_type", "ssl_cipher", "x509_issuer", "x509_subject")
_COMPARED = ("locked", "password expired", "days a password lasts", *_NEEDED, *_LIMITS)
_HASHED = frozenset(("mysql_native_password", "mysql_old_password", "ed25519"))
"""One password has one hash; with the others it is salted, so that two hashes of it differ."""
_PASSWORDS = _HASHED | {"caching_sha2_password", "sha256_password", "parsec"}
_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Login:
    """How one account logs in. `digest` says whether two hashes are equal, within one validation."""

    plugins: frozenset[str]
    has_password: bool
    digest: str
    held_back: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Logins:
    """A server's accounts without its roles, and the plugins that it has."""

    accounts: Mapping[str, Login]
    plugins: frozenset[str]


def new_salt() -> str:
    """For both servers of one validation."""
    return secrets.token_hex(16)


def login_statements(salt: str) -> tuple[str, str]:
    """For MySQL, and for MariaDB."""
    hashed = (
        "COALESCE(LENGTH(u.authentication_string), 0) > 0, "
        f"SHA2(CONCAT('{salt}', COALESCE(u.authentication_string, '')), 256)"
    )
    ends = ", ".join(f"u.{name}" for name in (*_NEEDED, *_LIMITS))
    return (
        f"SELECT u.user, u.host, u.plugin, '[]', {hashed}, u.account_locked, u.password_expired, "
        f"u.password_lifetime, {ends} FROM mysql.user u",
        f"SELECT u.user, u.host, u.plugin, JSON_EXTRACT(g.priv, '$.auth_or[*].plugin'), {hashed}, "
        f"JSON_VALUE(g.priv, '$.account_locked'), u.password_expired, "
        f"NULLIF(JSON_VALUE(g.priv, '$.password_lifetime'), -1), {ends} "
        "FROM mysql.user u JOIN mysql.global_priv g ON g.user = u.user AND g.host = u.host "
        "WHERE u.is_role = 'N'",
    )


def take_logins(server: Reads, *, mariadb: bool, salt: str) -> Logins | None:
    """Of all accounts; None where this user may not see them."""
    try:
        rows = server.query(login_statements(salt)[mariadb])
        active = server.query(PLUGINS)
    except StepFailed:
        return None
    return Logins(
        accounts={account_name(str(row[0]), str(row[1])): _login(row) for row in rows},
        plugins=frozenset(str(row[0]).lower() for row in active),
    )


def accounts_check(source: Logins | None, candidate: Logins | None, wanted: Collection[str]) -> CheckRow:
    """no-go for an account that cannot log in there as it does here, or is held back otherwise.

    Args:
        wanted: accounts that reach the schemas; those that only one side has are told by the objects.
    """
    if source is None or candidate is None:
        place = "source" if source is None else "candidate"
        return _row("undecided", f"how accounts log in cannot be seen on the {place}: SELECT on mysql.* is missing")
    shared = sorted(set(wanted) & source.accounts.keys() & candidate.accounts.keys())
    pairs = [(name, source.accounts[name], candidate.accounts[name]) for name in shared]
    faults = [text for name, ours, theirs in pairs for text in _faults(name, ours, theirs, candidate.plugins)]
    told = [text for name, ours, theirs in pairs for text in _told(name, ours, theirs, candidate.plugins)]
    unknown = [name for name, ours, theirs in pairs if _cannot_be_compared(ours, theirs)]
    if unknown:
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        told.append(
            "told: whether passwords are the same cannot be seen from their hashes; log in once as "
            + ", ".join(unknown[:_NAMED]) + more
        )  # fmt: skip
    text = f"{len(faults)} differ, of {len(shared)} accounts" if faults else f"{len(shared)} accounts can log in"
    return _row("no-go" if faults else "go", text, *faults, *told)


def _faults(name: str, ours: Login, theirs: Login, active: frozenset[str]) -> Iterator[str]:
    if not theirs.plugins & active:
        yield (
            f"{name} cannot log in on the candidate: it has no plugin {_listed(theirs.plugins)}; "
            "ALTER USER ... IDENTIFIED WITH one that it has"
        )
    if ours.has_password and not theirs.has_password and theirs.plugins & _PASSWORDS:
        yield f"{name} has no password on the candidate"
    elif ours.plugins == theirs.plugins and ours.plugins <= _HASHED and ours.digest != theirs.digest:
        yield f"{name} has another password"
    for what in _COMPARED:
        before, after = ours.held_back[what], theirs.held_back[what]
        if before != after:
            yield f"{name}: another {what} ({before!r} became {after!r})"


def _told(name: str, ours: Login, theirs: Login, active: frozenset[str]) -> Iterator[str]:
    if ours.plugins == theirs.plugins or not theirs.plugins & active:
        return
    gone = ours.plugins - active
    why = f", since the candidate has no {_listed(gone)}" if gone else ""
    yield (
        f"told: {name} logs in by {_listed(theirs.plugins)} instead of {_listed(ours.plugins)}{why}: "
        "its clients have to know that"
    )


def _cannot_be_compared(ours: Login, theirs: Login) -> bool:
    """Passwords on both sides, with hashes that may differ for one password."""
    if not (ours.has_password and theirs.has_password) or ours.digest == theirs.digest:
        return False
    return ours.plugins != theirs.plugins or not ours.plugins <= _HASHED


def _login(row: Sequence[object]) -> Login:
    _, _, plugin, others, has, digest, locked, expired, lasts, *ends = row
    named = {str(plugin or "mysql_native_password"), *parse_json(str(others or "[]"))}
    return Login(
        plugins=frozenset(one.lower() for one in named),
        has_password=bool(has),
        digest=str(digest),
        held_back={
            "locked": "yes" if str(locked).lower() in {"1", "y", "true"} else "no",
            "password expired": "yes" if str(expired).upper() == "Y" else "no",
            "days a password lasts": "" if lasts is None else str(lasts),
            **{what: str(value or "") for what, value in zip((*_NEEDED, *_LIMITS), ends, strict=True)},
        },
    )


def _listed(plugins: Collection[str]) -> str:
    return " or ".join(sorted(plugins))


def _row(decision: Decision, text: str, *details: str) -> CheckRow:
    return CheckRow(check="accounts", decision=decision, text=text, details=details)
