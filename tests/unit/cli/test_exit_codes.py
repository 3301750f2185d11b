"""A run that compared volumes without a verdict, and a capacity that was not bracketed, end with exit code 6."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_run import OLTP, build_run, two_volumes
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import EXIT_UNDECIDED, Undecided


@pytest.mark.parametrize(("repeats", "volumes", "code"), [(1, 2, EXIT_UNDECIDED), (5, 2, 0), (1, 1, 0)])
def test_a_finished_run_says_by_its_exit_code_whether_it_decided(
    tmp_path: Path, repeats: int, volumes: int, code: int
) -> None:
    """A single volume has nothing to decide."""
    pair = two_volumes().volumes[:volumes]
    run = build_run(tmp_path, two_volumes(steps=(OLTP,), repeats=repeats, volumes=pair))
    result = CliRunner().invoke(app, ["resume", str(run.path)])
    assert result.exit_code == code, result.output
    assert (run.path / "report.html").exists()


def test_a_run_without_a_valid_cell_decided_nothing(tmp_path: Path) -> None:
    """One volume, every cell invalid: the exit code was 0."""
    invalid = {("a", repeat): "client CPU-bound" for repeat in (1, 2)}
    single = two_volumes(steps=(OLTP,), repeats=2, volumes=two_volumes().volumes[:1], invalid=invalid)
    result = CliRunner().invoke(app, ["resume", str(build_run(tmp_path, single).path)])
    assert result.exit_code == EXIT_UNDECIDED
    assert "no valid cell: exit code 6" in result.output


def test_undecided_work_has_the_exit_code_of_undecided_gates() -> None:
    assert Undecided("no ladder of rates brackets the objective").exit_code == EXIT_UNDECIDED
