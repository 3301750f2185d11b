"""The reports that our hooks make, from sysbench itself, without a server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from volbench.measure.workload.oltp.sysbench import LINE_PREFIX, TEST_VARIABLE, hooks_file

pytestmark = pytest.mark.mysqld  # brings sysbench
TEST = """
local ffi = require("ffi")
ffi.cdef("int usleep(unsigned int);")
function event() ffi.C.usleep(500) end
"""
SECONDS = 18
"""Enough reports for LuaJIT to compile the hook."""


def test_no_sysbench_is_aborted_when_its_time_ends_within_a_report(tmp_path: Path) -> None:
    """Its last report is due when it cancels the thread that reports; of 24 at once, a third used to abort then."""
    (tmp_path / "sleeps.lua").write_text(TEST)
    environment = {**os.environ, TEST_VARIABLE: "sleeps", "LUA_PATH": f"{tmp_path}/?.lua;;"}
    argv = [
        "sysbench",
        str(hooks_file()),
        "--threads=2",
        f"--time={SECONDS}",
        "--report-interval=1",
        "--histogram=on",
    ]
    running = [subprocess.Popen([*argv, "run"], stdout=subprocess.PIPE, env=environment) for _ in range(24)]
    decodes = [process.communicate(timeout=60 + SECONDS)[0].decode() for process in running]
    assert [process.returncode for process in running] == [0] * len(running)
    reports = [text.count(f'{LINE_PREFIX}{{"kind":"interval"') for text in decodes]
    assert min(reports) >= SECONDS - 1
