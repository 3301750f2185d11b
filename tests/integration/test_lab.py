"""One condition of the explaining rules' lab, end to end: made, run, reported, named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from explain.conditions import load_conditions, setup_of
from explain.observed import observed
from explain.runner import is_done, run_setup

pytestmark = [pytest.mark.docker, pytest.mark.emulator]


def test_a_cap_that_was_made_is_named_with_its_level(
    tmp_path: Path, root: Path, run_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few seconds of load on a volume whose cap is set while it runs; a run of the lab is an ordinary run."""
    monkeypatch.setenv("VOLBENCH_CACHE", str(run_cache))
    setup = setup_of(load_conditions()["throughput-cap"], split="development", number=1, lab_seed=7)
    ran = run_setup(dataclasses.replace(setup, measured_s=9.0), tmp_path / "run", disk=root)
    assert ran.failure == ""
    assert is_done(tmp_path / "run")
    seen = observed(tmp_path / "run")
    assert seen.top == "storage.throughput_limit"
    assert seen.named[0].evidence["throughput"] == pytest.approx(setup.drawn["throughput"], rel=0.05)
