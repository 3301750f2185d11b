"""A sweep on a real server: each cell runs its combination, a resumed run too, and the report compares them."""

from __future__ import annotations

import json

import pytest
from live_run import FINISHED, Bench

pytestmark = pytest.mark.mysqld
SWEEP = (
    "sweep={factors: {engine.config.innodb_flush_log_at_trx_commit: {base: 1, levels: [2]}, "
    "dataset.rows: {base: 2000, levels: 1000}, steps.read-write.threads: {base: 2, levels: [1]}}}"
)


def test_each_cell_runs_its_combination_also_after_a_resume(local: Bench) -> None:
    """Killed in the first cell, resumed: every server had the settings, data and threads of its combination."""
    local.volumes.popitem()
    process = local.start(SWEEP)
    local.until(local.in_step, process)
    process.kill()
    process.wait()
    ended = local.end(local.resume())
    assert ended.code in FINISHED, ended.output
    local.assert_all_done_once()

    report = local.report()
    cells = report["cells"]
    assert isinstance(cells, list)
    assert len(cells) == 4
    for cell in cells:
        directory = local.directory.cell_dir(cell["cell_id"])
        spec, result = (json.loads((directory / name).read_bytes()) for name in ("cell.json", "result.json"))
        flush = spec["parameters"]["engine.config.innodb_flush_log_at_trx_commit"]
        assert result["server"]["variables"]["innodb_flush_log_at_trx_commit"] == str(flush)
        assert spec["dataset"]["rows"] == spec["parameters"]["dataset.rows"]
        assert cell["parameters"]["threads"] == spec["parameters"]["steps.read-write.threads"]
        assert not any("settings differ" in reason for reason in cell["invalid_reasons"])
    effects = report["effects"]
    assert isinstance(effects, list)
    assert {effect["factors"][0] for effect in effects} == set(report["sweep"]["factors"])  # type: ignore[index]
    assert all(effect["verdict"] == "inconclusive" for effect in effects)  # one cell each decides nothing
    assert "template_ready" in {event.event for event in local.directory.events()}
