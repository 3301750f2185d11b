"""Dumps to another volume or a bucket: written there, restored, and removed with the cell, also a killed one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import live_run
import pytest
from live_run import FINISHED, SMALL, SUITE, Bench
from s3_server import NAME, credentials, s3, s3_address
from scratch_server import scratch_server

from volbench.errors import EXIT_ENVIRONMENT, UsageError
from volbench.measure.session.planner import make_plan
from volbench.measure.session.servers import TargetRequest

__all__ = ["credentials", "s3", "s3_address"]

STEPS = (
    "steps=[{{kind: dump, to: directory, directory: {place}}}, {{kind: restore}},"
    " {{kind: oltp, name: night, threads: 2, warmup: 0s, duration: {seconds}s,"
    " concurrent: [{{kind: dump, to: directory, directory: {place}}}]}}]"
)


def settings(directory: Path, *, seconds: int = 3) -> tuple[str, ...]:
    return (
        STEPS.format(place=directory, seconds=seconds),
        *(item for item in SMALL if not item.startswith("steps.")),
    )


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Where another volume is mounted, with somebody's file."""
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "theirs").write_text("precious")
    return tmp_path / "backup"


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def local(tmp_path: Path, run_cache: Path) -> Iterator[Bench]:
    volume = tmp_path / "volume"
    volume.mkdir()
    with live_run.bench("local", tmp_path, run_cache, {"a": volume}) as opened:
        yield opened


@pytest.mark.mysqld
def test_a_dump_on_another_volume_is_restored_and_removed(local: Bench, backup: Path) -> None:
    ended = local.end(local.start(*settings(backup)))
    assert ended.code in FINISHED, ended.output
    (cell,) = local.directory.results()
    steps = {step.step: step for step in cell.steps}
    assert steps["dump"].metrics["dump_bytes"].value > 2000 * 180
    assert steps["dump"].details["to"] == "directory"
    assert steps["restore"].details["equality"] == "proven"
    assert "night/beside-mysqldump" in steps
    assert names(backup) == ["theirs"]
    local.assert_all_done_once()


@pytest.mark.mysqld
def test_a_killed_cell_leaves_no_dump_there(local: Bench, backup: Path) -> None:
    process = local.start(*settings(backup, seconds=20))
    local.until(local.in_step, process)
    assert len(names(backup)) == 2
    agent = local.agent()
    assert agent is not None
    live_run.send(process, signal.SIGTERM)
    local.end(process)
    assert names(backup) == ["theirs"]


@pytest.mark.mysqld
def test_an_attached_server_is_dumped_to_a_directory(tmp_path: Path, run_cache: Path, backup: Path) -> None:
    (tmp_path / "s").mkdir()
    with live_run.bench("attach", tmp_path, run_cache, {}) as bench, scratch_server(tmp_path / "s") as server:
        steps = f"steps=[{{kind: dump, to: directory, directory: {backup}}}]"
        chosen = [argument for setting in (steps, *settings(backup)[1:]) for argument in ("--set", setting)]
        dsn = f"mysql://bench@localhost/bench_new?socket={server.socket}"
        command = ("run", str(SUITE), "--server", dsn, "--option-file", str(server.option_file), *chosen)
        ended = bench.end(bench.volbench(*command, "--out", str(bench.results), "--yes"))
        assert ended.code in FINISHED, ended.output
        (cell,) = bench.directory.results()
        assert cell.steps[0].metrics["dump_s"].value > 0
    assert names(backup) == ["theirs"]


@pytest.mark.mysqld
def test_a_run_dumps_to_a_bucket_and_removes_its_object(
    local: Bench, s3_address: str, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{s3_address}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    steps = f"steps=[{{kind: dump, to: s3, url: s3://{NAME}/night}}]"
    ended = local.end(local.start(steps, *settings(Path("/"))[1:]))
    assert ended.code in FINISHED, ended.output
    (cell,) = local.directory.results()
    assert cell.steps[0].metrics["dump_bytes"].value > 2000 * 180
    assert "Contents" not in s3.list_objects_v2(Bucket=NAME)
    steps = "steps=[{kind: dump, to: s3, url: s3://no-such-bucket/night}]"
    refused = local.end(local.start(steps, *settings(Path("/"))[1:]))
    assert refused.code == EXIT_ENVIRONMENT
    assert "the bucket does not take the dump" in refused.output
    with pytest.raises(UsageError, match="needs cells that run on this machine"):
        make_plan(SUITE, ["a=path:/tmp"], TargetRequest(target="docker"), settings=[steps])


@pytest.mark.parametrize(
    ("target", "location", "fault"),
    [("docker", "/", "needs cells that run on this machine"), ("local", "/no-such-place", "there is no directory")],
)
def test_a_directory_that_cannot_be_used_is_refused_before_anything_begins(
    target: str, location: str, fault: str
) -> None:
    with pytest.raises(UsageError, match=fault):
        make_plan(SUITE, ["a=path:/tmp"], TargetRequest(target=target), settings=settings(Path(location)))
