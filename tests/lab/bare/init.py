"""The bare machine's init: runs the commands one after the other and reaps what they leave.

python3 init.py WORK_DIRECTORY COMMAND...
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

#: What a caller may set for the commands; everything else of the caller's environment stays outside.
PASSED = (
    "CI",
    "YES",
    "REQUIRE",
    "PYTEST",
    "JOBS",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
)
END_LIMIT_S = 20.0
OWN = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def main(arguments: list[str]) -> int:
    """Run the commands until one fails; returns its exit code, 0 when none did."""
    signal.signal(signal.SIGTERM, _exit)  # a namespace's first process gets no signal that it does not handle
    subprocess.run(["mount", "--make-rshared", "/"], check=True)  # as an init leaves it
    environment = {name: os.environ[name] for name in PASSED if name in os.environ} | OWN
    work_directory, *commands = arguments
    for command in commands:
        print(f"bare machine: $ {command}", flush=True)
        began = time.monotonic()
        code = _run(command, work_directory, environment)
        load = " ".join(Path("/proc/loadavg").read_text().split()[:3])
        print(
            f"bare machine: exit code {code} after {time.monotonic() - began:.0f} s, load averages {load}",
            flush=True,
        )
        if code != 0:
            return code
    return 0


def _exit(number: int, _frame: object) -> None:
    """Interrupt all processes of the namespace and wait until the commands' own are gone."""
    signal.signal(number, signal.SIG_IGN)
    os.kill(-1, signal.SIGINT)
    limit = time.monotonic() + END_LIMIT_S
    while time.monotonic() < limit:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.1)
        except ChildProcessError:
            break
    sys.exit(128 + number)


def _run(command: str, work_directory: str, environment: dict[str, str]) -> int:
    """Run a shell command to its end; returns its exit code, 128 + N when signal N ended it."""
    child = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=work_directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    while True:
        pid, status = os.wait()  # orphans of earlier commands end here too
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
