"""Cells, holders and the owner of a run in a cluster whose Jobs a queue admits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_cluster import NAMESPACE, FakeCluster
from node_bench import RUN_ID, Bench, required

from volbench.errors import MissingPrerequisite
from volbench.machine.cluster.queues import QUEUE_NAME
from volbench.machine.placement.kubernetes import holders
from volbench.machine.placement.kubernetes.remote import Submission, submit
from volbench.machine.volume.kinds.run_owner import owner_name

HELD = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor small, 1 more needed"


def held(bench: Bench) -> None:
    """Let Kueue say why it holds the cell's Job, as it does: by an event of the Job's Workload."""
    name = bench.launched("01-a")["metadata"]["name"]
    workload = f"job-{name}-3f2a1"
    said = {
        "CreatedWorkload": ({"kind": "Job", "name": name}, f"Created Workload: bench/{workload}"),
        "Pending": ({"kind": "Workload", "name": workload}, HELD),
    }
    for reason, (regarding, message) in said.items():
        bench.cluster.put(f"events/{reason.lower()}", involvedObject=regarding, reason=reason, message=message)


def test_a_cell_that_its_queue_holds_shows_why(tmp_path: Path) -> None:
    bench = Bench(tmp_path, queue="team-a")
    placement = bench.target.launch(bench.job("01-a", "a"))
    held(bench)
    assert placement.running()
    assert json.loads((tmp_path / "progress.json").read_text()) == {"text": f"waits for queue team-a: {HELD}"}


def test_a_queue_that_does_not_admit_in_time_is_told_with_its_reason(tmp_path: Path) -> None:
    bench = Bench(tmp_path, queue="team-a", queue_timeout="0.01s")
    placement = bench.target.launch(bench.job("01-a", "a"))
    held(bench)
    assert placement.running()
    with pytest.raises(MissingPrerequisite, match="until its queue admits it") as refused:
        placement.running()
    assert f"of queue team-a is suspended: {HELD}" in refused.value.evidence
    assert refused.value.cause == "queued"
    assert "queue_timeout" in refused.value.next_step


def test_where_jobs_without_a_queue_are_suspended_owner_and_holder_join_the_runs_queue(tmp_path: Path) -> None:
    """Else the owner's deadline would not pass, and no holder would keep the node."""
    bench = Bench(tmp_path, queue="team-a")
    bench.cluster.suspends_jobs = True
    bench.start_first()
    jobs = [item for path, item in bench.cluster.objects.items() if "/jobs/" in path]
    assert {item["metadata"]["labels"][QUEUE_NAME] for item in jobs} == {"team-a"}
    assert required(bench.affinity_of("02-b", "b")) == "node2"


def test_elsewhere_the_queue_is_asked_for_cells_alone(tmp_path: Path) -> None:
    """It might preempt the holder, and with it the run's node."""
    bench = Bench(tmp_path, queue="team-a")
    bench.start_first()
    queued = [
        path.rpartition("/")[2]
        for path, item in bench.cluster.objects.items()
        if "/jobs/" in path and QUEUE_NAME in item["metadata"].get("labels", {})
    ]
    assert queued == [bench.launched("01-a")["metadata"]["name"]]


def test_a_run_without_a_queue_ends_at_once_where_it_needs_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.cluster.suspends_jobs = True
    with pytest.raises(MissingPrerequisite, match="name no queue of Kueue"):
        bench.owner.references()
    bench.owner.end(objects_stay=False)
    assert bench.cluster.jobs(owner_name(RUN_ID)) not in bench.cluster.objects


def test_no_job_of_a_run_is_a_part_of_another_one(tmp_path: Path) -> None:
    """Kueue would admit the part with the whole: owner references name no controller."""
    bench = Bench(tmp_path)
    (reference,) = bench.owner.references()
    assert "controller" not in reference


def test_a_holder_that_its_queue_does_not_admit_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holders, "_ADMITTED_S_MAX", -1.0)
    bench = Bench(tmp_path, queue="team-a")
    bench.start_first()
    holder = next(item for path, item in bench.cluster.objects.items() if "/jobs/" in path and "-holder" in path)
    holder["spec"]["suspend"] = True
    holder["status"] = {}
    assert required(bench.affinity_of("02-b", "b")) == ""


def test_a_submitted_job_joins_its_queue_and_is_not_left_where_nobody_would_admit_it() -> None:
    cluster = FakeCluster()
    cluster.suspends_jobs = True
    cluster.put("serviceaccounts/volbench-runner")
    with pytest.raises(MissingPrerequisite, match="name no queue of Kueue"):
        submit(cluster, Submission(name="nightly", suite="", image="tools:1"))
    assert cluster.jobs("nightly") not in cluster.objects
    group = "/apis/kueue.x-k8s.io"
    cluster.put(group, preferredVersion={"version": "v1beta2"})
    cluster.put(f"{group}/v1beta2/namespaces/{NAMESPACE}/localqueues/team-a")
    submit(cluster, Submission(name="nightly", suite="", image="tools:1", queue="team-a"))
    assert cluster.objects[cluster.jobs("nightly")]["metadata"]["labels"][QUEUE_NAME] == "team-a"
