"""The fuzzer's own work: what a reader may not do is found, with the input that makes it do so."""

from __future__ import annotations

import faulthandler
import os
import random
from collections.abc import Sequence
from pathlib import Path

import fuzzing
import pytest
from fuzzed import BY_NAME
from fuzzed.reader import Reader

DEADLY = b"7"


def numbers(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    return str(rng.randrange(50)).encode() + seeds[0]


def reader_that(act: str) -> Reader:
    def read(path: Path) -> None:
        if path.read_bytes() != DEADLY:
            return
        if act == "abort":
            faulthandler.disable()  # the child's stacks are no news in the output of the tests
            os.abort()
        raise IndexError("out of range")

    return Reader(name="deadly", read=read, seeds=lambda: (b"",), share=1, mutate=numbers)


@pytest.mark.parametrize(("act", "exception"), [("abort", "SIGABRT"), ("raise", "IndexError")])
def test_a_failure_is_found_with_its_input(
    act: str, exception: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where a library ends the process: the other inputs are executed, and counted, and nothing is left."""
    monkeypatch.setattr(fuzzing, "SCRATCH", str(tmp_path))
    reader = reader_that(act)
    monkeypatch.setitem(BY_NAME, reader.name, reader)
    outcome = fuzzing.campaign(150, [reader], processes=1)
    assert outcome.executions == {"deadly": 150}
    assert {failure.exception for failure in outcome.failures} == {exception}
    assert set(outcome.inputs.values()) == {DEADLY}
    assert 2 <= sum(outcome.failures.values()) <= 15
    assert list(tmp_path.iterdir()) == []


def test_another_seed_has_other_inputs() -> None:
    reader = BY_NAME["dsn"]
    first, second = (
        {fuzzing.damaged(reader, seed * fuzzing.NUMBERS_OF_SEED + n) for n in range(50)} for seed in (1, 2)
    )
    assert len(first & second) < 10
