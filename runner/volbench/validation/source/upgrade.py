"""Runs MySQL Shell's upgrade checker on the source, where the plan has it.

The checker sends its own statements, which volbench neither checks nor lists, so it runs only on request. It needs
an installed `mysqlsh` of a release that is not older than the candidate, and supports MySQL only.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from volbench.core.base import programs
from volbench.core.base.parse import parse_json
from volbench.core.base.text import counted
from volbench.core.records.validation.result import CheckRow, ServerSide
from volbench.machine.engine.connection import Account
from volbench.validation.verdict import decide_check, undecided

BOUND_S = 1800.0
OWN_STATEMENTS = "mysqlsh sent its own statements to the source, which are not listed"


def upgrade_check(account: Account, source: ServerSide, candidate: ServerSide) -> CheckRow:
    """Return no-go for an error of the checker, undecided where it cannot run; warnings are details."""
    if "mariadb" in {source.flavor, candidate.flavor}:
        return _undecided("the upgrade checker of MySQL Shell supports MySQL only")
    tool = programs.find_program("mysqlsh")
    if tool is None:
        return _undecided("mysqlsh is not installed here, so its upgrade checker did not run")
    with tempfile.TemporaryDirectory(prefix="volbench-mysqlsh-") as home:
        try:
            completed = programs.run(
                _argv(tool, account, candidate.version),
                input=f"{account.secret}\n",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=BOUND_S,
                check=False,
                env=programs.environment(MYSQLSH_USER_CONFIG_HOME=home),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return _undecided("mysqlsh did not finish", str(error)[:200])
    report = parse_report(completed.stdout)
    if report is None:
        return _undecided(
            f"mysqlsh ended with {completed.returncode} and no findings", *_last_lines(completed.stderr)
        )
    return upgrade_row(report, completed.returncode)


def upgrade_row(report: dict[str, Any], code: int = 0) -> CheckRow:
    """Return the row of one report of mysqlsh with outputFormat JSON, and of its exit code."""
    if not _is_documented(report):
        return _undecided("what mysqlsh printed is not as it is documented")
    problems = list(_problems(report))
    errors = sum(level == "error" for level, _ in problems)
    error_count = report.get("errorCount")
    if isinstance(error_count, int) and error_count > errors:
        return _undecided("what mysqlsh printed is not as it is documented", *(text for _, text in problems))
    failed = [
        f"not checked: {check.get('title', check.get('id', '?'))}: {check.get('description', '')}".strip()
        for check in report["checksPerformed"]
        if _status(check) not in {"OK", "CONFIGURATION_ERROR"}
    ]
    skipped = [check for check in report["checksPerformed"] if _status(check) == "CONFIGURATION_ERROR"]
    if code and not problems:
        failed.append(f"mysqlsh ended with {code} and names no problem")
    problem_texts = [text for level, text in sorted(problems, key=lambda check: _LEVELS.get(check[0], 9))]
    warnings = counted(len(problems) - errors, "warning or notice", "warnings and notices")
    checks = counted(len(report["checksPerformed"]), "check")
    text = f"{counted(errors, 'error')} and {warnings} of {checks} for {report.get('targetVersion', '?')}"
    return decide_check(
        "upgrade",
        compared=len(report["checksPerformed"]) - len(skipped),
        text=text,
        faults=problem_texts[:errors],
        doubts=failed,
        notes=(
            *problem_texts[errors:],
            *(f"needs the server's my.cnf: {check.get('title', check.get('id', '?'))}" for check in skipped),
            *_manual(report),
            OWN_STATEMENTS,
        ),
        nothing="mysqlsh made no check",
    )


_LEVELS = {"error": 0, "warning": 1, "notice": 2}


def _argv(tool: str, account: Account, version: str) -> list[str]:
    """Return the arguments; the password goes through standard input, never through them."""
    server = (
        [f"--socket={account.socket}"]
        if account.socket
        else [f"--host={account.host or '127.0.0.1'}", f"--port={account.port or 3306}"]
    )
    release = re.match(r"\d+\.\d+\.\d+", version)
    target = [f"--target-version={release[0]}"] if release else []
    return [
        tool,
        "--mysql",
        f"--user={account.user}",
        *server,
        "--passwords-from-stdin",
        "--",
        "util",
        "check-for-server-upgrade",
        "--output-format=JSON",
        *target,
    ]


def parse_report(printed: str) -> dict[str, Any] | None:
    """Return the report within the output."""
    try:
        report = parse_json(printed[printed.index("{") : printed.rindex("}") + 1])
    except ValueError:
        return None
    return report if isinstance(report, dict) else None


def _is_documented(report: Mapping[str, Any]) -> bool:
    """Return whether all checks and problems are lists of objects: what cannot be read is no acquittal."""
    checks = report.get("checksPerformed")
    return (
        isinstance(checks, list)
        and _has_objects([*checks, *_listed(report, "manualChecks")])
        and all(_has_objects(_listed(check, "detectedProblems")) for check in checks)
    )


def _listed(report: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list that may be missing; for anything else a list that has no objects."""
    values = report.get(key)
    return [] if values is None else values if isinstance(values, list) else [values, None]


def _has_objects(values: list[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _problems(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield level and text of each problem."""
    for check in report["checksPerformed"]:
        for problem in _listed(check, "detectedProblems"):
            level = str(problem.get("level", "?")).lower()
            description = problem.get("description") or check.get("description") or ""
            yield level, f"{level}: {problem.get('dbObject', '')}: {check.get('title', '')}: {description}"[:400]


def _manual(report: dict[str, Any]) -> Iterator[str]:
    for check in _listed(report, "manualChecks"):
        yield f"check by hand: {check.get('title', check.get('id', '?'))}"


def _status(check: Mapping[str, Any]) -> str:
    return str(check.get("status", "OK")).upper()


def _undecided(text: str, *details: str) -> CheckRow:
    return undecided("upgrade", text, *details)


def _last_lines(stderr: str) -> list[str]:
    return [line[:200] for line in stderr.splitlines()[-3:]]
