"""The privileges of the accounts: comparing objects that neither account may see would give a wrong go."""

from __future__ import annotations

import re
from collections.abc import Sequence

from volbench.errors import MissingPrerequisite
from volbench.machine.engine.answers import reads_answers
from volbench.validation.source.server import SqlReader

GRANTS = "SHOW GRANTS"
REQUIRED_RIGHTS = ("SELECT", "SHOW VIEW", "TRIGGER", "EVENT", "EXECUTE")
_GRANT = re.compile(
    r"(?P<verb>GRANT|REVOKE) (?P<rights>.+?) ON (?P<on>\*\.\*|`(?P<schema>(?:[^`]|``)+)`\.\*) (?:TO|FROM) ",
    re.IGNORECASE,
)
"""MySQL lists partial revokes after all grants (partial_revokes in its reference manual)."""


def missing_rights(grants: Sequence[str], schemas: Sequence[str]) -> dict[str, list[str]]:
    """Return missing privileges by schema.

    Args:
        grants: the rows of SHOW GRANTS, which in both flavors include those of active roles.
        schemas: to check.
    """
    granted: dict[str, set[str]] = {schema: set() for schema in schemas}
    for line in grants:
        match = _GRANT.match(line)
        if not match:
            continue
        rights = {right.strip().upper() for right in match["rights"].split(",")}
        for schema in schemas:
            if match["schema"] is None or _matches(match["schema"].replace("``", "`"), schema):
                named = set(REQUIRED_RIGHTS) if rights & {"ALL", "ALL PRIVILEGES"} else rights
                granted[schema] = (
                    granted[schema] - named if match["verb"].upper() == "REVOKE" else granted[schema] | named
                )
    return {
        schema: missing
        for schema in schemas
        if (missing := [right for right in REQUIRED_RIGHTS if right not in granted[schema]])
    }


@reads_answers("grants")
def check_rights(server: SqlReader, schemas: Sequence[str], *, side: str, user: str) -> list[str]:
    """Return sentences on missing privileges other than SELECT.

    Raises MissingPrerequisite when SELECT is missing, without which rows and columns seem not to exist.
    """
    missing = missing_rights([str(row[0]) for row in server.query(GRANTS)], schemas)
    for schema, rights in missing.items():
        if "SELECT" in rights:
            raise MissingPrerequisite(
                f"{user} may not SELECT in {schema}",
                where=side,
                evidence="SHOW GRANTS has no such right",
                next_step=f"GRANT {', '.join(REQUIRED_RIGHTS)} ON `{schema}`.* TO this user",
            )
    return [
        f"{user} on the {side} has no {', '.join(rights)} on {schema}: objects that need it are not visible"
        for schema, rights in missing.items()
    ]


def _matches(pattern: str, schema: str) -> bool:
    """Return whether a grant's schema pattern matches: % and _ are wildcards unless escaped."""
    pieces = re.split(r"(\\[%_]|%|_)", pattern)
    wild = {"%": ".*", "_": "."}
    return (
        re.fullmatch("".join(wild.get(piece) or re.escape(piece.removeprefix("\\")) for piece in pieces), schema)
        is not None
    )
