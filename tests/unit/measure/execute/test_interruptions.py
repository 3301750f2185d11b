"""Signals: the first one interrupts, a second one forces, and a cleanup is never interrupted."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack

import pytest

from volbench.errors import StepFailed
from volbench.measure.execute.cleanup import push_cleanup
from volbench.measure.execute.interruptions import Interruptions


def test_the_first_signal_interrupts_and_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    interruptions = Interruptions()
    with pytest.raises(KeyboardInterrupt), interruptions.handled():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not interruptions.forced.is_set()


def test_a_deferred_signal_comes_at_the_end_of_the_block_and_a_second_one_forces() -> None:
    interruptions = Interruptions()
    steps: list[str] = []

    def clean_up() -> None:
        with interruptions.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("end of the block")
        steps.append("after the block")

    with interruptions.handled(), pytest.raises(KeyboardInterrupt):
        clean_up()
    assert steps == ["end of the block"]
    assert interruptions.forced.is_set()


def test_a_failure_of_the_block_wins_over_a_deferred_signal() -> None:
    interruptions = Interruptions()

    def clean_up() -> None:
        with interruptions.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            raise StepFailed("x")

    with interruptions.handled(), pytest.raises(StepFailed):
        clean_up()


def test_other_threads_learn_of_a_signal_by_asking() -> None:
    interruptions = Interruptions()
    with interruptions.handled(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    raised = threading.Event()

    def work() -> None:
        try:
            interruptions.check()
        except KeyboardInterrupt:
            raised.set()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert raised.is_set()
    interruptions.check()  # not in the main thread, which the signal has interrupted already


def _fail() -> None:
    raise StepFailed("the mount is in use", where="volume a", evidence="pid 7")


def test_a_failed_cleanup_is_raised_when_nothing_else_failed() -> None:
    with pytest.raises(StepFailed, match="in use"), ExitStack() as stack:
        push_cleanup(stack, _fail)


def test_a_failed_cleanup_is_evidence_of_the_failure_before_it() -> None:
    def work() -> None:
        with ExitStack() as stack:
            push_cleanup(stack, _fail)
            raise StepFailed("sysbench failed", evidence="exit code 1")

    with pytest.raises(StepFailed, match="sysbench") as caught:
        work()
    assert caught.value.evidence == "exit code 1; when cleaning up: volume a: the mount is in use (pid 7)"
