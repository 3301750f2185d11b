"""First program of the machine's own: runs the commands that come over a serial port, one after the other.

It is copied into the root file system and uses the standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

PORT = Path("/dev/virtio-ports/volbench-lab")
SHARE = Path("/share")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "PYTHONPATH": "/opt/volbench/site:/opt/volbench/tree/runner",
    "PYTHONDONTWRITEBYTECODE": "1",
    "VOLBENCH_LAB_VM": "1",
}


def main() -> None:
    """Greet, then answer each request until the port is closed."""
    with PORT.open("r+b", buffering=0) as port:
        port.write(_line({"ready": os.uname().release}))
        while request := port.readline():
            port.write(_line(_answer(json.loads(request))))


def _line(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run one command; its output goes to a file of the shared directory."""
    with (SHARE / request["output"]).open("wb") as output:
        process = subprocess.Popen(
            ["/bin/bash", "-euo", "pipefail", "-c", request["script"]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/opt/volbench/tree",
            env=ENVIRONMENT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=request["limit_s"])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = None
    return {"code": code}


if __name__ == "__main__":
    main()
