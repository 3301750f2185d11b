"""Physical backups while a load runs: MySQL clones itself in containers, MariaDB is read by mariadb-backup."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import live_run
import pytest

WINDOW = (
    "steps=[{kind: oltp, name: night, threads: 2, rate: 50, warmup: 1s, duration: 14s,"
    " concurrent: [{kind: dump, tool: physical, to: volume, start_after: 5s, window: 5m}]}]",
    "dataset.tables=2",
    "dataset.rows=5000",
    "sampling.interval=1s",
)


def has_backup_tool() -> bool:
    """Whether there is a mariadb-backup of the installed server's series, or the local server is a MySQL."""
    if not shutil.which("mariadbd"):
        return True
    versions = [
        subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout.split("MariaDB")[0]
        for name in ("mariadb-backup", "mariadbd")
        if shutil.which(name)
    ]
    return len(versions) == 2


@pytest.mark.parametrize("bench", live_run.DOCKER_IF_SLOW, indirect=True)
def test_a_physical_backup_beside_a_load_is_timed_and_judged(bench: live_run.Bench) -> None:
    if bench.target == "local" and not has_backup_tool():
        pytest.skip("needs mariadb-backup: apt-get install mariadb-backup")
    bench.volumes.pop("b")
    ended = bench.end(bench.start(*WINDOW))
    assert ended.code in live_run.FINISHED, ended.output
    (result,) = bench.directory.results()
    steps = {step.step: step for step in result.steps}
    backup = steps["night/beside-physical"]
    assert backup.metrics["dump_bytes"].value > 10 << 20, "a server is more than its tables"
    assert backup.details["window_s"] == 300
    report = json.loads((bench.directory.path / "report.json").read_bytes())
    (row,) = report["backups"]
    assert (row["tool"], row["fits"], row["recommended_window_s"]) == ("physical", True, 60)
    assert row["latency_ms_p95_alone"] > 0
    assert {"night/during", "night/alone"} <= set(steps)
    begun_s, ended_s = backup.window_s
    for span in steps["night/alone"].spans_s:
        assert span[1] <= begun_s + 1 or span[0] >= ended_s - 1, "alone is without the backup"
    assert "fits 5 min" in Path(bench.directory.path / "report.md").read_text()
    assert bench.leftovers() == []
