"""pt-config-diff and pt-variable-advisor, where they are installed: run on texts, never on a server."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from volbench.base import programs

TIMEOUT_S = 60
CHARACTERS_MAX = 20_000


def advice(source: Mapping[str, str], candidate: Mapping[str, str]) -> dict[str, str]:
    """Return the output of each tool by its name, without tools that are not installed or fail."""
    reports: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="volbench-validate-") as scratch:
        source_file, candidate_file = Path(scratch) / "source", Path(scratch) / "candidate"
        for path, variables in ((source_file, source), (candidate_file, candidate)):
            path.write_text(_show_variables_text(variables))
        for name, arguments in (
            ("pt-config-diff", [str(source_file), str(candidate_file)]),
            ("pt-variable-advisor", ["--source-of-variables", str(candidate_file)]),
        ):
            report = _run_tool(name, arguments)
            if report is not None:
                reports[name] = report.replace(f"{scratch}/", "")
    return reports


def _run_tool(name: str, arguments: list[str]) -> str | None:
    program = shutil.which(name)
    if program is None:
        return None
    try:
        completed = programs.run(
            [program, "--no-version-check", *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if completed.returncode not in {0, 1}:  # 1: pt-config-diff found differences
        return None
    return completed.stdout[:CHARACTERS_MAX]


def _show_variables_text(variables: Mapping[str, str]) -> str:
    """Return variables as `mysql --batch` prints SHOW VARIABLES, the input of both tools."""
    rows = [f"{name}\t{' '.join(value.split())}" for name, value in sorted(variables.items())]
    return "\n".join(("Variable_name\tValue", *rows)) + "\n"
