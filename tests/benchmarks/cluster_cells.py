"""What a cell costs as a pod beside one in containers, and how N cells on N nodes compare with one.

`python tests/benchmarks/cluster_cells.py [--nodes 3] [--idle 20]` runs the same idle cells in containers, as pods
one after the other, and as pods at once; the server is idle, since the lab's nodes share this machine's CPUs.
The overhead of a cell is its time in the journal less its measured time. On the lab cluster it adds the nodes and
removes them; elsewhere there must be that many. Exit code 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import cluster_run

from volbench.machine.placement.docker.image_names import local_images, pick_server_image
from volbench.results.store.run_directory import RunDirectory, find_runs

OVERHEAD_S_MAX = 30.0
AT_ONCE_RATIO_MAX = 1.3
REPEATS = 2
RUN_S_MAX = 900.0
SUITE = """\
schema: 2
name: idle-cells
dataset: {{tables: 1, rows: 2000}}
steps: [{{kind: idle, name: idle, duration: {idle}s}}]
"""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a run, in seconds of wall-clock time."""

    begun_s: float
    ended_s: float
    measured_s: float
    node: str

    @property
    def overhead_s(self) -> float:
        """Its time that was not measured."""
        return self.ended_s - self.begun_s - self.measured_s


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--idle", type=int, default=20)
    expected = parser.parse_args()
    result = cluster_run.ready()
    if not result.present:
        print(f"no cluster: {result.evidence}; {result.remedy}")
        return 3
    with tempfile.TemporaryDirectory(prefix="volbench-cells-", dir="/var/tmp") as name:
        work = Path(name)
        (work / "suite.yaml").write_text(SUITE.format(idle=expected.idle))
        return judge(*measure(work, expected.nodes))


def measure(work: Path, nodes: int) -> tuple[list[Cell], list[Cell], list[Cell]]:
    """Cells in containers, as pods one after the other, and as pods at once."""
    disk = work / "disk"
    disk.mkdir()
    repeats = ["--set", f"repeats={REPEATS}"]
    contained = run(work, ["--target", "docker", "--volume", f"a=path:{disk}", *repeats])
    with cluster_run.cluster_bench(work) as bench, _nodes(nodes):
        if cluster_run.with_lab():
            cluster_run.lab("images")
        pods = ["--target", "kubernetes", "--target-option", f"namespace={bench.namespace}"]
        specs = [f"v{number}=storage-class:{cluster_run.STORAGE_CLASS}?size=1Gi" for number in range(nodes)]
        volumes = [argument for spec in specs for argument in ("--volume", spec)]
        alone = run(work, [*pods, *volumes[:2], *repeats])
        at_once = run(work, [*pods, *volumes, "--set", "repeats=1", "--target-option", f"parallel={nodes}"])
    return contained, alone, at_once


@contextmanager
def _nodes(count: int) -> Iterator[None]:
    """That many nodes, for a while, where the cluster is the lab's."""
    names = cluster_run.kubectl("get", "nodes", "-o", "name").split()
    missing = [number for number in range(1, count + 1) if f"node/node{number}" not in names]
    added = missing if cluster_run.with_lab() else []
    try:
        for number in added:
            cluster_run.lab("node", "add", str(number))
        yield
    finally:
        for number in added:
            cluster_run.lab("node", "remove", str(number))


def run(work: Path, arguments: Sequence[str]) -> list[Cell]:
    """The cells of one run."""
    results = work / f"results-{len(list(work.glob('results-*')))}"
    server = pick_server_image(local_images(), "mysql")
    image = ["--set", f"engine.image={server.name}"] if server is not None else []
    command = [sys.executable, "-m", "volbench", "run", str(work / "suite.yaml"), *arguments, *image]
    subprocess.run(
        [*command, "--out", str(results), "--yes"],
        check=True,
        timeout=RUN_S_MAX,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT / "runner"), "VOLBENCH_CACHE": str(work / "cache")},
    )
    (directory,) = find_runs(results)
    return cells_of(directory)


def cells_of(directory: RunDirectory) -> list[Cell]:
    """By the journal: from before a cell is placed until its results are here."""
    moments = {
        (event.event, event.cell_id): datetime.fromisoformat(event.at).timestamp() for event in directory.events()
    }
    return [
        Cell(
            begun_s=moments["cell_started", result.cell_id],
            ended_s=moments["cell_finished", result.cell_id],
            measured_s=sum(step.window_s[1] - step.window_s[0] for step in result.steps),
            node=result.host.hostname or "",
        )
        for result in directory.results()
    ]


def judge(contained: list[Cell], alone: list[Cell], at_once: list[Cell]) -> int:
    """Print the figures; 1 when a bound is missed, or two cells at once shared a node."""
    overheads = [statistics.median(cell.overhead_s for cell in cells) for cells in (contained, alone, at_once)]
    extra_s = overheads[1] - overheads[0]
    one_s = statistics.median(cell.ended_s - cell.begun_s for cell in alone)
    first_s = min(cell.begun_s for cell in at_once)
    all_s = max(cell.ended_s for cell in at_once) - first_s
    began_s = max(cell.begun_s for cell in at_once) - first_s
    print(
        f"overhead of a cell: {overheads[0]:.1f} s in containers, {overheads[1]:.1f} s as a pod: "
        f"{extra_s:.1f} s more (at most {OVERHEAD_S_MAX:.0f})"
    )
    nodes = len({cell.node for cell in at_once})
    print(
        f"{len(at_once)} cells on {nodes} nodes at once: {all_s:.1f} s, one alone {one_s:.1f} s: "
        f"{all_s / one_s:.2f} times (at most {AT_ONCE_RATIO_MAX}); the last was begun {began_s:.1f} s after the "
        f"first; overhead {overheads[2]:.1f} s"
    )
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    return int(extra_s > OVERHEAD_S_MAX or all_s > AT_ONCE_RATIO_MAX * one_s or nodes < len(at_once))


if __name__ == "__main__":
    sys.exit(main())
