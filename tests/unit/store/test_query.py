"""`volbench query`: views over results, read-only, fenced in, tolerant of damage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.errors import UsageError
from volbench.records.steps import OltpStep
from volbench.report.build import build_report
from volbench.store.query import DERIVED, VIEWS, query
from volbench.store.run_directory import RunDirectory

README = Path(__file__).parents[3] / "README.md"

SMALL = Synthetic(
    volumes=(SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=2)),
    repeats=2,
    steps=(OltpStep(name="load", warmup_s=1, duration_s=4),),
    invalid={("a", 1): "client CPU-bound"},
)
RUN = "20260302T093000Z-synthetic-0a1b2c"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    build_run(place, SMALL)
    return place


@pytest.fixture
def own_results(tmp_path: Path) -> Path:
    build_run(tmp_path, SMALL)
    return tmp_path


@pytest.mark.parametrize("view", [*VIEWS, *DERIVED])
def test_every_view_is_there(results: Path, view: str) -> None:
    """With the run's id as a column."""
    assert "run_id" in query(results, f"FROM {view}").columns


@pytest.mark.parametrize("view", [*VIEWS, *DERIVED])
def test_views_are_there_without_runs(tmp_path: Path, view: str) -> None:
    """An empty directory gives empty views, so that scripts need no special case."""
    assert query(tmp_path, f"FROM {view}").rows == []


def test_views_join(results: Path) -> None:
    """Series and histograms carry run and cell ids that fit the others."""
    answer = query(
        results,
        "SELECT volume, count(*), bool_or(cells.valid) FROM all_metrics JOIN cells USING (run_id, cell_id, volume)"
        " WHERE metric = 'tps' AND all_metrics.repeat = 1 GROUP BY volume ORDER BY volume",
    )
    assert answer.rows == [("a", 1, False), ("b", 1, True)]
    answer = query(
        results,
        "SELECT DISTINCT s.run_id, c.volume FROM series s JOIN cells c USING (run_id, cell_id)"
        " JOIN histograms h USING (run_id, cell_id) ORDER BY ALL",
    )
    assert answer.rows == [(RUN, "a"), (RUN, "b")]


def test_metrics_are_of_valid_steps(results: Path) -> None:
    """README's example averages valid cells only; `all_metrics` has the others with their reasons."""
    example = re.search(r'volbench query "(SELECT .*? FROM metrics .*?)"', README.read_text())
    assert example is not None
    of_valid = dict(query(results, example[1]).rows)
    invalid, valid = (
        row[0]
        for row in query(
            results, "SELECT value FROM all_metrics WHERE metric = 'tps' AND volume = 'a' ORDER BY repeat"
        ).rows
    )
    assert of_valid["a"] == valid != invalid
    reasons = query(results, "SELECT DISTINCT invalid_reasons FROM all_metrics WHERE NOT valid").rows
    assert reasons == [("client CPU-bound",)]


def test_an_interrupted_cell_is_not_valid(own_results: Path) -> None:
    """Whatever its steps say of themselves."""
    (path,) = (own_results / RUN / "cells").glob("*-b-r1/result.json")
    path.write_text(path.read_text().replace('"status": "done"', '"status": "interrupted"'))
    assert query(own_results, "SELECT count(*) FROM metrics WHERE volume = 'b' AND repeat = 1").rows == [(0,)]
    assert query(own_results, "SELECT valid FROM cells WHERE volume = 'b' AND repeat = 1").rows == [(False,)]


def test_settings_that_only_the_report_judges_count(own_results: Path) -> None:
    """A cell that report.json calls invalid is invalid in every view."""
    report = build_report(RunDirectory.open(own_results / RUN))
    odd = [
        cell.model_copy(update={"valid": False, "invalid_reasons": ("engine settings differ",)})
        if (cell.volume, cell.repeat) == ("b", 2)
        else cell
        for cell in report.cells
    ]
    text = report.model_copy(update={"cells": tuple(odd)}).model_dump_json(by_alias=True)
    (own_results / RUN / "report.json").write_text(text)
    answer = query(own_results, "SELECT DISTINCT repeat FROM metrics WHERE volume = 'b'")
    assert answer.rows == [(1,)]


@pytest.mark.parametrize("view", ["series", "histograms"])
def test_samples_say_whether_their_cell_is_valid(results: Path, view: str) -> None:
    answer = query(
        results,
        f"SELECT DISTINCT v.valid, c.volume, c.repeat FROM {view} v"  # noqa: S608 - names of views
        " JOIN cells c USING (run_id, cell_id)",
    )
    assert {(volume, repeat) for valid, volume, repeat in answer.rows if not valid} == {("a", 1)}
    assert len(answer.rows) == 4


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t AS SELECT 1",
        "COPY (SELECT 1) TO '{results}/x.csv'",
        "SELECT 1; SELECT 2",
        "ATTACH '{results}/x.db'",
        "INSTALL httpfs",
        "DROP VIEW series",
        "",
    ],
)
def test_only_reading_is_allowed(results: Path, sql: str) -> None:
    """Refused before anything is done."""
    before = sorted(results.rglob("*"))
    with pytest.raises(UsageError, match="only read"):
        query(results, sql.format(results=results))
    assert sorted(results.rglob("*")) == before


@pytest.mark.parametrize("path", ["/etc/passwd", "{results}/../secret.txt"])
def test_nothing_outside_can_be_read(own_results: Path, path: str) -> None:
    """Not by an absolute path and not by way of `..`."""
    (own_results.parent / "secret.txt").write_text("secret")
    with pytest.raises(UsageError, match="cannot be answered"):
        query(own_results, f"FROM read_text('{path.format(results=own_results)}')")


def test_bad_sql_names_the_views(results: Path) -> None:
    """The next step says what there is."""
    with pytest.raises(UsageError, match="histograms"):
        query(results, "SELECT * FROM nothing_like_it")


def test_damaged_files_are_named_and_left_out(own_results: Path) -> None:
    """One truncated table, one foreign result, one foreign directory: the rest is answered."""
    cells = sorted((own_results / RUN / "cells").iterdir())
    (cells[0] / "series.parquet").write_bytes(b"PAR1 and no more")
    (cells[1] / "result.json").write_text('{"schema": 1, "cell_id"')
    (own_results / "foreign").mkdir()
    (own_results / "foreign" / "run.json").write_text("{}")
    answer = query(own_results, "SELECT (SELECT count(DISTINCT cell_id) FROM series), (SELECT count(*) FROM cells)")
    assert answer.rows == [(3, 3)]
    assert len(answer.warnings) == 3
    assert any("series.parquet" in warning for warning in answer.warnings)
    assert any("foreign" in warning for warning in answer.warnings)


def test_attempts_set_apart_are_not_data(own_results: Path) -> None:
    """A failed attempt's series stay out of the views."""
    cells = sorted((own_results / RUN / "cells").iterdir())
    cells[0].rename(cells[0].with_name(f"{cells[0].name}.attempt-1"))
    assert query(own_results, "SELECT count(DISTINCT cell_id) FROM series").rows == [(3,)]


def test_no_directory_is_a_usage_error(tmp_path: Path) -> None:
    """Exit code 2, with its name."""
    with pytest.raises(UsageError, match="nowhere"):
        query(tmp_path / "nowhere", "SELECT 1")
