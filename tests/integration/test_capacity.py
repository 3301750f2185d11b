"""The search for a capacity on real servers: a promise that every rate holds, and a volume whose limit is known."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.cli.runs import capacity as command
from volbench.core.records.goals.capacity import Objective
from volbench.errors import Undecided
from volbench.measure.session import capacity_search
from volbench.results.compare.capacity import capacities
from volbench.results.report.build import build_report
from volbench.results.store.run_directory import RunDirectory

pytestmark = pytest.mark.mysqld

SUITE = """schema: 2
name: few
dataset: {tables: 1, rows: 1000}
steps:
  - {kind: oltp, name: reads, test: oltp_point_select, threads: 8, warmup: 0s, duration: 2s}
sampling: {interval: 500ms}
limits: {foreign_iops: 100000000, device_against_client: 100000000, missed_samples: 90%, foreign_cpu: 100%}
"""


def test_a_ladder_that_never_breaks_is_an_ordinary_run_without_an_upper_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity_search, "SEARCHES_MAX", 1)
    suite, results = tmp_path / "suite.yaml", tmp_path / "results"
    suite.write_text(SUITE)
    (tmp_path / "volume").mkdir()
    with pytest.raises(Undecided, match="capacity: no ladder"):
        command.capacity(
            suite, limit="50s", start=20, volume=[f"a=path:{tmp_path / 'volume'}"], target="local", out=results
        )
    report = build_report(opened(results))
    assert [cell.parameters["rate"] for cell in report.cells] == [20, 40, 80, 160, 320, 640]
    assert all(cell.metrics["tps"].value > 0 for cell in report.cells)
    [row] = capacities([report], Objective.model_validate({"limit": "50s"}))
    # Others' reads of the device make single steps invalid on a busy machine; those hold nothing and break nothing.
    assert row.sustained_per_s == max((c.parameters["rate"] for c in report.cells if c.valid), default=None)
    assert row.high_per_s is None


KNOWN = """schema: 2
name: known
engine: {config: {innodb_buffer_pool_size: 8M}}
dataset: {tables: 2, rows: 100000}
steps:
  - {kind: oltp, name: reads, test: oltp_point_select, rand_type: uniform, threads: 32, warmup: 1s, duration: 6s}
repeats: 2
seed: 1
underpowered: true
limits: {emulator_late: 50%, missed_samples: 90%}
"""
IOPS = 300


@pytest.mark.emulator
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_limit_of_a_volume_is_found_within_the_interval_and_named(tmp_path: Path, root: Path) -> None:
    """300 IOPS, and a buffer pool that nearly every read misses.

    What a closed loop gets can be held at random arrivals too, when they may wait for a good while.
    """
    suite, spec = tmp_path / "suite.yaml", f"v=emulated:ebs-io2?iops={IOPS}&size=10GiB&dir={root}"
    suite.write_text(KNOWN)
    closed, results = tmp_path / "closed", tmp_path / "results"
    where = ["--volume", spec, "--target", "local"]
    ran = CliRunner().invoke(app, ["run", str(suite), *where, "--yes", "--out", str(closed)])
    assert ran.exit_code == 0, ran.output
    truth = median(cell.metrics["tps"].value for cell in build_report(opened(closed)).cells)
    requests = ["capacity", str(suite), *where, "--limit", "250ms", "--from", "75"]
    result = CliRunner().invoke(app, [*requests, "--repeats", "2", "--out", str(results), "--json"])
    assert result.exit_code == 0, f"{result.output} {result.exception!r}"
    [row] = json.loads(result.stdout)
    assert row["sustained_per_s"] is not None
    assert row["high_per_s"] is not None
    assert row["low_per_s"] <= 1.1 * truth, (row, truth)
    assert row["high_per_s"] >= 0.9 * truth, (row, truth)
    assert 0.5 * truth <= row["sustained_per_s"] <= 1.1 * truth, (row, truth)
    assert any(text.startswith("storage.iops_limit") for text in row["limited_by"]), row


def opened(results: Path) -> RunDirectory:
    [path] = results.iterdir()
    return RunDirectory.open(path)
