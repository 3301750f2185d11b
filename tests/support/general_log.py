"""A server's general log: what each user's connections sent, as the server itself wrote it down."""

from __future__ import annotations

import re
from pathlib import Path

_LINE = re.compile(
    r"^(?:\d{6}\s+\d{1,2}:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.]+Z|\t)?\s*(\d+) "
    r"(Connect|Query|Prepare|Execute|Quit|Init DB|Close stmt|Reset stmt|Statistics|Ping|Field List)\t(.*)$"
)
"""MariaDB writes the time once for a second and two tabs otherwise, MySQL a time in each line."""


def statements_of(log: Path, user: str) -> list[str]:
    """Each statement of a user's connections, in order; one of several lines is one text."""
    own: set[str] = set()
    results: list[str] = []
    in_ours = False
    for line in log.read_text(errors="replace").splitlines():
        matched = _LINE.match(line)
        if matched is None:
            if in_ours:
                results[-1] += f"\n{line}"
            continue
        number, command, text = matched.groups()
        if command == "Connect" and text.startswith(f"{user}@"):
            own.add(number)
        elif command == "Connect":
            own.discard(number)
        in_ours = number in own and command in {"Query", "Prepare", "Execute"}
        if in_ours:
            results.append(text)
    return results
