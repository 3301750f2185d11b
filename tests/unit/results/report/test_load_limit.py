"""A load that was the limit: said where the run's own figures prove it by Little's law, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from sentence_runs import FEW_THREADS, volumes
from synthetic_run import OLTP, Synthetic, build_run

from volbench.core.records.report import CellRow, FindingRow
from volbench.core.records.run import RunRecord
from volbench.results.report.rows.cells import cell_rows
from volbench.results.report.rows.load_limit import load_limit_sentences
from volbench.results.store.loaded_run import load_run

IO2 = "ebs-io2?iops=16000&size=1TiB"


def measured(
    where: Path, changes: Mapping[str, float], profile: str = IO2
) -> tuple[RunRecord, tuple[CellRow, ...]]:
    """A run of one volume whose load measured FEW_THREADS but for these changes."""
    volume = replace(volumes(1.4)[0], profile=profile, load_metrics={**FEW_THREADS, **changes})
    loaded = load_run(build_run(where, Synthetic(volumes=(volume,), steps=(OLTP,), repeats=3)))
    return loaded.run, cell_rows(loaded.run, loaded.results)


def sentences(
    where: Path, changes: Mapping[str, float], profile: str = IO2, findings: tuple[FindingRow, ...] = ()
) -> list[str]:
    run, cells = measured(where, changes, profile)
    return list(load_limit_sentences(run, cells, findings, ["disk"]))


def test_threads_that_wait_on_a_volume_far_from_its_limit_are_said(tmp_path: Path) -> None:
    [text] = sentences(tmp_path, {})
    assert "7.40 reads were in flight on average (1,480 reads/s of 5.00 ms each)" in text
    assert "did 1,600 of the 16,000 operations/s that it allows (10 %). About 80 threads" in text


def test_the_tightest_limit_counts(tmp_path: Path) -> None:
    """1,480 reads of 16 KiB are 23.1 MiB/s, with the writes 25.6."""
    [text] = sentences(tmp_path, {}, "ebs-gp3?iops=16000&throughput=125&size=1TiB")
    assert "of the 125 MiB/s that it allows (20 %)" in text


@pytest.mark.parametrize(
    ("changes", "profile"),
    [
        ({"latency_ms_mean": 11.0}, IO2),  # N = X R does not hold
        ({"read_await_ms": 2.0}, IO2),  # most threads do something else
        ({"read_await_ms": 9.0}, IO2),  # more reads than threads: others read, too
        ({}, "ebs-io2?iops=2000&size=1TiB"),  # near its limit
        ({}, "ebs-gp2?size=500GiB"),  # 1,500 IOPS earned: it may be held there
        ({"iops_read": 0.0}, IO2),
        ({}, ""),
    ],
)
def test_nothing_is_said_where_a_check_fails(tmp_path: Path, changes: Mapping[str, float], profile: str) -> None:
    assert sentences(tmp_path, changes, profile) == []


def test_a_burst_far_above_what_the_bucket_earns_is_below_its_cap(tmp_path: Path) -> None:
    [text] = sentences(tmp_path, {}, "ebs-gp2?size=100GiB")
    assert "of the 3,000 operations/s" in text


@pytest.mark.parametrize(
    ("cause", "sentences_min"),
    [("cpu.server_saturated", 0), ("storage.iops_limit", 0), ("storage.read_latency", 1)],
)
def test_a_cause_that_is_used_up_speaks_against_it(tmp_path: Path, cause: str, sentences_min: int) -> None:
    finding = FindingRow(cause=cause, volume="disk", step="read-write", cell_ids=("1",))
    assert len(sentences(tmp_path, {}, findings=(finding,))) == sentences_min


def test_a_volume_without_a_profile_is_held_against_its_other_steps(tmp_path: Path) -> None:
    run, cells = measured(tmp_path, {}, "")
    faster = {
        name: cells[0].metrics["iops_read"].model_copy(update={"value": value})
        for name, value in {"iops_read": 9000.0, "read_mib_per_s": 9000 / 64}.items()
    }
    raw = cells[0].model_copy(update={"step": "raw", "kind": "fio", "metrics": faster})
    [text] = load_limit_sentences(run, (*cells, raw), (), ["disk"])
    assert "did 9,000 reads/s in step raw: this is 16 % of that. About 49 threads" in text
    small = {**faster, "read_mib_per_s": faster["read_mib_per_s"].model_copy(update={"value": 9000 / 256})}
    assert not list(load_limit_sentences(run, (*cells, raw.model_copy(update={"metrics": small})), (), ["disk"]))


def test_a_given_rate_is_no_closed_loop(tmp_path: Path) -> None:
    run, cells = measured(tmp_path, {})
    rated = [cell.model_copy(update={"parameters": {**cell.parameters, "rate": 500.0}}) for cell in cells]
    assert not list(load_limit_sentences(run, rated, (), ["disk"]))
