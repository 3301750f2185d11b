"""What the operating system refuses is told as that, wherever it happens; other exceptions stay faults."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from volbench.core.base.system_errors import refusal_of_system
from volbench.errors import EXIT_ENVIRONMENT

RESULTS = Path(__file__).parents[4] / "results" / "examples"


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.ECONNRESET, errno.ENOMEM])
def test_an_error_of_the_system_is_told_with_what_to_do(number: int) -> None:
    message = refusal_of_system(OSError(number, os.strerror(number), "/x/y"))
    assert message is not None
    assert message.exit_code == EXIT_ENVIRONMENT
    assert (message.where, message.evidence) == ("/x/y", os.strerror(number))
    assert message.next_step


def test_what_an_error_of_the_system_caused_is_told_as_that() -> None:
    error = ValueError("no table")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    message = refusal_of_system(error)
    assert message is not None
    assert "space" in message.evidence
    assert refusal_of_system(MemoryError()) is not None
    assert refusal_of_system(SystemError("error return without exception set")) is not None
    assert refusal_of_system(SystemError("bad argument")) is None


@pytest.mark.parametrize(
    "error", [ValueError("x"), FileNotFoundError(errno.ENOENT, "x"), KeyError("a"), OSError("x")]
)
def test_a_fault_of_ours_stays_one(error: Exception) -> None:
    assert refusal_of_system(error) is None


@pytest.mark.parametrize("full", [("stdout",), ("stdout", "stderr")])
def test_output_that_nothing_takes_ends_with_exit_code_3(full: tuple[str, ...]) -> None:
    """It ended with 70 and a request to report the fault, or with the interpreter's 120."""
    with Path("/dev/full").open("w") as sink:
        streams = {name: sink if name in full else subprocess.PIPE for name in ("stdout", "stderr")}
        ended = subprocess.run(
            [sys.executable, "-m", "volbench", "query", "SELECT 1 AS one", "--out", str(RESULTS)],
            check=False,
            timeout=120,
            **streams,  # type: ignore[call-overload]
        )
    assert ended.returncode == EXIT_ENVIRONMENT
    if "stderr" not in full:
        assert ended.stderr.count(b"volbench: ") == 1
        assert b"No space left on device" in ended.stderr


def test_a_number_that_is_none_is_null_in_json_and_empty_in_tables() -> None:
    for arguments, expected in ((["--json"], [{"x": None, "y": 1.0}]), (["--format", "csv"], "x,y\n,1.0\n")):
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "volbench",
                "query",
                "SELECT 'inf'::DOUBLE AS x, 1.0::DOUBLE AS y",
                "--out",
                str(RESULTS),
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        assert (json.loads(ended.stdout) if arguments == ["--json"] else ended.stdout) == expected
