"""One watch for all lanes of a run, against an API server over HTTP that ends, cuts and forgets its watches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_api_server import JOBS, PODS, FakeApiServer, serving
from waiting import wait_for

from volbench.errors import StepFailed
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import LABEL_CELL, LABEL_RUN
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.kubernetes import run_watch
from volbench.machine.placement.kubernetes.cell_objects import LABEL_ATTEMPT
from volbench.machine.placement.kubernetes.run_watch import RunWatch

RUN = "20260101T000000Z-quick-abcdef"
WAIT_S = 60.0


def pod(cell: str, phase: str = "Running", *, run: str = RUN) -> dict[str, Any]:
    labels = {LABEL_RUN: run, LABEL_CELL: cell, LABEL_ATTEMPT: "1"}
    metadata = {"name": f"p-{cell}", "labels": labels, "managedFields": [{"manager": "kubelet"}]}
    return {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": phase}}


@pytest.fixture(name="server")
def api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApiServer]:
    state = FakeApiServer()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setattr(run_watch, "REOPEN_S", 0.01)
    with serving(state, tmp_path / "kubeconfig"):
        yield state


@pytest.fixture(name="watch")
def run_watch_of(server: FakeApiServer) -> Iterator[RunWatch]:
    made = RunWatch(Cluster(), RUN)
    yield made
    made.close()


def test_pods_of_before_and_of_later_are_seen_and_those_of_other_runs_are_not(
    server: FakeApiServer, watch: RunWatch
) -> None:
    server.put(f"{PODS}/p-01-a", pod("01-a"))
    server.put(f"{PODS}/other", pod("02-b", run="another"))
    first = watch.wait(("01-a", "1"), 0, WAIT_S)
    assert first.pod is not None
    assert "managedFields" not in first.pod["metadata"]
    assert watch.wait(("02-b", "1"), 0, 0.1).pod is None
    server.put(f"{PODS}/p-02-b", pod("02-b"))
    assert watch.wait(("02-b", "1"), 0, WAIT_S).pod is not None
    server.put(f"{PODS}/p-01-a", pod("01-a", "Succeeded"))
    changed = watch.wait(("01-a", "1"), first.revision, WAIT_S)
    assert changed.pod is not None
    assert changed.pod["status"]["phase"] == "Succeeded"
    server.remove(f"{PODS}/p-01-a")
    gone = watch.wait(("01-a", "1"), changed.revision, WAIT_S)
    assert (gone.pod, gone.deleted and gone.deleted["status"]["phase"]) == (None, "Succeeded")


def test_a_stream_that_ends_or_breaks_goes_on_where_it_was(
    server: FakeApiServer, watch: RunWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_watch, "STREAM_S", 0.2)
    server.put(f"{PODS}/p-01-a", pod("01-a"))
    state = watch.wait(("01-a", "1"), 0, WAIT_S)
    wait_for(lambda: server.requests["watch pods"] > 3)
    for number in range(5):
        server.cut()
        server.put(f"{PODS}/p-01-a", pod("01-a", f"phase-{number}"))
        state = watch.wait(("01-a", "1"), state.revision, WAIT_S)
        assert state.pod is not None
        assert state.pod["status"]["phase"] == f"phase-{number}"
    assert server.requests["list pods"] == 1, "no change was missed, so nothing is listed anew"


@pytest.mark.parametrize("in_stream", [False, True])
def test_a_version_that_is_gone_is_listed_anew_and_missing_pods_count_as_deleted(
    server: FakeApiServer, watch: RunWatch, monkeypatch: pytest.MonkeyPatch, in_stream: bool
) -> None:
    server.gone_in_stream = in_stream
    for cell in ("01-a", "01-b", "01-c"):
        server.put(f"{PODS}/p-{cell}", pod(cell))
    before = {cell: watch.wait((cell, "1"), 0, WAIT_S) for cell in ("01-a", "01-b", "01-c")}
    wait_for(lambda: server.requests["watch pods"] == 1)
    monkeypatch.setattr(run_watch, "REOPEN_S", 0.5)
    server.cut()
    server.remove(f"{PODS}/p-01-a")
    server.put(f"{PODS}/p-01-b", pod("01-b", "Failed"))
    server.expire()
    gone = watch.wait(("01-a", "1"), before["01-a"].revision, WAIT_S)
    assert (gone.pod, gone.deleted is not None) == (None, True)
    changed = watch.wait(("01-b", "1"), before["01-b"].revision, WAIT_S)
    assert changed.pod is not None
    assert changed.pod["status"]["phase"] == "Failed"
    assert watch.wait(("01-c", "1"), before["01-c"].revision, 0.1) == before["01-c"], "unchanged: nobody is woken"
    assert server.requests["list pods"] >= 2


def test_many_lanes_share_one_list_and_one_stream(server: FakeApiServer, watch: RunWatch) -> None:
    cells = [f"01-{number}" for number in range(50)]
    states: dict[str, object] = {}

    def wait(cell: str) -> None:
        states[cell] = watch.wait((cell, "1"), 0, WAIT_S).pod

    lanes = [threading.Thread(target=wait, args=(cell,)) for cell in cells]
    for lane in lanes:
        lane.start()
    for cell in cells:
        server.put(f"{PODS}/p-{cell}", pod(cell))
    for lane in lanes:
        lane.join()
    assert None not in states.values()
    wait_for(lambda: server.requests["watch pods"])  # the list may have had every pod before the stream began
    assert (server.requests["list pods"], server.requests["watch pods"]) == (1, 1)


def test_jobs_are_listed_once_for_all_lanes_and_a_newer_one_is_asked_for(
    server: FakeApiServer, watch: RunWatch
) -> None:
    labels = {LABEL_RUN: RUN}
    for name in ("one", "two"):
        server.put(f"{JOBS}/{name}", {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}})
    assert watch.job("one")["metadata"]["name"] == "one"
    server.put(f"{JOBS}/new", {"metadata": {"name": "new", "labels": labels}, "spec": {}, "status": {}})
    assert {watch.job(name)["metadata"]["name"] for name in ("one", "two", "new")} == {"one", "two", "new"}
    assert (server.requests["list jobs"], server.requests["get jobs"]) == (1, 1)
    with pytest.raises(NotFound):
        watch.job("missing")


def test_what_ends_the_watch_is_raised_in_the_lanes(
    server: FakeApiServer, watch: RunWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "listed", lambda *_: {"kind": "Status"})
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with pytest.raises(StepFailed, match="the watch of the run's pods failed"):
        watch.wait(("01-a", "1"), 0, WAIT_S)
