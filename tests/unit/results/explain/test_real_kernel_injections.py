"""What is named on steps of a real kernel in which a cause was made, each recorded before the rule was mended.

tests/lab/vm/injections.yaml says what was made; the files are of tests/fixtures/real-kernels/injections.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from recorded_step import recorded_step

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.findings import explain_case


def findings(case: Case) -> tuple[Cause, ...]:
    return explain_case(case).findings


def causes(case: Case) -> list[str]:
    return [finding.cause for finding in findings(case)]


@pytest.mark.parametrize("name", ["journal-iops"])
def test_a_sync_that_waits_for_a_slow_journal_is_not_lost_above_the_device(name: str) -> None:
    """The journal is on a device of its own, where a write takes 22 ms; the data's device takes 1.3."""
    case = recorded_step(name)
    first = findings(case)[0]
    assert first.cause == "storage.sync_latency"
    assert "host.io_wait" not in causes(case)
    (journal,) = (row for row in first.evidence if row.metric == "journal_write_ms")
    assert "the file system's journal is on dm-0" in journal.text


@pytest.mark.parametrize("name", ["journal-iops"])
def test_without_the_journals_device_the_same_wait_lies_above(name: str) -> None:
    assert "host.io_wait" in causes(replace(recorded_step(name), journal=()))


@pytest.mark.parametrize("name", ["neighbour-raw", "neighbour-writes", "lvm-neighbour"])
def test_others_io_counts_for_commits_that_have_no_instrument(name: str) -> None:
    """MariaDB shows 27 to 39 % of statement time in files; 38 to 48 % more are commits that wait.

    Others fill the limit of two of these devices: they come before it.
    """
    first = findings(recorded_step(name))[0]
    assert first.cause == "interference.io"
    assert (first.share or 0.0) >= 0.15
