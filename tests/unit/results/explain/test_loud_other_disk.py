"""Waits of others for a disk that the server does not use are no waits for the volume.

A step of a real kernel: eight tasks of others wait for their own disk all the time (PSI says so of the whole host),
and three transactions a second of the server get their rate. An fsync takes 60 ms, of which the volume takes 14.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_throttle import with_columns
from recorded_step import recorded_step

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.host.syncs_on_cpus import sync_by_volume
from volbench.results.explain.rules.shared_evidence import stands_of

STEP = "calm-other-disk-waits"


def causes(case: Case) -> list[str]:
    return [finding.cause for finding in explain_case(case).findings]


def test_a_loud_disk_of_others_accuses_nobody() -> None:
    case = recorded_step(STEP)
    assert not case.cpu_bound
    assert sync_by_volume(case) is not None
    assert causes(case) == []


def test_a_server_whose_tasks_wait_for_no_cpu_waits_for_its_volume() -> None:
    blocked = with_columns(recorded_step(STEP), {("tasks", "run_delay_s_per_s", "server"): 0.0})
    assert "storage.sync_latency" in causes(blocked)


def test_a_sync_waits_for_no_cpu_where_reads_do_not() -> None:
    case = recorded_step(STEP)
    rate = case.grid.column("performance_schema", "file_reads_per_s", "data")
    assert rate is not None
    reads = with_columns(case, {("performance_schema", "file_read_s_per_s", "data"): rate * 0.0055})
    assert "storage.sync_latency" in causes(reads)


@pytest.mark.parametrize(("rate", "stands"), [(3.0, 0), (20.0, 2), (None, 2)])
def test_half_a_second_without_a_transaction_is_chance_at_three_a_second(rate: float | None, stands: int) -> None:
    """Of 1.4 that are expected none comes once in four times; of nine hardly ever."""
    assert len(stands_of(replace(recorded_step(STEP), rate=rate)).stands) == stands
