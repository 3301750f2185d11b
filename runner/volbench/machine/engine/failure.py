"""Diagnosis of a server that is down: a stable name of the cause, with the evidence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base.text import counted
from volbench.core.records.cell import Failure
from volbench.errors import (
    EXIT_ENVIRONMENT,
    EXIT_STEP_FAILED,
    EXIT_USAGE,
    MissingPrerequisite,
    StepFailed,
    UsageError,
    VolbenchError,
)
from volbench.machine.engine.supervisor import describe_exit
from volbench.machine.volume import trouble
from volbench.machine.volume.trouble import VolumeTrouble

_LOG_LINES = 12
_SIGKILL_EXIT = 137
_CRASH_LINE = re.compile(r"(mysqld|mariadbd) got (signal|exception)|assertion failure", re.IGNORECASE)
_STORAGE_ERROR = re.compile(
    r"table '.{1,200}' is full|disk full|error writing file|got error \d+ .{0,200}from storage engine|errno:? \d+",
    re.IGNORECASE,
)
"""What a client is told by a server that could not write: errors 1114, 1021, 1026, 1030 and their like."""
_CRASH_EXITS = frozenset({132, 133, 134, 135, 136, 139})  # ILL TRAP ABRT BUS FPE SEGV


@dataclass(frozen=True, kw_only=True)
class _Signature:
    """A text in the log that identifies a cause; the first one that matches wins."""

    cause: str
    pattern: re.Pattern[str]
    what: str
    next_step: str = ""
    exit_code: int = EXIT_STEP_FAILED


def _signature(
    cause: str, pattern: str, what: str, next_step: str = "", exit_code: int = EXIT_STEP_FAILED
) -> _Signature:
    return _Signature(
        cause=cause, pattern=re.compile(pattern, re.IGNORECASE), what=what, next_step=next_step, exit_code=exit_code
    )


_VOLUME_SIGNATURES = tuple(
    _Signature(
        cause=kind.cause, pattern=kind.log, what=kind.what, next_step=kind.next_step, exit_code=kind.exit_code
    )
    for kind in trouble.KINDS
    if kind.log is not None
)
_SERVER_SIGNATURES = (
    _signature(
        "bad_config",
        r"unknown variable|unknown option|unknown suffix|error while setting value|ambiguous option"
        r"|option .{1,80} requires an argument|did you mean|incorrect argument",
        "the server does not accept its configuration",
        "correct engine.config in the suite",
        EXIT_USAGE,
    ),
    _signature(
        "binary_missing",
        r"(mysqld|mariadbd)\S*: not found|(mysqld|mariadbd)\S*: command not found",
        "the server's program is not installed",
        "install a MySQL or MariaDB server, or use --target docker; see `volbench doctor`",
        EXIT_ENVIRONMENT,
    ),
    _signature(
        "data_dir_in_use",
        r"unable to lock \./?ib|check that you do not already have another mysqld|another process with pid",
        "another server uses the data directory",
        "stop that server first; on NFS a lock may outlive a server that lost its connection",
    ),
    _signature(
        "out_of_memory",
        r"cannot allocate memory|out of memory|errno:? 12\b",
        "the server could not allocate memory",
        "lower innodb_buffer_pool_size in engine.config",
    ),
    _signature(
        "permission_denied",
        r"permission denied|errno:? 13\b",
        "the server has no permission to use its directories",
        "the agent and the server must run as the same user",
        EXIT_ENVIRONMENT,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """The observations when the server went down.

    Args:
        exit_code: of its process, 128 + N after signal N; None while it runs, or before its first start.
        log: the log's text since the server's start.
        volume: what is wrong with the volume, from `check_volume_state`; None: nothing.
        oom_kills: processes that the kernel killed for lack of memory since the server's start; None: unknown.
        by_agent: the agent killed the server.
    """

    exit_code: int | None
    log: str
    volume: VolumeTrouble | None = None
    oom_kills: int | None = None
    by_agent: bool = False


def diagnose(circumstances: Circumstances, *, where: str) -> Failure:
    """Return the failure with the most specific cause. Pure."""
    signature = (
        _killed(circumstances)
        or _logged(_VOLUME_SIGNATURES, circumstances)
        or _crashed(circumstances)
        or _logged(_SERVER_SIGNATURES, circumstances)
    )
    return _failure(signature or _ended(circumstances), circumstances, where=where)


def diagnose_storage_error(error: str, circumstances: Circumstances, *, where: str) -> Failure | None:
    """Return the trouble of the volume behind an error of a client while the server runs; None: there is none.

    A server may fail to extend a file by more than the volume has left, and the volume is not full afterwards: the
    log tells. It counts only after an error of storage, for it may name trouble that is over. Pure.
    """
    if not _STORAGE_ERROR.search(error):
        return None
    signature = _logged(_VOLUME_SIGNATURES, circumstances)
    return None if signature is None else _failure(signature, circumstances, where=where)


def _failure(signature: _Signature, circumstances: Circumstances, *, where: str) -> Failure:
    evidence = ["still running" if circumstances.exit_code is None else describe_exit(circumstances.exit_code)]
    if circumstances.volume is not None:
        evidence.append(circumstances.volume.evidence)
    return Failure(
        cause=signature.cause,
        message=signature.what,
        where=where,
        evidence="; ".join(evidence) + _log_evidence(circumstances.log),
        next_step=signature.next_step,
        exit_code=signature.exit_code,
    )


def _killed(circumstances: Circumstances) -> _Signature | None:
    if circumstances.exit_code != _SIGKILL_EXIT:
        return None
    if (
        circumstances.oom_kills and not circumstances.by_agent
    ):  # the counter is the machine's: another one may be dead
        return _signature(
            "oom",
            "",
            "the kernel killed the server for lack of memory"
            f" ({counted(circumstances.oom_kills, 'such kill')} on this machine since the server's start)",
            "lower innodb_buffer_pool_size, or give the server's container more memory",
        )
    return _signature(
        "server_killed",
        "",
        f"the server was killed with SIGKILL, {'by volbench' if circumstances.by_agent else 'by another process'}",
    )


def _logged(signatures: tuple[_Signature, ...], circumstances: Circumstances) -> _Signature | None:
    volume_cause = circumstances.volume.cause if circumstances.volume is not None else ""
    return next(
        (
            signature
            for signature in signatures
            if signature.cause == volume_cause or signature.pattern.search(circumstances.log)
        ),
        None,
    )


def _crashed(circumstances: Circumstances) -> _Signature | None:
    if circumstances.exit_code in _CRASH_EXITS or _CRASH_LINE.search(circumstances.log):
        return _signature("server_crashed", "", "the server crashed", "see the stack trace in the server's log")
    return None


def _ended(circumstances: Circumstances) -> _Signature:
    if circumstances.exit_code == 0:
        return _signature("server_stopped", "", "the server shut down at the request of another process")
    if circumstances.exit_code is not None and circumstances.exit_code > 128:
        return _signature(
            "server_killed",
            "",
            f"the server was ended by another process ({describe_exit(circumstances.exit_code)})",
        )
    return _signature("server_failed", "", "the server exited with an error")


def _log_evidence(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    error_lines = [line for line in lines if re.search(r"\[(ERROR|Error)\]|\berror\b", line)]
    last_lines = lines[-_LOG_LINES:]
    first_errors = [line for line in error_lines[:3] if line not in last_lines]
    return "; last log lines:\n" + "\n".join([*first_errors, *last_lines]) if lines else "; its log is empty"


def oom_kills() -> int | None:
    """Return how many processes this machine's kernel killed for lack of memory since the boot; None: unknown."""
    try:
        fields = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(fields["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None


def as_error(failure: Failure) -> VolbenchError:
    """Return the failure as an exception of the class for its exit code."""
    classes: dict[int, type[VolbenchError]] = {EXIT_USAGE: UsageError, EXIT_ENVIRONMENT: MissingPrerequisite}
    return classes.get(failure.exit_code, StepFailed)(
        failure.message,
        where=failure.where,
        evidence=failure.evidence,
        next_step=failure.next_step,
        cause=failure.cause,
    )
