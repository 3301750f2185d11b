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
            done = programs.run(
                _argv(tool, account, candidate.version), input=f"{account.password}\n", capture_output=True,
                text=True, errors="replace", timeout=BOUND_S, check=False,
                env={**os.environ, "MYSQLSH_USER_CONFIG_HOME": home},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return _undecided("mysqlsh did not come to its end", str(error)[:200])
    found = _json_of(done.stdout)
    if found is None:
        return _undecided(f"mysqlsh ended with {done.returncode} and no findings", *_last_lines(done.stderr))
    return row_of(found)


def row_of(found: dict[str, Any]) -> CheckRow:
    """The row of one report, as mysqlsh prints it with outputFormat JSON."""
    if not isinstance(found.get("checksPerformed"), list):
        return _undecided("what mysqlsh printed is not as it is documented")
    problems = list(_problems(found))
    errors = sum(level == "error" for level, _ in problems)
    counted = found.get("errorCount")
    if isinstance(counted, int) and counted > errors:
        return _undecided("what mysqlsh printed is not as it is documented", *(text for _, text in problems))
    failed = [
        f"not checked: {one.get('title', one.get('id', '?'))}: {one.get('description', '')}".strip()
        for one in found["checksPerformed"]
        if str(one.get("status", "OK")).upper() not in {"OK", "CONFIGURATION_ERROR"}
    ]
    decision: Decision = "no-go" if errors else "undecided" if failed else "go"
    told = [text for level, text in sorted(problems, key=lambda one: _LEVELS.get(one[0], 9))]
    text = (
        f"{errors} errors and {len(problems) - errors} warnings and notices of "
        f"{len(found['checksPerformed'])} checks for {found.get('targetVersion', '?')}"
    )
    return CheckRow(
        check="upgrade", decision=decision, text=text, details=(*told, *failed, *_manual(found), OWN_STATEMENTS)
    )


_LEVELS = {"error": 0, "warning": 1, "notice": 2}


def _argv(tool: str, account: Account, version: str) -> list[str]:
    """The password comes by standard input, never here."""
    place = (
        [f"--socket={account.socket}"]
        if account.socket
        else [f"--host={account.host or '127.0.0.1'}", f"--port={account.port or 3306}"]
    )
    release = re.match(r"\d+\.\d+\.\d+", version)
    target = [f"--target-version={release[0]}"] if release else []
    return [
        tool, "--mysql", f"--user={account.user}", *place, "--passwords-from-stdin", "--",
        "util", "check-for-server-upgrade", "--output-format=JSON", *target,
    ]  # fmt: skip


def _json_of(printed: str) -> dict[str, Any] | None:
    """The report among what is printed."""
    try:
        found = parse_json(printed[printed.index("{") : printed.rindex("}") + 1])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _problems(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Level and words of each problem."""
    for check in found.get("checksPerformed") or ():
        for one in check.get("detectedProblems") or ():
            level = str(one.get("level", "?")).lower()
            words = one.get("description") or check.get("description") or ""
            yield level, f"{level}: {one.get('dbObject', '')}: {check.get('title', '')}: {words}"[:400]


def _manual(found: dict[str, Any]) -> Iterator[str]:
    for one in found.get("manualChecks") or ():
        yield f"to be checked by hand: {one.get('title', one.get('id', '?'))}"


def _undecided(text: str, *details: str) -> CheckRow:
    return CheckRow(check="upgrade", decision="undecided", text=text, details=details)


def _last_lines(said: str) -> list[str]:
    return [line[:200] for line in said.splitlines()[-3:]]
