"""A run of a sweep, from stated differences: declared volumes, each with every combination of the factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run

from volbench.core.plan.designs import combinations_of
from volbench.core.records.base import Scalar
from volbench.core.records.sweep import SweepSpec
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RUN_FILE, RunDirectory

SWEEP = SweepSpec.model_validate(
    {
        "factors": {
            "volume.iops": {"base": 192, "levels": [960]},
            "volume.mode": {"base": "sync", "levels": ["async"]},
        }
    }
)
FASTER = {"mode-async": 8.0}
"""IOPS change nothing."""


def one_factor(key: str, base: Scalar, *levels: Scalar) -> SweepSpec:
    """Return a sweep of one factor."""
    return SweepSpec.model_validate({"factors": {key: {"base": base, "levels": list(levels)}}})


def sweep_of(
    results: Path,
    repeats: int,
    *,
    sweep: SweepSpec = SWEEP,
    speeds: Mapping[str, float] = FASTER,
    volumes: Sequence[str] = ("fsx",),
    **changes: Any,
) -> RunDirectory:
    """Write the run.

    Args:
        results: the directory of runs.
        repeats: cells of each setting.
        sweep: the factors and the design.
        speeds: by `FACTOR-VALUE`; those of a combination are multiplied. Also by `VOLUME` or `VOLUME.FACTOR-VALUE`.
        volumes: names of the declared volumes, the baseline first.
        changes: of the synthetic run; cells are named by `VOLUME.FACTOR-VALUE`.
    """
    settings = {
        ".".join((volume, *_changed(sweep, combination))): (volume, combination)
        for volume in volumes
        for combination in combinations_of(sweep)
    }
    measured = tuple(
        SyntheticVolume(name=name, speed=_speed(volume, sweep, combination, speeds), kind="emulated")
        for name, (volume, combination) in settings.items()
    )
    changes = {"steps": (OLTP,), "noise": 0.01, **changes}
    directory = build_run(results, Synthetic(volumes=measured, repeats=repeats, **changes))
    names = {name: _variant(volume, sweep, combination) for name, (volume, combination) in settings.items()}
    run = directory.run
    specs = {names[spec.name]: spec for spec in reversed(run.volumes)}
    write_record(
        directory.path / RUN_FILE,
        run.model_copy(
            update={
                "suite": run.suite.model_copy(update={"sweep": sweep}),
                "volumes": tuple(
                    specs[name].model_copy(update={"name": name, "variant_of": "" if name in volumes else of})
                    for name, of in {names[name]: volume for name, (volume, _) in settings.items()}.items()
                ),
                "cells": tuple(
                    cell.model_copy(update={"volume": names[cell.volume], "parameters": settings[cell.volume][1]})
                    for cell in run.cells
                ),
            }
        ),
    )
    return RunDirectory.open(directory.path)


def _changed(sweep: SweepSpec, combination: Mapping[str, Scalar], kind: str = "") -> list[str]:
    """Return `FACTOR-VALUE` of each factor of this kind that is not at its base."""
    return [
        f"{key.rpartition('.')[2]}-{value}"
        for key, value in combination.items()
        if value != sweep.factors[key].base and key.startswith(kind)
    ]


def _variant(volume: str, sweep: SweepSpec, combination: Mapping[str, Scalar]) -> str:
    """Return the name of the volume that a combination runs on: options of the volume make one of their own."""
    return ".".join((volume, *_changed(sweep, combination, "volume.")))


def _speed(volume: str, sweep: SweepSpec, combination: Mapping[str, Scalar], speeds: Mapping[str, float]) -> float:
    speed = speeds.get(volume, 1.0)
    for changed in _changed(sweep, combination):
        speed *= speeds.get(f"{volume}.{changed}", speeds.get(changed, 1.0))
    return speed
