"""The command line as tests call it, in this process or in one of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from volbench.cli.main import main

ROOT = Path.cwd()
QUICK = str(ROOT / "suites/quick.yaml")
TIMEOUT_S = 300


def volbench(
    *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in this process, as `python -m volbench` calls it: a process of its own takes a second of CPU."""
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as output,
        redirect_stderr(io.StringIO()) as messages,
    ):
        patch.setattr(sys, "argv", ["volbench", *arguments])
        patch.chdir(cwd or ROOT)
        for name, value in {"COLUMNS": "80", **(environment or {})}.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, output.getvalue(), messages.getvalue())


def volbench_process(
    *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "volbench", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "runner"), "COLUMNS": "80", **(environment or {})},
    )


def message_of(ended: subprocess.CompletedProcess[str], code: int) -> str:
    """The one message of a failure: on stderr, nothing on stdout, no traceback."""
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("volbench:") == 1, ended.stderr
    return ended.stderr
