"""What a run over many nodes asks of the API server, and the memory that its orchestrator takes.

    python tests/benchmarks/cluster_scale.py [--nodes 100] [--cells 1000] [--cell-seconds 20] [--json FILE]

The real orchestrator, target and watch run every cell of a plan on an API server over HTTP
(tests/support/fake_api_server.py, our own construction), in a process of their own whose CPU time and peak memory
are measured. Scheduler and kubelet are simulated: a pod gets a node, runs for so many seconds and ends. What an
agent would leave is written where the collected files go, so the streams of results are not in the figures: one
exec for each cell is added to them. Exit code 1 when a cell is not done, when objects are left, when a cell takes
more than REQUESTS_PER_CELL_MAX requests, when the run makes more than REQUESTS_PER_S_MAX requests a second on
average, or when memory grows by more than MEMORY_MORE_MIB_MAX.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from fake_api_server import NAMESPACE, PODS, FakeApiServer, serving
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.cell import CellResult, PreparedTemplate
from volbench.core.records.run import PlannedCell, RunRecord
from volbench.machine.placement.interface import Job
from volbench.machine.placement.kubernetes import placement as placement_module
from volbench.machine.placement.kubernetes.manifests import AGENT, KEEPER
from volbench.machine.placement.kubernetes.placement import KubernetesPlacement
from volbench.measure.execute.run import Orchestrator
from volbench.measure.session.targets import make_target
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RESULT_FILE, TEMPLATE_FILE, RunDirectory

REQUESTS_PER_CELL_MAX = 40
REQUESTS_PER_S_MAX = 100
MEMORY_MORE_MIB_MAX = 128
POD_VALUES = [{"name": f"V{number}", "value": "x" * 40} for number in range(60)]
"""These make a pod about as large as a real one, 8 KB."""
VOLUMES = "ab"
CLASS = "/apis/storage.k8s.io/v1/storageclasses/fast"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A run's load on the API server and on its machine; memory at the start and at the peak."""

    nodes: int
    cells: int
    done: int
    left: int
    seconds: float
    requests: dict[str, int]
    requests_per_cell: float
    requests_per_s: float
    cpu: float
    before_mib: float
    memory_mib: float


class Kubelets:
    """The pods of all nodes: each runs for so long after its job was created."""

    def __init__(self, state: FakeApiServer, cell_s: float) -> None:
        self._state, self._cell_s = state, cell_s
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order, self._free = itertools.count(), itertools.count(1)
        self._changed = threading.Condition()
        threading.Thread(target=self._work, daemon=True).start()
        state.on_create = self._created

    def _created(self, path: str, made: dict[str, Any]) -> None:
        if "/jobs/" in path and "initContainers" in made["spec"]["template"]["spec"]:
            prepares = "template" in made["metadata"]["name"]
            self._after(0.5, lambda: self._run(path, made, running=True))
            self._after(1.5 if prepares else 0.5 + self._cell_s, lambda: self._run(path, made, running=False))

    def _after(self, seconds: float, do: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), do))
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                left_s = self._due[0][0] - time.monotonic() if self._due else 60.0
                if left_s > 0:
                    self._changed.wait(left_s)
                    continue
                _, _, do = heapq.heappop(self._due)
            do()

    def _run(self, job: str, made: dict[str, Any], *, running: bool) -> None:
        """Put the job's pod as it is while its agent runs, or after; a job that was deleted has none."""
        name = job.rpartition("/")[2]
        pod = self._state.objects.get(f"{PODS}/{name}")
        if job not in self._state.objects or (pod is None and not running):
            return
        node = pod["spec"]["nodeName"] if pod else self._node(made["spec"]["template"]["spec"]["affinity"])
        agent = {"running": {}} if running else {"terminated": {"exitCode": 0}}
        states = [{"name": AGENT, "state": agent}, {"name": KEEPER, "state": {"running": {}}}]
        containers = [{"name": AGENT, "env": POD_VALUES}]
        self._state.put(
            f"{PODS}/{name}",
            {
                "metadata": {
                    "name": name,
                    "labels": made["spec"]["template"]["metadata"]["labels"],
                    "creationTimestamp": made["metadata"]["creationTimestamp"],
                },
                "spec": {"nodeName": node, "containers": containers, "affinity": {}},
                "status": {"phase": "Running", "containerStatuses": states},
            },
        )

    def _node(self, affinity: dict[str, Any]) -> str:
        """Return the node of the holder that the pod follows, else the next one that nobody has."""
        follows = affinity.get("podAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
        expected = [term["labelSelector"]["matchLabels"].items() for term in follows]
        templates = [
            manifest["spec"]["template"] for path, manifest in list(self._state.objects.items()) if "/jobs/" in path
        ]
        holders = [template for template in templates if "nodeName" in template["spec"]]
        result = (
            holder for holder in holders for labels in expected if labels <= holder["metadata"]["labels"].items()
        )
        named = next((manifest["spec"]["nodeName"] for manifest in result), "")
        return str(named or f"n{next(self._free)}")


def plan(root: Path, nodes: int, cells: int) -> tuple[RunRecord, CellResult]:
    """A run of two volumes on so many nodes at once, and a result to copy."""
    volumes = tuple(SyntheticVolume(name=name, kind="storage-class") for name in VOLUMES)
    item = build_run(root / "one", Synthetic(volumes=volumes, repeats=1))
    repeats = cells // len(VOLUMES)
    planned = tuple(
        PlannedCell(cell_id=f"{repeat:04d}-{name}", volume=name, block=repeat - 1, repeat=repeat, seed=repeat)
        for repeat in range(1, repeats + 1)
        for name in VOLUMES
    )
    specs = tuple(spec.model_copy(update={"location": "fast"}) for spec in item.run.volumes)
    run = item.run.model_copy(
        update={
            "target": "kubernetes",
            "target_options": {"nodes": nodes, "parallel": nodes, "tools": "r/tools:1"},
            "volumes": specs,
            "cells": planned,
            "suite": item.run.suite.model_copy(update={"repeats": repeats}),
        }
    )
    return run, item.results()[0]


def run_cells(nodes: int, cells: int) -> None:
    """The measured process: the whole run; prints its figures."""
    with tempfile.TemporaryDirectory() as root:
        run, result = plan(Path(root), nodes, cells)
        placement_module.KubernetesPlacement = writing_results(result)  # type: ignore[misc]
        directory = RunDirectory.create(Path(root), run)
        target, volumes = make_target(run)
        before, begun_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        outcome = Orchestrator(directory, target, volumes).run()
        after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    sys.stdout.write(
        json.dumps(
            {
                "done": len(outcome.done),
                "seconds": time.monotonic() - begun_s,
                "cpu_s": cpu_s,
                "before_mib": before.ru_maxrss / 1024,
                "memory_mib": after.ru_maxrss / 1024,
            }
        )
    )


def writing_results(result: CellResult) -> type[KubernetesPlacement]:
    """Let placements write what their agent would have left, in place of collecting it by exec."""

    def finish(self: KubernetesPlacement, pod: dict[str, Any]) -> bool:
        job: Job = self._job
        if job.kind == "prepare":
            write_record(job.out / TEMPLATE_FILE, PreparedTemplate(key="k", bytes=1, reused=False))
        host = result.host.model_copy(update={"hostname": pod["spec"]["nodeName"]})
        changes = {"cell_id": job.cell.cell_id, "attempt": job.cell.attempt, "host": host}
        write_record(job.out / RESULT_FILE, result.model_copy(update=changes))
        self._events()
        self._node(pod)
        self._identity()
        self._has_ended = True
        return True

    KubernetesPlacement._finish = finish  # type: ignore[method-assign]
    return KubernetesPlacement


def measure(nodes: int, cells: int, cell_s: float) -> Outcome:
    """Serve the API, and let a process of its own run the cells."""
    state = FakeApiServer()
    state.put(CLASS, {"metadata": {"name": "fast"}, "volumeBindingMode": "WaitForFirstConsumer"})
    state.put("/version", {"metadata": {"name": "version"}})
    state.put(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"name": NAMESPACE}})
    Kubelets(state, cell_s)
    with tempfile.TemporaryDirectory() as root, serving(state, Path(root) / "kubeconfig"):
        command = [sys.executable, __file__, "--measured", "--nodes", str(nodes), "--cells", str(cells)]
        environment = {**os.environ, "KUBECONFIG": str(Path(root) / "kubeconfig")}
        answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        left = [path for path in state.objects if f"/namespaces/{NAMESPACE}/" in path]
    used = json.loads(answer.stdout)
    requests = {**state.requests, "exec": cells}
    return Outcome(
        nodes=nodes,
        cells=cells,
        done=used["done"],
        left=len(left),
        seconds=round(used["seconds"], 1),
        requests=requests,
        requests_per_cell=round(sum(requests.values()) / cells, 1),
        requests_per_s=round(sum(requests.values()) / used["seconds"], 1),
        cpu=round(used["cpu_s"] / used["seconds"], 3),
        before_mib=round(used["before_mib"], 1),
        memory_mib=round(used["memory_mib"], 1),
    )


def faults(outcome: Outcome) -> Iterator[str]:
    """What exceeds its limit."""
    if outcome.done != outcome.cells or outcome.left:
        yield f"{outcome.done} of {outcome.cells} cells done, {outcome.left} objects left"
    if outcome.requests_per_cell > REQUESTS_PER_CELL_MAX:
        yield f"{outcome.requests_per_cell} requests for a cell, limit {REQUESTS_PER_CELL_MAX}"
    if outcome.requests_per_s > REQUESTS_PER_S_MAX:
        yield f"{outcome.requests_per_s} requests/s, limit {REQUESTS_PER_S_MAX}"
    grown_mib = outcome.memory_mib - outcome.before_mib
    if grown_mib > MEMORY_MORE_MIB_MAX:
        yield f"memory grew by {grown_mib:.0f} MiB, limit {MEMORY_MORE_MIB_MAX}"


def main() -> int:
    """Print the outcome; return 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--cell-seconds", type=float, default=20)
    parser.add_argument("--json", type=Path, help="also write the outcome there")
    parser.add_argument("--measured", action="store_true", help="be the measured process")
    options = parser.parse_args()
    if options.measured:
        run_cells(options.nodes, options.cells)
        return 0
    outcome = measure(options.nodes, options.cells, options.cell_seconds)
    sys.stdout.write(
        f"{outcome.nodes} nodes, {outcome.done} of {outcome.cells} cells in {outcome.seconds:.0f} s: "
        f"{outcome.requests_per_s} requests/s, {outcome.requests_per_cell} for a cell, {outcome.cpu:.0%} of a CPU, "
        f"{outcome.before_mib:.0f} to {outcome.memory_mib:.0f} MiB; load average {os.getloadavg()[0]:.0f}\n"
        f"{outcome.requests}\n"
    )
    if options.json:
        options.json.write_text(json.dumps(asdict(outcome), indent=1) + "\n")
    failed = list(faults(outcome))
    for text in failed:
        sys.stdout.write(f"FAILED {text}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
