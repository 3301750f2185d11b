"""Runs one setup as an ordinary run of volbench, in a directory of its own, once."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from explain.conditions import Setup
from explain.injection import Done, Injector, Place
from volbench.errors import MissingPrerequisite, VolbenchError
from volbench.machine.placement.workspace import Workspace, default_cache
from volbench.measure.execute.run import Orchestrator
from volbench.measure.session.planner import make_plan
from volbench.measure.session.servers import TargetRequest
from volbench.measure.session.targets import make_target
from volbench.results.store.run_directory import RunDirectory

HERE = Path(__file__).parent
STEP, VOLUME = "load", "v"
TRUTH_FILE, DONE_FILE, SUITE_FILE, RESULTS = "truth.json", "done.json", "suite.yaml", "results"
RECORDING = "recording"
"""The directory of sar's and iostat's texts."""
OWN_PROFILES = {path.stem: path for path in HERE.glob("lab-*.yaml")}


@dataclass(frozen=True, kw_only=True)
class Ran:
    """done.json: how one run of the lab went."""

    wall_s: float
    failure: str
    actions: tuple[Mapping[str, Any], ...]


def is_done(directory: Path) -> bool:
    """Whether a run ended; failures end it as well."""
    return (directory / DONE_FILE).exists()


def run_setup(setup: Setup, directory: Path, *, disk: Path) -> Ran:
    """Run a setup in the directory `place`; what an interrupted run has left there goes first.

    Args:
        disk: an existing directory for the emulated volume's bytes.

    A failure of the run is a result, not an error; raises MissingPrerequisite for what the whole lab lacks.
    """
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / TRUTH_FILE).write_text(json.dumps(dataclasses.asdict(setup), indent=1) + "\n", encoding="utf-8")
    suite = directory / SUITE_FILE
    suite.write_text(yaml.safe_dump(suite_of(setup), sort_keys=False), encoding="utf-8")
    begun_s = time.monotonic()
    done: list[Done] = []
    failure = ""
    try:
        _execute(setup, suite, directory, disk, done)
    except MissingPrerequisite:
        raise  # no other run would fare better
    except VolbenchError as error:
        failure = f"{error.what} ({error.where}): {error.evidence}"[:600]
    errors = [item.error for item in done if item.error]
    missed = len(setup.actions) - len(done)
    ran = Ran(
        wall_s=time.monotonic() - begun_s,
        failure=failure or "; ".join(errors) or (f"{missed} actions were not carried out" if missed else ""),
        actions=tuple(dataclasses.asdict(item) for item in done),
    )
    (directory / DONE_FILE).write_text(json.dumps(dataclasses.asdict(ran), indent=1) + "\n", encoding="utf-8")
    return ran


def suite_of(setup: Setup) -> dict[str, Any]:
    """The suite file of a setup: one volume, one step, one cell."""
    load = {**setup.load, "warmup": f"{setup.warmup_s:g}s", "duration": f"{setup.measured_s:g}s"}
    if "concurrent" in load:
        load["concurrent"] = [{**item, "start_after": f"{item['start_after']}s"} for item in load["concurrent"]]
    return {
        "schema": 2,
        "name": "lab",
        "description": f"The explaining rules' lab: {setup.condition}, run {setup.number}",
        "underpowered": True,
        "engine": {"flavor": "mysql", "version": "9.7", "config": dict(setup.config)},
        "dataset": dict(setup.dataset),
        "steps": [{"kind": "oltp", "name": STEP, **load}],
        # The emulator may be late by some hundred microseconds where CPUs are saturated on purpose.
        "limits": {"emulator_late": "5%"},
        "repeats": 1,
        "seed": setup.seed,
    }


def volume_text(setup: Setup, disk: Path) -> str:
    """NAME=SPEC of the setup's volume."""
    options = "&".join(f"{name}={value}" for name, value in _options(setup, disk).items())
    return f"{VOLUME}=emulated:{_profile(setup)}?{options}"


def _execute(setup: Setup, suite: Path, run_place: Path, disk: Path, done: list[Done]) -> None:
    results = run_place / RESULTS
    planned = make_plan(suite, [volume_text(setup, disk)], TargetRequest(target="docker"))
    results.mkdir()
    directory = RunDirectory.create(results, planned.run)
    target, volumes = make_target(planned.run)
    (cell,) = planned.run.cells
    location = Place(
        run_short_id=Workspace(run_id=planned.run.run_id, cache=default_cache()).short_id,
        cell_id=cell.cell_id,
        volume_directory=disk / f"run-{VOLUME}",
        profile=_profile(setup),
        options={name: value for name, value in _options(setup, disk).items() if name != "dir"},
    )
    cell_dir = directory.cell_dir(cell.cell_id)
    with Injector(
        location,
        setup.actions,
        progress_dir=cell_dir,
        warmup_s=setup.warmup_s,
        measured_s=setup.measured_s,
        recording_dir=run_place / RECORDING,
    ) as injector:
        try:
            outcome = Orchestrator(directory, target, volumes).run()
        finally:
            done.extend(injector.done)
    if outcome.failures:
        raise outcome.failures[0]


def _profile(setup: Setup) -> str:
    name = str(setup.volume["profile"])
    return str(OWN_PROFILES.get(name, name))


def _options(setup: Setup, disk: Path) -> dict[str, str]:
    input_value = {name: str(value) for name, value in setup.volume.items() if name != "profile"}
    return {**input_value, "seed": str(setup.seed % 1_000_000), "dir": str(disk)}


def run_directory_of(directory: Path) -> RunDirectory | None:
    """The run that a place holds; None when it did not come to one."""
    paths: Sequence[Path] = sorted((directory / RESULTS).glob("*-lab-*")) if (directory / RESULTS).is_dir() else []
    return RunDirectory.open(paths[-1]) if paths else None
