"""Sampling a real emulated volume: its own counters, under the names that an EBS volume's have."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from volbench.core.profile.resolve import resolve
from volbench.core.records.sources import SAMPLED
from volbench.machine.volume.emulated.requirements import find_daemon
from volbench.machine.volume.emulated.volume import EmulatedVolume
from volbench.measure.sample.device.emulator import EmulatorSampler
from volbench.measure.sample.interface import Reading, Unavailable

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(find_daemon() is None, reason="needs the daemon: pip install runner/emulator"),
]


def test_an_emulated_volumes_counters_become_rows(root: Path) -> None:
    with EmulatedVolume(resolve("ebs-gp2", {"size": "1GiB", "filesystem": "ext4"}), root, name="v") as volume:
        control = volume.directory / "control.sock"
        sampler = EmulatorSampler(control)
        assert sampler.probe().present
        before = Reading(t_s=time.monotonic(), values=sampler.read())
        with (volume.data / "file").open("wb") as file:
            file.write(bytes(1 << 20))
            os.fsync(file.fileno())
        after = Reading(t_s=time.monotonic(), values=sampler.read())
    with pytest.raises(Unavailable):
        sampler.read()
    values = {(row.metric, row.entity): row.value for row in EmulatorSampler.rates(before, after)}
    assert values["writes_per_s", ""] > 0
    assert values["write_mib_per_s", ""] * (after.t_s - before.t_s) >= 1.0
    assert values["w_await_ms", ""] > 0
    assert [entity for name, entity in values if name == "balance_percent"]
    assert all(SAMPLED["emulator"][name].unit and value >= 0 for (name, _), value in values.items())
