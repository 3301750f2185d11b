"""Ensures that a Docker engine answers: an existing one, or the distribution's, installed and started."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bootstrap.command import run, with_rights
from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.packages import Need, install, program
from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities

START_LIMIT_S = 90.0
ASK_EVERY_S = 0.25
ASK_LIMIT_S = 10
ENGINE_PID_FILE = Path("/var/run/docker.pid")
ENGINE_SOCKET = Path("/var/run/docker.sock")
SYSTEMD_RUNS = Path("/run/systemd/system")

ENGINE_NEEDS: tuple[Need, ...] = (
    program("dockerd", "docker.io", reason="the engine for the server's and the tools' containers"),
    program("docker", "docker-cli", "docker.io", reason="the engine's command, where it is a package of its own"),
    program("iptables", reason="dockerd sets its networks up with it"),
)


def ensure_engine(directories: Directories, console: Console) -> capabilities.Means:
    """The engine's answer; installs and starts one where none answers.

    Raises MissingPrerequisite with the engine's last log lines when that is impossible, Refused on the user's no.
    """
    answer = capabilities.docker_engine()
    if answer.present:
        return answer
    if os.environ.get("DOCKER_HOST"):
        raise MissingPrerequisite(
            what=f"no Docker engine answers at DOCKER_HOST={os.environ['DOCKER_HOST']}",
            where="Docker engine",
            evidence=answer.evidence,
            next_step="start it, or unset DOCKER_HOST to have one set up here",
        )
    console.say(f"no Docker engine answers here: {answer.evidence}")
    install(ENGINE_NEEDS, directories, console)
    if not capabilities.docker_engine().present and "permission denied" not in answer.evidence:
        return _start(directories, console)
    return _require_answer(capabilities.docker_engine(), directories.log("dockerd"))


def _start(directories: Directories, console: Console) -> capabilities.Means:
    """Start the engine by the way this machine starts services, and wait until it answers."""
    log = directories.log("dockerd")
    if SYSTEMD_RUNS.is_dir():
        console.say("starting the engine: systemctl start docker")
        run(
            with_rights(["systemctl", "start", "docker"]),
            log=log,
            label="systemctl start docker",
            timeout_s=START_LIMIT_S,
        )
        return _require_answer(_wait(lambda: True), log)
    running_pid = running_engine_pid()
    if running_pid is not None:
        console.say(f"dockerd runs already (pid {running_pid}); waiting for its answer")
        return _require_answer(_wait(lambda: running_engine_pid() is not None), log)
    _remove_stale_pid_file()
    answer = _start_own(directories, console, log)
    if not answer.present and is_slow_start(_text_of(log)):
        console.say("dockerd did not wait long enough for its containerd; it is started once more")
        answer = _start_own(directories, console, log)
    return _require_answer(answer, log)


def _start_own(directories: Directories, console: Console, log: Path) -> capabilities.Means:
    """Start dockerd itself, and return its answer, or why there is none."""
    if log.exists():  # a failure shall be explained by this start, not by an earlier one
        log.replace(log.with_suffix(".log.old"))
    process = start_dockerd(log)
    (directories.state / "dockerd.pid").write_text(f"{process.pid}\n", encoding="ascii")
    console.say(f"no systemd here: started dockerd itself (pid {process.pid}, log {log})")
    if os.geteuid() != 0:
        _give_socket(lambda: process.poll() is None, log)
    return _wait(lambda: process.poll() is None)


def is_slow_start(log: str) -> bool:
    """Return whether dockerd gave up, after its 15 s, on a containerd that was still starting."""
    return "timeout waiting for containerd to start" in log


def start_dockerd(log: Path) -> subprocess.Popen[bytes]:
    """Start dockerd in a session of its own, so that it outlives the set-up and its terminal."""
    with log.open("ab") as out:
        return subprocess.Popen(
            with_rights(["dockerd"]),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _give_socket(alive: Callable[[], bool], log: Path, socket: Path = ENGINE_SOCKET) -> None:
    """Make the user who has sudo the owner of the engine's socket once it is there.

    Who reaches the socket is root on this machine: so not the user's group, which may be everybody's.
    """
    limit = time.monotonic() + START_LIMIT_S
    while not socket.exists() and alive() and time.monotonic() < limit:
        time.sleep(ASK_EVERY_S)
    if socket.exists():
        argv = with_rights(["chown", str(os.geteuid()), str(socket)])
        run(argv, log=log, label=f"giving {socket} to this user", timeout_s=ASK_LIMIT_S)


def running_engine_pid(pid_file: Path = ENGINE_PID_FILE, processes: Path = Path("/proc")) -> int | None:
    """Pid of the dockerd that the engine's own pid file names; None when it is absent or stale.

    A killed dockerd that nobody waits for (no real init in many containers) stays as a zombie: stale too.
    """
    try:
        pid = int(pid_file.read_text(encoding="ascii"))
        stat = (processes / str(pid) / "stat").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    command, _, fields = stat.partition("(")[2].rpartition(")")
    return pid if command == "dockerd" and fields.split()[0] not in {"Z", "X"} else None


def _remove_stale_pid_file() -> None:
    """dockerd refuses to start while its pid file names any living process, be it another program by now."""
    if ENGINE_PID_FILE.exists():
        run(
            with_rights(["rm", "-f", str(ENGINE_PID_FILE)]),
            log=Path(os.devnull),
            label=f"removing the stale {ENGINE_PID_FILE}",
            timeout_s=10,
        )


def _wait(alive: Callable[[], bool]) -> capabilities.Means:
    """Ask until the engine answers, it is gone, or the limit is over."""
    limit = time.monotonic() + START_LIMIT_S
    answer = capabilities.docker_engine(timeout_s=10)
    while not answer.present and time.monotonic() < limit:
        if not alive():
            return capabilities.Means(name="docker", present=False, evidence="dockerd ended right after its start")
        time.sleep(ASK_EVERY_S)
        answer = capabilities.docker_engine(timeout_s=10)
    return answer


def telling_lines(log: str, limit: int = 6) -> str:
    """Those lines of dockerd's log that say why it failed; its last ones when none does."""
    lines = log.splitlines()
    telling = [line for line in lines if re.search(r"level=(error|fatal)|^panic|^failed|^Error", line)]
    return "\n    ".join(["", *(telling or lines)[-limit:]])


def _require_answer(answer: capabilities.Means, log: Path) -> capabilities.Means:
    if answer.present:
        return answer
    denied = "permission denied" in answer.evidence
    log_text = "" if denied else _text_of(log)
    raise MissingPrerequisite(
        what="the Docker engine does not let this user in" if denied else "the Docker engine does not come up",
        where="Docker engine",
        evidence=answer.evidence + (f"; {log} says{telling_lines(log_text)}" if log_text else ""),
        next_step=answer.remedy
        or "start Docker with this machine's service manager, then run the same command again",
    )


def _text_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
