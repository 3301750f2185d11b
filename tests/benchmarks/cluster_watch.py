"""What a run of many lanes asks of the API server: one shared watch against a watch in each lane, as it was before.

    python tests/benchmarks/cluster_watch.py [--lanes 100] [--seconds 30] [--json FILE]

Each lane waits for its pod, which runs and changes every ten seconds, on an API server over HTTP that has neither
scheduler nor kubelet (tests/support/fake_api_server.py, our own construction). Both ways run one after the other,
each in a process of its own whose CPU time and memory are measured; the server is in the parent process. Exit code
1 when the shared watch needs more than a fifth of the requests, more CPU time, or 32 MiB more than the lanes'
watches.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from fake_api_server import JOBS, PODS, FakeApiServer, serving
from kubernetes import client, watch

from volbench.core.records.cell import CellSpec, ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.machine.cluster.client import Cluster, cluster_errors
from volbench.machine.cluster.names import LABEL_CELL, LABEL_RUN
from volbench.machine.placement.interface import Job
from volbench.machine.placement.kubernetes import placement as placement_module
from volbench.machine.placement.kubernetes.cell_objects import LABEL_ATTEMPT, cell_name
from volbench.machine.placement.kubernetes.manifests import AGENT, KEEPER
from volbench.machine.placement.kubernetes.options import KubernetesOptions
from volbench.machine.placement.kubernetes.placement import KubernetesPlacement
from volbench.machine.placement.kubernetes.run_watch import RunWatch

RUN = "20260101T000000Z-lanes-abcdef"
CHANGE_EVERY_S = 10
REQUESTS_SHARE_MAX = 0.2
MEMORY_MORE_MIB_MAX = 32
POLL_S = 0.2
"""The pause of the orchestrator between two looks at a cell."""
VALUES = [{"name": f"V{number}", "value": "x" * 40} for number in range(60)]
FIELDS = [{"manager": "kubelet", "fieldsV1": {f"f:{number}": {} for number in range(150)}}]
"""These make a pod about as large as a real one, 8 KB."""


class PolledPlacement(KubernetesPlacement):
    """A lane with a watch of its own that lasts a second, as it was before the shared one."""

    _own_version = ""

    def _refresh(self) -> dict[str, Any] | None:
        if not self._own_version:
            answer = self._cluster.ask("GET", "pods", doing="looking", labelSelector=self._selector)
            self._own_version = answer["metadata"]["resourceVersion"]
            self._pod = next(iter(answer["items"]), None)
            return self._pod
        core, follower = client.CoreV1Api(self._cluster.api), watch.Watch()
        with cluster_errors("watching"):
            for event in follower.stream(
                core.list_namespaced_pod,
                self._cluster.namespace,
                label_selector=self._selector,
                resource_version=self._own_version,
                timeout_seconds=1,
                _request_timeout=11,
            ):
                self._pod = event["raw_object"]
                self._own_version = self._pod["metadata"]["resourceVersion"]
        return self._pod


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What all lanes asked, per second, and what the process took: CPU as a share of one, peak memory."""

    kind: str
    lanes: int
    seconds: float
    requests: dict[str, int]
    requests_per_s: float
    cpu: float
    memory_mib: float


def cell_id(lane: int) -> str:
    """The lane's cell."""
    return f"01-volume{lane}"


def pod(lane: int, turn: int) -> dict[str, Any]:
    """The lane's pod."""
    name = cell_name(RUN, cell_id(lane), 1)
    status = [
        {
            "name": item,
            "image": "i",
            "imageID": "i@sha256:0",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {}},
            "lastState": {},
        }
        for item in (AGENT, KEEPER)
    ]
    labels = {LABEL_RUN: RUN, LABEL_CELL: cell_id(lane), LABEL_ATTEMPT: "1"}
    return {
        "metadata": {"name": name, "labels": labels, "managedFields": FIELDS},
        "spec": {"nodeName": f"n{lane}", "containers": [{"name": AGENT, "env": VALUES}]},
        "status": {"phase": "Running", "containerStatuses": status, "turn": turn},
    }


def run_lanes(kind: str, lanes: int, seconds: float) -> None:
    """The measured process: all lanes look at their pods for so long; prints CPU time and peak memory."""
    cluster, options = Cluster(), KubernetesOptions(parallel=64)
    shared, until_s = RunWatch(cluster, RUN), time.monotonic() + seconds
    make = KubernetesPlacement
    if kind == "lanes":
        make = PolledPlacement
        placement_module.LOGS_PER_S_MAX = 10**6  # each lane shows its progress every second
    before = resource.getrusage(resource.RUSAGE_SELF)

    def look(lane: int, out: Path) -> None:
        cell = CellSpec(
            run_id=RUN,
            cell_id=cell_id(lane),
            suite="s",
            volume="v",
            block=0,
            repeat=1,
            seed=1,
            server=ServerSpec(),
            dataset=DatasetSpec(),
            steps=(),
        )
        out.mkdir()
        job = Job(kind="run", cell=cell, out=out, supervisor_script=b"", volume=None)
        placement = make(cluster, job, options, watch=shared)
        while time.monotonic() < until_s:
            if not placement.running():
                os._exit(1)
            time.sleep(POLL_S)

    with tempfile.TemporaryDirectory() as root:
        threads = [threading.Thread(target=look, args=(lane, Path(root) / str(lane))) for lane in range(lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    sys.stdout.write(json.dumps({"cpu_s": cpu_s, "memory_mib": after.ru_maxrss / 1024}))


def measure(kind: str, lanes: int, seconds: float) -> Outcome:
    """Serve a run's pods, and let a process of its own look at them."""
    state, ended = FakeApiServer(), threading.Event()
    names = [cell_name(RUN, cell_id(lane), 1) for lane in range(lanes)]
    for lane, name in enumerate(names):
        state.put(f"{PODS}/{name}", pod(lane, 0))
        job = {"metadata": {"name": name, "labels": {LABEL_RUN: RUN}}, "spec": {}, "status": {}}
        state.put(f"{JOBS}/{name}", job)

    def change() -> None:
        turn = 0
        while not ended.wait(CHANGE_EVERY_S / lanes):
            turn += 1
            state.put(f"{PODS}/{names[turn % lanes]}", pod(turn % lanes, turn))

    changing = threading.Thread(target=change)
    with tempfile.TemporaryDirectory() as root, serving(state, Path(root) / "kubeconfig"):
        changing.start()
        command = [sys.executable, __file__, "--kind", kind, "--lanes", str(lanes), "--seconds", str(seconds)]
        environment = {**os.environ, "KUBECONFIG": str(Path(root) / "kubeconfig")}
        answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        ended.set()
        changing.join()
    used = json.loads(answer.stdout)
    return Outcome(
        kind=kind,
        lanes=lanes,
        seconds=seconds,
        requests=dict(state.requests),
        requests_per_s=round(state.requests.total() / seconds, 2),
        cpu=round(used["cpu_s"] / seconds, 3),
        memory_mib=round(used["memory_mib"], 1),
    )


def faults(before: Outcome, after: Outcome) -> Iterator[str]:
    """What exceeds its limit."""
    if after.requests_per_s > REQUESTS_SHARE_MAX * before.requests_per_s:
        yield f"{after.requests_per_s} requests/s, more than a fifth of {before.requests_per_s}"
    if after.cpu > before.cpu:
        yield f"{after.cpu} CPU, more than {before.cpu}"
    if after.memory_mib > before.memory_mib + MEMORY_MORE_MIB_MAX:
        yield f"{after.memory_mib} MiB, {MEMORY_MORE_MIB_MAX} more than {before.memory_mib}"


def main() -> int:
    """Print both outcomes; return 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lanes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--json", type=Path, help="also write the outcomes there")
    parser.add_argument("--kind", choices=("lanes", "shared"), help="of the measured process")
    options = parser.parse_args()
    if options.kind:
        run_lanes(options.kind, options.lanes, options.seconds)
        return 0
    sys.stdout.write(f"load average {os.getloadavg()[0]:.0f}\n")
    outcomes = [measure(kind, options.lanes, options.seconds) for kind in ("lanes", "shared")]
    for outcome in outcomes:
        sys.stdout.write(
            f"{outcome.kind:7} {outcome.lanes} lanes: {outcome.requests_per_s:7.2f} requests/s, {outcome.cpu:6.1%}"
            f" of a CPU, {outcome.memory_mib:6.1f} MiB; {outcome.requests}\n"
        )
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    failed = list(faults(*outcomes))
    for text in failed:
        sys.stdout.write(f"FAILED {text}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
