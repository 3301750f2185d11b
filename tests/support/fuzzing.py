"""Runs readers on damaged inputs in several processes, and makes crashing inputs small.

The input of number n of a reader is the same in every run; a seed chooses the range of numbers. An execution
fails when it raises anything but what its reader may raise, when it takes longer than its size allows, or when its
process would need more than MEMORY_BYTES.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # others reserve address space, which is bounded here
from fuzzed import BY_NAME, READERS
from fuzzed.reader import Reader
from lines_reached import Lines, Tracer

import volbench

CHUNK = 250
NUMBERS_OF_SEED = 1_000_000_000
"""How far the numbers of one seed are from those of the next: no input is executed for two seeds."""
CPU_S_PER_BYTE = 1.0 / 100_000
HANG_S = 2
"""Of CPU time beyond what an execution may take, after which it is ended."""
MEMORY_BYTES = 2 << 30
"""Above what the process has at its start."""
GUIDED_SHARE = 0.5
"""Of the inputs of a guided campaign, those that begin from an input that reached new lines."""
TRACED_EACH = 4
"""Of so many inputs of a guided campaign, the lines of one are traced, which takes its time twice."""
GUIDES_MAX = 64
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""In memory where there is such a place: a million files are written."""
PACKAGE = Path(volbench.__file__).parent
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
    lines: Lines = field(default_factory=Lines)
    guides: list[bytes] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Take in what another process did; of the inputs of one place the smallest stays."""
        self.executions += other.executions
        self.failures += other.failures
        self.lines.add(other.lines)
        for name, seconds in other.cpu_s.items():
            self.cpu_s[name] += seconds
        for location, data in other.inputs.items():
            if location not in self.inputs or len(data) < len(self.inputs[location]):
                self.inputs[location], self.words[location] = data, other.words[location]


def damaged(reader: Reader, number: int, more_seeds: Sequence[bytes] = ()) -> bytes:
    """The input of a number."""
    rng = random.Random(f"{reader.name}:{number}")
    return reader.mutate(
        rng, [rng.choice(more_seeds)] if more_seeds and rng.random() < GUIDED_SHARE else reader.seeds()
    )


def execute(reader: Reader, data: bytes, scratch: Path) -> BaseException | None:
    """What the reader raised that it must not, or TooLong; None for an input that was read or refused."""
    for entry in os.scandir(scratch):
        shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else Path(entry.path).unlink()
    path = scratch / reader.file
    path.write_bytes(data)
    allowed_s = reader.cpu_s + len(data) * CPU_S_PER_BYTE
    began = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, allowed_s + HANG_S)
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
    own = [frame for frame in frames if _PACKAGE in frame.filename]
    last = own[-1] if own else None
    line = f"{last.filename.rpartition(_PACKAGE)[2]}:{last.name}: {last.line}" if last else ""
    return Place(reader.name, type(error).__name__, line)


def run_numbers(reader: Reader, numbers: Iterable[int], scratch: Path, *, guided: bool = False) -> Outcome:
    """Execute some numbers in this process.

    Args:
        guided: of some inputs, the lines of the package are traced; those that reach new ones become seeds of the
            inputs after them. An input then depends on those before it in its chunk, which are the same each time.
    """
    outcome = Outcome()
    began = time.process_time()
    tracer = Tracer(_PACKAGE)
    guides: list[bytes] = []
    for number in numbers:
        data = damaged(reader, number, guides)
        if guided and number % TRACED_EACH == 0:
            with tracer:
                error = execute(reader, data, scratch)
            if tracer.found_new() and len(guides) < GUIDES_MAX:
                guides.append(data)
        else:
            error = execute(reader, data, scratch)
        outcome.executions[reader.name] += 1
        if error is not None:
            directory = place_of(reader, error)
            outcome.failures[directory] += 1
            if directory not in outcome.inputs or len(data) < len(outcome.inputs[directory]):
                outcome.inputs[directory] = data
                outcome.words[directory] = f"number {number}: {str(error)[:300]}"
    outcome.cpu_s[reader.name] = time.process_time() - began
    outcome.lines, outcome.guides = tracer.lines(reader.name), guides
    return outcome


def campaign(
    executions: int,
    readers: Sequence[Reader] = READERS,
    *,
    processes: int = 2,
    seconds: float | None = None,
    seed: int = 0,
    state: Path | None = None,
    progress: Callable[[str], object] = str,
) -> Outcome:
    """Execute about that many, shared out among the readers by their shares, or as many as the seconds allow.

    Args:
        state: a directory with what each chunk came to: a campaign that was stopped goes on from there.
    """
    shares = sum(reader.share for reader in readers)
    work: list[tuple[str, int, int]] = []
    for reader in readers:
        count = max(20, round(executions * reader.share / shares))
        begin = seed * NUMBERS_OF_SEED
        end = begin + count
        work += [(reader.name, first, min(end, first + CHUNK)) for first in range(begin, end, CHUNK)]
    random.Random(0).shuffle(work)
    outcome, ends_at = Outcome(), time.monotonic() + (seconds or float("inf"))
    if state is not None:
        state.mkdir(parents=True, exist_ok=True)
        for path in (_state_file(state, chunk) for chunk in work):
            if path.exists():
                outcome.add(pickle.loads(path.read_bytes()))  # noqa: S301 - of our own campaign
        work = [chunk for chunk in work if not _state_file(state, chunk).exists()]
    context = multiprocessing.get_context("fork")
    with (
        scratch_directory() as directory,  # of all processes: one that is killed removes nothing itself
        ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(directory,)) as pool,
    ):
        waiting = {pool.submit(_chunk, item): item for item in work}
        for done in as_completed(waiting):
            new = done.result()
            for failure in new.failures.keys() - outcome.failures.keys():
                progress(f"{failure.reader}: {failure.exception} at {failure.line}: {new.words[failure]}")
            outcome.add(new)
            if state is not None:
                _state_file(state, waiting[done]).write_bytes(pickle.dumps(new))
            if time.monotonic() > ends_at:
                pool.shutdown(cancel_futures=True)
                break
    return outcome


def _state_file(state: Path, chunk: tuple[str, int, int]) -> Path:
    digest = hashlib.sha256(repr(chunk).encode()).hexdigest()
    return state / f"{digest[:32]}.pickle"


def _begin(directory: str) -> None:
    global SCRATCH  # noqa: PLW0603 - of a process that is forked for a campaign
    tempfile.tempdir = SCRATCH = directory
    warnings.simplefilter("error")  # a warning of numpy on the terminal is no message of ours
    warnings.filterwarnings("ignore", category=ResourceWarning)
    signal.signal(signal.SIGVTALRM, end_hang)


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, resource.RLIM_INFINITY))


def end_hang(number: int, frame: FrameType | None) -> None:
    """End an execution that takes too long: the handler of SIGVTALRM."""
    del number, frame
    raise TooLong("the execution did not end")


def scratch_directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="volbench-fuzz-", dir=SCRATCH)


def row_of(name: str) -> tuple[Reader, bool]:
    """Return the row of a table by its name, and whether its campaign is guided by the lines that it reaches."""
    if name in BY_NAME:
        return BY_NAME[name], False
    from structured import BY_NAME as STRUCTURED  # noqa: PLC0415 - imports every command

    return STRUCTURED[name], True


def _chunk(work: tuple[str, int, int]) -> Outcome:
    """Execute some numbers in a process of their own, and where that dies, each number in one."""
    name, first, end = work
    row_of(name)[0].seeds()  # made once for all processes that are forked from this one
    outcome = _in_a_process(lambda: _execute_numbers(name, range(first, end)))
    if isinstance(outcome, Outcome):
        return outcome
    together = Outcome()
    for number in range(first, end):
        single = _in_a_process(lambda number=number: _execute_numbers(name, (number,)))  # type: ignore[misc]
        together.add(single if isinstance(single, Outcome) else _died(row_of(name)[0], number, single))
    return together


def _execute_numbers(name: str, numbers: Iterable[int]) -> Outcome:
    _limit_memory()
    with scratch_directory() as directory:
        reader, guided = row_of(name)
        return run_numbers(reader, numbers, Path(directory), guided=guided)


def _died(reader: Reader, number: int, end: str) -> Outcome:
    """What to report of a reader that ends its process: a library may do that, and no exception tells it."""
    location = Place(reader.name, end, "")
    return Outcome(
        executions=Counter({reader.name: 1}),
        failures=Counter({location: 1}),
        inputs={location: damaged(reader, number)},
        words={location: f"number {number}: the process was ended by {location.exception}"},
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
