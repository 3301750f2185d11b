"""MySQL Shell's upgrade checker, where the plan asks for it: what it finds on the source for the new version.

It sends statements of its own, which are neither guarded nor listed by us; so it is never run unasked. It has to be
installed (`mysqlsh`), of a release that is not older than the candidate, and it knows MySQL only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from volbench.base import programs
from volbench.engine.connection import Account
from volbench.records.gate import Decision
from volbench.records.parse import parse_json
from volbench.records.validation import CheckRow, ServerSide

BOUND_S = 1800.0
OWN_STATEMENTS = "mysqlsh sent statements of its own to the source, which are not among those listed"


def upgrade_check(account: Account, source: ServerSide, candidate: ServerSide) -> CheckRow:
    """no-go for an error that it finds, undecided where it cannot be asked; warnings are told."""
    if "mariadb" in {source.flavor, candidate.flavor}:
        return _undecided("the upgrade checker of MySQL Shell knows MySQL only")
    tool = shutil.which("mysqlsh")
    if tool is None:
        return _undecided("mysqlsh is not installed here, so its upgrade checker was not asked")
    with tempfile.TemporaryDirectory(prefix="volbench-mysqlsh-") as home:
        try:
            completed = programs.run(
                _argv(tool, account, candidate.version), input=f"{account.password}\n", capture_output=True,
                text=True, errors="replace", timeout=BOUND_S, check=False,
                env={**os.environ, "MYSQLSH_USER_CONFIG_HOME": home},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return _undecided("mysqlsh did not come to its end", str(error)[:200])
    report = _json_of(completed.stdout)
    if report is None:
        return _undecided(
            f"mysqlsh ended with {completed.returncode} and no findings", *_last_lines(completed.stderr)
        )
    return upgrade_row(report)


def upgrade_row(report: dict[str, Any]) -> CheckRow:
    """The row of one report, as mysqlsh prints it with outputFormat JSON."""
    if not isinstance(report.get("checksPerformed"), list):
        return _undecided("what mysqlsh printed is not as it is documented")
    problems = list(_problems(report))
    errors = sum(level == "error" for level, _ in problems)
    counted = report.get("errorCount")
    if isinstance(counted, int) and counted > errors:
        return _undecided("what mysqlsh printed is not as it is documented", *(text for _, text in problems))
    failed = [
        f"not checked: {check.get('title', check.get('id', '?'))}: {check.get('description', '')}".strip()
        for check in report["checksPerformed"]
        if str(check.get("status", "OK")).upper() not in {"OK", "CONFIGURATION_ERROR"}
    ]
    decision: Decision = "no-go" if errors else "undecided" if failed else "go"
    problem_texts = [text for level, text in sorted(problems, key=lambda check: _LEVELS.get(check[0], 9))]
    text = (
        f"{errors} errors and {len(problems) - errors} warnings and notices of "
        f"{len(report['checksPerformed'])} checks for {report.get('targetVersion', '?')}"
    )
    return CheckRow(
        check="upgrade",
        decision=decision,
        text=text,
        details=(*problem_texts, *failed, *_manual(report), OWN_STATEMENTS),
    )


_LEVELS = {"error": 0, "warning": 1, "notice": 2}


def _argv(tool: str, account: Account, version: str) -> list[str]:
    """The password comes by standard input, never here."""
    server = (
        [f"--socket={account.socket}"]
        if account.socket
        else [f"--host={account.host or '127.0.0.1'}", f"--port={account.port or 3306}"]
    )
    release = re.match(r"\d+\.\d+\.\d+", version)
    target = [f"--target-version={release[0]}"] if release else []
    return [
        tool, "--mysql", f"--user={account.user}", *server, "--passwords-from-stdin", "--",
        "util", "check-for-server-upgrade", "--output-format=JSON", *target,
    ]  # fmt: skip


def _json_of(printed: str) -> dict[str, Any] | None:
    """The report among what is printed."""
    try:
        report = parse_json(printed[printed.index("{") : printed.rindex("}") + 1])
    except ValueError:
        return None
    return report if isinstance(report, dict) else None


def _problems(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Level and words of each problem."""
    for check in report.get("checksPerformed") or ():
        for problem in check.get("detectedProblems") or ():
            level = str(problem.get("level", "?")).lower()
            description = problem.get("description") or check.get("description") or ""
            yield level, f"{level}: {problem.get('dbObject', '')}: {check.get('title', '')}: {description}"[:400]


def _manual(report: dict[str, Any]) -> Iterator[str]:
    for check in report.get("manualChecks") or ():
        yield f"to be checked by hand: {check.get('title', check.get('id', '?'))}"


def _undecided(text: str, *details: str) -> CheckRow:
    return CheckRow(check="upgrade", decision="undecided", text=text, details=details)


def _last_lines(stderr: str) -> list[str]:
    return [line[:200] for line in stderr.splitlines()[-3:]]
