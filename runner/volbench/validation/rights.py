"""What the account on a server may see: a comparison of what both accounts cannot see would be a wrong go."""

from __future__ import annotations

import re
from collections.abc import Sequence

from volbench.errors import EnvironmentLacks
from volbench.validation.source import Reads

GRANTS = "SHOW GRANTS"
NEEDED = ("SELECT", "SHOW VIEW", "TRIGGER", "EVENT", "EXECUTE")
_GRANT = re.compile(r"GRANT (?P<rights>.+?) ON (?P<on>\*\.\*|`(?P<schema>(?:[^`]|``)+)`\.\*) TO ", re.IGNORECASE)


def missing_rights(grants: Sequence[str], schemas: Sequence[str]) -> dict[str, list[str]]:
    """What is missing, by schema.

    Args:
        grants: the rows of SHOW GRANTS, which both flavors show with the rights of the roles that are active.
    """
    held: dict[str, set[str]] = {schema: set() for schema in schemas}
    for line in grants:
        found = _GRANT.match(line)
        if not found:
            continue
        rights = {right.strip().upper() for right in found["rights"].split(",")}
        for schema in schemas:
            if found["schema"] is None or _matches(found["schema"].replace("``", "`"), schema):
                held[schema] |= set(NEEDED) if rights & {"ALL", "ALL PRIVILEGES"} else rights
    return {schema: gone for schema in schemas if (gone := [one for one in NEEDED if one not in held[schema]])}


def check_rights(server: Reads, schemas: Sequence[str], *, place: str, user: str) -> list[str]:
    """Sentences about rights that are missing beside SELECT.

    Raises EnvironmentLacks when SELECT itself is missing: rows and columns would seem not to be there.
    """
    missing = missing_rights([str(row[0]) for row in server.query(GRANTS)], schemas)
    for schema, rights in missing.items():
        if "SELECT" in rights:
            raise EnvironmentLacks(
                f"{user} may not SELECT in {schema}", where=place, evidence="SHOW GRANTS has no such right",
                next_step=f"GRANT {', '.join(NEEDED)} ON `{schema}`.* TO this user",
            )  # fmt: skip
    return [
        f"{user} on the {place} lacks {', '.join(rights)} on {schema}: what needs it cannot be seen"
        for schema, rights in missing.items()
    ]


def _matches(pattern: str, schema: str) -> bool:
    """A grant's schema is a pattern: % and _ stand for any, unless escaped."""
    parts = re.split(r"(\\[%_]|%|_)", pattern)
    wild = {"%": ".*", "_": "."}
    return (
        re.fullmatch("".join(wild.get(part) or re.escape(part.removeprefix("\\")) for part in parts), schema)
        is not None
    )
