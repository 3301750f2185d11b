"""A slow query log next to recordings: it is left where it is, and a message says what takes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from volbench.errors import UsageError
from volbench.results.credits.history import Defaults
from volbench.results.credits.sources import read_history
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.recorded import contents
from volbench.results.recorded.slow_log import is_slow_log

FIXTURES = Path(__file__).parents[3] / "fixtures" / "sar"
ENTRY = (
    "# Time: 2026-11-22T18:50:58.921991Z\n# User@Host: app[app] @ localhost []  Id: 4\n"
    "# Query_time: 2.921991  Lock_time: 0.000150 Rows_sent: 1  Rows_examined: 0\n"
    "SET timestamp=1795373456;\nSELECT 1;\n"
)


@pytest.fixture
def slow_log(tmp_path: Path) -> Path:
    path = tmp_path / "slow.log"
    path.write_text(ENTRY * 3)
    return path


def test_a_slow_log_is_known_by_the_head_of_an_entry(slow_log: Path, tmp_path: Path) -> None:
    assert is_slow_log(slow_log)
    assert not is_slow_log(FIXTURES / "sar-d-japanese.txt")
    assert not is_slow_log(tmp_path / "absent")


def test_a_slow_log_alone_is_refused_with_what_takes_it(slow_log: Path) -> None:
    with pytest.raises(UsageError, match="a slow query log is no recording") as raised:
        explain_recorded(slow_log)
    assert "volbench capture" in raised.value.next_step
    with pytest.raises(UsageError, match="a slow query log has no operations"):
        read_history(slow_log, Defaults())


def test_next_to_recordings_a_note_says_that_it_was_not_read(
    slow_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any size: that of a night is larger than what is read of a recording."""
    for file in ("sar-d-japanese.txt", "sar-b-japanese.txt"):
        shutil.copy(FIXTURES / file, slow_log.parent)
    monkeypatch.setattr(contents, "FILE_BYTES_MAX", 1 << 16)
    slow_log.write_text(ENTRY * 1000)
    result = explain_recorded(slow_log.parent)
    assert "slow.log" not in result.files
    (row,) = [row for row in result.table if row.file == "slow.log"]
    assert not row.used
    assert "a slow query log is no recording" in row.why_not
