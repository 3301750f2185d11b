"""CPU seconds and peak memory of a process.

On Linux `ru_maxrss` outlives exec: of a process that a large one starts it is at least the large one's peak. So a
process reads its own peak from /proc, and one that cannot do so is started by a small one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_STARTER = """
import json, os, sys
os.set_inheritable(int(sys.argv[1]), False)
process = os.fork()
if not process:
    os.execvp(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(process, 0)
with open(int(sys.argv[1]), "w") as file:
    json.dump([usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024], file)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Of a process and those that it waited for; `mib` is the peak of the largest."""

    cpu_s: float
    mib: float


def peak_mib() -> float:
    """Return the peak of this process since its program was loaded."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def usage_of(command: Sequence[str], environment: Mapping[str, str], *, stdout: int | None = None) -> Usage:
    """Run a command to its end. Raises CalledProcessError where it fails."""
    receiver, sender = os.pipe()
    with os.fdopen(receiver) as answer:
        try:
            starter = [sys.executable, "-I", "-S", "-c", _STARTER, str(sender), *command]
            process = subprocess.Popen(starter, env=environment, stdout=stdout, pass_fds=[sender])
        finally:
            os.close(sender)
        text = answer.read()
    if process.wait() != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    cpu_s, mib = json.loads(text)
    return Usage(cpu_s=cpu_s, mib=mib)
