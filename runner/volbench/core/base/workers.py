"""Worker processes of this program's own code, for `concurrent.futures` and `multiprocessing`.

Those of the standard library start in the working directory and import from it (`python -c`); these do not.
"""

from __future__ import annotations

import io
import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import context, popen_spawn_posix, process, reduction, resource_tracker, util
from typing import Any

from volbench.core.base import programs

__all__ = ["worker_context", "worker_pool"]

_WORKER = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd={tracker}, pipe_handle={pipe})"
_TRACKER = "from multiprocessing.resource_tracker import main; main({pipe})"
_lock = threading.Lock()


def worker_pool(
    processes: int,
    *,
    initializer: Callable[..., object] | None = None,
    initargs: tuple[Any, ...] = (),
    mp_context: context.SpawnContext | None = None,
) -> ProcessPoolExecutor:
    """Return a pool of processes that work in `/` and import no module from a working directory.

    Args:
        processes: how many at most.
        initializer: is called with `initargs` in each process before its work.
        mp_context: of `worker_context`, where the processes share its events or values; None: a new one.
    """
    return ProcessPoolExecutor(
        processes, mp_context=mp_context or worker_context(), initializer=initializer, initargs=initargs
    )


def worker_context() -> context.SpawnContext:
    """Return a context of `multiprocessing` whose processes start as those of `worker_pool`."""
    _start_tracker()
    return _Context()


class _Start(popen_spawn_posix.Popen):
    """Starts one worker: as the base class does, but through `programs`."""

    _fds: list[int]

    def _launch(self, process_obj: process.BaseProcess) -> None:
        tracker = resource_tracker.getfd()
        preparation = {
            "name": process_obj.name,
            "authkey": process.current_process().authkey,
            "dir": "/",
            "orig_dir": "/",
        }
        # Without the parent's sys.path and main module, which the base class would send, too.
        pickled = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            reduction.dump(preparation, pickled)
            reduction.dump(process_obj, pickled)
        finally:
            context.set_spawning_popen(None)
        self.sentinel, held_by_child = os.pipe()
        read_by_child, write_end = os.pipe()
        self.finalizer = util.Finalize(self, _close, (self.sentinel, write_end))
        try:
            code = _WORKER.format(tracker=tracker, pipe=read_by_child)
            self._process = programs.start_python(
                "-c",
                code,
                "--multiprocessing-fork",
                stdin=subprocess.DEVNULL,
                pass_fds=[*self._fds, tracker, read_by_child, held_by_child],
            )
        finally:
            os.close(read_by_child)
            os.close(held_by_child)
        self.pid = self._process.pid
        with open(write_end, "wb", closefd=False) as pipe:
            pipe.write(pickled.getbuffer())

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = self._process.poll() if flag == os.WNOHANG else self._process.wait()
        return self.returncode


class _Process(context.SpawnProcess):
    @staticmethod
    def _Popen(process_obj: process.BaseProcess) -> _Start:  # noqa: N802 - the base class's name
        return _Start(process_obj)


class _Context(context.SpawnContext):
    Process = _Process


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _start_tracker() -> None:
    """Start the process of `multiprocessing` that removes semaphores of killed processes, unless it runs.

    `multiprocessing` cannot be told where that process starts. It only knows its pipe here, as in its workers.
    """
    tracker: Any = resource_tracker._resource_tracker
    with _lock:
        if tracker._fd is not None:
            return
        read_end, write_end = os.pipe()
        try:
            started = programs.start_python(
                "-c",
                _TRACKER.format(pipe=read_end),
                stdin=subprocess.DEVNULL,
                pass_fds=[read_end],
                start_new_session=True,
            )
        finally:
            os.close(read_end)
        started.returncode = 0  # it ends after this process, which does not wait for it
        tracker._fd = write_end
