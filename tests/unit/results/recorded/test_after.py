"""What was recorded elsewhere lands on each cell's clock, beside what was measured, and is used from there."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import synthetic_run
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import UsageError
from volbench.results.explain.run_cases import cases_of
from volbench.results.recorded.after import add_recorded
from volbench.results.recorded.nvme_log import SOURCE as NVME
from volbench.results.recorded.nvme_log import parse_nvme_log
from volbench.results.report.views.timeline import timelines
from volbench.results.store.added import ADDED
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory
from volbench.results.store.series import SeriesKey

BALANCE = SeriesKey(source="cloudwatch", metric="balance_percent", entity="volume")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return synthetic_run.build_run(tmp_path, synthetic_run.two_volumes(repeats=2))


def zero(run: RunDirectory, cell_id: str) -> datetime:
    result = run.result(cell_id)
    assert result is not None
    return datetime.fromisoformat(result.zero_utc)


def cells(run: RunDirectory, volume: str) -> list[str]:
    return [cell.cell_id for cell in run.run.cells if cell.volume == volume]


def cloudwatch(path: Path, begin: datetime, values: list[float], name: str = "BurstBalance") -> Path:
    times = [(begin + timedelta(minutes=n)).isoformat() for n in range(len(values))]
    answer = {"MetricDataResults": [{"Label": name, "Timestamps": times, "Values": values}]}
    path.write_text(json.dumps(answer))
    return path


def counters(at: float, grown: float) -> dict[str, Any]:
    """The counters after `grown` seconds at 500 reads and 100 writes a second, above the volume's IOPS for half."""
    return {
        "timestamp": at,
        "total_read_ops": 500 * grown,
        "total_write_ops": 100 * grown,
        "total_read_bytes": 500 * 16384 * grown,
        "total_write_bytes": 100 * 16384 * grown,
        "total_read_time": 500 * 2000 * grown,
        "total_write_time": 100 * 4000 * grown,
        "ebs_volume_performance_exceeded_iops": 500_000 * grown,
        "ebs_volume_performance_exceeded_tp": 0,
        "ec2_instance_ebs_performance_exceeded_iops": 0,
        "ec2_instance_ebs_performance_exceeded_tp": 0,
        "volume_queue_length": 4,
    }


def sums(run: RunDirectory) -> dict[str, str]:
    files = (path for path in run.path.rglob("*") if path.is_file() and ADDED not in path.parts)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.name != ".lock"}


def test_points_of_the_wall_clock_stand_at_the_cell_s_time(run: RunDirectory, tmp_path: Path) -> None:
    first = cells(run, "a")[0]
    begin = zero(run, first) - timedelta(seconds=30)
    before = sums(run)
    result = add_recorded(run, str(cloudwatch(tmp_path / "cw.json", begin, [80, 60, 40])), volume="a")
    assert result.samples[first] == 3
    series = load_run(run).series(first)[BALANCE]
    assert series.t_s.tolist() == pytest.approx([30.0, 90.0, 150.0])
    assert series.value.tolist() == [80, 60, 40]
    assert sums(run) == before, "what was measured is as it was"


def test_only_the_volume_and_the_time_that_it_is_about_get_it(run: RunDirectory, tmp_path: Path) -> None:
    first = cells(run, "a")[0]
    file = cloudwatch(tmp_path / "cw.json", zero(run, first), [80, 60])
    assert list(add_recorded(run, str(file), volume="a").samples) == [first]
    assert BALANCE not in load_run(run).series(cells(run, "b")[0])


def test_reports_and_explain_use_it(run: RunDirectory, tmp_path: Path) -> None:
    first = cells(run, "a")[0]
    result = run.result(first)
    assert result is not None
    begin = zero(run, first) - timedelta(minutes=1)
    add_recorded(run, str(cloudwatch(tmp_path / "cw.json", begin, [90, 50, 10, 1])), volume="a")
    (case, *_) = cases_of(load_run(run), result)
    balance = case.balance_percent
    assert balance is not None
    assert balance.min() < 60
    drawn = {cell.cell_id: cell for cell in timelines(load_run(run)).cells}
    assert drawn[first].sources["balance"] == "cloudwatch volume"
    assert "balance.balance" in drawn[first].lines


def test_a_log_of_nvme_counters_becomes_rates(run: RunDirectory, tmp_path: Path) -> None:
    first = cells(run, "a")[0]
    begin = zero(run, first).timestamp()
    log = tmp_path / "nvme.jsonl"
    log.write_text("".join(json.dumps(counters(begin + n, n)) + "\n" for n in range(5)))
    assert add_recorded(run, str(log), volume="a").kind == NVME
    series = load_run(run).series(first)
    values = {
        key.metric: item.value.tolist()
        for key, item in series.items()
        if key.source == NVME and key.entity == "volume"
    }
    assert values["reads_per_s"] == pytest.approx([500] * 4)
    assert values["w_await_ms"] == pytest.approx([4.0] * 4)
    assert values["volume_exceeded_iops_ratio"] == pytest.approx([0.5] * 4)


def test_a_volume_that_was_attached_anew_has_no_rate_across_that() -> None:
    lines = [counters(100, 50), counters(101, 51), counters(102, 0), counters(103, 1)]
    nvme_log = parse_nvme_log("\n".join(map(json.dumps, lines)))
    assert nvme_log[SeriesKey(source=NVME, metric="reads_per_s", entity="volume")].t_s.tolist() == [101, 103]


@pytest.mark.parametrize(
    ("content", "piece"),
    [
        ("hello", "neither CloudWatch's JSON nor a log"),
        ('{"total_read_ops": 1}', "line 1 is no JSON object with a timestamp"),
        ('{"total_read_ops": 1, "timestamp": 5}', "line 1 lacks total_write_ops"),
        ('{"MetricDataResults": [], "NextToken": "x"}', "only a first page"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_apart(
    run: RunDirectory, tmp_path: Path, content: str, piece: str
) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(UsageError) as raised:
        add_recorded(run, str(path), volume="a")
    assert piece in str(raised.value)


def test_other_times_and_other_volumes_are_refused(run: RunDirectory, tmp_path: Path) -> None:
    file = cloudwatch(tmp_path / "cw.json", datetime(2020, 1, 1, tzinfo=UTC), [80, 60])
    with pytest.raises(UsageError, match="other times") as raised:
        add_recorded(run, str(file), volume="a")
    assert "points from 2020-01-01T00:01:00Z" in raised.value.evidence
    with pytest.raises(UsageError, match="no volume 'c'"):
        add_recorded(run, str(file), volume="c")


def test_the_command_says_what_it_kept(run: RunDirectory, tmp_path: Path) -> None:
    first = cells(run, "a")[0]
    file = cloudwatch(tmp_path / "cw.json", zero(run, first), [80, 60])
    done = CliRunner().invoke(app, ["add", str(run.path), str(file), "--volume", "a"], catch_exceptions=False)
    assert done.exit_code == 0
    assert f"{first}: 2 samples of cloudwatch" in done.stdout
