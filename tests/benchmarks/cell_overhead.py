"""What a cell costs beside its load: wall time of each piece on a target, and CPU time of the commands' imports.

    python tests/benchmarks/cell_overhead.py [--target docker] [--directory DIR] [--cells 4] [--tree DIR]

Runs cells of the suite `quick` with little data and short steps on one directory, and reads the pieces from the
journal and result.json. `--tree` measures another checkout with this one's libraries; run both in turn to compare.
Ends with 1 when the sum of the pieces or the CPU time of a command exceeds its limit; without a target that works,
only the CPU times are measured.

Two busy cores (load 10 to 30), this code against the commit before it, in turn, six runs of three cells each, in
containers: 4.4 to 6.9 s a cell (median 5.7), before 6.0 to 12.1 s (7.4). On idle cores 2.96 s (four cells), where
the watch at rest takes 1.05 s; before 5.1 s, with 1.97 s for the watch and 1.01 s for the end of sysbench.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
OVERHEAD_S_MAX = 4.0
WARMUP_S, MEASURED_S = 1, 4
SETTINGS = (
    "dataset.rows=20000",
    "replacements=0",
    f"steps.read-write.warmup={WARMUP_S}s",
    f"steps.read-write.duration={MEASURED_S}s",
)
COMMANDS = {
    "volbench --help": (("--help",), 0.2),
    "volbench plan": (("plan", "suites/quick.yaml", "--target", "docker", "--volume", "a=path:/var/tmp"), 0.5),
}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="docker")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--tree", type=Path, default=ROOT)
    expected = parser.parse_args()
    too_slow = [_judged_command(name, *command, expected.tree) for name, command in COMMANDS.items()]
    with tempfile.TemporaryDirectory() as results, tempfile.TemporaryDirectory(dir=expected.directory) as volume:
        done = _volbench(
            expected.tree,
            "run",
            "suites/quick.yaml",
            "--target",
            expected.target,
            "--yes",
            "--out",
            results,
            "--volume",
            f"v=path:{volume}",
            *(f"--set={text}" for text in (*SETTINGS, f"repeats={expected.cells}")),
        )
        if done.returncode:
            print(f"no cells on the target {expected.target}: {done.stderr.strip().splitlines()[-1]}")
            return int(any(too_slow))
        too_slow.append(_judged_cells(next(Path(results).iterdir())))
    return int(any(too_slow))


def _judged_command(name: str, arguments: tuple[str, ...], limit_s: float, tree: Path) -> bool:
    used: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _volbench(tree, *arguments).check_returncode()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(f"{name}: {median(used):.2f} s CPU, at least {min(used):.2f} (limit {limit_s:g})")
    return min(used) > limit_s


def _volbench(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree / "runner"), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "volbench", *arguments]
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


def _judged_cells(run: Path) -> bool:
    """Print the median of each piece over the cells, and return whether their sum exceeds the limit."""
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    pieces: defaultdict[str, list[float]] = defaultdict(list)
    for directory in sorted(run.glob("cells/*-v")):
        at_s = [
            _seconds(event["at"])
            for event in events
            if event.get("cell_id") == directory.name or event["event"] == "run_finished"
        ]
        for piece, seconds in _pieces(
            json.loads((directory / "result.json").read_text()), at_s[0], at_s[1]
        ).items():
            pieces[piece].append(seconds)
    for piece, values in pieces.items():
        print(f"  {piece:36} {median(values):6.2f} s")
    overhead_s = median([sum(values) for values in zip(*pieces.values(), strict=True)])
    load = os.getloadavg()[0]
    print(f"a cell beside warm-up and window: {overhead_s:.2f} s (limit {OVERHEAD_S_MAX:g}; load {load:.0f})")
    return overhead_s > OVERHEAD_S_MAX


def _pieces(result: Mapping[str, object], started_s: float, finished_s: float) -> dict[str, float]:
    zero_s = _seconds(str(result["zero_utc"]))
    phases = {phase["name"]: phase for phase in result["phases"]}  # type: ignore[attr-defined]
    step = phases["step:read-write"]
    start_s, end_s = result["steps"][0]["window_s"]  # type: ignore[index]

    def length_s(name: str) -> float:
        return float(phases[name]["t1_s"] - phases[name]["t0_s"])

    return {
        "containers, imports until the zero": zero_s - started_s,
        "supervisor, samplers": phases["quiet"]["t0_s"],
        "watch at rest": length_s("quiet"),
        "copy of the data": length_s("seed"),
        "start of the server": length_s("start"),
        "checks, start of sysbench": start_s - WARMUP_S - phases["start"]["t1_s"],
        "end of sysbench": step["t1_s"] - end_s,
        "kill of the server": length_s("kill"),
        "tables, removal of data, judgement": float(result["wall_s"]) - phases["kill"]["t1_s"],  # type: ignore[arg-type]
        "end of the agent": finished_s - zero_s - float(result["wall_s"]),  # type: ignore[arg-type]
    }


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


if __name__ == "__main__":
    sys.exit(main())
