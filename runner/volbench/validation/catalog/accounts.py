"""How accounts log in, and what restricts them: plugins, passwords, locks, expiry, TLS and limits.

Password hashes stay on the servers: each server returns a digest of the hash under a salt of this validation. The
digests are compared and not stored.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volbench.core.base.parse import parse_json
from volbench.core.base.text import counted
from volbench.core.records.validation.result import CheckRow
from volbench.errors import StepFailed
from volbench.machine.engine.answers import reads_answers
from volbench.validation.catalog.grants import account_name
from volbench.validation.source.server import SqlReader
from volbench.validation.verdict import decide_check, undecided

PLUGINS = (
    "SELECT plugin_name FROM information_schema.plugins "
    "WHERE plugin_type = 'AUTHENTICATION' AND plugin_status = 'ACTIVE'"
)
_LIMITS = ("max_questions", "max_updates", "max_connections", "max_user_connections")
_TLS_REQUIREMENTS = ("ssl_type", "ssl_cipher", "x509_issuer", "x509_subject")
_COMPARED = ("locked", "password expired", "days a password lasts", *_TLS_REQUIREMENTS, *_LIMITS)
_HASHED = frozenset(("mysql_native_password", "mysql_old_password", "ed25519"))
"""Plugins whose hash depends on the password alone; the others salt it, so that two hashes of it differ."""
_PASSWORDS = _HASHED | {"caching_sha2_password", "sha256_password", "parsec"}
_NAMES_MAX = 5


@dataclass(frozen=True, kw_only=True)
class Login:
    """How one account logs in. Two equal hashes have equal `digest`s within one validation."""

    plugins: frozenset[str]
    has_password: bool
    digest: str
    restrictions: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Logins:
    """A server's accounts without its roles, and its active plugins."""

    accounts: Mapping[str, Login]
    plugins: frozenset[str]


def new_salt() -> str:
    """Return a salt for both servers of one validation."""
    return secrets.token_hex(16)


def login_statements(salt: str) -> tuple[str, str]:
    """Return the statement for MySQL and the one for MariaDB."""
    hashed = (
        "COALESCE(LENGTH(u.authentication_string), 0) > 0, "
        f"SHA2(CONCAT('{salt}', COALESCE(u.authentication_string, '')), 256)"
    )
    columns = ", ".join(f"u.{name}" for name in (*_TLS_REQUIREMENTS, *_LIMITS))
    return (
        f"SELECT u.user, u.host, u.plugin, '[]', {hashed}, u.account_locked, u.password_expired, "
        f"u.password_lifetime, {columns} FROM mysql.user u",
        f"SELECT u.user, u.host, u.plugin, JSON_EXTRACT(g.priv, '$.auth_or[*].plugin'), {hashed}, "
        f"JSON_VALUE(g.priv, '$.account_locked'), u.password_expired, "
        f"NULLIF(JSON_VALUE(g.priv, '$.password_lifetime'), -1), {columns} "
        "FROM mysql.user u JOIN mysql.global_priv g ON g.user = u.user AND g.host = u.host "
        "WHERE u.is_role = 'N'",
    )


@reads_answers("accounts")
def read_logins(server: SqlReader, *, mariadb: bool, salt: str) -> Logins | None:
    """Return the logins of all accounts; None where this account may not see them."""
    try:
        rows = server.query(login_statements(salt)[mariadb])
        active = server.query(PLUGINS)
    except StepFailed:
        return None
    return Logins(
        accounts={account_name(str(row[0]), str(row[1])): _login(row) for row in rows},
        plugins=frozenset(str(row[0]).lower() for row in active),
    )


def accounts_check(source: Logins | None, candidate: Logins | None, relevant: Collection[str]) -> CheckRow:
    """Return no-go for an account that logs in differently on the candidate, or has other restrictions.

    Args:
        source: logins of the source; None where they are not visible.
        candidate: logins of the candidate; None where they are not visible.
        relevant: accounts with access to the schemas; the check of objects reports accounts of one side only.
    """
    if source is None or candidate is None:
        side = "source" if source is None else "candidate"
        return undecided("accounts", f"the logins of the {side} are not visible: SELECT on mysql.* is missing")
    shared = sorted(set(relevant) & source.accounts.keys() & candidate.accounts.keys())
    pairs = [(name, source.accounts[name], candidate.accounts[name]) for name in shared]
    faults = [text for name, before, after in pairs for text in _faults(name, before, after, candidate.plugins)]
    notes = [
        text for name, before, after in pairs for text in _changed_plugins(name, before, after, candidate.plugins)
    ]
    unverifiable = [name for name, before, after in pairs if _passwords_unverifiable(before, after)]
    if unverifiable:
        notes.append(
            "note: the hashes do not show whether passwords are the same; log in once as "
            + _some_names(unverifiable)
        )
    absent = sorted(set(relevant) & (source.accounts.keys() ^ candidate.accounts.keys()))
    accounts = counted(len(shared), "account")
    passwords = f" if {counted(len(unverifiable), 'has', 'have')} the same password on both" if unverifiable else ""
    return decide_check(
        "accounts",
        compared=len(shared),
        text=f"{len(faults)} {'differs' if len(faults) == 1 else 'differ'}, of {accounts}"
        if faults
        else f"{accounts} can log in{passwords}",
        faults=faults,
        doubts=[f"not compared, since not on both sides: {_some_names(absent)}"] if absent else [],
        notes=notes,
        nothing="no account was compared: "
        + ("none of those with access is on both sides" if absent else "none has access to the schemas"),
    )


def _faults(name: str, source: Login, candidate: Login, active_plugins: frozenset[str]) -> Iterator[str]:
    if not candidate.plugins & active_plugins:
        yield (
            f"{name} cannot log in on the candidate, which has no plugin {_listed(candidate.plugins)}; "
            "ALTER USER ... IDENTIFIED WITH an available plugin"
        )
    if source.has_password and not candidate.has_password and candidate.plugins & _PASSWORDS:
        yield f"{name} has no password on the candidate"
    elif source.plugins == candidate.plugins and source.plugins <= _HASHED and source.digest != candidate.digest:
        yield f"{name} has another password"
    for attribute in _COMPARED:
        old, new = source.restrictions[attribute], candidate.restrictions[attribute]
        if old != new:
            yield f"{name}: another {attribute} ({old!r} became {new!r})"


def _changed_plugins(name: str, before: Login, after: Login, active_plugins: frozenset[str]) -> Iterator[str]:
    if before.plugins == after.plugins or not after.plugins & active_plugins:
        return
    missing_plugins = before.plugins - active_plugins
    explanation = f", since the candidate has no {_listed(missing_plugins)}" if missing_plugins else ""
    yield (
        f"note: {name} logs in by {_listed(after.plugins)} instead of {_listed(before.plugins)}{explanation}: "
        "its clients must support that"
    )


def _passwords_unverifiable(before: Login, after: Login) -> bool:
    """Return whether both sides have passwords, with hashes that may differ for one password."""
    if not (before.has_password and after.has_password) or before.digest == after.digest:
        return False
    return before.plugins != after.plugins or not before.plugins <= _HASHED


def login_plugins(plugin: str, alternatives: str) -> frozenset[str]:
    """Return the plugins by which an account may log in: MariaDB names the alternatives as a list in JSON.

    What is no such list counts as a plugin of that name, which differs from every other.
    """
    try:
        listed = parse_json(alternatives)
    except ValueError:
        listed = None
    names = listed if isinstance(listed, list) else [alternatives]
    return frozenset(str(name).lower() for name in (plugin, *names))


def _login(row: Sequence[object]) -> Login:
    _, _, plugin, alternatives, has_password, digest, locked, expired, lifetime_days, *restrictions = row
    return Login(
        plugins=login_plugins(str(plugin or "mysql_native_password"), str(alternatives or "[]")),
        has_password=bool(has_password),
        digest=str(digest),
        restrictions={
            "locked": "yes" if str(locked).lower() in {"1", "y", "true"} else "no",
            "password expired": "yes" if str(expired).upper() == "Y" else "no",
            "days a password lasts": "" if lifetime_days is None else str(lifetime_days),
            **{
                attribute: str(value or "")
                for attribute, value in zip((*_TLS_REQUIREMENTS, *_LIMITS), restrictions, strict=True)
            },
        },
    )


def _listed(plugins: Collection[str]) -> str:
    return " or ".join(sorted(plugins))


def _some_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more
