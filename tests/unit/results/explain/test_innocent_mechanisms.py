"""Innocent mechanisms that give a cause's evidence: it may not be named for them as if it were sure.

Each is a real run with series that the mechanism would make, which are our own construction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns

from volbench.core.records.named_metrics import Client
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.causes import findings_of_rules
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SURE = 0.9
NEIGHBOUR = "interference.io"
BEGIN = 12


def clean() -> tuple[Case, Any]:
    """A run without a fault, and the seconds from one on."""
    case = case_of("clean")
    return case, np.arange(len(case.grid)) >= BEGIN


def harmed(case: Case, on: Any) -> dict[tuple[str, str, str], Any]:
    """Clients that do a third of what they did."""
    tps = case.at(Client.tps)
    assert tps is not None
    return {("client", "tps", ""): np.where(on, tps / 3, tps)}


def neighbour(case: Case) -> Cause:
    (first,) = (item for item in explain_case(case).findings if item.cause == NEIGHBOUR)
    return first


def with_reads(pages_per_s: float) -> Case:
    """80 MiB/s of reads of 4 KiB that the server's files know nothing of, and so many pages of swap a second."""
    case, on = clean()
    assert case.device is not None
    disk, rate, moved = case.device.entity, case.device.reads, case.device.read_mib_per_s
    assert rate is not None
    assert moved is not None
    return with_columns(
        case,
        {
            **harmed(case, on),
            ("diskstats", "reads_per_s", disk): rate + on * 20480,
            ("diskstats", "read_mib_per_s", disk): moved + on * 80.0,
            ("vm", "swap_in_pages_per_s", ""): on * pages_per_s,
            ("vm", "swap_out_pages_per_s", ""): 0.0,
        },
    )


@pytest.mark.parametrize(("pages_per_s", "doubtful"), [(0.0, False), (8000.0, False), (12000.0, True), (2e4, True)])
def test_pages_of_swap_are_not_surely_somebody_elses(pages_per_s: float, doubtful: bool) -> None:
    result = neighbour(with_reads(pages_per_s))
    assert ("swap_mib_per_s" in [piece.metric for piece in result.evidence]) is doubtful
    assert (result.kind == "some failed") is doubtful
    assert (result.confidence < SURE) or not doubtful


@pytest.mark.parametrize(
    ("options", "doubtful"),
    [(("rw", "nodiscard"), False), (("rw", "discard"), True), (("rw", "discard=async"), True)],
)
def test_discards_of_a_file_system_that_discards_are_not_surely_somebody_elses(
    options: tuple[str, ...], doubtful: bool
) -> None:
    """A table is dropped, or binary logs are purged: the file system discards their blocks at once."""
    case, on = clean()
    assert case.device is not None
    discards = {("diskstats", "discards_per_s", case.device.entity): on * 5000.0}
    result = neighbour(replace(with_columns(case, {**harmed(case, on), **discards}), mount_options=options))
    assert ("discards_per_s" in [piece.metric for piece in result.evidence]) is doubtful
    assert (result.kind == "some failed") is doubtful
    assert (result.confidence < SURE) or not doubtful


@pytest.mark.parametrize(("syncs_per_s", "doubtful"), [(40.0, False), (50.0, True)])
def test_commits_without_an_instrument_are_not_surely_a_full_redo_log(syncs_per_s: float, doubtful: bool) -> None:
    """A log that is always three quarters full holds nobody back. Syncs of 5 ms, of which fsyncs may take two.

    Eight sessions wait for 0.6 and 0.75 syncs in flight; 0.98 of their time is no wait that an instrument shows.
    """
    seconds = 30
    figures = {
        ("performance_schema", "statement_s_per_s", ""): 8.0,
        ("performance_schema", "wait_s_per_s", "file_data"): 0.16,
        ("performance_schema", "file_syncs_per_s", "binlog"): syncs_per_s,
        ("performance_schema", "file_sync_s_per_s", "binlog"): syncs_per_s * 0.005,
        ("innodb", "data_fsyncs_per_s", ""): syncs_per_s,
        ("innodb", "checkpoint_age_ratio", ""): 0.76,
        ("cpu", "user_ratio", ""): 0.08,
        ("cpu", "system_ratio", ""): 0.02,
    }
    columns = {
        SeriesKey(source=source, metric=metric, entity=entity): np.full(seconds, value)
        for (source, metric, entity), value in figures.items()
    }
    grid = Grid(t_s=np.arange(1.0, seconds + 1), width_s=1.0, columns=columns)
    case = Case(name="load", grid=grid, cell_grid=grid, threads=8, cpus=2)
    (full,) = (
        item for item in findings_of_rules({"volume": case, "step": case}) if item.cause == "redo.checkpoint_stall"
    )
    assert full.one_of_two is doubtful
    assert full.confidence < SURE or not doubtful
