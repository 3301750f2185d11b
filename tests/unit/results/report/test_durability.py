"""Durability stands beside speed, volume by volume, and no loss is averaged away."""

from __future__ import annotations

from volbench.core.records.cell import CellResult, StepResult
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, DurabilityRow, SpeedRow
from volbench.results.report.rows.durability import durability_rows
from volbench.results.report.wording import fault_text, recovery_text, speed_text
from volbench.results.store.run_directory import RunDirectory


def crash(lost: float, *, valid: bool = True) -> StepResult:
    values = {"acknowledged_commits": 100.0, "lost_commits": lost, "lost_s": lost / 10, "recovery_s": 2.0 + lost}
    return StepResult(
        step="crash",
        kind="crash",
        parameters={},
        window_s=(0.0, 10.0),
        metrics={name: metric(name, value) for name, value in values.items()},
        valid=valid,
        details={
            "fault": "power_cut",
            "volume_durability": "async",
            "settings": {"sync_binlog": "1"},
            "cuts": [{}, {}],
        },
    )


def rows_of(run: RunDirectory, *steps: StepResult) -> tuple[DurabilityRow, ...]:
    """Rows for a run whose cells had one of the steps each."""
    results: list[CellResult] = [
        result.model_copy(update={"steps": (step,)}) for result, step in zip(run.results(), steps, strict=False)
    ]
    cells = [
        CellRow(
            cell_id="c",
            volume="a",
            step="oltp",
            kind="oltp",
            parameters={},
            block=0,
            repeat=1,
            valid=True,
            metrics={"tps": metric("tps", 50.0)},
        )
    ]
    cells += [
        CellRow(
            cell_id=result.cell_id,
            volume="a",
            step=step.step,
            kind=step.kind,
            parameters={},
            block=0,
            repeat=1,
            valid=step.valid,
            metrics=step.metrics,
        )
        for result in results
        for step in result.steps
    ]
    return durability_rows(results, cells, dict.fromkeys((result.cell_id for result in results), "a"), ["a"])


def test_times_and_speeds_are_the_figures_of_every_other_table(pair: RunDirectory) -> None:
    """486 commits a second stood below 571 of the same volume: losses are of all cells, and so were times."""
    (row,) = rows_of(pair, crash(0), crash(4, valid=False), crash(8, valid=False))
    assert row.recovery_s == 2.0
    assert row.lost_commits == 12
    (row,) = rows_of(pair, crash(4, valid=False))
    assert row.recovery_s == 6.0


def test_a_speed_of_no_valid_cell_says_so() -> None:
    """A dash stood where every other table has 208 transactions a second of disturbed cells."""
    speed = SpeedRow(step="load", metric="tps", value=208.0, unit="1/s", standing="disturbed")
    assert speed_text(speed) == "208/s (disturbed)"
    assert speed_text(speed.model_copy(update={"standing": "valid"})) == "208/s"


def test_losses_are_summed_and_times_are_medians(pair: RunDirectory) -> None:
    (row,) = rows_of(pair, crash(0), crash(30), crash(10, valid=False))
    assert (row.cells, row.cuts, row.acknowledged_commits, row.lost_commits) == (3, 6, 300, 40)
    assert (row.lost_s, row.recovery_s, row.commits_per_s) == (3.0, 17.0, None)
    assert [(speed.step, speed.metric, speed.value) for speed in row.speeds] == [("oltp", "tps", 50.0)]
    assert fault_text(row) == "6 power cuts (volume: async)"


def test_a_server_that_did_not_come_back_is_told_beside_the_times_of_those_that_did(pair: RunDirectory) -> None:
    gone = crash(100)
    del gone.metrics["recovery_s"]
    gone.metrics["failed_recoveries"] = metric("failed_recoveries", 1.0)
    (row,) = rows_of(pair, crash(0), gone)
    assert (row.failed_recoveries, row.recovery_s) == (1, 2.0)
    assert recovery_text(row) == "failed after 1 of 4 cuts, else 2.00 s"
    (row,) = rows_of(pair, gone)
    assert recovery_text(row) == "failed after 1 of 2 cuts"


def test_settings_that_differ_are_rows_of_their_own(pair: RunDirectory) -> None:
    lax = crash(5)
    lax.details["settings"] = {"sync_binlog": "0"}
    assert [row.lost_commits for row in rows_of(pair, crash(0), lax)] == [0, 5]


def test_a_run_without_a_crash_step_has_no_such_table(pair: RunDirectory) -> None:
    assert rows_of(pair, *(step for result in pair.results() for step in result.steps)) == ()
