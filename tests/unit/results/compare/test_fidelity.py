"""An emulated volume that fell behind its own model makes a step invalid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from volbench.core.records.cell import StepResult, ValidityLimits
from volbench.core.records.series import LATENESS, HistogramRow, SeriesRow
from volbench.measure.sample.rows import LATENESS_EDGE_DEDUCT, LATENESS_EDGE_MULT
from volbench.results.compare.validity.observation import CellObservation, observe
from volbench.results.compare.validity.reasons import invalid_reasons
from volbench.results.store.histograms import HistogramWriter
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


def test_beyond_the_limit_the_reason_names_the_figure_the_evidence_and_what_to_do() -> None:
    observed = CellObservation(
        emulator_late_ratio=0.0831, lateness_changes={"throughput": 0.03, "p50": 0.01, "p95": 0.064}
    )
    (reason,) = invalid_reasons(observed, ValidityLimits(emulator_late=0.05))
    for phrase in (
        "the emulated volume fell behind",
        "p95 by 6.4 %",
        "limit 5 %",
        "8.3 % of them",
        "leave the emulator",
    ):
        assert phrase in reason


def test_at_the_limit_a_step_is_valid_however_many_operations_were_late() -> None:
    observed = CellObservation(emulator_late_ratio=0.3, lateness_changes={"throughput": 0.05})
    assert invalid_reasons(observed, ValidityLimits(emulator_late=0.05)) == ()


def kind_of_operations(kind: str, *, per_s: float, await_ms: float) -> list[SeriesRow]:
    return [
        line
        for t_s in (11.0, 12.0)
        for line in (row(t_s, "operations_per_s", per_s, kind), row(t_s, "operation_await_ms", await_ms, kind))
    ]


def lateness(t_s: float, kind: str, number: int, events: int, *, measured: bool = True) -> HistogramRow:
    return HistogramRow(
        t_s=t_s,
        interval_s=1.0,
        step="s",
        source=f"{LATENESS} {kind}",
        events=events,
        errors=0,
        edge_mult=LATENESS_EDGE_MULT,
        edge_deduct=LATENESS_EDGE_DEDUCT,
        bin=(number,),
        count=(events,),
        measured=measured,
    )


def changes(tmp_path: Path, rows: list[SeriesRow], histograms: list[HistogramRow]) -> Mapping[str, float] | None:
    write_series(tmp_path / "series.parquet", rows)
    with HistogramWriter(tmp_path / "histograms.parquet") as writer:
        writer.append(histograms)
    observed = observe(tmp_path / "series.parquet", STEP, quiet_s=None, interval_s=1.0, clock_step_s=0.0)
    return observed.lateness_changes


def test_lateness_is_weighed_by_the_time_of_each_kind(tmp_path: Path) -> None:
    """Reads of 2 ms that are late by 0.2 ms (bin 30 begins at 181 us), and longer writes that are in time."""
    rows = [
        *kind_of_operations("read", per_s=500, await_ms=2.0),
        *kind_of_operations("write", per_s=500, await_ms=50.0),
    ]
    late = [
        lateness(t_s, kind, number, 500) for t_s in (11.0, 12.0) for kind, number in (("read", 30), ("write", 4))
    ]
    before = lateness(10.0, "read", 60, 500, measured=False)
    assert changes(tmp_path, rows, [before, *late]) == {"throughput": pytest.approx((197 - 25) / 2000, rel=0.02)}


def test_a_daemon_without_histograms_of_lateness_is_judged_by_the_sums(tmp_path: Path) -> None:
    rows = [
        *kind_of_operations("read", per_s=500, await_ms=2.0),
        *(row(t_s, "lateness_s_per_s", 0.1) for t_s in (11.0, 12.0)),
    ]
    assert changes(tmp_path, rows, []) == {"throughput": pytest.approx(0.1)}


def test_a_volume_that_is_not_emulated_has_no_lateness(tmp_path: Path) -> None:
    assert changes(tmp_path, [SeriesRow(t_s=11.0, source="cpu", metric="user_ratio", value=0.5)], []) is None
