"""A run of a sweep, from stated differences: one declared volume in three variants."""

from __future__ import annotations

from pathlib import Path

from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run

from volbench.core.plan.designs import combinations_of
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
VARIANTS = ("fsx", "fsx.iops-960", "fsx.mode-async")


def sweep_of(results: Path, repeats: int) -> RunDirectory:
    """Write the run: async is eight times faster, IOPS change nothing."""
    volumes = tuple(
        SyntheticVolume(name=name, speed=8.0 if name.endswith("async") else 1.0, kind="emulated")
        for name in VARIANTS
    )
    expected = Synthetic(volumes=volumes, repeats=repeats, steps=(OLTP,), noise=0.01)
    directory = build_run(results, expected)
    run = directory.run
    parameters = dict(zip(VARIANTS, combinations_of(SWEEP), strict=True))
    write_record(
        directory.path / RUN_FILE,
        run.model_copy(
            update={
                "suite": run.suite.model_copy(update={"sweep": SWEEP}),
                "volumes": tuple(
                    v.model_copy(update={"variant_of": "" if v.name == "fsx" else "fsx"}) for v in run.volumes
                ),
                "cells": tuple(c.model_copy(update={"parameters": parameters[c.volume]}) for c in run.cells),
            }
        ),
    )
    return RunDirectory.open(directory.path)
