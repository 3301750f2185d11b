"""No file that others wrote ends a command with anything but an error of volbench."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzed import BY_NAME, READERS
from fuzzed.reader import Reader
from fuzzing import campaign, damaged, execute

from fuzz import report

CRASHES = Path(__file__).parents[1] / "fixtures" / "crashes"
"""Inputs that once ended a reader with an exception that nobody caught, made small: READER/EXCEPTION-NUMBER."""
EXECUTIONS = 1_000_000
EACH = 10


@pytest.mark.parametrize("path", sorted(CRASHES.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_crashed_a_reader_is_read_or_refused(path: Path, tmp_path: Path) -> None:
    reader = BY_NAME[path.parent.name]
    error = execute(reader, path.read_bytes(), tmp_path)
    if error is not None:
        raise error


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_every_reader_reads_what_damage_begins_from(reader: Reader, tmp_path: Path) -> None:
    """Else only its refusal would be tested."""
    read = 0
    for seed in reader.seeds():
        path = tmp_path / reader.file
        path.write_bytes(seed)
        try:
            reader.read(path)
        except reader.refusals:
            continue
        read += 1
        break
    assert read


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_the_first_inputs_of_every_reader(reader: Reader, tmp_path: Path) -> None:
    """The beginning of the long campaign: an input of a number is the same in every run."""
    for number in range(EACH):
        data = damaged(reader, number)
        assert data == damaged(reader, number)
        error = execute(reader, data, tmp_path)
        if error is not None:
            raise AssertionError(f"{reader.name}, number {number}: {error!r}") from error


@pytest.mark.slow
@pytest.mark.timeout(12 * 3600)
def test_a_million_damaged_inputs() -> None:
    """Within a second of CPU and one more for each 100 KB, and within 2 GiB of memory."""
    outcome = campaign(EXECUTIONS)
    assert not outcome.failures, "\n".join(report(outcome))
    assert sum(outcome.executions.values()) >= EXECUTIONS * 0.99
