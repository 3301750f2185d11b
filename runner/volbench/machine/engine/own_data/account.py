"""The account that loads own data: with rights on the dataset's schema, and on nothing else of the server.

Whoever wrote a dump wrote its SQL. The server itself refuses what such an account may not do: files (FILE),
settings (SET GLOBAL, PERSIST), accounts, plugins, functions of libraries, other schemas, and views or triggers that
run with the rights of another account.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import mysql.connector

from volbench.errors import StepFailed
from volbench.machine.engine.connection import Account, rows

LOADER = "volbench_loader"
_TIMEOUT_S = 60.0


@contextmanager
def schema_account(admin: Account, *schemas: str) -> Iterator[Account]:
    """Yield an account with rights on these schemas; afterwards it is locked.

    It stays, since the dump's triggers, views and routines run with its rights. Raises StepFailed.

    Args:
        admin: may create accounts.
        schemas: of letters, digits and underscores.
    """
    name = f"'{LOADER}'@'{'localhost' if admin.socket else '%'}'"
    password = f"{secrets.token_hex(16)}Aa+1"
    patterns = [schema.replace("_", "\\_") for schema in schemas]  # in GRANT, `_` stands for any character
    try:
        for statement in (
            f"CREATE USER IF NOT EXISTS {name}",
            f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {name}",
            *(f"GRANT ALL PRIVILEGES ON `{pattern}`.* TO {name}" for pattern in patterns),
            f"ALTER USER {name} IDENTIFIED BY '{password}' ACCOUNT UNLOCK",
        ):
            rows(admin, statement, timeout_s=_TIMEOUT_S)
    except mysql.connector.Error as error:
        raise StepFailed(
            "the account that loads the dataset cannot be made",
            where="dataset",
            evidence=str(error),
            cause="dataset_not_loaded",
        ) from error
    try:
        yield replace(admin, user=LOADER, password=password, tokens=None)
    finally:
        with suppress(mysql.connector.Error):  # the server may be gone, and the password is known to nobody else
            rows(admin, f"ALTER USER {name} ACCOUNT LOCK", timeout_s=_TIMEOUT_S)
