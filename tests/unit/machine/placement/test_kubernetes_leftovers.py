"""What runs have left in a namespace is listed by run, and deleted by run alone."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import Refused, UsageError
from volbench.machine.placement.kubernetes.cell_objects import labels_of_run
from volbench.machine.placement.kubernetes.leftovers import delete_runs, runs_in
from volbench.machine.placement.kubernetes.remote import Submission, submit
from volbench.machine.volume.kinds.run_owner import RunOwner, this_user

OLD, NEW = "20260101T000000Z-quick-aaaaaa", "20260201T000000Z-quick-bbbbbb"
SIZE = {"resources": {"requests": {"storage": "20Gi"}}}


@pytest.fixture
def cluster() -> FakeCluster:
    """Two runs: the older one is left behind, the newer one runs. And a claim of the user."""
    made = FakeCluster()

    def put(path: str, run_id: str, **pieces: Any) -> None:
        metadata = {
            "labels": labels_of_run(run_id),
            "creationTimestamp": f"{run_id[:4]}-{run_id[4:6]}-01T00:00:00Z",
        }
        made.put(path, metadata=metadata, **pieces)

    put("persistentvolumeclaims/new-a", NEW, spec=SIZE)
    put("pods/new-1", NEW, status={"phase": "Running"})
    put(made.jobs("new-1"), NEW)
    for name in "ab":
        put(f"persistentvolumeclaims/old-{name}", OLD, spec=SIZE)
    put(made.jobs("old-1"), OLD)
    put("configmaps/old-1", OLD)
    put("pods/old-1", OLD, status={"phase": "Succeeded"})
    made.put("persistentvolumeclaims/mine", spec=SIZE)
    RunOwner(made, OLD, ttl_s=7200, image="tools:1").references()
    return made


def names(cluster: FakeCluster) -> set[str]:
    return {path.rpartition("/")[2] for path in cluster.objects}


def test_runs_are_listed_with_what_costs(cluster: FakeCluster) -> None:
    old, new = runs_in(cluster)
    assert (old.run_id, old.created_at, old.active_pods) == (OLD, "2026-01-01T00:00:00Z", ())
    assert old.claims == (("old-a", "20Gi"), ("old-b", "20Gi"))
    assert old.jobs == ("old-1",), "the owner is no cell"
    assert (old.expires_at, new.expires_at) == ("2026-01-01T02:00:00Z", "")
    assert (new.run_id, new.active_pods, new.jobs) == (NEW, ("new-1",), ("new-1",))


def test_one_run_is_deleted_and_nothing_else(cluster: FakeCluster) -> None:
    delete_runs(cluster, [OLD])
    assert names(cluster) == {"new-a", "new-1", "mine", "old-1"}, "pods go with their job, by the cluster"
    assert [path for path in cluster.objects if path.endswith("old-1")] == [cluster.object_path("pods/old-1")]


def test_a_run_with_active_pods_is_refused_before_anything_is_deleted(cluster: FakeCluster) -> None:
    before = names(cluster)
    with pytest.raises(Refused, match="are active"):
        delete_runs(cluster, [OLD, NEW])
    assert names(cluster) == before
    delete_runs(cluster, [NEW], force=True)
    assert "new-1" not in names(cluster)


def test_an_unknown_run_is_told_with_those_that_there_are(cluster: FakeCluster) -> None:
    with pytest.raises(UsageError, match=f"runs there: {OLD}, {NEW}"):
        delete_runs(cluster, ["20260301T000000Z-quick-cccccc"])


def test_a_submitted_job_is_listed_and_deleted_by_its_name_and_its_results_stay(cluster: FakeCluster) -> None:
    cluster.put("serviceaccounts/volbench-runner")
    submit(cluster, Submission(name="volbench-nightly-1", suite="text", image="tools:1"))
    (submitted,) = [run for run in runs_in(cluster) if run.run_id == "volbench-nightly-1"]
    assert (submitted.jobs, submitted.config_maps) == (("volbench-nightly-1",), ("volbench-nightly-1",))
    assert (submitted.claims, submitted.started_by) == ((), this_user())
    made = cluster.objects[cluster.jobs("volbench-nightly-1")]
    assert made["spec"]["template"]["metadata"]["labels"]["volbench.org/run"] == "volbench-nightly-1"
    delete_runs(cluster, ["volbench-nightly-1"])
    assert "volbench-nightly-1" not in names(cluster)
    assert "volbench-results" in names(cluster)


def test_the_commands_say_what_they_list_and_delete(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volbench.machine.cluster.client.Cluster", lambda **_: cluster)
    listed = CliRunner().invoke(app, ["k8s", "list", "--namespace", "bench"], catch_exceptions=False)
    text = " ".join(listed.stdout.split())
    begun = f"{OLD} 2026-01-01T00:00:00Z {this_user()}"
    assert f"{begun} 1 0 old-a (20Gi), old-b (20Gi) 2026-01-01T02:00:00Z" in text
    assert f"{NEW} 2026-02-01T00:00:00Z 1 1 new-a (20Gi)" in text
    cleaned = CliRunner().invoke(app, ["k8s", "clean", OLD], catch_exceptions=False)
    assert cleaned.exit_code == 0
    assert not {"old-a", "old-b"} & names(cluster)
