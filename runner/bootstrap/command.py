"""Runs the commands of the set-up: their output goes to a log, a failure's message has the log's last lines."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities

LAST_LINES = 15


def last_lines(log: Path, count: int = LAST_LINES) -> str:
    """Return the end of a log, for a message."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"{log}: {error.strerror}"
    return "\n    ".join(["", *text.splitlines()[-count:]])


def run(
    argv: Sequence[str],
    *,
    log: Path,
    label: str,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    stdin: int | None = None,
) -> None:
    """Run a command to its end; `environment` is added to that of this process.

    Raises MissingPrerequisite with the log's last lines if it fails or takes longer than `timeout_s`.
    """
    with log.open("ab") as out:
        out.write(f"$ {' '.join(argv)}\n".encode())
        out.flush()
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                timeout=timeout_s,
                check=False,
            )
            reason = f"exit code {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            reason = f"not done after {timeout_s:g} s"
        except OSError as error:
            reason = str(error)
    if reason:
        raise MissingPrerequisite(
            what=f"{label} failed ({reason})",
            where="set-up",
            evidence=f"{log} ends with{last_lines(log)}",
            next_step="fix that and run the same command again; completed steps stay",
        )


def with_rights(argv: Sequence[str]) -> list[str]:
    """Return the command for root: unchanged, or with sudo.

    Raises MissingPrerequisite without root and sudo.
    """
    if os.geteuid() == 0:
        return list(argv)
    rights = capabilities.root_rights()
    if not rights.present:
        raise MissingPrerequisite(
            what=f"{argv[0]} needs root", where="set-up", evidence=rights.evidence, next_step=rights.remedy
        )
    return ["sudo", *argv]
