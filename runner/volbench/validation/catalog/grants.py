"""Privileges of accounts in the schemas: on schemas, tables, columns and routines, global ones, and through roles.

Only accounts with access to the schemas count. Names of privileges differ between flavors, so only those global
privileges are compared that both flavors have under one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from volbench.errors import StepFailed
from volbench.validation.catalog.objects import Attributes, Inventory, quoted
from volbench.validation.source.server import SqlReader

ACCOUNTS = "SELECT user, host FROM mysql.user"
ROUTINE_RIGHTS = (
    "SELECT user, host, db, routine_name, routine_type, proc_priv FROM mysql.procs_priv WHERE db IN ({})"
)
ROLES = (
    "SELECT e.to_user, e.to_host, e.from_user, IF(d.user IS NULL, 'no', 'yes') FROM mysql.role_edges e "
    "LEFT JOIN mysql.default_roles d ON d.user = e.to_user AND d.host = e.to_host "
    "AND d.default_role_user = e.from_user AND d.default_role_host = e.from_host",
    "SELECT m.user, m.host, m.role, IF(u.default_role = m.role, 'yes', 'no') FROM mysql.roles_mapping m "
    "LEFT JOIN mysql.user u ON u.user = m.user AND u.host = m.host",
)
"""For MySQL and for MariaDB."""
_VIEWS = {
    "schema": ("schema_privileges", ("table_schema",)),
    "table": ("table_privileges", ("table_schema", "table_name")),
    "column": ("column_privileges", ("table_schema", "table_name", "column_name")),
}
EVERYWHERE = "SELECT grantee, privilege_type, is_grantable FROM information_schema.user_privileges"
_COMMON_PRIVILEGES = frozenset(
    (
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "CREATE",
        "DROP",
        "RELOAD",
        "PROCESS",
        "FILE",
        "REFERENCES",
        "INDEX",
        "ALTER",
        "SHOW DATABASES",
        "CREATE TEMPORARY TABLES",
        "LOCK TABLES",
        "EXECUTE",
        "REPLICATION SLAVE",
        "CREATE VIEW",
        "SHOW VIEW",
        "CREATE ROUTINE",
        "ALTER ROUTINE",
        "CREATE USER",
        "EVENT",
        "TRIGGER",
    )
)
_BUILT_IN_ACCOUNT = re.compile(r"'(root|mysql\.\w+|mariadb\.\w+|rdsadmin|PUBLIC|)'@")
"""Accounts that a server creates for itself; they differ between servers."""


def grant_statements(schemas: Sequence[str]) -> Iterator[str]:
    """Yield the statements; of ROLES the one of the server's flavor is sent in addition."""
    schema_list = ", ".join(map(quoted, schemas))
    for table, names in _VIEWS.values():
        yield (
            f"SELECT grantee, {', '.join(names)}, privilege_type, is_grantable FROM information_schema.{table} "
            f"WHERE table_schema IN ({schema_list})"
        )
    yield from (EVERYWHERE, ACCOUNTS, ROUTINE_RIGHTS.format(schema_list))


def read_grants(server: SqlReader, schemas: Sequence[str], *, mariadb: bool) -> Inventory:
    """Return privileges by kind; without SELECT on mysql.* only the visible ones and no kind `account`."""
    *on_objects, everywhere, accounts, routines = grant_statements(schemas)
    grants: Inventory = {
        f"grant on {kind}": {
            f"{grantee}.{'.'.join(map(str, row[1:-1]))}": {"grantable": str(row[-1])}
            for row in server.query(statement)
            if not _BUILT_IN_ACCOUNT.match(grantee := account_name(*_split(str(row[0]))))
        }
        for kind, statement in zip(_VIEWS, on_objects, strict=True)
    }
    grants["grant everywhere"] = {
        f"{grantee}.{row[1]}": {"grantable": str(row[2])}
        for row in server.query(everywhere)
        if str(row[1]).upper() in _COMMON_PRIVILEGES
        and not _BUILT_IN_ACCOUNT.match(grantee := account_name(*_split(str(row[0]))))
    }
    try:
        account_names = {account_name(str(user), str(host)) for user, host in server.query(accounts)}
        grants["grant on routine"] = _routine_rights(server, routines)
        grants["role of an account"] = _roles(server, ROLES[mariadb], grants)
    except StepFailed:
        return grants
    grants["account"] = {name: {} for name in sorted(account_names) if not _BUILT_IN_ACCOUNT.match(name)}
    return grants


def accounts_with_access(inventory: Inventory) -> set[str]:
    """Return the accounts that have any compared privilege or role."""
    return {
        _holder(name)
        for kind, objects in inventory.items()
        if kind.startswith(("grant ", "role "))
        for name in objects
    }


def _routine_rights(server: SqlReader, statement: str) -> dict[str, Attributes]:
    rows = server.query(statement)
    return {
        f"{account}.{schema}.{kind}.{name}": {"rights": ", ".join(sorted(str(rights).split(",")))}
        for user, host, schema, name, kind, rights in rows
        if not _BUILT_IN_ACCOUNT.match(account := account_name(str(user), str(host)))
    }


def _roles(server: SqlReader, statement: str, grants: Inventory) -> dict[str, Attributes]:
    """Return the roles of accounts that lead to a privilege in the schemas."""
    edges = [
        (account_name(str(user), str(host)), str(role), {"active at once": str(default)})
        for user, host, role, default in server.query(statement)
    ]
    useful = accounts_with_access(grants)
    for _ in edges:  # a role may be granted through others, at most as many
        useful |= {holder for holder, role, _ in edges if account_name(role, "%") in useful}
    return {
        f"{holder}.{role}": attributes
        for holder, role, attributes in edges
        if account_name(role, "%") in useful and not _BUILT_IN_ACCOUNT.match(holder)
    }


def _holder(name: str) -> str:
    match = re.match(r"'(?:[^']|'')*'@'(?:[^']|'')*'", name)
    return match[0] if match else name


def _split(grantee: str) -> tuple[str, str]:
    user, _, host = grantee.rpartition("@")
    return user.strip("'"), host.strip("'")


def account_name(user: str, host: str) -> str:
    """Return the account as 'user'@'host'; MariaDB's roles have no host, MySQL's have `%`."""
    return f"'{user}'@'{host or '%'}'"
