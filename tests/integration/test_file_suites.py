"""The suites of two field reports, small, on emulated volumes: the ratio comes out and the cause is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import live_run
import pytest

from volbench.results.report.build import build_report
from volbench.results.report.views.contrast import LARGE, SMALL, contrast_rows, read_pairs

pytestmark = [pytest.mark.emulator, pytest.mark.mysqld, pytest.mark.slow]


def volumes(root: Path, ebs: str, efs: str) -> str:
    """The suite's volumes, with their bytes on a disk of the test's own."""
    return f"volumes={{ebs: 'emulated:{ebs}?dir={root}', efs: 'emulated:{efs}?dir={root}'}}"


def causes_of(bench: live_run.Bench, suite: str, *settings: str) -> set[tuple[str, str, str]]:
    """Run a suite once on each volume; its findings as (volume, step, cause)."""
    flavor = ["engine.flavor=mariadb"] if shutil.which("mariadbd") else []
    expected = ("scale=ci", "repeats=1", "dataset.rows=1000", "limits.emulator_late=100%", *flavor, *settings)
    chosen = [argument for setting in expected for argument in ("--set", setting)]
    process = bench.volbench(
        "run", f"suites/{suite}.yaml", "--target", "local", *chosen, "--out", str(bench.results), "--yes"
    )
    ended = bench.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    report: dict[str, Any] = json.loads((bench.directory.path / "report.json").read_bytes())
    return {(finding["volume"], finding["step"], finding["cause"]) for finding in report["findings"]}


def test_equal_for_dd_and_several_times_slower_for_small_files(local: live_run.Bench, root: Path) -> None:
    """One cell a volume, so that the bounds are wide."""
    result = causes_of(
        local,
        "efs-small-files",
        volumes(root, "ebs-2016", "efs-2016"),
        "steps=[{kind: sequential, name: dd, size: 150MB, modes: [write_fsync]}, {kind: small_files, name: clone,"
        " files: 100, total_size: 1300kB, phases: [create], sync: each}]",
    )
    assert ("efs", "clone", "storage.metadata_latency") in result
    assert ("ebs", "clone", "storage.metadata_latency") not in result
    assert ("ebs", "dd/write_fsync", "instance.storage_limit") in result
    longer = {row.group: row.slowdown["efs"] for row in contrast_rows(build_report(local.directory))}
    assert longer[LARGE] == pytest.approx(1.05, abs=0.3)
    assert 2 < longer[SMALL] < 10


def test_the_page_cache_is_told_from_the_volume(local: live_run.Bench, root: Path) -> None:
    """Cold against cold is a small factor; the pair of the field report a large one, and shown as unfair."""
    result = causes_of(
        local,
        "fargate-efs-cold-read",
        volumes(root, "ebs-gp3", "fargate-efs"),
        "dataset.rows=40000",
        "steps=[{kind: cold_read, name: large-files, reader: cat, table_scan: false}]",
    )
    assert ("efs", "large-files", "storage.readahead_small") in result
    (pairs,) = read_pairs(build_report(local.directory))
    cold, _, unfair = (ratio for _, ratio in pairs.pairs)
    assert 1.2 < cold < 3
    assert unfair > 8
