"""`volbench query`: views over results, read-only, fenced in, tolerant of damage."""

from __future__ import annotations

import re
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.report import TimeBudgetRow, TimeDifferenceRow
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import UsageError
from volbench.results.report.build import build_report
from volbench.results.report.render import write_reports
from volbench.results.store import files, query_rows, query_tables
from volbench.results.store.query import DERIVED, query
from volbench.results.store.query_views import VIEWS
from volbench.results.store.run_directory import RunDirectory

PAGE = Path(__file__).parents[4] / "docs/results.md"

SMALL = Synthetic(
    volumes=(SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=2)),
    repeats=2,
    steps=(OltpStep(name="load", warmup_s=1, duration_s=4),),
    invalid={("a", 1): "client CPU-bound"},
)
RUN = "20260302T093000Z-synthetic-0a1b2c"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("results")
    build_run(directory, SMALL)
    return directory


@pytest.fixture
def own_results(results: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(results, tmp_path, dirs_exist_ok=True)


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


def test_time_budgets_are_rows(own_results: Path) -> None:
    """Pieces of a transaction and of its difference, from report.json; each volume's pieces sum to its latency."""
    about = {"step": "load", "threads": 8, "piece": "data_reads", "title": "reads of data files"}
    budgets = (
        TimeBudgetRow(**about, volume="a", ms=3.0, share=0.75, latency_ms=4.0, cells=2),
        TimeBudgetRow(
            **{**about, "piece": "cpu", "title": "CPU"}, volume="a", ms=1.0, share=0.25, latency_ms=4.0, cells=2
        ),
    )
    bounded, unbounded = (
        TimeDifferenceRow(
            **about,
            baseline="a",
            candidate="b",
            baseline_ms=3.0,
            candidate_ms=1.0,
            difference_ms=-2.0,
            ci=ci,
            share=1.0,
        )
        for ci in ((-2.5, -1.5), None)
    )
    report = build_report(RunDirectory.open(own_results / RUN))
    changed = report.model_copy(update={"time_budgets": budgets, "time_differences": (bounded, unbounded)})
    (own_results / RUN / "report.json").write_text(changed.model_dump_json(by_alias=True))
    pieces = query(own_results, "SELECT run_id, sum(ms) = any_value(latency_ms) FROM time_budgets GROUP BY ALL")
    assert pieces.rows == [(RUN, True)]
    differences = query(
        own_results, "SELECT candidate, difference_ms, ci_low, ci_high, valid FROM time_differences"
    )
    assert differences.rows == [("b", -2.0, -2.5, -1.5, True), ("b", -2.0, None, None, True)]


def test_metrics_are_of_valid_steps(results: Path) -> None:
    """The documentation's example averages valid cells only; `all_metrics` has the others with their reasons."""
    example = re.search(r'volbench query "(SELECT .*? FROM metrics .*?)"', PAGE.read_text())
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
        f"SELECT DISTINCT v.valid, c.volume, c.repeat FROM {view} v JOIN cells c USING (run_id, cell_id)",
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


def _read_files(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the files that are read from now on."""
    names: set[str] = set()
    for module, function in ((files, "read_file"), (query_rows, "check_table")):
        original = getattr(module, function)

        def noted(
            path: Path, *remainder: object, original: Callable[..., object] = original, **more: object
        ) -> object:
            names.add(path.name)
            return original(path, *remainder, **more)

        monkeypatch.setattr(module, function, noted)
    return names


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", set()),
        ("SHOW TABLES", set()),
        ("DESCRIBE series", {"run.json", "series.parquet"}),
        ("SELECT count(*) FROM runs", {"run.json"}),
        ("SELECT run_id, volumes FROM Runs", {"run.json"}),
        ("FROM runs", {"run.json", "result.json"}),
        ("SELECT sum(cells_with_result) FROM runs", {"run.json", "result.json"}),
        ("SELECT count(*) FROM series", {"run.json", "series.parquet"}),
        ("SELECT avg(value) FROM series WHERE valid", {"run.json", "series.parquet", "result.json", "report.json"}),
        ("SELECT count(*) FROM comparisons", {"run.json", "report.json"}),
        ("SELECT count(*) FROM metrics", {"run.json", "result.json", "report.json"}),
    ],
)
def test_only_what_a_query_needs_is_read(
    own_results: Path, monkeypatch: pytest.MonkeyPatch, sql: str, expected: set[str]
) -> None:
    """A count of a thousand runs reads neither their results nor their series."""
    write_reports(RunDirectory.open(own_results / RUN))
    names = _read_files(monkeypatch)
    query(own_results, sql)
    assert names == expected


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) FROM query('FROM ce' || 'lls')", [(4,)]),
        ("SELECT count(*) FROM query('FROM met' || 'rics')", None),
        ("SELECT count(*) FILTER (\"val\" ) FROM (SELECT columns('^vali') AS val FROM series)", None),
        ("SELECT DISTINCT TRY(COLUMNS('^vali')) AS v FROM series ORDER BY v", [(False,), (True,)]),
        ("SELECT TRY(COLUMNS('_result$')) FROM runs", [(4,)]),
        ("SELECT DISTINCT COLUMNS('_result$') FROM runs", [(4,)]),
        ("SELECT count(*) FROM series ANTI JOIN query('FROM ce' || 'lls') USING (run_id, cell_id)", [(0,)]),
    ],
)
def test_a_name_that_is_not_in_the_text_is_read_too(
    own_results: Path, sql: str, rows: list[tuple[object, ...]] | None
) -> None:
    """No answer is of a view that was not read: such a view raises an error, and is read."""
    answer = query(own_results, sql)
    assert answer.rows == rows if rows is not None else answer.rows[0][0] > 0


def test_one_broken_run_is_told_and_the_others_answered(tmp_path: Path) -> None:
    """A number that no column takes ends one run, not the rows that are converted along with it."""
    for number in range(5):
        build_run(tmp_path / str(number), SMALL)
        (tmp_path / str(number) / RUN).rename(tmp_path / f"{RUN}-{number}")
        (tmp_path / str(number)).rmdir()
    path = min((tmp_path / f"{RUN}-3" / "cells").glob("*/result.json"))
    path.write_text(path.read_text().replace('"attempt": 1', f'"attempt": {2**63 + 1}'))
    answer = query(tmp_path, "SELECT count(DISTINCT run_id), count(*) FROM cells")
    assert answer.rows == [(4, 16)]
    assert [f"{RUN}-3" in warning for warning in answer.warnings] == [True]


ATTACKS = (
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{run}/run.json' (USE_TMP_FILE false)",
    "EXPLAIN COPY (SELECT 1) TO '{run}/run.json'",
    "/* x */ EXPLAIN ANALYZE COPY (SELECT 1) TO '{run}/run.json' (USE_TMP_FILE false)",
    "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{run}/run.json' (USE_TMP_FILE false)",
    "EXPLAIN EXPLAIN ANALYZE COPY (SELECT 1) TO '{run}/run.json' (USE_TMP_FILE false)",
    "WITH x AS (COPY (SELECT 1) TO '{series}' (USE_TMP_FILE false)) SELECT 1",
    "WITH x AS (COPY (SELECT 1) TO '{run}/run.json' (USE_TMP_FILE false)) SELECT * FROM x",
    "COPY (SELECT 1) TO '{run}/run.json'",
    "SELECT 1; COPY (SELECT 1) TO '{run}/run.json'",
    "FROM (COPY (SELECT 1) TO '{run}/run.json' (USE_TMP_FILE false))",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{run}/run.json''')",
    "ATTACH '{run}/new.db'",
    "EXPORT DATABASE '{run}/new'",
    "IMPORT DATABASE '{run}/new'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL enable_logging(storage_path='{run}/log')",
    "SELECT * FROM enable_logging(storage='file', storage_config={{'path': '{run}/log.csv'}})",
    "SELECT * FROM enable_profiling(save_location='{run}/run.json')",
    "PRAGMA profiling_output='{run}/run.json'",
    "PRAGMA enable_profiling='json'",
    "SET temp_directory='{run}/tmp'",
    "SET enable_external_access=true",
    "RESET lock_configuration",
    "SELECT * FROM read_text('{run}/run.json')",
    "SELECT * FROM read_blob('{run}/*')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_json('{run}/run.json')",
    "SELECT * FROM read_parquet('{series}')",
    "SELECT * FROM parquet_metadata('{series}')",
    "SELECT * FROM '{series}'",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM glob('{run}/*')",
    "SELECT * FROM read_duckdb('{run}/new.db')",
    "SELECT * FROM results",
    "SELECT * FROM warnings",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''/etc/passwd'')'))",
    "CREATE TABLE t AS SELECT 1",
    "CREATE PERSISTENT SECRET s (TYPE s3)",
    "EXPLAIN ANALYZE INSERT INTO runs VALUES (1)",
    "CHECKPOINT",
    "SELECT getenv('HOME')",
    "WITH x AS (COPY (SELECT 1) TO 'volbench-tables://series/x' (USE_TMP_FILE false)) SELECT count(*) FROM series",
    "WITH x AS (COPY (SELECT 1) TO '{name}' (USE_TMP_FILE false)) SELECT count(*) FROM series",
    "WITH x AS (COPY (SELECT 1) TO '{name}') SELECT * FROM x, series",
    "SELECT * FROM series, read_text('volbench-tables://../../../etc/passwd')",
    "SELECT * FROM series, read_text('volbench-tables:///etc/passwd')",
    "SELECT * FROM series, read_text('file:///etc/passwd')",
    "SELECT * FROM series, read_blob('volbench-tables://series/run_id=x/cell_id=y/table')",
    "SELECT * FROM series, glob('/etc/*')",
)


def _name_of(series: Path) -> str:
    """By which DuckDB reads a cell's series."""
    return f"volbench-tables://series/run_id={series.parts[-4]}/cell_id={series.parts[-2]}/table"


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_statement_writes_or_reads_another_file(
    own_results: Path, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way in that DuckDB 2.0 has: refused, and each file under results is byte for byte what it was."""
    monkeypatch.chdir(own_results)
    series = next(own_results.glob("*/cells/*/series.parquet"))
    before = {path: path.read_bytes() for path in sorted(own_results.rglob("*")) if path.is_file()}
    with pytest.raises(UsageError):
        query(own_results, attack.format(run=own_results / RUN, series=series, name=_name_of(series)))
    assert {path: path.read_bytes() for path in sorted(own_results.rglob("*")) if path.is_file()} == before


@pytest.mark.parametrize("kept_bytes_max", [0, query_tables.KEPT_BYTES_MAX])
def test_series_are_those_of_the_files(
    own_results: Path, monkeypatch: pytest.MonkeyPatch, kept_bytes_max: int
) -> None:
    """Whether the bytes of the check were kept or the file is opened again; ids are those of the directories."""
    monkeypatch.setattr(query_tables, "KEPT_BYTES_MAX", kept_bytes_max)
    (own_results / RUN).rename(own_results / "a=b ü%2F")
    answer = query(own_results, "SELECT cell_id, t_s, source, metric, entity, value FROM series ORDER BY ALL")
    expected = [
        (path.parent.name, *row.values())
        for path in own_results.glob("*/cells/*/series.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    assert answer.rows == sorted(expected)
    assert query(own_results, "SELECT DISTINCT run_id FROM series").rows == [("a=b ü%2F",)]
    kinds = dict(row[:2] for row in query(own_results, "DESCRIBE histograms").rows)
    assert (kinds["bin"], kinds["count"], kinds["run_id"], kinds["valid"]) == (
        "INTEGER[]",
        "BIGINT[]",
        "VARCHAR",
        "BOOLEAN",
    )


def test_a_run_that_is_named_is_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        build_run(tmp_path / str(number), SMALL)
        (tmp_path / str(number) / RUN).rename(tmp_path / f"{RUN}-{number}")
        (tmp_path / str(number)).rmdir()
    opened: list[str] = []
    original = query_tables.QueryTables.open

    def noted(tables: query_tables.QueryTables, path: str, mode: str = "rb", **options: object) -> object:
        opened.append(path)
        return original(tables, path, mode, **options)

    monkeypatch.setattr(query_tables.QueryTables, "open", noted)
    answer = query(tmp_path, f"SELECT DISTINCT run_id FROM series WHERE run_id = '{RUN}-2'")
    assert answer.rows == [(f"{RUN}-2",)]
    of_values = [path for path in opened if f"{RUN}-1" in path]
    assert not of_values


def test_a_link_in_place_of_a_table_is_named(own_results: Path) -> None:
    """Of a path that DuckDB may open, it would open what a link leads to."""
    cells = sorted((own_results / RUN / "cells").iterdir())
    (cells[0] / "series.parquet").rename(own_results / "elsewhere.parquet")
    (cells[0] / "series.parquet").symlink_to(own_results / "elsewhere.parquet")
    answer = query(own_results, "SELECT count(DISTINCT cell_id) FROM series")
    assert answer.rows == [(3,)]
    assert [str(cells[0]) in warning for warning in answer.warnings] == [True]


def test_a_table_that_is_exchanged_after_its_check_is_named(
    own_results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_tables, "KEPT_BYTES_MAX", 0)
    path = min((own_results / RUN / "cells").glob("*/series.parquet"))
    original = query_rows.RunRows.read

    def exchanged(rows: query_rows.RunRows, results: Path) -> None:
        original(rows, results)
        path.write_bytes(path.read_bytes() + b"x")

    monkeypatch.setattr(query_rows.RunRows, "read", exchanged)
    answer = query(own_results, "SELECT count(DISTINCT cell_id) FROM series")
    assert answer.rows == [(3,)]
    assert [str(path) in warning for warning in answer.warnings] == [True]


@pytest.mark.parametrize("view", ["series", "histograms"])
def test_damage_within_a_table_is_named_and_the_others_answered(own_results: Path, view: str) -> None:
    """Its footer is sound, so that only reading finds it."""
    path = min((own_results / RUN / "cells").glob(f"*/{view}.parquet"))
    content = bytearray(path.read_bytes())
    content[40:400] = bytes(360)
    path.write_bytes(content)
    answer = query(own_results, f"SELECT count(DISTINCT cell_id), max(t_s) FROM {view}")
    assert answer.rows[0][0] == 3
    assert [str(path) in warning for warning in answer.warnings] == [True]


def test_a_page_that_is_larger_than_memory_is_named(own_results: Path) -> None:
    """Pages are not read before: DuckDB takes memory for them within its limit. Here: 900 MB in 30 kB."""
    path = min((own_results / RUN / "cells").glob("*/series.parquet"))
    table = pq.read_table(path)
    large = pa.array(["x" * 900_000_000] + [""] * (len(table) - 1))
    replaced = table.set_column(1, pa.field("source", pa.string(), nullable=False), large)
    pq.write_table(replaced, path, compression="zstd", write_statistics=False)
    assert path.stat().st_size < 1 << 20
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = query(own_results, "SELECT count(DISTINCT cell_id), max(source) FROM series")
    assert answer.rows[0][0] == 3
    assert any(str(path) in warning for warning in answer.warnings)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kib < 1_000_000


@pytest.mark.parametrize("sql", ["EXPLAIN SELECT * FROM runs", "explain analyze FROM series", "DESCRIBE cells"])
def test_what_only_reads_is_explained(results: Path, sql: str) -> None:
    """EXPLAIN stays for those who ask why a query is slow."""
    assert query(results, sql).rows
