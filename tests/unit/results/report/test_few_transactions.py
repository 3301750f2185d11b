"""Percentiles of the part of a load beside something short: three to five transactions have no p95."""

from __future__ import annotations

import pytest

from volbench.core.records.cell import COUNTED_AS_SLOWEST, StepResult
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, Report
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.rows.backup import backup_rows
from volbench.results.report.rows.cells import cell_rows
from volbench.results.report.rows.few_transactions import few_notes, stated_metrics
from volbench.results.report.wording import p95_during_text
from volbench.results.store.run_directory import RunDirectory

LOAD = OltpStep(name="night", rate=2.0, concurrent=(DumpStep(tool="mysqldump"),))
FIGURES = {"latency_ms_p50": 25.0, "latency_ms_p95": 64.0, "latency_ms_p99": 66.0, "latency_ms_max": 66.2}


def during(
    *, tps: float = 2.0, seconds: float = 2.0, notes: tuple[str, ...] = (), phase: str = "during"
) -> StepResult:
    values = {"tps": tps, **FIGURES}
    return StepResult(
        step=f"night/{phase}" if phase else "night",
        kind="oltp",
        parameters={"phase": phase} if phase else {},
        window_s=(0.0, 100.0),
        spans_s=((0.0, seconds),),
        metrics={name: metric(name, value) for name, value in values.items()},
        notes=notes,
    )


def test_four_transactions_have_a_median_and_a_slowest_one_and_no_p95() -> None:
    step = during()
    assert stated_metrics(step).keys() == {"tps", "latency_ms_p50", "latency_ms_max"}
    assert few_notes(step) == ("4 transactions, the slowest 66.2 ms: too few for p95 and p99",)


@pytest.mark.parametrize(
    ("seconds", "left_out"),
    [
        (9.0, ["latency_ms_p95", "latency_ms_p99"]),
        (10.0, ["latency_ms_p99"]),
        (49.0, ["latency_ms_p99"]),
        (50.0, []),
    ],
)
def test_a_percentile_needs_one_transaction_above_it(seconds: float, left_out: list[str]) -> None:
    step = during(seconds=seconds)
    assert [name for name in step.metrics if name not in stated_metrics(step)] == left_out
    assert bool(few_notes(step)) == bool(left_out)


@pytest.mark.parametrize("step", [during(phase=""), during(notes=(f"3 transactions: {COUNTED_AS_SLOWEST}",))])
def test_a_whole_step_and_one_that_counts_lost_answers_stay_as_they_are(step: StepResult) -> None:
    assert stated_metrics(step) == step.metrics
    assert few_notes(step) == ()


@pytest.fixture
def nights(pair: RunDirectory) -> tuple[CellRow, ...]:
    first = next(iter(pair.results()))
    return cell_rows(pair.run, [first.model_copy(update={"steps": (during(),)})])


def test_a_cell_says_what_it_left_out(nights: tuple[CellRow, ...]) -> None:
    (row,) = nights
    assert "latency_ms_p95" not in row.metrics
    assert "4 transactions, the slowest 66.2 ms: too few for p95 and p99" in row.notes


def test_the_table_of_backups_has_the_slowest_of_so_many_instead(pair: RunDirectory, pair_report: Report) -> None:
    dump = StepResult(
        step="night/beside-mysqldump",
        kind="dump",
        parameters={},
        window_s=(0.0, 2.0),
        metrics={"dump_s": metric("dump_s", 2.0)},
    )
    results = [
        result.model_copy(update={"steps": (dump, during(tps=tps))})
        for result, tps in zip(pair.results(), (2.0, 1.5), strict=False)
    ]
    suite = pair.run.suite.model_copy(update={"steps": (LOAD,)})
    (row,) = backup_rows(suite, results, dict.fromkeys((result.cell_id for result in results), "a"), ["a"])
    assert (row.latency_ms_p95_during, row.latency_ms_max_during, row.transactions_during) == (None, 66.2, 7)
    assert p95_during_text(row) == "at most 66.2 ms (7 transactions)"
    assert "at most 66.2 ms (7 transactions)" in markdown(pair_report.model_copy(update={"backups": (row,)}))
