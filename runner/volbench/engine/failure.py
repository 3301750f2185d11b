"""Why a server is down: a stable word for the cause, with the evidence that it rests on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from volbench.engine.supervisor import describe_exit
from volbench.errors import (
    EXIT_ENVIRONMENT,
    EXIT_STEP_FAILED,
    EXIT_USAGE,
    EnvironmentLacks,
    StepFailed,
    UsageError,
    VolbenchError,
)
from volbench.records.cell import Failure
from volbench.volume import trouble
from volbench.volume.trouble import VolumeTrouble

_LOG_LINES = 12
_SIGKILL_EXIT = 137
_CRASH_LINE = re.compile(r"(mysqld|mariadbd) got (signal|exception)|assertion failure", re.IGNORECASE)
_CRASH_EXITS = frozenset({132, 133, 134, 135, 136, 139})  # ILL TRAP ABRT BUS FPE SEGV


@dataclass(frozen=True, kw_only=True)
class _Sign:
    """Text in the log that tells a cause; the first sign that matches wins."""

    cause: str
    pattern: re.Pattern[str]
    what: str
    next_step: str = ""
    exit_code: int = EXIT_STEP_FAILED


def _sign(cause: str, pattern: str, what: str, next_step: str = "", exit_code: int = EXIT_STEP_FAILED) -> _Sign:
    return _Sign(
        cause=cause, pattern=re.compile(pattern, re.IGNORECASE), what=what, next_step=next_step, exit_code=exit_code
    )


_VOLUME_SIGNS = tuple(
    _Sign(cause=kind.cause, pattern=kind.log, what=kind.what, next_step=kind.next_step, exit_code=kind.exit_code)
    for kind in trouble.KINDS
    if kind.log is not None
)
_SERVER_SIGNS = (
    _sign(
        "bad_config",
        r"unknown variable|unknown option|unknown suffix|error while setting value|ambiguous option"
        r"|option .{1,80} requires an argument|did you mean|incorrect argument",
        "the server does not accept its configuration",
        "correct engine.config in the suite",
        EXIT_USAGE,
    ),
    _sign(
        "binary_missing",
        r"(mysqld|mariadbd)\S*: not found|(mysqld|mariadbd)\S*: command not found",
        "the server's program is not there",
        "install a MySQL or MariaDB server, or use --target docker; see `volbench doctor`",
        EXIT_ENVIRONMENT,
    ),
    _sign(
        "data_dir_in_use",
        r"unable to lock \./?ib|check that you do not already have another mysqld|another process with pid",
        "another server uses the data directory",
        "end that server first; on NFS a lock may outlive a server that was cut off",
    ),
    _sign(
        "out_of_memory",
        r"cannot allocate memory|out of memory|errno:? 12\b",
        "the server did not get the memory it asked for",
        "lower innodb_buffer_pool_size in engine.config",
    ),
    _sign(
        "permission_denied",
        r"permission denied|errno:? 13\b",
        "the server may not use its directories",
        "the agent and the server must run as the same user",
        EXIT_ENVIRONMENT,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What was seen when the server went down.

    Args:
        exit_code: of its process, 128 + N after signal N; None when it runs, or never did.
        log: what it logged since its start.
        volume: what is wrong with the volume, from `look_at_volume`; None when it looks well.
        oom_kills: processes the kernel killed for want of memory since the server's start; None: not known.
        by_us: the kill was asked for by the agent.
    """

    exit_code: int | None
    log: str
    volume: VolumeTrouble | None = None
    oom_kills: int | None = None
    by_us: bool = False


def diagnose(seen: Circumstances, *, where: str) -> Failure:
    """The most telling cause. Pure."""
    sign = _killed(seen) or _logged(_VOLUME_SIGNS, seen) or _crashed(seen) or _logged(_SERVER_SIGNS, seen)
    sign = sign or _ended(seen)
    said = ["still running" if seen.exit_code is None else describe_exit(seen.exit_code)]
    if seen.volume is not None:
        said.append(seen.volume.evidence)
    return Failure(
        cause=sign.cause,
        what=sign.what,
        where=where,
        evidence="; ".join(said) + _log_evidence(seen.log),
        next_step=sign.next_step,
        exit_code=sign.exit_code,
    )


def _killed(seen: Circumstances) -> _Sign | None:
    if seen.exit_code != _SIGKILL_EXIT:
        return None
    if seen.oom_kills:
        return _sign(
            "oom",
            "",
            f"the kernel killed the server for want of memory ({seen.oom_kills} such kills since its start)",
            "lower innodb_buffer_pool_size, or give the server's container more memory",
        )
    return _sign(
        "server_killed", "", f"the server was killed with SIGKILL, {'by us' if seen.by_us else 'from outside'}"
    )


def _logged(signs: tuple[_Sign, ...], seen: Circumstances) -> _Sign | None:
    seen_on_volume = seen.volume.cause if seen.volume is not None else ""
    return next((sign for sign in signs if sign.cause == seen_on_volume or sign.pattern.search(seen.log)), None)


def _crashed(seen: Circumstances) -> _Sign | None:
    if seen.exit_code in _CRASH_EXITS or _CRASH_LINE.search(seen.log):
        return _sign("server_crashed", "", "the server crashed", "its log has a stack trace")
    return None


def _ended(seen: Circumstances) -> _Sign:
    if seen.exit_code == 0:
        return _sign("server_stopped", "", "the server shut down, asked to by somebody")
    if seen.exit_code is not None and seen.exit_code > 128:
        return _sign("server_killed", "", f"the server was ended from outside ({describe_exit(seen.exit_code)})")
    return _sign("server_failed", "", "the server gave up")


def _log_evidence(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"\[(ERROR|Error)\]|\berror\b", line)]
    shown = lines[-_LOG_LINES:]
    first = [line for line in telling[:3] if line not in shown]
    return "; last log lines:\n" + "\n".join([*first, *shown]) if lines else "; nothing in its log"


def oom_kills() -> int | None:
    """Processes that the kernel of this machine has killed for want of memory, in any cgroup, since it booted."""
    try:
        fields = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(fields["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None


def as_error(failure: Failure) -> VolbenchError:
    """The failure as an exception of the class that its exit code has."""
    classes: dict[int, type[VolbenchError]] = {EXIT_USAGE: UsageError, EXIT_ENVIRONMENT: EnvironmentLacks}
    return classes.get(failure.exit_code, StepFailed)(
        failure.what,
        where=failure.where,
        evidence=failure.evidence,
        next_step=failure.next_step,
        cause=failure.cause,
    )
