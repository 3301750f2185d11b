"""Accounts that may do more than read, which a server in use is not read by unless the user insists.

A read-only transaction stops changes of rows. It stops neither a query that writes a file of the server (FILE), nor
a statement that changes a global variable (SUPER, SYSTEM_VARIABLES_ADMIN), such as `general_log_file`. Queries of a
log are a stranger's text: without these privileges the server itself refuses what a guard might let through.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from volbench.errors import Refused
from volbench.machine.engine.answers import reads_answers
from volbench.validation.source.server import PRIVILEGES, Rows

PRIVILEGED = frozenset({"FILE", "SUPER", "SYSTEM_VARIABLES_ADMIN"})
"""Administrators of RDS and Aurora have none of them."""
GRANTS = "SHOW GRANTS"
CURRENT_ACCOUNT = "SELECT CURRENT_USER()"
_EVERYWHERE = re.compile(r"GRANT (?P<rights>.+?) ON \*\.\* TO ", re.IGNORECASE)
TO_OBSERVE = ("GRANT SELECT ON performance_schema.*", "GRANT PROCESS ON *.*")
TO_CAPTURE = (*TO_OBSERVE, "GRANT REPLICATION CLIENT ON *.*")
TO_VALIDATE = ("GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, EXECUTE, PROCESS, REPLICATION CLIENT ON *.*",)
"""What each command needs at most; MariaDB calls the last one BINLOG MONITOR."""


@reads_answers("privileges")
def privileges_of(query: Callable[[str], Rows]) -> list[str]:
    """Return those of PRIVILEGED that the account has, by itself or by active roles."""
    privileges = {str(row[0]).upper() for row in query(PRIVILEGES)}
    for row in query(GRANTS):
        match = _EVERYWHERE.match(str(row[0]))
        if match:
            names = {name.strip().upper() for name in match["rights"].split(",")}
            privileges |= PRIVILEGED if names & {"ALL", "ALL PRIVILEGES"} else names
    return sorted(privileges & PRIVILEGED)


def refuse_privileged(
    query: Callable[[str], Rows], *, where: str, grants: tuple[str, ...], option: str, is_allowed: bool
) -> None:
    """Raise Refused for an account with privileges that no reader needs, unless the user insists.

    Args:
        query: asks the server.
        where: for the message.
        grants: that the command needs, without the account.
        option: by which the user insists.
        is_allowed: whether it was given.
    """
    privileges = [] if is_allowed else privileges_of(query)
    if not privileges:
        return
    account = _quoted(query(CURRENT_ACCOUNT))
    reader = "'volbench'@" + account.rpartition("@")[2]
    lines = [f"CREATE USER {reader} IDENTIFIED BY '...';", *(f"{grant} TO {reader};" for grant in grants)]
    raise Refused(
        f"the account {account} may do more than read: {', '.join(privileges)}",
        where=where,
        evidence="with FILE a query writes files of the server, with SUPER or SYSTEM_VARIABLES_ADMIN it changes "
        "variables, in a session that only reads too",
        next_step="give volbench an account of its own:\n    " + "\n    ".join(lines) + f"\n  or insist: {option}",
    )


@reads_answers("its account")
def _quoted(rows: Rows) -> str:
    user, _, host = str(rows[0][0]).rpartition("@")
    return f"'{user}'@'{host}'"
