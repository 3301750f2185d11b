"""An agent of another version than the orchestrator's measures nothing, and says both versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_target import Bench

from volbench import __version__
from volbench.core.records.cell import AttachSpec, CellResult, CellSpec, ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.steps.idle import IdleStep
from volbench.errors import EXIT_ENVIRONMENT, MissingPrerequisite
from volbench.measure.execute.cell.agent import run_cell
from volbench.measure.execute.cell.handshake import require_version
from volbench.measure.execute.cell.prepare import prepare_dataset
from volbench.measure.execute.cell_spec import cell_spec
from volbench.results.store.run_directory import RESULT_FILE

NEWER = f"{__version__}.1"


def cell(version: str, **where: object) -> CellSpec:
    return CellSpec.model_validate(
        {
            "volbench_version": version,
            "run_id": "20260101T000000Z-s-0a1b2c",
            "cell_id": "01-a",
            "suite": "s",
            "volume": "a",
            "block": 0,
            "repeat": 1,
            "seed": 1,
            "server": ServerSpec(),
            "dataset": DatasetSpec(),
            "steps": (IdleStep(name="idle", duration_s=1),),
            **where,
        }
    )


def assert_refused(result: CellResult) -> None:
    assert result.status == "failed"
    assert result.failure is not None
    assert (result.failure.cause, result.failure.exit_code) == ("version_differs", EXIT_ENVIRONMENT)
    assert f"the image has {__version__}," in result.failure.evidence
    assert NEWER in result.failure.evidence
    assert NEWER in result.failure.next_step
    assert result.steps == ()


def test_every_cell_of_a_run_names_the_version_that_measures_it(tmp_path: Path) -> None:
    run = Bench.create(tmp_path).directory.run
    spec = cell_spec(run, run.cells[0])
    assert spec.volbench_version == __version__
    require_version(spec)


def test_a_cell_without_a_version_is_taken() -> None:
    require_version(cell(""))
    with pytest.raises(MissingPrerequisite):
        require_version(cell(NEWER))


def test_an_agent_of_another_version_writes_a_result_that_says_so(tmp_path: Path) -> None:
    """An address that answers nobody: the agent does not even try."""
    assert_refused(run_cell(cell(NEWER, attach=AttachSpec(host="192.0.2.1")), tmp_path))
    assert (tmp_path / RESULT_FILE).is_file()


def test_a_preparation_by_another_version_starts_no_server(tmp_path: Path) -> None:
    names = ("data_dir", "volume_dir", "control_dir", "template_dir", "scratch_dir")
    out = tmp_path / "out"
    out.mkdir()
    spec = cell(NEWER, paths={name: str(tmp_path / name) for name in names})
    assert_refused(prepare_dataset(spec, out))
    assert not (tmp_path / "control_dir").exists()
