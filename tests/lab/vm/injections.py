"""Runs the injections of injections.yaml, stack by stack, each stack in a machine of its own."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from bootstrap.console import Console
from bootstrap.directories import Directories
from vm.image import ensure_image
from vm.machine import Machine
from volbench.errors import MissingPrerequisite

HERE = Path(__file__).resolve().parent
INSIDE = "/opt/volbench/tree/tests/lab/vm/inject_inside.py"
STEP_EXTRA_S, START_S = 45.0, 1200.0
"""For what a step does beside its load, and for everything before the first, on emulated processors."""
LETTERS = "ABCD"
PIECE = 18
"""Injections of one run at most, so that an interruption costs a quarter of an hour."""
RETAINED = ("counters.jsonl", "disks.json", "injections.json", "injections.log", "volbench.log", "campaign.json")


@cache
def conditions() -> dict[str, Any]:
    """What injections.yaml says; nothing changes it. To parse it takes a quarter of a second."""
    result: dict[str, Any] = yaml.safe_load((HERE / "injections.yaml").read_text(encoding="utf-8"))
    return result


def inject_all(out: Path, names: Iterable[str], locations: Directories, console: Console) -> int:
    """Run all injections that have no results yet; returns an exit code.

    Args:
        out: has a directory for each run. What an interrupted run left is made again.
        names: of injections; empty: all.
    """
    image = ensure_image(locations, console)
    expected = list(names) or list(conditions()["injections"])
    unknown = set(expected) - set(conditions()["injections"])
    if unknown:
        raise MissingPrerequisite(f"no injection is called {', '.join(sorted(unknown))}", where="injections.yaml")
    out.mkdir(parents=True, exist_ok=True)
    failed = False
    for stack, group in pieces([name for name in expected if name not in done(out)]):
        with Machine(image, locations) as machine:
            console.say(f"{stack}: {', '.join(group)} on kernel {machine.kernel}, {machine.accelerator}")
            failed |= not _run(machine, stack, group, out, console)
    return MissingPrerequisite.exit_code if failed else 0


def done(out: Path) -> set[str]:
    """Injections that acted in a run whose results are there."""
    return {record["name"] for file in out.glob("*/injections.json") for record in json.loads(file.read_text())}


def pieces(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Stacks with the injections of one run; a contrast of sizes after the last step is of one injection only."""
    by_stack: dict[str, list[str]] = {}
    alone: list[tuple[str, list[str]]] = []
    for name in names:
        condition = conditions()["injections"][name]
        if condition.get("contrast"):
            alone.append((condition["stack"], [name]))
        else:
            by_stack.setdefault(condition["stack"], []).append(name)
    groups = [
        (stack, group[begin : begin + PIECE])
        for stack, group in by_stack.items()
        for begin in range(0, len(group), PIECE)
    ]
    return groups + alone


def campaign(stack: str, names: Sequence[str]) -> dict[str, Any]:
    """What is handed to the machine."""
    known_names = conditions()
    warmup_s, measured_s = known_names["warmup_s"], known_names["measured_s"]
    chosen, steps = [], []
    for name in names:
        condition = known_names["injections"][name]
        step = {"name": name, **known_names["loads"][condition["load"]]}
        step |= {"ramp" if step["kind"] == "fio" else "warmup": warmup_s, "duration": measured_s}
        steps.append(step)
        chosen.append(
            {
                "name": name,
                "step": step,
                "contrast": step["kind"] == "fio" or bool(condition.get("contrast")),
                **{key: condition[key] for key in ("throttle", "begin", "end") if key in condition},
            }
        )
    contrasted = any(known_names["injections"][name].get("contrast") for name in names)
    suite = {
        "schema": 2,
        "name": f"injections-{stack}",
        "underpowered": True,
        "engine": {  # `any` asks mysqld for its version, for which emulated processors may take too long
            "flavor": "mariadb",
            "config": known_names["config"],
            "start_timeout": 600,
            "stop_timeout": 600,
        },
        "dataset": known_names["dataset"],
        "sampling": {"summaries": False, "size_contrast": known_names["contrast_s"] if contrasted else 0},
        "limits": {"client_cpu": 1.0, "missed_samples": 1.0, "cpu_steal": 1.0, "foreign_cpu": 1.0},
        "steps": steps,
        "repeats": 1,
        "replacements": 0,
    }
    make = known_names["stacks"][stack]["make"]
    return {"make": make, "suite": suite, "injections": chosen, "step_s": warmup_s + measured_s, "stack": stack}


def _run(machine: Machine, stack: str, names: list[str], out: Path, console: Console) -> bool:
    """Run one piece and keep its results; returns whether all of its injections acted."""
    spec = {**campaign(stack, names), "kernel": machine.kernel}
    (machine.share / "campaign.json").write_text(json.dumps(spec, indent=1))
    limit_s = START_S + len(names) * (spec["step_s"] + STEP_EXTRA_S)
    over = threading.Event()
    throttles = threading.Thread(target=_serve_throttles, args=(machine, over), daemon=True)
    throttles.start()
    inside = ""
    try:
        inside = machine.run(f"python3 {INSIDE} /share/campaign.json", limit_s=limit_s).output
    except MissingPrerequisite as error:  # its kernel may panic; the next stack has a machine of its own
        inside = str(error)
    finally:
        over.set()
        throttles.join(timeout=10)
    directory = out / f"{stack}-{time.strftime('%Y%m%dT%H%M%S')}"
    directory.mkdir()
    (directory / "inside.log").write_text(inside)
    if (machine.share / "results").exists():
        shutil.copytree(machine.share / "results", directory / "results")
    for name in RETAINED:
        if (machine.share / name).exists():
            shutil.copyfile(machine.share / name, directory / name)
    acted = done(directory.parent) & set(names)
    console.say(f"{stack}: {len(acted)} of {len(names)} injections acted; {directory}")
    if len(acted) < len(names):
        console.say(inside[-2000:])
    return len(acted) == len(names)


def _serve_throttles(machine: Machine, over: threading.Event) -> None:
    """Set QEMU's throttle groups as a file of the shared directory asks, and answer by removing it."""
    request = machine.share / "throttle.json"
    while not over.wait(0.05):
        if request.exists():
            limits: Mapping[str, Mapping[str, int]] = json.loads(request.read_text())
            for letter, options in limits.items():
                machine.set_throttle(LETTERS.index(letter), options)
            request.unlink()
