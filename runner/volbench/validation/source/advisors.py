"""pt-config-diff and pt-variable-advisor, installed or of the tools image: run on texts, never on a server."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from volbench.validation.toolkit import Arguments, ToolName, find_toolkit

TIMEOUT_S = 60
CHARACTERS_MAX = 20_000


def advice(source: Mapping[str, str], candidate: Mapping[str, str]) -> dict[str, str]:
    """Return the output of each tool by its name, without tools that cannot be had or fail."""
    files = {"source": _show_variables_text(source), "candidate": _show_variables_text(candidate)}
    tools: tuple[tuple[ToolName, Arguments], ...] = (
        ("pt-config-diff", lambda paths: [paths["source"], paths["candidate"]]),
        ("pt-variable-advisor", lambda paths: ["--source-of-variables", paths["candidate"]]),
    )
    reports = {name: _run_tool(name, arguments, files) for name, arguments in tools}
    return {name: report for name, report in reports.items() if report is not None}


def _run_tool(name: ToolName, arguments: Arguments, files: Mapping[str, str]) -> str | None:
    tool = find_toolkit(name)
    if tool is None:
        return None
    names_by_path: dict[str, str] = {}

    def with_paths(paths: Mapping[str, str]) -> list[str]:
        names_by_path.update({path: side for side, path in paths.items()})
        return ["--no-version-check", *arguments(paths)]

    try:
        completed = tool.run(with_paths, files, timeout_s=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if completed.returncode not in {0, 1}:  # 1: pt-config-diff found differences
        return None
    report = completed.stdout
    for path, side in names_by_path.items():
        report = report.replace(path, side)
    return report[:CHARACTERS_MAX]


def _show_variables_text(variables: Mapping[str, str]) -> str:
    """Return variables as `mysql --batch` prints SHOW VARIABLES, the input of both tools."""
    rows = [f"{name}\t{' '.join(value.split())}" for name, value in sorted(variables.items())]
    return "\n".join(("Variable_name\tValue", *rows)) + "\n"
