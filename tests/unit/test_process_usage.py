"""The peak that a benchmark prints is of the process that it measured, not of the one that started it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from process_usage import peak_mib, usage_of

LARGE_MIB = 200
COMMAND = (sys.executable, "-I", "-S", "-c", "bytes(1 << 20)")


def test_a_small_process_of_a_large_one_is_small() -> None:
    content = b"x" * (LARGE_MIB << 20)
    assert usage_of(COMMAND, os.environ).mib < LARGE_MIB / 2
    assert peak_mib() > LARGE_MIB
    assert len(content) == LARGE_MIB << 20


def test_cpu_time_and_memory_of_a_command_are_counted() -> None:
    used = usage_of((*COMMAND[:-1], f"x = b'x' * ({LARGE_MIB} << 20); sum(range(3_000_000))"), os.environ)
    assert used.mib > LARGE_MIB
    assert used.cpu_s > 0.01


def test_a_command_that_fails_is_no_measurement() -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status"):
        usage_of((*COMMAND[:-1], "raise SystemExit(3)"), os.environ)
