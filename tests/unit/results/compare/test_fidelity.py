"""An emulated volume that fell behind its own model makes a step invalid."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.records.cell import StepResult, ValidityLimits
from volbench.core.records.series import SeriesRow
from volbench.results.compare.validity.observation import Observation, observe
from volbench.results.compare.validity.reasons import invalid_reasons
from volbench.results.store.series import write_series

STEP = StepResult(step="s", kind="oltp", parameters={}, window_s=(10.0, 12.0), metrics={})


def row(t_s: float, metric: str, value: float, entity: str = "") -> SeriesRow:
    return SeriesRow(t_s=t_s, source="emulator", metric=metric, entity=entity, value=value)


def late_ratio(tmp_path: Path, rows: list[SeriesRow]) -> float | None:
    write_series(tmp_path / "series.parquet", rows)
    observed = observe(tmp_path / "series.parquet", STEP, quiet_s=None, interval_s=1.0, clock_step_s=0.0)
    return observed.emulator_late_ratio


def test_late_operations_are_counted_by_how_many_there_were(tmp_path: Path) -> None:
    """900 operations of which none is late and 100 of which half are: 5 %; what lies outside the window is not."""
    rows = [
        row(9.0, "late_ratio", 1.0),
        row(9.0, "operations_per_s", 1e6, "read"),
        row(11.0, "late_ratio", 0.0),
        row(11.0, "operations_per_s", 500, "read"),
        row(11.0, "operations_per_s", 400, "write"),
        row(12.0, "late_ratio", 0.5),
        row(12.0, "operations_per_s", 100, "write"),
    ]
    assert late_ratio(tmp_path, rows) == pytest.approx(0.05)


@pytest.mark.parametrize(
    "rows", [[], [row(11.0, "operations_per_s", 5.0, "read")]], ids=["not emulated", "no ratio"]
)
def test_a_volume_without_the_ratio_is_not_judged(tmp_path: Path, rows: list[SeriesRow]) -> None:
    assert late_ratio(tmp_path, [*rows, SeriesRow(t_s=11.0, source="cpu", metric="user_ratio", value=0.5)]) is None


def test_beyond_the_limit_the_reason_names_share_and_limit() -> None:
    (reason,) = invalid_reasons(Observation(emulator_late_ratio=0.0831), ValidityLimits(emulator_late=0.05))
    assert "8.3 %" in reason
    assert "limit 5 %" in reason
    assert "emulated" in reason


def test_at_the_limit_a_step_is_valid() -> None:
    assert invalid_reasons(Observation(emulator_late_ratio=0.05), ValidityLimits(emulator_late=0.05)) == ()
