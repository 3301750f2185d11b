"""What backups do to a load, and whether they fit: by the slowest cell, of valid steps only."""

from __future__ import annotations

from volbench.core.records.cell import CellResult, StepResult
from volbench.core.records.metrics import metric
from volbench.core.records.report import BackupRow, Report
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.rows.backup import backup_rows
from volbench.results.report.wording import window_text
from volbench.results.store.run_directory import RunDirectory

LOAD = OltpStep(name="night", rate=20.0, concurrent=(DumpStep(tool="mydumper", window=120),))  # type: ignore[call-arg]


def step(name: str, *, valid: bool = True, **values: float) -> StepResult:
    return StepResult(
        step=name,
        kind="oltp",
        parameters={},
        window_s=(0.0, 1.0),
        metrics={key: metric(key, value) for key, value in values.items()},
        valid=valid,
    )


def night(dump_s: float, *, valid: bool = True) -> tuple[StepResult, ...]:
    steps = (
        step("night/beside-mydumper", dump_s=dump_s, dump_mib_per_s=10.0, valid=valid),
        step("night/during", latency_ms_p95=90.0, tps=15.0, stalled_s=2.0),
    )
    return (*steps, step("night/alone", latency_ms_p95=9.0, tps=20.0))


def rows_of(
    pair: RunDirectory, *cells: tuple[StepResult, ...], extra: tuple[OltpStep, ...] = ()
) -> list[BackupRow]:
    done = [result for result in pair.results() if result.status == "done"][: len(cells)]
    results: list[CellResult] = [
        result.model_copy(update={"steps": steps}) for result, steps in zip(done, cells, strict=True)
    ]
    suite = pair.run.suite.model_copy(update={"steps": (LOAD, *extra)})
    return list(backup_rows(suite, results, dict.fromkeys((result.cell_id for result in results), "a"), ["a", "b"]))


def test_the_slowest_cell_decides_and_a_window_is_recommended(pair: RunDirectory) -> None:
    (row,) = rows_of(pair, night(50.0), night(130.0), night(60.0))
    assert (row.volume, row.tool, row.cells, row.dump_s, row.dump_s_max) == ("a", "mydumper", 3, 60.0, 130.0)
    assert (row.latency_ms_p95_alone, row.latency_ms_p95_during) == (9.0, 90.0)
    assert (row.fits, row.recommended_window_s) == (False, 240.0)
    assert window_text(row) == "does not fit 2 min; recommended 4 min"


def test_a_cell_that_is_not_valid_does_not_count(pair: RunDirectory) -> None:
    (row,) = rows_of(pair, night(50.0), night(900.0, valid=False))
    assert (row.cells, row.fits) == (1, True)


def test_a_step_with_the_same_load_and_nothing_beside_it_stands_for_alone(
    pair: RunDirectory,
) -> None:
    same = OltpStep(name="quiet", rate=20.0)
    cell = (*night(50.0), step("quiet", latency_ms_p95=8.0, tps=21.0))
    (row,) = rows_of(pair, cell, extra=(OltpStep(name="other", rate=99.0), same))
    assert (row.latency_ms_p95_alone, row.tps_alone) == (8.0, 21.0)


def test_a_row_of_a_backup_names_its_step(pair: RunDirectory, pair_report: Report) -> None:
    """Two rows of one volume and tool had other times, and nothing said that one was of the night."""
    (row,) = rows_of(pair, night(50.0))
    rows = (row, row.model_copy(update={"step": "morning", "dump_s": 40.0}))
    text = markdown(pair_report.model_copy(update={"backups": rows}))
    assert [line.split(" | ")[1] for line in text.splitlines() if "| mydumper |" in line] == ["night", "morning"]


def test_without_a_backup_there_is_no_row(pair: RunDirectory) -> None:
    assert rows_of(pair, (step("night/alone", tps=20.0),)) == []
