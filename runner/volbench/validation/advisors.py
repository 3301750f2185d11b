"""pt-config-diff and pt-variable-advisor, where they are installed: run on texts, never on a server."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from volbench.base import programs

BOUND_S = 60
CHARACTERS_MAX = 20_000


def advice(source: Mapping[str, str], candidate: Mapping[str, str]) -> dict[str, str]:
    """What each tool said, by its name; a tool that is not there, or that fails, is not in it."""
    said: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="volbench-validate-") as scratch:
        ours, theirs = Path(scratch) / "source", Path(scratch) / "candidate"
        for path, found in ((ours, source), (theirs, candidate)):
            path.write_text(_tabbed(found))
        for name, arguments in (
            ("pt-config-diff", [str(ours), str(theirs)]),
            ("pt-variable-advisor", ["--source-of-variables", str(theirs)]),
        ):
            text = _said(name, arguments)
            if text is not None:
                said[name] = text.replace(f"{scratch}/", "")
    return said


def _said(name: str, arguments: list[str]) -> str | None:
    found = shutil.which(name)
    if found is None:
        return None
    try:
        done = programs.run(
            [found, "--no-version-check", *arguments], capture_output=True, text=True, timeout=BOUND_S, check=False,
            stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode not in {0, 1}:  # 1: pt-config-diff found differences
        return None
    return done.stdout[:CHARACTERS_MAX]


def _tabbed(found: Mapping[str, str]) -> str:
    """As `mysql --batch` prints SHOW VARIABLES: what both tools read."""
    rows = [f"{name}\t{' '.join(value.split())}" for name, value in sorted(found.items())]
    return "\n".join(("Variable_name\tValue", *rows)) + "\n"
