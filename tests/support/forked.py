"""Run tests in processes that are forked after one collection: `pytest -p forked --forks 2`, `--forks 1+3`.

Importing and collecting all tests takes longer than most files of tests. Here one process does so, and its forks
run the tests: a fork takes a file of tests at a time, so that what a file sets up is set up once. Files that wait
for servers and files that compute are two queues, the longest files first; `--forks 1+3` has one fork that begins
with what computes and three that begin with what waits, and each goes on with the other queue. When both are empty,
a fork takes half of what another one has left of its file, so that the last long file does not keep all waiting.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SECONDS_A_TEST = {"integration": 3.0, "browser": 2.0, "fuzz": 0.2}
"""Rough, by directory: the longest files begin first, where no session has measured them."""
SECONDS_A_RUN = 15.0
RUNS = frozenset({"attached", "bench", "docker_run", "local", "on_loop", "small"})
"""Fixtures of tests that make whole runs: a file with one of them is longer than one with five others."""
SECONDS_IN_CONTAINERS = 6.0
WAITING = ("integration", "browser")
"""Directories whose tests wait for servers, containers and devices for more than half their time."""
MEASURED = "forked/seconds"
PROCESSORS_MAX = 4
"""Of which `auto` takes account: each fork that waits has servers, and memory for them."""
SHARED_S_MIN = 20.0
"""What is left of a file is shared from here on: for less, a second fork need not set up what the file sets up."""
ANNOUNCED = 2
"""Tests of a fork that stay its own: the one that runs, and the next one, for which pytest keeps fixtures."""
END_S = 120.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many forks."""
    parser.addoption("--forks", metavar="COMPUTING[+WAITING]|auto", help="run tests in that many forked processes")


def pytest_configure(config: pytest.Config) -> None:
    """Take over the loop of the session where forks are asked for and tests run."""
    text = config.getoption("forks")
    if not text or any(config.getoption(name, None) for name in ("collectonly", "usepdb", "numprocesses")):
        return
    computing, waiting = _numbers(text)
    config.pluginmanager.register(Forks(config, [False] * computing + [True] * waiting), "forks")


def _numbers(text: str) -> tuple[int, int]:
    """Forks that prefer what computes, and what waits. Raises UsageError."""
    if text == "auto":
        processors = min(len(os.sched_getaffinity(0)), PROCESSORS_MAX)
        return max(1, processors // 2), processors + 1
    found = re.fullmatch(r"(\d{1,3})(?:\+(\d{1,3}))?", text)
    computing, waiting = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    if computing + waiting < 1:
        raise pytest.UsageError(f"--forks takes a number or two, such as 1+3, or auto; not {text}")
    return computing, waiting


@dataclass(kw_only=True)
class Fork:
    """A process that runs tests: what it prefers, and what it was given and has not finished."""

    name: str
    process: int
    channel: Connection
    prefers_waiting: bool
    given: deque[int] = field(default_factory=deque)
    running: bool = False

    def give_up_half(self) -> tuple[int, ...]:
        """Return the later half of the tests that were given, in their order, and run the others only."""
        count = len(self.given) // 2 if len(self.given) > ANNOUNCED else 0
        return tuple(self.given.pop() for _ in range(count))[::-1]


class Queues:
    """Files of tests, as numbers of their items: those that wait and those that compute, the longest first."""

    def __init__(self, items: Sequence[pytest.Item], measured: dict[str, float]) -> None:
        self.measured = measured
        self._items = items
        self._queues: dict[bool, deque[tuple[int, ...]]] = {False: deque(), True: deque()}
        files = [tuple(numbers) for _, numbers in groupby(range(len(items)), lambda number: items[number].path)]
        self._tests = {_file(items[numbers[0]]): len(numbers) for numbers in files}
        for numbers in sorted(files, key=self.expected_s, reverse=True):
            self._queues[_kind(items[numbers[0]].path) in WAITING].append(numbers)

    def expected_s(self, numbers: Sequence[int]) -> float:
        """Return about how long tests of one file take."""
        if not numbers:
            return 0.0
        items = [self._items[number] for number in numbers]
        file = _file(items[0])
        if file in self.measured:
            return self.measured[file] * len(items) / self._tests[file]
        return sum(map(_rough_s, items))

    def put_back(self, numbers: Sequence[int], *, waiting: bool) -> None:
        """Return what a lost process has not run."""
        if numbers:
            self._queues[waiting].appendleft(tuple(numbers))

    def take(self, *, waiting: bool) -> tuple[int, ...] | None:
        """The next file of this kind, else of the other one."""
        for queue in (self._queues[waiting], self._queues[not waiting]):
            if queue:
                return queue.popleft()
        return None


def _rough_s(item: pytest.Item) -> float:
    """Return about how long a test takes that no session has measured."""
    if RUNS.intersection(getattr(item, "fixturenames", ())):
        return SECONDS_A_RUN
    if "docker" in item.keywords:  # a marker
        return SECONDS_IN_CONTAINERS
    return SECONDS_A_TEST.get(_kind(item.path), 0.02)


def _file(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


def _kind(path: Path) -> str:
    return next((name for name in reversed(path.parts[:-1]) if name in SECONDS_A_TEST), "")


class Forks:
    """The loop of a session whose tests run in forks."""

    def __init__(self, config: pytest.Config, kinds: Sequence[bool]) -> None:
        self._config, self._kinds = config, kinds
        self._forks: list[Fork] = []
        self._made = 0
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Hand out files, pass on reports."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        cache = getattr(session.config, "cache", None)
        queues = Queues(session.items, dict(cache.get(MEASURED, {})) if cache else {})
        try:
            for waiting in self._kinds:
                self._fork(session, waiting=waiting)
            while self._forks:
                for ready in wait([fork.channel for fork in self._forks]):
                    self._receive(next(fork for fork in self._forks if fork.channel is ready), session, queues)
        finally:
            self._end()
        if cache:
            cache.set(MEASURED, {**queues.measured, **self._seconds})
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _receive(self, fork: Fork, session: pytest.Session, queues: Queues) -> None:
        """One message of a fork: it asks for work, begins a test, reports a phase; or it has ended."""
        try:
            kind, value = fork.channel.recv()
        except (EOFError, ConnectionResetError):
            self._lost(fork, session, queues)
            return
        if kind == "next":
            numbers = None if session.shouldfail or session.shouldstop else self._next(fork, queues)
            fork.given = deque(numbers or ())
            fork.channel.send(numbers)
        elif kind == "begins":
            fork.running = True
        elif kind == "ended":
            fork.running = False
            fork.given.popleft()
            if session.shouldfail or session.shouldstop:
                fork.given.clear()
            fork.channel.send(len(fork.given))
        elif kind == "report":
            data = {**value, "node": _worker(fork)}
            self._pass_on(self._config.hook.pytest_report_from_serializable(config=self._config, data=data))
        elif kind == "fault":
            session.shouldfail = f"fork {fork.name}: {value}"

    def _next(self, fork: Fork, queues: Queues) -> tuple[int, ...] | None:
        """A file of the queues, else half of what the fork with most to do has left."""
        if (numbers := queues.take(waiting=fork.prefers_waiting)) is not None:
            return numbers
        longest = max(self._forks, key=lambda each: queues.expected_s(each.given))
        if queues.expected_s(longest.given) < SHARED_S_MIN:
            return None
        return longest.give_up_half() or None

    def _pass_on(self, report: pytest.TestReport) -> None:
        file = report.nodeid.split("::")[0]
        self._seconds[file] = self._seconds.get(file, 0.0) + report.duration
        self._config.hook.pytest_runtest_logreport(report=report)

    def _lost(self, fork: Fork, session: pytest.Session, queues: Queues) -> None:
        """The process of a fork has ended: as it should, or in a test, which fails; another one takes the rest."""
        self._forks.remove(fork)
        fork.channel.close()
        _, status = os.waitpid(fork.process, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 0 and not fork.given:
            return
        if fork.running:
            item = session.items[fork.given.popleft()]
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            text = f"the process of this test ended {how}"
            lost = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call", node=_worker(fork))
            self._pass_on(lost)
        else:
            session.shouldfail = session.shouldfail or f"fork {fork.name} ended with exit code {code} between tests"
        queues.put_back(fork.given, waiting=fork.prefers_waiting)
        if not session.shouldfail:
            self._fork(session, waiting=fork.prefers_waiting)

    def _fork(self, session: pytest.Session, *, waiting: bool) -> None:
        if threading.active_count() > 1:
            names = ", ".join(thread.name for thread in threading.enumerate())
            raise pytest.UsageError(f"collecting tests has started threads, which do not survive a fork: {names}")
        ours, theirs = Pipe()
        name = f"gw{self._made}"
        self._made += 1
        base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        process = os.fork()
        if not process:
            for fork in self._forks:
                fork.channel.close()  # else no fork would see the end of the first process
            ours.close()
            _run_fork(session, theirs, name, base)
        theirs.close()
        self._forks.append(Fork(name=name, process=process, channel=ours, prefers_waiting=waiting))

    def _end(self) -> None:
        """After an interruption: forks have got the signal too, or see that nobody listens, and tear down."""
        for fork in self._forks:
            fork.channel.close()
        for fork in self._forks:
            with _alarm(fork.process):
                os.waitpid(fork.process, 0)
        self._forks.clear()


def _worker(fork: Fork) -> SimpleNamespace:
    """What pytest prints of the process that a report is from."""
    return SimpleNamespace(gateway=SimpleNamespace(id=fork.name), _workerinfocache=f"[{fork.name}]")


@contextmanager
def _alarm(process: int) -> Iterator[None]:
    """Kill a process that does not end within END_S."""
    timer = threading.Timer(END_S, os.kill, (process, signal.SIGKILL))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _run_fork(session: pytest.Session, channel: Connection, name: str, base: Path) -> None:
    """Run what the first process hands out, and end this process."""
    code = 1
    try:
        atexit._clear()  # what the first process will do at its end is not this one's
        os.environ["PYTEST_XDIST_WORKER"] = name  # as plugins and fixtures know a worker
        _apart(session.config, base / f"popen-{name}")
        session.config.pluginmanager.register(Reports(session.config, channel), "reports-of-a-fork")
        code = _run_files(session, channel)
        atexit._run_exitfuncs()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the session must fail and this process end
        with suppress(OSError):
            channel.send(("fault", f"{type(error).__name__}: {error}"))
    finally:
        os._exit(code)


def _apart(config: pytest.Config, base: Path) -> None:
    """What a fork must not share: captured output, the directory for temporary files, the terminal."""
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp, factory._given_basetemp = None, base
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None:
        terminal._tw._file = Path(os.devnull).open("w")  # noqa: SIM115 - as long as this process


def _run_files(session: pytest.Session, channel: Connection) -> int:
    """File by file; what a file has set up is torn down before the next one is asked for.

    The first process says after each test how many are left: it may have given the later ones to another fork.
    """
    while True:
        channel.send(("next", None))
        numbers = channel.recv()
        if numbers is None:
            break
        items: deque[pytest.Item] = deque(session.items[number] for number in numbers)
        left = len(items)
        while left:
            item = items.popleft()
            following = items[0] if left > 1 else session
            channel.send(("begins", None))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            channel.send(("ended", None))
            left = channel.recv()
    session._setupstate.teardown_exact(None)
    return 0


class Reports:
    """Sends each report of a fork to the first process."""

    def __init__(self, config: pytest.Config, channel: Connection) -> None:
        self._config, self._channel = config, channel

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data: Any = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._channel.send(("report", data))
