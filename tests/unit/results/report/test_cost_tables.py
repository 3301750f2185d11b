"""What stands beside the findings: costs, queries, predictions, small multiples, in page and Markdown."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from synthetic_run import build_run, two_volumes

from volbench.core.base.text import MINUS
from volbench.core.records.report import AssociationRow, FindingRow, QueryRow, Report, TimeBudgetRow
from volbench.core.records.report.findings import CauseRelation
from volbench.core.records.steps.oltp import OltpStep
from volbench.results.explain.accounts.per_transaction import TITLES
from volbench.results.explain.accounts.what_if import other_volume
from volbench.results.explain.evidence.association import Correlation
from volbench.results.explain.run import explain_run
from volbench.results.explain.tables import association_rows, transaction_rows
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.render import render
from volbench.results.report.views.cause_clause import cause_clause
from volbench.results.report.views.cost_tables import (
    association_sentences,
    correlation_sentences,
    query_tables,
    small_multiples,
    transaction_tables,
)
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import SERIES_FILE, RunDirectory
from volbench.results.store.series import SeriesKey

QUERY = QueryRow(volume="a", step="load", query="SELECT a|b <c>", share=0.6, per_s=9.0, mean_ms=4.0, cpu_ms=1.0)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return build_run(
        tmp_path_factory.mktemp("run"), two_volumes(steps=(OltpStep(name="load", warmup_s=10, duration_s=60),))
    )


@pytest.fixture(scope="module")
def report(directory: RunDirectory) -> Report:
    built = build_report(directory, what_if=[other_volume("ebs-gp3?iops=6000")])
    slower = QUERY.model_copy(update={"volume": "b", "mean_ms": 8.0, "ratio": 2.0, "cpu_ms": None})
    return built.model_copy(update={"queries": (QUERY, slower)})


def test_costs_are_per_volume_with_the_first_as_baseline(report: Report) -> None:
    (table,) = transaction_tables(report)
    rows = dict(table.rows)
    first, second = rows["reads of the volume"]
    assert first is not None
    assert second is not None
    assert (first.volume, first.ratio, second.volume) == ("a", 1.0, "b")
    assert second.ratio == pytest.approx(second.value / first.value)
    assert first.cells > 1


def test_a_volume_without_a_baseline_has_no_ratio(directory: RunDirectory) -> None:
    rows = transaction_rows(explain_run(load_run(directory)), ["b"])
    assert {row.volume for row in rows} == {"b"}
    assert {row.ratio for row in rows if row.value > 0} == {1.0}


def test_loads_of_different_threads_are_kept_apart(report: Report) -> None:
    row = report.transactions[0]
    ladder = [row.model_copy(update={"threads": threads, "value": float(threads)}) for threads in (1, 8, 32)]
    tables = transaction_tables(report.model_copy(update={"transactions": tuple(ladder)}))
    assert [table.step for table in tables] == ["load, 1 thread", "load, 8 threads", "load, 32 threads"]


def test_costs_that_are_0_everywhere_have_no_row_and_are_named(report: Report) -> None:
    """Nine rows of zeros hid that a load never reached the volume."""
    first = report.transactions[0]
    rows = [
        first.model_copy(update={"metric": metric, "volume": volume, "value": value})
        for metric, values in (("fsyncs", (0.0, 0.0)), ("reads", (0.0, 1.0)))
        for volume, value in zip("ab", values, strict=True)
    ]
    changed = report.model_copy(update={"transactions": tuple(rows)})
    (table,) = transaction_tables(changed)
    assert ([title for title, _ in table.rows], table.nothing) == ([TITLES["reads"]], (TITLES["fsyncs"],))
    assert "\n0 on every volume: fsyncs.\n" in markdown(changed)


def test_a_query_without_a_share_that_can_be_printed_has_no_row(report: Report) -> None:
    """`0 %, 0.0887 ms` of a PREPARE stood in a table of what takes time."""
    rare = QUERY.model_copy(update={"query": "PREPARE SELECT 1", "share": 0.00001})
    (table,) = query_tables(report.model_copy(update={"queries": (*report.queries, rare)}))
    assert [query for query, _ in table.rows] == [QUERY.query]


def test_queries_stand_side_by_side(report: Report) -> None:
    (table,) = query_tables(report)
    ((query, cells),) = table.rows
    assert query == QUERY.query
    assert [cell and cell.mean_ms for cell in cells] == [4.0, 8.0]


def association(directory: RunDirectory, metric: str = "aqu_sz") -> AssociationRow:
    cell = directory.run.cells[0]
    return AssociationRow(
        volume=cell.volume,
        step="load",
        cell_id=cell.cell_id,
        source="diskstats",
        metric=metric,
        entity="nvme1n1",
        rho=0.8,
        lag_s=0,
        samples=60,
        effective_samples=40.0,
        q_value=0.001,
    )


def points(pieces: Sequence[str]) -> list[tuple[float, float]]:
    return [tuple(map(float, pair.split(","))) for piece in pieces for pair in piece.split()]  # type: ignore[misc]


def test_small_multiples_lie_in_their_box_and_break_at_gaps(directory: RunDirectory) -> None:
    (group,) = small_multiples(load_run(directory), [association(directory)])
    (chart,) = group.charts
    assert chart.unit == "1"
    for pieces in (chart.latency, chart.metric):
        drawn = np.array(points(pieces))
        assert len(drawn) > 20
        assert drawn.min() >= 0
        assert drawn.max() <= 100
    assert len(chart.latency) == 2  # volume a stalls for five seconds: no latency is known then


def test_a_metric_that_is_not_there_and_a_damaged_table_leave_no_chart(
    directory: RunDirectory, tmp_path: Path
) -> None:
    (group,) = small_multiples(load_run(directory), [association(directory, "no_such_metric")])
    assert group.charts == ()
    broken = build_run(tmp_path, two_volumes(steps=(OltpStep(name="load"),), repeats=1))
    row = association(broken)
    (broken.cell_dir(row.cell_id) / SERIES_FILE).write_bytes(b"PAR1 damaged")
    assert small_multiples(load_run(broken), [row]) == []


def test_the_page_has_all_of_it_and_escapes_what_comes_from_outside(
    report: Report, directory: RunDirectory
) -> None:
    page = render(report.model_copy(update={"associations": (association(directory),)}), directory, "html")
    assert "What a transaction costs" in page
    assert "SELECT a|b &lt;c&gt;" in page
    assert "cannot be predicted: no statement times" in page
    assert 'class="mini"' in page
    assert "reads of the volume" in page


def test_markdown_keeps_a_bar_within_its_cell(report: Report) -> None:
    text = markdown(report)
    assert "`SELECT a\\|b <c>` | 60 %, 4.00 ms | 60 %, 8.00 ms |" in text
    assert "`ebs-gp3?iops=6000`: cannot be predicted" in text
    without = markdown(report.model_copy(update={"transactions": (), "queries": (), "what_if": ()}))
    assert "transaction costs" not in without


def test_a_report_without_any_of_it_has_no_empty_section(report: Report, directory: RunDirectory) -> None:
    bare = report.model_copy(update={"transactions": (), "queries": (), "what_if": (), "associations": ()})
    assert 'id="costs"' not in render(bare, directory, "html")


def test_views_hold_no_series(directory: RunDirectory) -> None:
    """A run of hundreds of cells is explained one cell at a time."""
    for cells in explain_run(load_run(directory)).views.values():
        for view in cells.values():
            fields = (getattr(view, field.name) for field in dataclasses.fields(view))
            assert not any(isinstance(value, np.ndarray) for value in fields)


@pytest.mark.parametrize("source", ["client", "diskstats", "cpu", "psi", "innodb", "performance_schema"])
def test_a_run_without_a_source_is_reported_from_the_rest(source: str, tmp_path: Path) -> None:
    """Each source taken out of a run's tables in turn: the stall stays, unless nobody saw it."""
    run = build_run(tmp_path, two_volumes(steps=(OltpStep(name="load", warmup_s=10, duration_s=60),), repeats=1))
    for cell in run.run.cells:
        path = run.cell_dir(cell.cell_id) / SERIES_FILE
        table = pq.read_table(path)
        not_equal = table.filter(pc.not_equal(pc.cast(table["source"], "string"), source))
        pq.write_table(not_equal, path)
    report = build_report(run)
    causes = {row.cause for row in report.findings if row.volume == "a"}
    assert ("storage.stall" in causes) == (source != "diskstats")
    assert render(report, run, "html")
    assert markdown(report)


def test_a_falling_metric_is_said_as_what_it_is() -> None:
    row = AssociationRow(
        volume="a",
        step="load",
        cell_id="1",
        source="innodb",
        metric="questions_per_s",
        entity="",
        rho=-0.69,
        lag_s=2.00006,
        samples=31,
        effective_samples=25,
        q_value=0.04,
        cells=2,
        cpu_rho=-0.2,
    )
    (text,) = association_sentences([row])
    assert "p95 rises when there is less innodb questions_per_s (" in text
    assert f"{MINUS}0.69, p95 2.00 s after it, over 31 intervals of 2 cells; for comparison, CPU use: " in text


def test_a_rate_that_falls_as_p95_rises_stands_behind_what_may_cause_it() -> None:
    """A report said first that p95 rises when fewer bytes of the binary log are written: its load did less."""
    rows = [
        AssociationRow(
            volume=volume,
            step="load",
            cell_id="1",
            source=source,
            metric=metric,
            entity="",
            rho=rho,
            lag_s=0.0,
            samples=31,
            effective_samples=25,
            q_value=0.01,
        )
        for volume, source, metric, rho in (
            ("a", "performance_schema", "file_write_mib_per_s", -0.93),
            ("a", "diskstats", "r_await_ms", 0.71),
            ("b", "innodb", "questions_per_s", -0.8),
            ("b", "diskstats", "writes_iops", -0.7),
        )
    ]
    first, second = association_sentences(rows)
    assert "load on a: p95 follows diskstats r_await_ms" in first
    assert "load on b: p95 rises when there is less innodb questions_per_s" in second
    assert second.endswith("; no cause: a load that waits longer does less)")


@pytest.mark.parametrize(
    ("source", "metric", "rho", "remark"),
    [
        ("emulator", "balance_percent", 0.6, "; no cause: more of it makes nothing slower)"),
        ("emulator", "balance_percent", -0.6, ""),
        ("cpu", "idle_ratio", 0.5, "; no cause: more of it makes nothing slower)"),
        ("diskstats", "util_ratio", -0.5, "; no cause: less of it makes nothing slower)"),
        ("diskstats", "util_ratio", 0.5, ""),
        ("cloudwatch", "permitted_mib_per_s", -0.5, ""),
        ("diskstats", "w_size_kib", -0.5, ""),
        ("innodb", "questions_per_s", 0.5, ""),
        ("plug-in", "temperature", -0.5, ""),
    ],
)
def test_what_moves_against_what_it_can_do_is_no_cause(
    directory: RunDirectory, source: str, metric: str, rho: float, remark: str
) -> None:
    """`p95 follows balance_percent, +0.60` stood without a remark: clients that wait longer spend fewer credits.

    What a file system permits is no rate of the load: less of it is a cause that was dismissed.
    """
    row = association(directory, metric).model_copy(update={"source": source, "rho": rho})
    (text,) = association_sentences([row])
    assert text.endswith(remark or f"{abs(rho):.2f}, over 60 intervals)")
    assert ("no cause" in text) == bool(remark)


def finding_of(cause: str, component: str = "") -> FindingRow:
    return FindingRow(cause=cause, volume="a", step="load", cell_ids=("1",), component=component)


@pytest.mark.parametrize(
    ("metric", "cause", "component", "clause"),
    [
        ("r_await_ms", "storage.iops_limit", "", ", as the first cause, storage.iops_limit, says"),
        (
            "r_await_ms",
            "storage.sync_latency",
            "",
            ", which the first cause, storage.sync_latency, does not account for: it explains 64 % of the variance"
            " of p95's changes",
        ),
        (
            "r_await_ms",
            "storage.iops_limit",
            "log",
            ", which the first cause, storage.iops_limit on log, does not account for: it explains 64 % of the"
            " variance of p95's changes",
        ),
        (
            "r_await_ms",
            "none",
            "",
            ", which the acquittal of the volume does not account for: it explains 64 % of the variance of p95's"
            " changes",
        ),
        ("a_plug_ins", "none", "", "; whether the acquittal of the volume accounts for it is not known"),
        ("r_await_ms", "", "", "; no cause is named"),
    ],
)
def test_what_moves_with_p95_is_held_against_the_first_cause(
    directory: RunDirectory, metric: str, cause: str, component: str, clause: str
) -> None:
    """A page named one cause, and said elsewhere that p95 moves with a metric which that cause does not explain."""
    row = association(directory, metric).model_copy(update={"volume": "a"})
    findings = [finding_of(cause, component)] if cause else []
    (text,) = association_sentences([row], findings)
    assert text.endswith(f"over 60 intervals){clause}")


LIMIT = "storage.iops_limit"
PART = f", of which waits of the first cause, {LIMIT}, are a part"


@pytest.mark.parametrize(
    ("relation", "moves_along", "clause"),
    [
        ("layer above", None, f"{PART}; whether these make it move was not computed"),
        ("layer above", True, f"{PART}; metrics of the cause move along with it"),
        ("layer above", False, f"{PART}; no metric of the cause moves along with it"),
        ("shared", True, f", which moves along with metrics of the first cause, {LIMIT}"),
        ("served", None, f", work of the process that carries out operations of the first cause, {LIMIT}"),
        ("restated", None, f", the load's own rate, of which the first cause, {LIMIT}, says nothing"),
        (
            "not accounted for",
            False,
            f", which the first cause, {LIMIT}, does not account for: it explains 64 % of the variance of p95's"
            " changes, and no metric of the cause moves along with it",
        ),
        ("reversed", None, ""),
    ],
)
def test_a_row_says_what_was_computed(
    directory: RunDirectory, relation: CauseRelation, moves_along: bool | None, clause: str
) -> None:
    stated = {"relation": relation, "moves_along": moves_along, "first_cause": LIMIT}
    assert cause_clause(association(directory).model_copy(update=stated)) == clause


def test_a_candidate_for_a_cause_comes_before_what_is_none(directory: RunDirectory) -> None:
    against = association(directory, "balance_percent").model_copy(update={"source": "emulator"})
    (text,) = association_sentences([against, association(directory).model_copy(update={"rho": 0.4})])
    assert "p95 follows diskstats aqu_sz" in text


def test_rows_begin_with_what_may_be_a_cause(directory: RunDirectory) -> None:
    """The strongest is not the first where it cannot have raised p95; it says why."""
    explained = explain_run(load_run(directory))
    balance = SeriesKey(source="emulator", metric="balance_percent", entity="volume.credits")
    queue = SeriesKey(source="diskstats", metric="aqu_sz", entity="nvme1n1")
    correlations = {
        key: {0: Correlation(rho=rho, samples=120, effective=100.0)} for key, rho in ((balance, 0.9), (queue, 0.6))
    }
    views = {
        key: {cell: dataclasses.replace(view, correlations=correlations) for cell, view in cells.items()}
        for key, cells in explained.views.items()
    }
    rows = association_rows(dataclasses.replace(explained, views=views), ["a"])
    assert [(row.metric, row.implausible_reason) for row in rows] == [
        ("aqu_sz", ""),
        ("balance_percent", "more of it makes nothing slower"),
    ]


def test_a_page_remarks_on_what_is_no_cause(report: Report, directory: RunDirectory) -> None:
    """In the sentence, in the table of all, and below its chart."""
    row = association(directory).model_copy(update={"rho": -0.7})
    page = render(report.model_copy(update={"associations": (row,)}), directory, "html")
    assert page.count("; no cause: less of it makes nothing slower") == 3


def test_where_no_metric_moves_with_p95_the_load_is_not_said_to_be_steady(report: Report) -> None:
    """Of cells of 8 s on a busy machine it said that a load which runs steadily has nothing to correlate."""
    budget = TimeBudgetRow(
        volume="a", step="load", piece="cpu", title="CPU", ms=1.0, share=1.0, latency_ms=1.0, cells=1, valid=True
    )
    steady = report.model_copy(update={"associations": (), "time_budgets": (budget,)})
    (text,) = correlation_sentences(steady)
    assert text.startswith("No metric is shown to move with p95: a steady load and short cells show none.")
    assert text in markdown(steady)
    assert correlation_sentences(steady.model_copy(update={"time_budgets": ()})) == ()
