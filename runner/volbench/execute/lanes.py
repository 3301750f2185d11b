"""Several things at a time, each lane in its own order: cells of one volume follow each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
_LOOK_S = 0.5


def by_lane(items: Iterable[T], lane_of: Callable[[T], str]) -> list[list[T]]:
    """The items in their order, those of one lane together."""
    lanes: dict[str, list[T]] = {}
    for item in items:
        lanes.setdefault(lane_of(item), []).append(item)
    return list(lanes.values())


def run_lanes(lanes: Sequence[Sequence[T]], do: Callable[[T], None], *, at_once: int) -> None:
    """Do every item, at most so many at once, one of each lane at a time.

    With one at once all of it happens in this thread, lane after lane. The first exception is raised when all that
    has begun has ended; what has not begun by then is left. An interruption of this thread is such an exception:
    `do` sees to it that what runs in other threads ends soon.
    """
    if at_once == 1:
        for lane in lanes:
            for item in lane:
                do(item)
        return
    over, places = threading.Event(), threading.Semaphore(at_once)

    def work(lane: Sequence[T]) -> None:
        for item in lane:
            with places:
                if over.is_set():
                    return
                try:
                    do(item)
                except BaseException:
                    over.set()
                    raise

    with ThreadPoolExecutor(max_workers=max(1, len(lanes)), thread_name_prefix="lane") as pool:
        running = {pool.submit(work, lane) for lane in lanes}
        try:
            _see_through(running)
        except BaseException:
            over.set()
            raise


def _see_through(running: set[Future[None]]) -> None:
    """Wait for all, and raise the first exception; short waits, so that a signal is seen."""
    failed: BaseException | None = None
    while running:
        done, running = wait(running, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
        for one in done:
            failed = failed or one.exception()
    if failed is not None:
        raise failed
