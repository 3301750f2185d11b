"""Cells in a queue: suspended Jobs with Kueue's label, admitted and preempted by a controller of this test.

Kueue itself cannot be had here. The controller does what Kueue's documentation says of plain Jobs: it sets
`spec.suspend` of a Job with the label `kueue.x-k8s.io/queue-name` to false to admit, to true to preempt.
"""

from __future__ import annotations

import cluster_run
import pytest
from cluster_run import ClusterBench, kubectl

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(900)]
QUEUE = "team-a"


def set_suspend(cluster: ClusterBench, suspend: bool, selector: str = "") -> int:
    """Admit or preempt the queue's jobs that are not so yet; return how many."""
    label = f"kueue.x-k8s.io/queue-name={QUEUE}" + (f",{selector}" if selector else "")
    jobs = [
        job["metadata"]["name"]
        for job in cluster.objects("jobs", label)
        if bool(job["spec"].get("suspend")) is not suspend and "deletionTimestamp" not in job["metadata"]
    ]
    for name in jobs:
        change = f'{{"spec": {{"suspend": {str(suspend).lower()}}}}}'
        kubectl("patch", "job", name, "-n", cluster.namespace, "--type=merge", "-p", change)
    return len(jobs)


@pytest.mark.slow
def test_cells_wait_for_their_queue_and_a_preempted_one_is_begun_again(cluster: ClusterBench) -> None:
    """A suspended Job has no pod, and its wait is the queue's. Preemption is no try of the cell."""
    volumes = {"a": f"storage-class:{cluster_run.STORAGE_CLASS}"}
    options = [f"queue={QUEUE}", "start_timeout=90s"]
    process = cluster.start("steps.0.duration=10s", options=options, volumes=volumes)
    cluster.until(lambda: cluster.objects("jobs", "app.kubernetes.io/component=cell") != [], process)
    assert cluster.objects("pods") == []
    preempted = ""

    def admitted_until_preempted() -> bool:
        nonlocal preempted
        if cluster.cells_started() and cluster.in_step():
            preempted = cluster.current_cell().name
            return set_suspend(cluster, True, f"volbench.org/cell={preempted}") == 1
        set_suspend(cluster, False)
        return False

    cluster.until(admitted_until_preempted, process)
    cluster.until(lambda: (preempted, 2) in cluster.events("cell_started"), process)

    def admitted_to_the_end() -> bool:
        set_suspend(cluster, False)
        return process.poll() is not None

    cluster.until(admitted_to_the_end)
    ended = cluster.end(process)
    assert ended.code == 0, ended.output
    cluster.assert_all_done_once()
    assert cluster.failed_causes() == {(preempted, 1): "evicted"}
    cluster.quote("a cell's Job is suspended by its queue, released, preempted and released", ended)
