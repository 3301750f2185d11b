"""Runs a small run again and again; in each the next call of a kind fails. Judges its end, and `resume`.

    LD_PRELOAD=shim.so PYTHONPATH=runner:tests/support python -m faults.sweep DIRECTORY [--every N] [--kind KIND]

The commands, the orchestrator, the journal, the lock, the reports and their files are the real ones; the agent of a
cell is not, which would take seconds: it leaves the result of a synthetic cell, and no call of it fails.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_target import Bench, FakeTarget, FakeVolume

import volbench.cli.runs.run as command
from volbench.cli import main
from volbench.core.records.run import RunRecord
from volbench.errors import EXIT_ENVIRONMENT, EXIT_OK, EXIT_STEP_FAILED, EXIT_UNDECIDED
from volbench.machine.placement.interface import Job
from volbench.measure.session import runner
from volbench.results.store.run_directory import RunDirectory, find_runs

KINDS = {
    kind: number
    for number, kind in enumerate(
        ("open", "write", "sync", "rename", "mkdir", "unlink", "read", "socket", "malloc"), start=1
    )
}
"""Kind of call -> its number in shim.c."""
ERRORS = {
    "open": (errno.EMFILE, errno.EIO),
    "write": (errno.ENOSPC, errno.EIO),
    "sync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.ENOSPC, errno.EIO),
    "mkdir": (errno.ENOSPC,),
    "unlink": (errno.EIO,),
    "read": (errno.EIO,),
    "socket": (errno.ECONNRESET,),
    "malloc": (errno.ENOMEM,),
}
DONE = frozenset({EXIT_OK, EXIT_UNDECIDED})
REPORTED = frozenset({EXIT_ENVIRONMENT, EXIT_STEP_FAILED})
ABORTED = -signal.SIGABRT
"""A library in Rust or C++ ends the process where it gets no memory; nothing may be lost then either."""
UNTOLD = 253
"""Exit code of a child whose command raised something."""
BOUND_S = 60
PROGRESS_EACH = 100


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Which call fails; `onwards`: and every one after it."""

    kind: str
    number: int
    error: int
    onwards: bool = False

    def __str__(self) -> str:
        which = "each from" if self.onwards else "call"
        return f"{self.kind}: {which} {self.number}: {errno.errorcode[self.error]}"


class Shim:
    """The preloaded library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.fault_count.restype = ctypes.c_long
        self._library.fault_arm.argtypes = (ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_int)

    def arm(self, fault: Fault) -> None:
        self._library.fault_arm(KINDS[fault.kind], fault.number, fault.error, fault.onwards)

    def disarm(self) -> None:
        self._library.fault_arm(0, 0, 0, 0)

    def pause(self, *, yes: bool) -> None:
        self._library.fault_pause(yes)

    def count(self) -> int:
        return int(self._library.fault_count())


class Agents(FakeTarget):
    """A target whose agents are processes of their own, as far as faults go."""

    def write_result(self, job: Job) -> None:
        shim = Shim()
        shim.pause(yes=True)
        try:
            super().write_result(job)
        finally:
            shim.pause(yes=False)


class Sweep:
    """One planned run in a directory, begun anew for every fault."""

    def __init__(self, directory: Path) -> None:
        self.place = directory
        self.shim = Shim()
        self.bench = Bench.create(directory / "planned", repeats=1)
        self.record: RunRecord = self.bench.directory.run
        self.outcomes: Counter[str] = Counter()
        with pytest.MonkeyPatch.context() as patch:
            self._patch(patch)
            self.counts = self._count_calls()

    def _patch(self, patch: pytest.MonkeyPatch) -> None:
        plan = SimpleNamespace(run=self.record, attached={})
        patch.setattr(command, "make_plan", lambda *_, **__: plan)
        patch.setattr(runner, "make_target", self._target)

    def _target(self, run: RunRecord, *_: object, **__: object) -> tuple[FakeTarget, dict[str, FakeVolume]]:
        return Agents(results=self.bench.results), {spec.name: FakeVolume(spec) for spec in run.volumes}

    def _count_calls(self) -> dict[str, int]:
        """Return how many calls of each kind the run makes, the second time, when all modules are known."""
        counts = {}
        self._in_child(["warm"], None)
        for kind in KINDS:
            self._fresh()
            _, calls = self._in_child(self._run(), Fault(kind=kind, number=1 << 60, error=errno.EIO))
            counts[kind] = calls
        return counts

    def _fresh(self) -> None:
        for name in ("results", "tmp"):
            shutil.rmtree(self.place / name, ignore_errors=True)
            (self.place / name).mkdir()

    def _run(self) -> list[str]:
        return ["run", "quick.yaml", "--yes", "--json", "--out", str(self.place / "results")]

    def faults(self, kinds: Sequence[str], *, every: int = 1) -> Iterator[Fault]:
        """Yield each n-th call of each kind with each of its errors; of allocations, which are many, a sample."""
        for kind in kinds:
            step = every * max(1, self.counts[kind] // 400) if kind == "malloc" else every
            for number in range(1, self.counts[kind] + 1, step):
                for error in ERRORS[kind]:
                    yield Fault(kind=kind, number=number, error=error)
                if kind in ("write", "open"):
                    yield Fault(kind=kind, number=number, error=ERRORS[kind][0], onwards=True)

    def judge(self, fault: Fault) -> str:
        """Return what is wrong after a fault; nothing if all that must hold does."""
        self._fresh()
        with pytest.MonkeyPatch.context() as patch:
            self._patch(patch)
            code, _ = self._in_child(self._run(), fault)
            output, messages = ((self.place / name).read_text(errors="replace") for name in ("out", "err"))
            self.outcomes[f"{fault.kind}: exit code {code}"] += 1
            wrong = self._wrong_end(code, output, messages, fault) or self._wrong_files(code)
            if wrong:
                return f"{fault}: {wrong}"
            before = self._journal()
            runs = find_runs(self.place / "results")
            again = ["resume", str(runs[0].path), "--json"] if runs else self._run()
            code, _ = self._in_child(again, None)
            messages = (self.place / "err").read_text(errors="replace")
        if code not in DONE:
            return f"{fault}: resume ended with {code}: {messages[-400:]}"
        wrong = self._wrong_run(before)
        return f"{fault}: after resume: {wrong}" if wrong else ""

    def _wrong_end(self, code: int, output: str, messages: str, fault: Fault) -> str:
        if fault.kind == "malloc" and code == ABORTED:
            return ""
        if code not in DONE | REPORTED:
            return f"exit code {code}: {messages[-600:]}"
        if "Traceback" in messages or "fault of volbench" in messages:
            return messages[-600:]
        message = messages.count("volbench: ")
        if code in REPORTED and message != 1 and not (fault.onwards and fault.kind == "write" and message == 0):
            return f"{message} messages: {messages[-600:]}"
        if code in DONE and not output:
            return "nothing was printed"
        return ""

    def _wrong_files(self, code: int) -> str:
        """What a fault left: a run or nothing, every acknowledged cell, and no temporary file."""
        results = self.place / "results"
        runs = {run.path for run in find_runs(results)}
        strangers = [path for path in results.iterdir() if path not in runs]
        if code == ABORTED:  # as by a kill before the plan was written: nobody could remove it
            for path in strangers:
                shutil.rmtree(path)
        elif strangers:
            return f"left in results: {strangers}"
        left = [path.name for path in (self.place / "tmp").iterdir()]
        if left:
            return f"left in TMPDIR: {left}"
        for path in runs:
            directory = RunDirectory(path)
            for event in directory.events():
                if event.event == "cell_finished" and directory.result(event.cell_id) is None:
                    return f"{event.cell_id} was acknowledged and has no result"
            if code in DONE and not (path / "report.json").exists():
                return "done, and no report"
        return ""

    def _journal(self) -> bytes:
        runs = find_runs(self.place / "results")
        path = runs[0].path / "journal.jsonl" if runs else None
        return path.read_bytes() if path is not None and path.exists() else b""

    def _wrong_run(self, before: bytes) -> str:
        (directory,) = find_runs(self.place / "results")
        total = before[: before.rfind(b"\n") + 1]
        if not self._journal().startswith(total):
            return "the journal lost a line"
        finished = Counter(event.cell_id for event in directory.events() if event.event == "cell_finished")
        if finished != Counter(cell.cell_id for cell in self.record.cells):
            return f"finished: {dict(finished)}"
        if len(directory.results()) != len(self.record.cells):
            return "a result is missing"
        partial = [path.name for path in directory.path.rglob(".*") if path.name.endswith(".partial")]
        if partial:
            return f"left: {partial}"
        report = json.loads((directory.path / "report.json").read_text())
        return "" if report["complete"] else "the report is not complete"

    def _in_child(self, arguments: Sequence[str], fault: Fault | None) -> tuple[int, int]:
        """Run a command in a child of this process; return its exit code and how many calls it made."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            self._be_command(arguments, fault, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as source:
            calls = source.read()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), int(calls or b"0")

    def _be_command(self, arguments: Sequence[str], fault: Fault | None, report_to: int) -> None:
        signal.alarm(BOUND_S)
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(self.place / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        for stream, number in (("stdout", 1), ("stderr", 2)):
            setattr(sys, stream, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.place / "tmp")
        sys.argv = ["volbench", *arguments]
        os.chdir(self.place)
        code: object = 255
        if arguments == ["warm"]:
            os._exit(0)
        if fault is not None:
            self.shim.arm(fault)
        try:
            main.main()
        except SystemExit as end:
            code = end.code
        except BaseException as error:  # noqa: BLE001 - told by its code
            code = f"{type(error).__name__}: {error}"
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            code = 120  # as the interpreter ends then
        calls = self.shim.count()
        self.shim.disarm()
        os.write(report_to, str(calls).encode())
        os._exit(code if isinstance(code, int) else UNTOLD)


def main_of_sweep(arguments: Sequence[str], say: Callable[[str], object] = print) -> int:
    """Sweep over all n, or every so many, and print what failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--every", type=int, default=1, help="only each so-many-th call")
    parser.add_argument("--kind", action="append", choices=tuple(KINDS))
    parser.add_argument("--most", type=int, default=0, help="a seeded sample of so many faults")
    args = parser.parse_args(arguments)
    sweep = Sweep(args.directory)
    faults = list(sweep.faults(args.kind or tuple(KINDS), every=args.every))
    if args.most:
        faults = random.Random(0).sample(faults, min(args.most, len(faults)))
    say("calls of the run: " + ", ".join(f"{kind} {count}" for kind, count in sweep.counts.items()))
    wrong = 0
    for number, fault in enumerate(faults, start=1):
        if message := sweep.judge(fault):
            wrong += 1
            say(message)
        if number % PROGRESS_EACH == 0:
            say(f"{number} of {len(faults)} faults, {wrong} wrong so far")
    for outcome, count in sorted(sweep.outcomes.items()):
        say(f"{count:6} {outcome}")
    say(f"{len(faults)} faults, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main_of_sweep(sys.argv[1:]))
