"""A ladder of rates on a real server and sysbench is an ordinary run; a promise this lax is held at every rate."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.analysis.capacity import capacities
from volbench.cli import capacity as command
from volbench.errors import StepFailed
from volbench.records.capacity import Objective
from volbench.report.build import build_report
from volbench.store.run_directory import RunDirectory

pytestmark = pytest.mark.mysqld

SUITE = """schema: 1
name: few
dataset: {tables: 1, rows: 1000}
steps:
  - {kind: oltp, name: reads, test: oltp_point_select, threads: 8, warmup: 0s, duration: 2s}
sampling: {interval: 500ms}
limits: {foreign_iops: 100000000, device_against_client: 100000000, missed_samples: 90%}
"""


def test_a_ladder_that_never_breaks_is_an_ordinary_run_without_an_upper_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SEARCHES_MAX", 1)
    suite, results = tmp_path / "suite.yaml", tmp_path / "results"
    suite.write_text(SUITE)
    (tmp_path / "volume").mkdir()
    with pytest.raises(StepFailed, match="capacity: no"):
        command.capacity(
            suite, limit="50s", start=20, volume=[f"a=path:{tmp_path / 'volume'}"], target="local", out=results
        )
    [path] = results.iterdir()
    report = build_report(RunDirectory.open(path))
    assert [cell.parameters["rate"] for cell in report.cells] == [20, 40, 80, 160, 320, 640]
    assert all(cell.metrics["tps"].value > 0 for cell in report.cells)
    [row] = capacities([report], Objective.model_validate({"limit": "50s"}))
    # Others' reads of the device make single steps invalid on a busy machine; those hold nothing and break nothing.
    assert row.held_per_s == max((c.parameters["rate"] for c in report.cells if c.valid), default=None)
    assert row.high_per_s is None
