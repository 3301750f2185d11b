"""Daemons of the lab: started in sessions of their own, known by pid file and start time, ended by these only."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from layout import Layout

from volbench.machine.placement.processes import KnownProcess

COMMAND_TIMEOUT_S = 120.0
LOG_LINES = 15
_POLL_S = 0.1


class LabFailed(Exception):
    """Something of the lab did not come up; the message has the evidence."""


def run(
    argv: Sequence[str | Path], *, stdin: str = "", check: bool = True, timeout_s: float = COMMAND_TIMEOUT_S
) -> str:
    """A command's output. Raises LabFailed, with what it said, when it fails."""
    arguments = [str(argument) for argument in argv]
    done = subprocess.run(
        arguments, input=stdin, capture_output=True, text=True, check=False, timeout=timeout_s, errors="replace"
    )
    if check and done.returncode != 0:
        raise LabFailed(f"`{' '.join(arguments)}` failed with {done.returncode}: {done.stderr.strip()[-1500:]}")
    return done.stdout


def known(layout: Layout, name: str) -> KnownProcess | None:
    """The daemon of that name, if it runs."""
    process = KnownProcess.from_file(layout.pid_file(name))
    return process if process is not None and process.running() else None


def start(layout: Layout, name: str, argv: Sequence[str | Path]) -> None:
    """Start a daemon, unless it runs."""
    if known(layout, name) is not None:
        return
    for path in (layout.log(name), layout.pid_file(name)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with layout.log(name).open("ab") as log:
        child = subprocess.Popen(
            [str(argument) for argument in argv],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    process = KnownProcess.of(child.pid)
    if process is None:
        raise LabFailed(f"{name} ended at once: {log_tail(layout, name)}")
    process.write(layout.pid_file(name))


def stop(layout: Layout, name: str, *, grace_s: float = 10.0) -> None:
    """End a daemon, if it runs."""
    process = known(layout, name)
    if process is not None:
        process.end(grace_s=grace_s)
    layout.pid_file(name).unlink(missing_ok=True)


def log_tail(layout: Layout, name: str) -> str:
    """The daemon's last log lines."""
    try:
        return "\n".join(layout.log(name).read_text(errors="replace").splitlines()[-LOG_LINES:])
    except OSError:
        return "no log"


def wait_for(
    request: Callable[[], bool], *, description: str, timeout_s: float, evidence: Callable[[], str]
) -> None:
    """Wait until something is so. Raises LabFailed at the time-out."""
    until_s = time.monotonic() + timeout_s
    while not request():
        if time.monotonic() > until_s:
            raise LabFailed(f"{description}: not after {timeout_s:g} s\n{evidence()}")
        time.sleep(_POLL_S)


def wait_until_well(layout: Layout, name: str, url: str, *, timeout_s: float) -> None:
    """Wait until the daemon's page on this machine says that all is well; its certificate is not checked."""

    def is_well() -> bool:
        if known(layout, name) is None:
            raise LabFailed(f"{name} has ended: {log_tail(layout, name)}")
        probe = ["curl", "-s", "-k", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", url]
        return run(probe, check=False) == "200"

    wait_for(
        is_well,
        description=f"{name} is ready",
        timeout_s=timeout_s,
        evidence=lambda: log_tail(layout, name),
    )


def write_if_new(path: Path, text: str) -> None:
    """Write a file only when it differs: some daemons end or reload when theirs is touched."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def is_mounted(path: Path) -> bool:
    """Whether something is mounted exactly there."""
    return os.path.ismount(path) or str(path) in (
        line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
    )
