"""Results that are fetched while a run goes on, and those of a Job that is gone."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster

from volbench.errors import UsageError
from volbench.machine.placement.kubernetes import fetched
from volbench.machine.placement.kubernetes.collect import unpack
from volbench.machine.placement.kubernetes.fetched import copy_script, fetch
from volbench.machine.placement.kubernetes.runner import labels_of, runner_job

RUN = "20260101T000000Z-quick-abcdef"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A claim with the runs of two Jobs."""
    for uid, run in (("uid-1", RUN), ("uid-2", "20260102T000000Z-quick-fedcba")):
        directory = tmp_path / "results" / uid / run
        directory.mkdir(parents=True)
        (directory / "run.json").write_text(run)
        (directory / "journal.jsonl").write_text("{}\n")
        (directory / "x.partial").write_text("half")
    return tmp_path / "results"


def packed(script: str, tmp_path: Path) -> Path:
    """Run the script as the pod's shell does, and unpack what it sends."""
    archive, into = tmp_path / "archive", tmp_path / "into"
    with archive.open("wb") as file:
        done = subprocess.run(["sh", "-c", script], stdout=file, stderr=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    into.mkdir(exist_ok=True)
    with archive.open("rb") as file:
        assert unpack(file, into) == ""
    return into


@pytest.mark.parametrize("by", ["job", "run"])
def test_a_jobs_runs_or_one_run_are_sent_with_checksums(results: Path, tmp_path: Path, by: str) -> None:
    script = copy_script("uid-1" if by == "job" else "", RUN, results=str(results))
    into = packed(script, tmp_path)
    files = sorted(str(path.relative_to(into)) for path in into.rglob("*") if path.is_file())
    assert files == [f"{RUN}/journal.jsonl", f"{RUN}/run.json"]


def test_a_job_that_has_no_results_yet_sends_none(results: Path, tmp_path: Path) -> None:
    assert list(packed(copy_script("uid-3", "vb", results=str(results)), tmp_path).iterdir()) == []


def test_files_that_grow_while_they_are_read_are_whole(results: Path, tmp_path: Path) -> None:
    """The checksum of a journal is not that of the moment when it is sent."""
    journal, stopped = results / "uid-1" / RUN / "journal.jsonl", threading.Event()

    def append() -> None:
        with journal.open("a") as file:
            while not stopped.wait(0.001):
                file.write("{}\n")
                file.flush()

    writer = threading.Thread(target=append)
    writer.start()
    try:
        for _ in range(5):
            packed(copy_script("uid-1", "vb", results=str(results)), tmp_path)
    finally:
        stopped.set()
        writer.join()


class Collected:
    """Where results were collected, instead of a pod's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place: tuple[str, str] = ("", "")
        monkeypatch.setattr(fetched, "collect", self._collect)
        monkeypatch.setattr(fetched, "run_in_pod", lambda *_, **__: f"uid-1/{RUN}/\nuid-2/other/\n")

    def _collect(self, _cluster: object, pod: str, staging: Path, *, container: str, **_: object) -> None:
        self.place = (pod, container)
        (staging / RUN).mkdir()
        (staging / RUN / "run.json").write_text("{}")


def runner_pod(cluster: FakeCluster, claim: str = "volbench-results", **state: Any) -> None:
    """A pod of some runner's Job with a claim."""
    cluster.put(
        "pods/vb-1-x",
        metadata={"labels": labels_of("runner")},
        spec={"volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": claim}}]},
        status={"containerStatuses": [{"name": "runner", "state": state or {"running": {}}}]},
    )


@contextmanager
def fetch_pod_starts(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """Each Job that reads the claim has a running pod at once."""
    jobs: list[dict[str, Any]] = []
    status = {"containerStatuses": [{"name": "results", "state": {"running": {}}}]}

    def pods_of(_: object, name: str) -> list[dict[str, Any]]:
        jobs.append(cluster.objects[cluster.jobs(name)])
        return [{"metadata": {"name": f"{name}-x"}, "status": status}]

    monkeypatch.setattr(fetched, "pods_of", pods_of)
    yield jobs


def test_a_runner_that_works_is_read_through_its_own_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second pod with the claim would wait for a volume that is on the runner's node."""
    cluster, collected = FakeCluster(), Collected(monkeypatch)
    cluster.put(cluster.jobs("vb-1"), spec=runner_job(image="t:1", name="vb-1")["spec"])
    runner_pod(cluster)
    assert fetch(cluster, "vb-1", tmp_path / "out", image="") == [tmp_path / "out" / RUN]
    assert collected.place == ("vb-1-x", "runner")
    assert [path for path in cluster.objects if "fetch" in path] == []


@pytest.mark.parametrize("alternative", ["claim", "ended"])
def test_without_one_a_pod_is_made_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alternative: str
) -> None:
    cluster, collected = FakeCluster(), Collected(monkeypatch)
    cluster.put(cluster.jobs("vb-1"), spec=runner_job(image="t:1", name="vb-1")["spec"])
    if alternative == "claim":
        runner_pod(cluster, "another")
    else:
        runner_pod(cluster, terminated={"exitCode": 0})
    labels = {"team": "dba", "app.kubernetes.io/name": "volbench", "batch.kubernetes.io/job-name": "vb-1"}
    cluster.objects[cluster.jobs("vb-1")]["metadata"]["labels"] = labels
    with fetch_pod_starts(cluster, monkeypatch) as jobs:
        fetch(cluster, "vb-1", tmp_path / "out", image="")
    made = jobs[0]["spec"]["template"]["metadata"]["labels"]
    assert made == {"team": "dba", **labels_of("fetch")}, "a policy that let the runner in lets this in"
    assert collected.place[1] == "results"
    assert jobs[0]["spec"]["template"]["spec"]["containers"][0]["image"] == "t:1"
    assert [path for path in cluster.objects if "fetch" in path] == []


def test_a_run_is_fetched_without_the_job_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _ = FakeCluster(), Collected(monkeypatch)
    with fetch_pod_starts(cluster, monkeypatch) as jobs:
        assert fetch(cluster, RUN, tmp_path / "out", image="t:2") == [tmp_path / "out" / RUN]
        assert jobs[0]["spec"]["template"]["spec"]["containers"][0]["image"] == "t:2"
        with pytest.raises(UsageError, match="has no job nobody, and its results have no such run") as raised:
            fetch(cluster, "nobody", tmp_path / "out", image="t:2")
    assert RUN in raised.value.evidence
    assert [path for path in cluster.objects if "fetch" in path] == []
