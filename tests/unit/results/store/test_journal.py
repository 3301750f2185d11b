"""The journal survives a writer that was killed in the middle of a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.errors import RunUnreadable
from volbench.results.store.journal import Journal


def test_events_come_back_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("run_started")
    journal.append("cell_finished", cell_id="01-a", attempt=1, wall_s=3.5)
    events = journal.events()
    assert [event.event for event in events] == ["run_started", "cell_finished"]
    assert events[1].details == {"wall_s": 3.5}


@pytest.mark.parametrize("remaining", [1, 10, 40])
def test_a_torn_last_line_is_passed_over_and_the_next_event_is_whole(tmp_path: Path, remaining: int) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append("run_started")
    first = path.read_bytes()
    journal.append("cell_started", cell_id="01-a", attempt=1)
    path.write_bytes(path.read_bytes()[: len(first) + remaining])
    journal.append("run_resumed")
    assert [event.event for event in journal.events()] == ["run_started", "run_resumed"]


def test_a_foreign_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"event": "something else"}\n')
    with pytest.raises(RunUnreadable, match=r"journal\.jsonl:1"):
        Journal(path).events()


def test_no_journal_has_no_events(tmp_path: Path) -> None:
    assert Journal(tmp_path / "journal.jsonl").events() == []
