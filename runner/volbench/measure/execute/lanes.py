"""Items run in parallel lanes, each lane in its own order: cells of one volume follow each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
_POLL_S = 0.5


def by_lane(items: Iterable[T], lane_of: Callable[[T], str]) -> list[list[T]]:
    """Return the items grouped by lane, each lane in the given order."""
    lanes: dict[str, list[T]] = {}
    for item in items:
        lanes.setdefault(lane_of(item), []).append(item)
    return list(lanes.values())


def run_lanes(lanes: Sequence[Sequence[T]], do: Callable[[T], None], *, at_once: int) -> None:
    """Call `do` with every item, at most `at_once` at a time and one of each lane.

    With `at_once` 1 everything runs in this thread, lane after lane. The first exception is raised when all running
    items have ended; items that have not begun by then are skipped. An interruption of this thread is such an
    exception: `do` has to end soon in the other threads.
    """
    if at_once == 1:
        for lane in lanes:
            for item in lane:
                do(item)
        return
    stopped, slots = threading.Event(), threading.Semaphore(at_once)

    def work(lane: Sequence[T]) -> None:
        for item in lane:
            with slots:
                if stopped.is_set():
                    return
                try:
                    do(item)
                except BaseException:
                    stopped.set()
                    raise

    with ThreadPoolExecutor(max_workers=max(1, len(lanes)), thread_name_prefix="lane") as pool:
        running = {pool.submit(work, lane) for lane in lanes}
        try:
            _await_all(running)
        except BaseException:
            stopped.set()
            raise


def _await_all(running: set[Future[None]]) -> None:
    """Wait for all, and raise the first exception; the waits are short, so that signals are handled."""
    failed: BaseException | None = None
    while running:
        done, running = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
        for future in done:
            failed = failed or future.exception()
    if failed is not None:
        raise failed
