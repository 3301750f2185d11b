"""Lanes: order within each, so many at once, and an end when one fails."""

from __future__ import annotations

import threading

import pytest

from volbench.measure.execute.lanes import by_lane, run_lanes

CELLS = ["1-a", "1-b", "2-b", "2-a", "3-a", "3-b"]


def volume(cell: str) -> str:
    return cell[-1]


def test_items_of_a_lane_keep_their_order() -> None:
    assert by_lane(CELLS, volume) == [["1-a", "2-a", "3-a"], ["1-b", "2-b", "3-b"]]


def test_one_at_once_is_this_thread_and_the_order_given() -> None:
    done: list[tuple[str, threading.Thread]] = []
    run_lanes([CELLS], lambda cell: done.append((cell, threading.current_thread())), at_once=1)
    assert done == [(cell, threading.current_thread()) for cell in CELLS]


def test_two_lanes_run_at_once_and_never_two_of_one() -> None:
    """Each waits for the other to be there: alone, neither could go on."""
    meeting = threading.Barrier(2, timeout=60)
    now: list[str] = []

    def do(cell: str) -> None:
        assert volume(cell) not in now
        now.append(volume(cell))
        meeting.wait()
        now.remove(volume(cell))
        meeting.wait()

    run_lanes(by_lane(CELLS, volume), do, at_once=2)


def test_a_failure_is_raised_and_nothing_new_is_begun() -> None:
    begun: list[str] = []
    event = threading.Event()

    def do(cell: str) -> None:
        begun.append(cell)
        if cell == "1-a":
            assert event.wait(60)
            raise ValueError(cell)
        event.set()
        threading.Event().wait(0.2)

    with pytest.raises(ValueError, match="1-a"):
        run_lanes(by_lane(CELLS, volume), do, at_once=2)
    assert len(begun) < len(CELLS)
    assert "2-a" not in begun
