"""Cells whose server was set otherwise than the others': each setting that matters gives a reason."""

from __future__ import annotations

from pathlib import Path

from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.cell import CellResult
from volbench.results.compare.settings import odd_settings
from volbench.results.compare.step_validity import invalid_reasons
from volbench.results.report.build import build_report
from volbench.results.report.rows.verdict.caveats import server_caveats


def results_of(folder: Path, odd: dict[str, str], *, alike: int = 2) -> tuple[CellResult, ...]:
    usual = [SyntheticVolume(name=f"v{number}") for number in range(alike)]
    expected = Synthetic(volumes=(*usual, SyntheticVolume(name="odd", variables=odd)), repeats=1, steps=())
    return tuple(build_run(folder, expected).results())


def test_cells_that_are_set_alike_give_no_reason(tmp_path: Path) -> None:
    assert odd_settings(results_of(tmp_path, {})) == {}
    assert odd_settings([]) == {}


def test_the_odd_cell_is_named_with_both_values(tmp_path: Path) -> None:
    result = odd_settings(results_of(tmp_path, {"sync_binlog": "0", "innodb_doublewrite": "OFF"}))
    ((cell_id, reasons),) = result.items()
    assert cell_id.endswith("odd-r1")
    assert "engine settings differ: sync_binlog is 0, in the other cells 1" in reasons
    assert len(reasons) == 2


def test_a_variable_that_one_server_lacks_counts_as_different(tmp_path: Path) -> None:
    ((_, reasons),) = odd_settings(results_of(tmp_path, {"innodb_io_capacity": "200"})).items()
    assert reasons == ("engine settings differ: innodb_io_capacity is 200, in the other cells absent",)


def test_what_must_differ_may_differ(tmp_path: Path) -> None:
    """The data directory is another on every volume."""
    assert odd_settings(results_of(tmp_path, {"datadir": "/elsewhere"})) == {}


def test_another_version_is_odd(tmp_path: Path) -> None:
    first, second, third = results_of(tmp_path, {})
    assert third.server is not None
    result = third.model_copy(update={"server": third.server.model_copy(update={"version": "8.0.44"})})
    assert odd_settings([first, second, result]) == {
        third.cell_id: ("engine settings differ: version is 8.0.44, in the other cells 8.4.7",)
    }


def test_a_cell_without_a_server_is_not_judged(tmp_path: Path) -> None:
    results = results_of(tmp_path, {"sync_binlog": "0"})
    without = [r.model_copy(update={"server": None}) if "odd" in r.cell_id else r for r in results]
    assert odd_settings(without) == {}


def test_a_report_leaves_the_odd_cell_out(tmp_path: Path) -> None:
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b"), SyntheticVolume(name="c"))
    odd = SyntheticVolume(name="odd", variables={"sync_binlog": "0"})
    report = build_report(build_run(tmp_path, Synthetic(volumes=(*volumes, odd), repeats=1)))
    assert {cell.volume for cell in report.cells if not cell.valid} == {"odd"}


def test_servers_that_ran_already_may_differ_and_the_report_says_so(tmp_path: Path) -> None:
    """Their cells are valid; a cell that is set otherwise than its own server's others is not."""
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b", variables={"sync_binlog": "0"}))
    directory = build_run(tmp_path, Synthetic(volumes=volumes, repeats=4))
    run = directory.run.model_copy(update={"target": "attach"})
    results = directory.results()
    assert not any(reasons for steps in invalid_reasons(run, results).values() for reasons in steps)
    (caveat,) = server_caveats(run, results)
    assert "sync_binlog (" in caveat
    assert "b: 0" in caveat
    assert list(server_caveats(directory.run, results)) == []
    first = results[0]
    assert first.server is not None
    odd = first.server.model_copy(update={"variables": {**first.server.variables, "sync_binlog": "100"}})
    changed = [first.model_copy(update={"server": odd}), *results[1:]]
    invalid = [cell for cell, steps in invalid_reasons(run, changed).items() if any(steps)]
    assert invalid == [first.cell_id]
