"""Captures a server's statements again and again; in each capture the next call of a socket fails.

    LD_PRELOAD=shim.so PYTHONPATH=runner:tests/support python -m faults.sockets PLACE DSN OPTION_FILE [--every N]

Every later call fails too: a connection that is reset stays so. `faults.sweep` has no call of a socket, since its
agents are no servers; here the command and the server are the real ones.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from faults.sweep import Fault, Shim
from volbench.cli import main
from volbench.errors import EXIT_ENVIRONMENT, EXIT_OK, EXIT_STEP_FAILED

ERRORS = (errno.ECONNRESET, errno.ETIMEDOUT)
ENDS = frozenset({EXIT_OK, EXIT_ENVIRONMENT, EXIT_STEP_FAILED})
RAISED = 253
BOUND_S = 90


class SocketSweep:
    """One capture, begun anew for every fault."""

    def __init__(self, directory: Path, dsn: str, option_file: Path) -> None:
        self.place = directory
        self.out = directory / "classes.json"
        self.shim = Shim()
        self.outcomes: Counter[int] = Counter()
        self._command = ["capture", str(self.out), "--server", dsn, "--option-file", str(option_file)]
        self._command += ["--for", "1s", "--allow-privileged"]
        code, self.calls = self.run(Fault(kind="socket", number=1 << 60, error=errno.EIO))
        assert code == EXIT_OK, self.messages()

    def messages(self) -> str:
        return (self.place / "err").read_text(errors="replace")

    def run(self, fault: Fault) -> tuple[int, int]:
        """Return a capture's exit code and how many calls of a socket it made."""
        self.out.unlink(missing_ok=True)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            self._be_command(fault, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as source:
            calls = source.read()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), int(calls or b"0")

    def judge(self, fault: Fault) -> str:
        """Return what is wrong after a fault; nothing if all that must hold does."""
        code, _ = self.run(fault)
        self.outcomes[code] += 1
        messages = self.messages()
        if code not in ENDS or "Traceback" in messages or "fault of volbench" in messages:
            return f"{fault}: exit code {code}: {messages[-600:]}"
        if code != EXIT_OK and messages.count("volbench: ") != 1:
            return f"{fault}: {messages.count('volbench: ')} messages: {messages[-600:]}"
        if (code == EXIT_OK) != self.out.exists():
            return f"{fault}: exit code {code}, and the file is {'' if self.out.exists() else 'not '}there"
        left = sorted(path.name for path in self.place.iterdir() if path.name not in ("out", "err", self.out.name))
        return f"{fault}: left {left}" if left else ""

    def _be_command(self, fault: Fault, report_to: int) -> None:
        signal.alarm(BOUND_S)
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(self.place / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        for stream, number in (("stdout", 1), ("stderr", 2)):
            setattr(sys, stream, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        sys.argv = ["volbench", *self._command]
        code: object = RAISED
        self.shim.arm(fault)
        try:
            main.main()
        except SystemExit as end:
            code = end.code
        except BaseException as error:  # noqa: BLE001 - told by its code
            sys.stderr.write(f"Traceback: {type(error).__name__}: {error}\n")
        sys.stdout.flush()
        sys.stderr.flush()
        calls = self.shim.count()
        self.shim.disarm()
        os.write(report_to, str(calls).encode())
        os._exit(code if isinstance(code, int) else RAISED)


def main_of_sweep(arguments: Sequence[str], say: Callable[[str], object] = print) -> int:
    """Sweep over all n, or every so many, and print what failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("dsn")
    parser.add_argument("option_file", type=Path)
    parser.add_argument("--every", type=int, default=1)
    args = parser.parse_args(arguments)
    sweep = SocketSweep(args.directory, args.dsn, args.option_file)
    say(f"calls of the capture: socket {sweep.calls}")
    faults = [
        Fault(kind="socket", number=number, error=error, onwards=True)
        for number in range(1, sweep.calls + 1, args.every)
        for error in ERRORS
    ]
    wrong = [problem for fault in faults if (problem := sweep.judge(fault))]
    for problem in wrong:
        say(problem)
    say(", ".join(f"exit code {code}: {count}" for code, count in sorted(sweep.outcomes.items())))
    say(f"{len(faults)} faults, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main_of_sweep(sys.argv[1:]))
