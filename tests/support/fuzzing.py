"""Runs readers on damaged inputs in several processes, and makes crashing inputs small.

    PYTHONPATH=runner:tests/support python -m fuzzing [--executions 1000000] [--seed N] [--reader NAME] [--keep DIR]

The input of number n of a reader is the same in every run; a seed chooses the range of numbers. An execution
fails when it raises anything but what its reader may raise, when it takes longer than its size allows, or when its
process would need more than MEMORY_BYTES.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # others reserve address space, which is bounded here
from fuzzed import BY_NAME, READERS
from fuzzed.reader import Reader

CHUNK = 250
NUMBERS_OF_SEED = 1_000_000_000
"""How far the numbers of one seed are from those of the next: no input is executed for two seeds."""
CPU_S_BASE, CPU_S_PER_BYTE = 1.0, 1.0 / 100_000
HANG_S = 3
"""Of CPU time, after which an execution is ended; the bound proper is smaller and depends on the input's size."""
MEMORY_BYTES = 2 << 30
"""Above what the process has at its start."""
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""In memory where there is such a place: a million files are written."""
_PACKAGE = f"{os.sep}volbench{os.sep}"


class TooLong(Exception):
    """An execution took longer than its input's size allows."""


@dataclass(frozen=True, order=True)
class Place:
    """Where a class of failures is: the reader, the exception, and the last line of ours in its traceback."""

    reader: str
    exception: str
    line: str


@dataclass
class Outcome:
    """What some executions came to."""

    executions: Counter[str] = field(default_factory=Counter)
    cpu_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    failures: Counter[Place] = field(default_factory=Counter)
    inputs: dict[Place, bytes] = field(default_factory=dict)
    words: dict[Place, str] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        """Take in what another process did; of the inputs of one place the smallest stays."""
        self.executions += other.executions
        self.failures += other.failures
        for name, seconds in other.cpu_s.items():
            self.cpu_s[name] += seconds
        for place, data in other.inputs.items():
            if place not in self.inputs or len(data) < len(self.inputs[place]):
                self.inputs[place], self.words[place] = data, other.words[place]


def damaged(reader: Reader, number: int) -> bytes:
    """The input of a number."""
    return reader.mutate(random.Random(f"{reader.name}:{number}"), reader.seeds())  # noqa: S311 - no secret


def execute(reader: Reader, data: bytes, scratch: Path) -> BaseException | None:
    """What the reader raised that it must not, or TooLong; None for an input that was read or refused."""
    for entry in os.scandir(scratch):
        shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else Path(entry.path).unlink()
    path = scratch / reader.file
    path.write_bytes(data)
    allowed_s = CPU_S_BASE + len(data) * CPU_S_PER_BYTE
    began = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)
    try:
        reader.read(path)
    except reader.refusals:
        pass
    except BaseException as error:  # noqa: BLE001 - to tell of it is what this is for
        return error
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    took_s = time.process_time() - began
    return TooLong(f"{took_s:.1f} s of CPU for {len(data)} bytes") if took_s > allowed_s else None


def place_of(reader: Reader, error: BaseException) -> Place:
    """The class of a failure."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _PACKAGE in frame.filename]
    last = ours[-1] if ours else None
    line = f"{last.filename.rpartition(_PACKAGE)[2]}:{last.name}: {last.line}" if last else ""
    return Place(reader.name, type(error).__name__, line)


def run_numbers(reader: Reader, numbers: Iterable[int], scratch: Path) -> Outcome:
    """Execute some numbers in this process."""
    outcome = Outcome()
    began = time.process_time()
    for number in numbers:
        data = damaged(reader, number)
        error = execute(reader, data, scratch)
        outcome.executions[reader.name] += 1
        if error is not None:
            place = place_of(reader, error)
            outcome.failures[place] += 1
            if place not in outcome.inputs or len(data) < len(outcome.inputs[place]):
                outcome.inputs[place] = data
                outcome.words[place] = f"number {number}: {str(error)[:300]}"
    outcome.cpu_s[reader.name] = time.process_time() - began
    return outcome


def minimised(reader: Reader, data: bytes, place: Place, scratch: Path, *, tries: int = 400) -> bytes:
    """A smaller input that fails at the same place: pieces are left out, halves first."""
    if place.exception == "TooLong":
        return data
    size = max(1, len(data) // 2)
    while size and tries > 0:
        at = 0
        while at < len(data) and tries > 0:
            shorter = data[:at] + data[at + size :]
            tries -= 1
            error = execute(reader, shorter, scratch)
            if error is not None and place_of(reader, error) == place:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def campaign(
    executions: int,
    readers: Sequence[Reader] = READERS,
    *,
    processes: int = 2,
    seconds: float | None = None,
    seed: int = 0,
    progress: Callable[[str], object] = str,
) -> Outcome:
    """Execute about that many, shared out among the readers by their shares, or as many as the seconds allow."""
    shares = sum(reader.share for reader in readers)
    work = []
    for reader in readers:
        count = max(20, round(executions * reader.share / shares))
        begin = seed * NUMBERS_OF_SEED
        end = begin + count
        work += [(reader.name, first, min(end, first + CHUNK)) for first in range(begin, end, CHUNK)]
    random.Random(0).shuffle(work)  # noqa: S311 - so that an early end has seen all readers
    outcome, ends_at = Outcome(), time.monotonic() + (seconds or float("inf"))
    context = multiprocessing.get_context("fork")
    with (
        scratch_directory() as directory,  # of all processes: one that is killed removes nothing itself
        ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(directory,)) as pool,
    ):
        waiting = [pool.submit(_chunk, one) for one in work]
        for done in as_completed(waiting):
            new = done.result()
            for place in new.failures.keys() - outcome.failures.keys():
                progress(f"{place.reader}: {place.exception} at {place.line}: {new.words[place]}")
            outcome.add(new)
            if time.monotonic() > ends_at:
                pool.shutdown(cancel_futures=True)
                break
    return outcome


def _begin(directory: str) -> None:
    global SCRATCH  # noqa: PLW0603 - of a process that is forked for a campaign
    tempfile.tempdir = SCRATCH = directory
    warnings.simplefilter("error")  # a warning of numpy on the terminal is no message of ours
    warnings.filterwarnings("ignore", category=ResourceWarning)
    signal.signal(signal.SIGVTALRM, _hang)


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, resource.RLIM_INFINITY))


def _hang(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise TooLong(f"more than {HANG_S} s of CPU")


def scratch_directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="volbench-fuzz-", dir=SCRATCH)


def _chunk(work: tuple[str, int, int]) -> Outcome:
    """Execute some numbers in a process of their own, and where that dies, each number in one."""
    name, first, end = work
    BY_NAME[name].seeds()  # made once for all processes that are forked from this one
    outcome = _in_a_process(lambda: _execute_numbers(name, range(first, end)))
    if isinstance(outcome, Outcome):
        return outcome
    together = Outcome()
    for number in range(first, end):
        single = _in_a_process(lambda number=number: _execute_numbers(name, (number,)))  # type: ignore[misc]
        together.add(single if isinstance(single, Outcome) else _died(BY_NAME[name], number, single))
    return together


def _execute_numbers(name: str, numbers: Iterable[int]) -> Outcome:
    _limit_memory()
    with scratch_directory() as place:
        return run_numbers(BY_NAME[name], numbers, Path(place))


def _died(reader: Reader, number: int, end: str) -> Outcome:
    """What to report of a reader that ends its process: a library may do that, and no exception tells it."""
    place = Place(reader.name, end, "")
    return Outcome(
        executions=Counter({reader.name: 1}),
        failures=Counter({place: 1}),
        inputs={place: damaged(reader, number)},
        words={place: f"number {number}: the process was ended by {place.exception}"},
    )


def _in_a_process(work: Callable[[], Outcome]) -> Outcome | str:
    """What the work gives, or the signal or exit code by which its process ended without that."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with os.fdopen(writing, "wb") as sink:
                sink.write(pickle.dumps(work()))
            code = 0
        except BaseException:  # noqa: BLE001 - the process ends here, and nobody else prints it
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as source:
        data = source.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 0:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    outcome = pickle.loads(data)  # noqa: S301 - of our own process
    assert isinstance(outcome, Outcome)
    return outcome


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def report(outcome: Outcome) -> Iterator[str]:
    """Lines for a person."""
    total = sum(outcome.executions.values())
    yield f"{total:,} executions, {sum(outcome.failures.values()):,} failures at {len(outcome.failures)} places"
    for place, count in sorted(outcome.failures.items(), key=lambda one: -one[1]):
        yield f"{count:7} {place.reader}: {place.exception} at {place.line}"
        yield f"        {outcome.words[place]!r}"[:400]


def main(arguments: Sequence[str]) -> int:
    """Run it by hand."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0, help="a campaign of another seed has other inputs")
    parser.add_argument("--reader", action="append")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="write the smallest input of each failure here")
    parser.add_argument("--costs", action="store_true", help="show milliseconds of CPU by reader")
    parser.add_argument("--seconds", type=float, help="end after so long, whatever was done by then")
    given = parser.parse_args(arguments)
    readers = [BY_NAME[name] for name in given.reader] if given.reader else READERS
    began = time.monotonic()
    outcome = campaign(
        given.executions,
        readers,
        processes=given.processes,
        seconds=given.seconds,
        seed=given.seed,
        progress=_print,
    )
    _print("\n".join(report(outcome)))
    _print(f"{time.monotonic() - began:.0f} s, {sum(outcome.cpu_s.values()):.0f} s of CPU")
    if given.costs:
        for name, count in sorted(outcome.executions.items(), key=lambda one: -outcome.cpu_s[one[0]]):
            _print(f"{outcome.cpu_s[name] / count * 1e3:8.2f} ms x {count:7} {name}")
    if given.keep:
        keep(outcome, given.keep)
    return 1 if outcome.failures else 0


def keep(outcome: Outcome, directory: Path) -> None:
    """Write the smallest input of each failure, made smaller, one file each."""
    signal.signal(signal.SIGVTALRM, _hang)
    directory.mkdir(parents=True, exist_ok=True)
    with scratch_directory() as scratch:
        for number, (place, data) in enumerate(sorted(outcome.inputs.items())):
            small = minimised(BY_NAME[place.reader], data, place, Path(scratch))
            (directory / f"{place.reader}-{place.exception}-{number}").write_bytes(small)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
