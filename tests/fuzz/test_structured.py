"""Values changed within their types end no command otherwise than documented, and every output still parses."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzed.reader import Reader
from fuzzing import PACKAGE, campaign, damaged, execute
from lines_reached import lines_of_package
from structured import ROWS

from fuzz import coverage, report

EXECUTIONS = 100_000
EACH = 3
LINES_MIN = 0.3
"""Share of the package's lines of functions that a campaign executes; the others run servers and volumes."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_first_inputs_of_every_row(row: Reader, tmp_path: Path) -> None:
    """The beginning of the campaign; the seed itself is read by its command without a failure."""
    path = tmp_path / row.file
    path.write_bytes(row.seeds()[0])
    try:
        row.read(path)
    except row.refusals:
        assert row.name.startswith("typed: ")  # some seeds are refused: a header alone, a table of other columns
    for number in range(EACH):
        data = damaged(row, number)
        assert data == damaged(row, number)
        error = execute(row, data, tmp_path)
        if error is not None:
            raise AssertionError(f"{row.name}, number {number}: {error!r}") from error


@pytest.mark.slow
@pytest.mark.timeout(12 * 3600)
def test_structured_inputs_of_all_formats() -> None:
    """Within the row's CPU time and one second more for each 100 KB, and within 2 GiB of memory."""
    outcome = campaign(EXECUTIONS, ROWS)
    assert not outcome.failures, "\n".join(report(outcome))
    assert sum(outcome.executions.values()) >= EXECUTIONS * 0.99
    known_names = lines_of_package(PACKAGE)
    reached = sum(len(lines & known_names[file]) for file, lines in outcome.lines.together().items())
    assert reached >= LINES_MIN * sum(map(len, known_names.values())), "\n".join(coverage(outcome.lines))
