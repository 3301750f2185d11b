"""Data is made once and copied to every volume."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from supervised_engine import CONFIG, DATASET, ON_LOCAL, TINY, Engine, prepare

from volbench.core.base import ownership
from volbench.core.records.dataset import DatasetSpec
from volbench.errors import Refused, StepFailed
from volbench.machine.engine.template import COMPLETE_FILE, Template, seed, template_path, verify_template


class TestTemplate:
    def test_is_made_once(self, engine: Engine, template: Template) -> None:
        """A second run with the same dataset and options finds it without starting anything."""
        with engine.bench() as bench:
            result, output = prepare(bench, DATASET)
            assert (result.path, output) == (template.path, [])
            assert template_path(template.path.parent, DATASET, bench.server()) == template.path
            second = bench.server(config={**CONFIG, "innodb_redo_log_capacity": "32MiB"})
            assert template_path(template.path.parent, DATASET, second) != template.path
            same = bench.server(config={**CONFIG, "innodb_redo_log_capacity": "16M", "max_connections": 7})
            assert template_path(template.path.parent, DATASET, same) == template.path
        assert {table.rows for table in template.record.tables.values()} == {DATASET.rows}
        assert not (template.data_dir / "auto.cnf").exists()
        assert not list(template.data_dir.glob("binlog.*"))
        assert not (template.path / "tmp").exists()

    @ON_LOCAL
    def test_a_damaged_one_is_seen_and_made_anew(self, engine: Engine) -> None:
        with engine.bench() as bench:
            made, _ = prepare(bench, TINY)
            (made.data_dir / "ibdata1").write_bytes(b"")
            with pytest.raises(StepFailed, match="damaged") as caught:
                verify_template(made.path)
            assert caught.value.cause == "template_damaged"
            with pytest.raises(StepFailed, match="damaged"):
                seed(made.path, Path(bench.places.data_dir))
            again, _ = prepare(bench, TINY)
            assert again.path == made.path
            assert verify_template(again.path).record == again.record

    @ON_LOCAL
    def test_what_a_killed_preparation_left_is_cleared_away(self, engine: Engine) -> None:
        dataset = DatasetSpec(tables=1, rows=11)
        with engine.bench() as bench:
            path = template_path(engine.base / "t", dataset, bench.server())
            partial = path.with_name(f"{path.name}.partial")
            ownership.claim(partial, purpose="template")
            (partial / "data").mkdir()
            (partial / "data" / "ibdata1").write_text("half")
            assert prepare(bench, dataset)[0].path == path
            assert not partial.exists()

    @ON_LOCAL
    def test_a_foreign_directory_in_the_way_is_refused(self, engine: Engine) -> None:
        dataset = DatasetSpec(tables=1, rows=12)
        with engine.bench() as bench:
            path = template_path(engine.base / "t", dataset, bench.server())
            path.mkdir()
            (path / "precious").write_text("x")
            with pytest.raises(Refused):
                prepare(bench, dataset)
            assert (path / "precious").read_text() == "x"

    @ON_LOCAL
    def test_two_that_prepare_the_same_wait_for_each_other(self, engine: Engine) -> None:
        dataset = DatasetSpec(tables=1, rows=13)
        results: list[tuple[Template, list[str]]] = []
        with engine.bench() as item, engine.bench() as result:
            threads = [
                threading.Thread(target=lambda bench=bench: results.append(prepare(bench, dataset)))
                for bench in (item, result)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
        (first, first_said), (second, second_said) = results
        assert first == second
        assert sum("initialising a data directory" in output for output in (first_said, second_said)) == 1

    @ON_LOCAL
    def test_a_cancelled_one_leaves_no_server_and_no_template(self, engine: Engine) -> None:
        cancelled = threading.Event()
        cancelled.set()
        dataset = DatasetSpec(tables=1, rows=14)
        with engine.bench() as bench:
            with pytest.raises(StepFailed) as caught:
                prepare(bench, dataset, cancelled=cancelled)
            assert caught.value.cause == "cancelled"
            assert not bench.supervisor.state().running
            assert not (template_path(engine.base / "t", dataset, bench.server()) / COMPLETE_FILE).exists()

    def test_a_missing_one_is_said_to_be_missing(self, tmp_path: Path) -> None:
        with pytest.raises(StepFailed) as caught:
            seed(tmp_path / "none", tmp_path / "data")
        assert caught.value.cause == "template_missing"
