"""The cause of a server that is down, from exit code, log and volume; log lines are as servers write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.engine.failure import (
    Circumstances,
    as_error,
    diagnose,
    diagnose_storage_error,
    oom_kills,
)
from volbench.machine.volume.trouble import VolumeTrouble, check_volume_state

LOGS = [
    (
        "volume_full",
        1,
        "2026-01-05T10:00:00Z 1 [ERROR] [MY-012144] [InnoDB] posix_fallocate(): Failed to "
        "preallocate data for file ./ibdata1, desired size 67108864 bytes. Operating system error number 28. "
        "Check that the disk is not full",
    ),
    (
        "volume_full",
        134,
        "2026-01-05 10:00:00 0 [ERROR] InnoDB: preallocating 65536 bytes for file ./ibtmp1 failed "
        "with error 28\nmariadbd: Error writing file './binlog.000001' (errno: 28 \"No space left on device\")",
    ),
    (
        "volume_read_only",
        1,
        "[ERROR] [MY-010119] [Server] Aborting\nmysqld: Can't create/write to file "
        "'/v/data/binlog.index' (OS errno 30 - Read-only file system)",
    ),
    ("volume_gone", 134, "[ERROR] [MY-012611] [InnoDB] Operating system error number 5 in a file operation."),
    ("server_crashed", 139, "mysqld got signal 11 ;\nMost likely, you have hit a bug"),
    ("server_crashed", 134, "[ERROR] [MY-013183] [InnoDB] Assertion failure: log0recv.cc:1234"),
    ("bad_config", 1, "[ERROR] [MY-000067] [Server] unknown variable 'innodb_bufer_pool_size=1G'."),
    ("bad_config", 7, "2026-01-05 10:00:00 0 [ERROR] mariadbd: unknown variable 'mysqlx=OFF'"),
    ("binary_missing", 127, "supervisor.sh: 63: mysqld: not found"),
    ("data_dir_in_use", 1, "[ERROR] [MY-012574] [InnoDB] Unable to lock ./ibdata1 error: 11"),
    ("out_of_memory", 1, "[ERROR] [MY-012681] [InnoDB] mmap(1099511627776 bytes) failed; errno 12"),
    ("permission_denied", 1, "mysqld: Can't create directory '/v/data/' (OS errno 13 - Permission denied)"),
    ("server_failed", 1, "[ERROR] something that nobody has seen before"),
    ("server_failed", 1, ""),
    ("server_stopped", 0, "Received SHUTDOWN from user root. Shutting down mysqld"),
    ("server_killed", 143, ""),
]


@pytest.mark.parametrize(("cause", "exit_code", "log"), LOGS)
def test_the_cause_is_read_from_exit_code_and_log(cause: str, exit_code: int, log: str) -> None:
    failure = diagnose(Circumstances(exit_code=exit_code, log=log), where="server start")
    assert failure.cause == cause
    assert failure.where == "server start"
    assert log.splitlines()[-1] in failure.evidence if log else "its log is empty" in failure.evidence


def test_sigkill_with_a_kill_for_want_of_memory_is_oom() -> None:
    assert diagnose(Circumstances(exit_code=137, log="", oom_kills=1), where="x").cause == "oom"


@pytest.mark.parametrize("oom", [None, 0])
def test_sigkill_without_is_a_kill_from_outside(oom: int | None) -> None:
    """Also when the kernel's counter cannot be read: memory is not blamed without evidence."""
    failure = diagnose(Circumstances(exit_code=137, log="", oom_kills=oom), where="x")
    assert failure.cause == "server_killed"
    assert "by another process" in failure.message


def test_a_kill_of_our_own_is_said_to_be_ours() -> None:
    assert "by volbench" in diagnose(Circumstances(exit_code=137, log="", by_agent=True), where="x").message


def test_a_kill_of_our_own_is_no_lack_of_memory_of_another_process() -> None:
    """The kernel counts its kills for the whole machine."""
    failure = diagnose(Circumstances(exit_code=137, log="", oom_kills=1, by_agent=True), where="x")
    assert failure.cause == "server_killed"
    assert "by volbench" in failure.message


def test_the_volumes_own_state_counts_when_the_log_says_nothing() -> None:
    circumstances = Circumstances(
        exit_code=1, log="", volume=VolumeTrouble(cause="volume_full", evidence="0 bytes are free")
    )
    failure = diagnose(circumstances, where="x")
    assert failure.cause == "volume_full"
    assert "0 bytes are free" in failure.evidence


def test_the_first_error_is_shown_with_the_last_lines() -> None:
    """A long shutdown after the error would push it out of the last lines."""
    log = "[ERROR] the reason\n" + "".join(f"[Note] shutting down part {number}\n" for number in range(40))
    assert "the reason" in diagnose(Circumstances(exit_code=1, log=log), where="x").evidence


def test_a_missing_directory_is_a_volume_that_is_gone(tmp_path: Path) -> None:
    trouble = check_volume_state(tmp_path / "unmounted" / "data")
    assert trouble is not None
    assert trouble.cause == "volume_gone"


def test_a_healthy_volume_has_no_trouble(tmp_path: Path) -> None:
    assert check_volume_state(tmp_path) is None


def test_the_kernels_oom_counter_is_a_number_here() -> None:
    kills = oom_kills()
    assert kills is not None
    assert kills >= 0


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("unknown variable 'x=1'", UsageError),
        ("mysqld: not found", MissingPrerequisite),
        ("Unable to lock ./ibdata1", StepFailed),
    ],
)
def test_the_exception_has_the_class_of_its_exit_code_and_the_cause(log: str, error: type[Exception]) -> None:
    failure = diagnose(Circumstances(exit_code=1, log=log), where="x")
    raised = as_error(failure)
    assert type(raised) is error
    assert (raised.cause, raised.exit_code) == (failure.cause, failure.exit_code)


EXTENSION = "[ERROR] InnoDB: preallocating 37748736 bytes for file ./sbtest/sbtest1.ibd failed with error 28"
STORAGE_ERRORS = [
    ("FATAL: mysql_drv_query() returned error 1114 (The table 'sbtest1' is full) for query 'INSERT'", EXTENSION),
    ("ERROR 1114 (HY000) at line 3: The table 't' is full", EXTENSION),
    ("1021 (HY000): Disk full (/v/tmp/#sql_1.MAI); waiting for someone to free some space...", EXTENSION),
    ("1026 (HY000): Error writing file './binlog.000001' (errno: 28 - No space left on device)", EXTENSION),
    ("1030 (HY000): Got error 28 - 'No space left on device' from storage engine", EXTENSION),
    ("3 (HY000): Error writing file '/v/tmp/MLfd=41' (OS errno 28 - No space left on device)", EXTENSION),
]


@pytest.mark.parametrize(("error", "log"), STORAGE_ERRORS)
def test_an_error_of_storage_is_the_trouble_that_the_log_names(error: str, log: str) -> None:
    """A server that cannot extend a file by 4 MiB leaves 3 MiB free: the volume itself is not full."""
    failure = diagnose_storage_error(error, Circumstances(exit_code=None, log=log), where="step load")
    assert failure is not None
    assert (failure.cause, failure.exit_code, failure.where) == ("volume_full", 3, "step load")
    assert EXTENSION in failure.evidence


@pytest.mark.parametrize(
    ("error", "log"),
    [
        ("FATAL: mysql_drv_query() returned error 1213 (Deadlock found)", EXTENSION),
        ("ERROR 1114 (HY000) at line 3: The table 't' is full", "[Note] ready for connections"),
        ("", EXTENSION),
    ],
)
def test_trouble_of_the_volume_needs_the_client_and_the_log(error: str, log: str) -> None:
    """A table in memory may be full too, and a log may name trouble that is over."""
    assert diagnose_storage_error(error, Circumstances(exit_code=None, log=log), where="x") is None
