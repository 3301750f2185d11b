"""The crash step: power cuts and killed servers under acknowledged commits, on real servers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import live_run
import pytest

from volbench.core.records.cell import StepResult
from volbench.machine.volume.emulated.requirements import find_daemon
from volbench.machine.volume.emulated.status import list_volumes

CRASH = (
    "steps=[{kind: crash, name: crash, threads: 4, after: 2s, cuts: 2}]",
    "engine.config.innodb_buffer_pool_size=32M",
    "dataset.tables=1",
    "dataset.rows=2000",
)
RUINED = """#!/bin/sh
# The server, but what it left behind at its kill is ruined before it is started again.
data=$(sed -n 's/^datadir *= *//p' "${{1#--defaults-file=}}" | tr -d '"')
if [ -d "$data/volbench_ledger" ]; then
  for file in "$data"/ibdata1 "$data"/ib_logfile0 "$data"/undo001 "$data"/undo_001; do
    [ ! -f "$file" ] || head -c 4194304 /dev/urandom >"$file"
  done
fi
exec {binary} "$@"
"""
NFS = "emulated:fsx-openzfs?iops=50000&throughput=4000"
emulated = [
    pytest.mark.emulator,
    pytest.mark.skipif(find_daemon() is None, reason="needs the daemon: pip install runner/emulator"),
]


def crashed(bench: live_run.Bench, *settings: str, **specs: str) -> dict[str, StepResult]:
    """Run the crash step on these volumes; its result by volume."""
    bench.volumes.clear() if specs else None
    volumes = [argument for name, spec in specs.items() for argument in ("--volume", f"{name}={spec}")]
    ended = bench.end(bench.start(*settings, options=volumes))
    assert ended.code in live_run.FINISHED, ended.output
    volume_of = {cell.cell_id: cell.volume for cell in bench.directory.run.cells}
    return {volume_of[result.cell_id]: result.steps[0] for result in bench.directory.results()}


def value(step: StepResult, name: str) -> float:
    return step.metrics[name].value


def assert_whole(step: StepResult) -> None:
    """Whatever was lost, what is there is in order, and the recovery was timed and told."""
    assert value(step, "acknowledged_commits") > 0
    for name in ("torn_commits", "damaged_rows", "damaged_tables"):
        assert value(step, name) == 0, step.details
    assert value(step, "recovery_s") > 0
    assert value(step, "first_query_ms") > 0
    assert all(cut["log"] for cut in step.details["cuts"]), "the server said nothing of its recovery"


@pytest.mark.parametrize("bench", live_run.LOCAL_IF_SLOW, indirect=True)
@pytest.mark.parametrize("_", [pytest.param(None, marks=emulated)])
def test_power_cuts_lose_commits_on_an_async_export_and_none_on_a_sync_one(
    bench: live_run.Bench, root: Path, _: None
) -> None:
    """The same server with the same options, cut twice: MariaDB here, MySQL in containers."""
    volumes = {"sync": f"{NFS}&dir={root}", "async": f"{NFS}&mode=async&dir={root}"}
    steps = crashed(bench, *CRASH, **volumes)
    for step in steps.values():
        assert_whole(step)
        assert step.details["fault"] == "power_cut"
        assert step.details["settings"]["innodb_flush_log_at_trx_commit"] == "1"
    assert value(steps["sync"], "lost_commits") == 0
    assert value(steps["async"], "lost_commits") > 0
    assert 0 < value(steps["async"], "lost_s") <= 5.5, "the export's window is five seconds"
    assert all(cut["dropped"]["writes"] > 0 for cut in steps["async"].details["cuts"])
    report = (bench.directory.path / "report.md").read_text()
    assert "acknowledged commits" in report
    assert not list_volumes(root)
    assert bench.leftovers() == []


@pytest.mark.mysqld
@pytest.mark.parametrize("_", [pytest.param(None, marks=emulated)])
def test_a_power_cut_of_a_disk_loses_only_what_the_server_did_not_sync(
    local: live_run.Bench, root: Path, _: None
) -> None:
    """A redo log that is written once a second loses up to that second on any volume."""
    spec = f"emulated:ebs-gp3?size=10GiB&dir={root}"
    lax = ("engine.config.innodb_flush_log_at_trx_commit=2", "engine.config.sync_binlog=0")
    step = crashed(local, *CRASH, *lax, gp3=spec)["gp3"]
    assert_whole(step)
    assert step.details["volume_durability"] == "write_through"
    assert value(step, "lost_commits") > 0
    assert value(step, "lost_s") < 2.5
    assert local.leftovers() == []


@pytest.mark.mysqld
def test_a_killed_server_loses_nothing_on_any_volume(local: live_run.Bench) -> None:
    local.volumes.pop("b")
    step = crashed(local, *CRASH)["a"]
    assert_whole(step)
    assert step.details["fault"] == "kill_server"
    assert value(step, "lost_commits") == 0
    assert any("only a power cut tests the volume" in note for note in step.notes)


@pytest.mark.mysqld
def test_power_that_cannot_be_cut_is_said_before_anything_runs(local: live_run.Bench) -> None:
    local.volumes.pop("b")
    ended = local.end(local.start("steps=[{kind: crash, fault: power_cut}]"))
    assert ended.code != 0
    assert "a power cut needs emulated volumes" in ended.output


@pytest.mark.mysqld
def test_a_server_that_does_not_come_back_is_a_result_and_not_tried_again(local: live_run.Bench) -> None:
    """Its redo log and system tablespace are ruined while it is down: recovery fails, and the cell says so."""
    local.volumes.pop("b")
    binary = Path(shutil.which("mariadbd") or shutil.which("mysqld") or "")
    wrapper = local.root / "bin" / binary.name
    wrapper.parent.mkdir()
    wrapper.write_text(RUINED.format(binary=binary))
    wrapper.chmod(0o755)
    local.environment["PATH"] = f"{wrapper.parent}:{os.environ['PATH']}"
    step = crashed(local, *CRASH, "repeats=1")["a"]
    assert value(step, "failed_recoveries") == 1
    assert value(step, "lost_commits") == value(step, "acknowledged_commits") > 0
    assert "recovery_s" not in step.metrics, "nobody saw one"
    (cut,) = step.details["cuts"]
    assert "the server" in cut["not_recovered"]
    assert not local.failed_causes(), "a retry that comes back would hide it"
    report = (local.directory.path / "report.md").read_text()
    assert "the server did not recover from a cut" in report
    assert "| – | failed | – |" in report, "without a recovery nothing was checked"
    assert local.leftovers() == []
