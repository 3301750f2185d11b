"""Several servers on one volume, by the command: on MySQL in containers and on the installed server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import live_run
import pytest
import yaml
from live_run import Bench

from volbench.core.records.cell import CellResult, StepResult
from volbench.results.store.histograms import load_histograms
from volbench.results.store.series import read_series

STEP: dict[str, Any] = {
    "kind": "instances",
    "name": "several",
    "counts": [2, 3],
    "test": "oltp_read_write",
    "threads": 2,
    "warmup": "1s",
    "duration": "3s",
}
LOOSE = {"foreign_iops": 1_000_000, "foreign_cpu": "100%", "cpu_steal": "100%", "missed_samples": "90%"}


def suite(bench: Bench, **changes: Any) -> Path:
    flavor = {"flavor": "mariadb"} if bench.target == "local" and shutil.which("mariadbd") else {}
    content = {
        "schema": 2,
        "name": "several",
        "engine": {**flavor, "config": {"innodb_buffer_pool_size": "16M", "innodb_redo_log_capacity": "16M"}},
        "dataset": {"tables": 1, "rows": 2000},
        "steps": [{**STEP, **changes}],
        "repeats": 1,
        "underpowered": True,
        "replacements": 0,
        "sampling": {"interval": "500ms", "summaries": False},
        "limits": LOOSE,
    }
    path = bench.root / "several.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def run(bench: Bench, **changes: Any) -> live_run.Ended:
    volume = bench.volumes["a"]
    (volume / "precious").write_text("of the user's")
    arguments = ["run", str(suite(bench, **changes)), "--target", bench.target, "--volume", f"a=path:{volume}"]
    return bench.end(bench.volbench(*arguments, "--out", str(bench.results), "--yes"))


def only_result(bench: Bench) -> CellResult:
    (result,) = bench.directory.results()
    return result


def values(step: StepResult) -> dict[str, float]:
    return {name: value.value for name, value in step.metrics.items()}


def test_servers_run_at_once_on_their_own_data_and_nothing_stays(bench: Bench) -> None:
    ended = run(bench)
    assert ended.code in live_run.FINISHED, ended.output
    result = only_result(bench)
    rows = {step.step: step for step in result.steps}
    assert list(rows) == ["several", "several/alone", "several/2", "several/3"]
    for count in (2, 3):
        row = rows[f"several/{count}"]
        assert row.parameters["instances"] == count
        servers = row.details["servers"]
        assert [server["server"] for server in servers] == list(range(1, count + 1))
        assert all(server["transactions"] > 0 for server in servers)
        figures = values(row)
        assert figures["tps_of_all"] == pytest.approx(sum(server["tps"] for server in servers))
        alone = values(rows["several/alone"])["tps_of_all"]
        shares = [server["tps"] / alone for server in servers]
        assert figures["retained_share_min"] == pytest.approx(min(shares))
        assert figures["retained_share_sum"] == pytest.approx(sum(shares))
        assert 1 / count <= figures["fairness_index"] <= 1
    series = read_series(bench.directory.cell_dir(result.cell_id) / "series.parquet", sources=["client"])
    assert {key.entity for key in series if key.metric == "tps"} == {"", "server 2", "server 3"}
    assert [path.name for path in bench.volumes["a"].iterdir()] == ["precious"]
    assert bench.leftovers() == []


@pytest.mark.mysqld
def test_a_noisy_neighbour_has_a_row_of_its_own_alone(local: Bench) -> None:
    ended = run(local, counts=[2], neighbour_threads=6, rate=20, p95="1s")
    assert ended.code in live_run.FINISHED, ended.output
    rows = {step.step: step for step in only_result(local).steps}
    assert list(rows) == ["several", "several/alone", "several/alone-2", "several/2"]
    quiet, noisy = rows["several/alone"], rows["several/alone-2"]
    assert (quiet.parameters["threads"], noisy.parameters["threads"]) == (2, 6)
    assert values(quiet)["tps_of_all"] == pytest.approx(20, rel=0.5)
    assert values(noisy)["tps_of_all"] > 40
    first, second = rows["several/2"].details["servers"]
    kept = [first["tps"] / values(quiet)["tps_of_all"], second["tps"] / values(noisy)["tps_of_all"]]
    assert values(rows["several/2"])["retained_share_min"] == pytest.approx(min(kept))
    assert local.leftovers() == []


@pytest.mark.mysqld
def test_latencies_of_all_servers_are_in_their_row(local: Bench) -> None:
    assert run(local, counts=[2], rate=50).code in live_run.FINISHED
    result = only_result(local)
    rows = {step.step: step for step in result.steps}
    path = local.directory.cell_dir(result.cell_id) / "histograms.parquet"
    merged = load_histograms(path).merged(measured=True).items()
    counted = {key.step: int(rows_of.events.sum()) for key, rows_of in merged if key.source == "client"}
    transactions = sum(server["transactions"] for server in rows["several/2"].details["servers"])
    assert counted["several/2"] == transactions
    assert counted["several/alone"] == rows["several/alone"].details["servers"][0]["transactions"]
