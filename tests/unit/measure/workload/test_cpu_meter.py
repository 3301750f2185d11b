"""CPU times are whole ticks of the clock."""

from __future__ import annotations

import os

import pytest

from volbench.measure.workload.files import CpuMeter


def test_a_rest_of_float_subtraction_is_no_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1 + 0.2 - 0.3 is 5.6e-17."""
    times = iter([(0.1, 0.3, 0.2, 0.0, 0.0), (0.3, 0.3, 0.0, 0.02, 0.0)])
    monkeypatch.setattr(os, "times", lambda: os.times_result(next(times)))
    assert CpuMeter().metrics() == {"cpu_system_s": 0.02}
