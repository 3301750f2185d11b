"""The runs whose sentences are held against their raw files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from synthetic_metrics import delays
from synthetic_run import OLTP, STEPS, Synthetic, SyntheticVolume, build_run
from synthetic_sweep import one_factor, sweep_of

from volbench.core.records.metrics import metric
from volbench.core.records.steps.cold_read import ColdReadStep
from volbench.core.records.steps.crash import CrashStep
from volbench.core.records.steps.replay import ReplayStep
from volbench.core.records.steps.small_files import SmallFilesStep
from volbench.results.store.run_directory import RunDirectory

NAMES = ("disk", "gp3", "io2", "efs", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12")
CPU = "client CPU-bound"
RESULT = "result.json"
FEW_THREADS = {
    "latency_ms_mean": 13.7,
    "iops_read": 1480.0,
    "read_mib_per_s": 1480 / 64,
    "read_await_ms": 5.0,
    "iops_write": 120.0,
    "write_mib_per_s": 120 / 48,
}
"""7.4 of 8 threads wait for a read, each 8 / 585 s a transaction."""


def volumes(*speeds: float) -> tuple[SyntheticVolume, ...]:
    """On disks of their own."""
    return tuple(
        SyntheticVolume(name=name, speed=speed, facts={"disk": f"nvme{number}n1", "device": f"nvme{number}n1p1"})
        for number, (name, speed) in enumerate(zip(NAMES, speeds, strict=False))
    )


_CAPACITIES = {"innodb_io_capacity-200": 2.0, "innodb_io_capacity-1500": 3.0}
RUNS: dict[str, Synthetic] = {
    "two": Synthetic(volumes=volumes(1, 1.4), steps=STEPS),
    "two-far": Synthetic(volumes=volumes(1, 0.04), steps=(OLTP,)),
    "two-alike": Synthetic(volumes=volumes(1, 1.01), steps=(OLTP,), noise=0.05),
    "two-equal": Synthetic(volumes=volumes(1, 1), steps=(OLTP,), noise=0.002),
    "some-invalid": Synthetic(
        volumes=volumes(1, 0.6), steps=(OLTP,), repeats=6, invalid={("disk", 1): CPU, ("gp3", 2): CPU}
    ),
    "one-side-invalid": Synthetic(
        volumes=volumes(1, 0.6), steps=(OLTP,), repeats=3, invalid={("disk", n): CPU for n in (1, 2, 3)}
    ),
    "all-invalid": Synthetic(
        volumes=volumes(1, 0.6),
        steps=(OLTP,),
        repeats=2,
        invalid={(name, n): CPU for name in NAMES[:2] for n in (1, 2)},
    ),
    "three": Synthetic(volumes=volumes(1, 0.5, 3), steps=(OLTP,)),
    "three-one-cell": Synthetic(volumes=volumes(1, 0.3, 2.5), repeats=1, steps=STEPS),
    "twelve": Synthetic(volumes=volumes(*(0.3 + 0.2 * n for n in range(12))), repeats=4, steps=(OLTP,)),
    "one-cell": Synthetic(volumes=volumes(1, 0.2), repeats=1, steps=(OLTP,)),
    "one-volume": Synthetic(volumes=volumes(1), repeats=3, steps=(OLTP,), invalid={("disk", 2): CPU}),
    "one-volume-invalid": Synthetic(
        volumes=volumes(1), repeats=2, steps=(OLTP,), invalid={("disk", 1): CPU, ("disk", 2): CPU}
    ),
    "all-disturbed": Synthetic(
        volumes=volumes(1, 0.5),
        steps=(OLTP,),
        repeats=3,
        disturbed={(name, n): 0.02 for name in NAMES[:2] for n in (1, 2, 3)},
    ),
    "some-disturbed": Synthetic(
        volumes=volumes(1, 0.5), steps=(OLTP,), repeats=5, disturbed={("disk", 1): 0.05, ("gp3", 2): 0.05}
    ),
    "cold-read": Synthetic(volumes=volumes(1, 0.2), repeats=4, steps=(ColdReadStep(name="cold"),)),
    "replay": Synthetic(volumes=volumes(1, 0.7), steps=(ReplayStep(name="replay", log="slow.log", duration_s=60),)),
    "crash": Synthetic(volumes=volumes(1, 0.8), steps=(OLTP, CrashStep(name="crash"))),
    "load-limited": Synthetic(
        volumes=(
            volumes(1)[0],
            replace(volumes(1, 1.4)[1], profile="ebs-io2?iops=16000&size=1TiB", load_metrics=FEW_THREADS),
        ),
        steps=(OLTP,),
    ),
    "stalls": Synthetic(
        volumes=(SyntheticVolume(name="disk"), SyntheticVolume(name="b", speed=1.3, stall_s=(40.0, 45.0))),
        steps=(OLTP,),
    ),
}


def repeated(results: Path) -> RunDirectory:
    """Cells of which an earlier attempt measured something else: it is kept, and never compared."""
    run = build_run(results, RUNS["two"])
    for cell in sorted((run.path / "cells").iterdir())[::2]:
        attempt = cell.with_name(f"{cell.name}.attempt-1")
        shutil.copytree(cell, attempt)
        result = json.loads((attempt / RESULT).read_text())
        for step in result["steps"]:
            for value in step["metrics"].values():
                value["value"] *= 3
        (attempt / RESULT).write_text(json.dumps(result))
    return RunDirectory.open(run.path)


PART_S = {"create": 12.0, "delete": 3.0}
_DELAYED = {3: {"create": 0.1}, 5: {"delete": 0.02}}
"""Cell -> the phase that other work delayed, by a share that is much of the total, or next to nothing."""


def phases(results: Path) -> RunDirectory:
    """Small files after a load: of one cell a phase is invalid, of another one it was disturbed."""
    run = build_run(results, replace(RUNS["two"], steps=(OLTP, SmallFilesStep(name="tree"))))
    for number, cell in enumerate(sorted((run.path / "cells").iterdir())):
        result = json.loads((cell / RESULT).read_text())
        tree = result["steps"][1]
        slower = 1.4 if "gp3" in cell.name else 1.0
        begin = tree["window_s"][0]
        tree["metrics"] = {"files_total_s": _metric("files_total_s", slower * sum(PART_S.values()) + number / 50)}
        for part, length_s in PART_S.items():
            end = begin + slower * length_s
            metrics = {"files_per_s": _metric("files_per_s", 1000 / slower / length_s)}
            steps = {**tree, "step": f"tree/{part}", "window_s": [begin, end], "metrics": metrics}
            if (number, part) == (0, "delete"):
                steps |= {"valid": False, "invalid_reasons": [CPU]}
            if part in _DELAYED.get(number, {}):
                records = [each.model_dump(mode="json") for each in delays(_DELAYED[number][part])]
                texts = [each["text"] for each in records]
                steps |= {
                    "valid": False,
                    "disturbances": records,
                    "invalid_reasons": texts,
                    "outside_reasons": texts,
                }
            result["steps"].append(steps)
            begin = end
        (cell / RESULT).write_text(json.dumps(result))
    return RunDirectory.open(run.path)


def _metric(name: str, value: float) -> dict[str, object]:
    return metric(name, value).model_dump(mode="json")


OTHERS: dict[str, Callable[[Path], RunDirectory]] = {
    "repeated": repeated,
    "phases": phases,
    "sweep": lambda results: sweep_of(results, 5),
    "sweep-one-cell": lambda results: sweep_of(results, 1),
    "sweep-best-and-worst": lambda results: sweep_of(results, 5, speeds={"mode-async": 0.2, "iops-960": 1.4}),
    "sweep-base-is-best": lambda results: sweep_of(results, 5, speeds={"mode-async": 0.2, "iops-960": 0.5}),
    "sweep-alike": lambda results: sweep_of(results, 5, speeds={}, noise=0.05),
    "sweep-values": lambda results: sweep_of(
        results, 5, sweep=one_factor("engine.config.innodb_io_capacity", 10000, 200, 1500), speeds=_CAPACITIES
    ),
}
ALL = (*RUNS, *OTHERS)


def build(name: str, results: Path) -> RunDirectory:
    """Write a run of the matrix."""
    return build_run(results, RUNS[name]) if name in RUNS else OTHERS[name](results)
