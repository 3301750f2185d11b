"""The sampling process: `python -m volbench.measure.sample.process CONFIG.json`; `-`: its name on standard input.

It is a process of its own so that the agent's work never delays a tick. It writes `ready` to its standard output
once the machine's own sources are read, and ends at SIGTERM, or when the process that started it is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from volbench.core.base.python import collect_nothing_at_end
from volbench.machine.host.task_files import raise_descriptor_limit
from volbench.measure.sample.config import LAUNCHED, READY, STDIN, SamplingConfig, read_config
from volbench.measure.sample.grid import TickGrid
from volbench.measure.sample.interface import Presence
from volbench.measure.sample.lane import LaneThread
from volbench.measure.sample.raw import RawWriter
from volbench.measure.sample.sources import lanes_of, not_requested

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LOOK_AT_PARENT_S = 1.0
_PROBE_TIMEOUT_S = 5.0
_END_TIMEOUT_S = 2.0
_NICENESS = -5
"""Where that is allowed: a tick shall be on time although the server keeps all CPUs busy."""


def run(config: SamplingConfig, raw: RawWriter | None = None) -> bool:
    """Sample until told to end. False when a thread ended before its time; its traceback is on stderr.

    Args:
        config: what to sample.
        raw: takes the readings; None: a writer of `config.raw_file`.

    Raises OSError when the raw file cannot be written.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # before any thread: only this one takes them
    parent = config.parent_pid or os.getppid()
    _raise_priority()
    raise_descriptor_limit()  # for the files of the server's threads
    grid = TickGrid(zero_monotonic_ns=config.zero_monotonic_ns, interval_ns=round(config.interval_s * 1e9))
    raw = RawWriter(Path(config.raw_file)) if raw is None else raw
    raw.header(interval_s=config.interval_s, zero_monotonic_ns=config.zero_monotonic_ns)
    for source in not_requested(config):
        raw.presence(source, Presence(present=False, reason="not asked for"), remote=False, next_tick=0)
    stop = threading.Event()
    threads = [LaneThread(lane, grid, raw, stop) for lane in lanes_of(config)]
    stop_signal = threading.Event()
    for number in _SIGNALS:
        signal.signal(number, lambda *_: stop_signal.set())
    for thread in threads:
        thread.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    if threads:
        threads[0].begun.wait(_PROBE_TIMEOUT_S)
    os.write(sys.stdout.fileno(), READY)
    # Not sigtimedwait: of a process that was stopped (SIGSTOP, a frozen container) and goes on, Python's says that
    # a signal came when none did.
    while not stop_signal.wait(_LOOK_AT_PARENT_S) and os.getppid() == parent:
        pass
    end_s = grid.t_s(grid.now_ns())
    stop.set()
    for thread in threads:
        thread.join(_END_TIMEOUT_S)  # one that waits for a hung server is left behind
    raw.end(end_s)
    return not any(thread.died for thread in threads)


def _raise_priority() -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    except PermissionError:
        return


def main(argument: str) -> int:
    """Sample as a configuration's file says; return the exit code. Without a file on standard input do nothing."""
    if argument == STDIN:
        os.write(sys.stdout.fileno(), LAUNCHED)
    file = sys.stdin.readline().rstrip("\n") if argument == STDIN else argument
    if not file:
        return 0
    config = read_config(Path(file))
    if argument == STDIN:  # the process may have been started before its log had a place
        with Path(config.raw_file).with_suffix(".log").open("ab") as log:
            os.dup2(log.fileno(), sys.stderr.fileno())
    return 0 if run(config) else 1


if __name__ == "__main__":
    collect_nothing_at_end()
    sys.exit(main(sys.argv[1]))
