"""The two kinds of cell: who starts a cell's server is asked once, and both classes answer what differs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import volbench
from volbench.core.records.cell import AttachSpec, CellPlaces, CellSpec, ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.steps.idle import IdleStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.attached import AttachedServer
from volbench.machine.engine.server import Server
from volbench.machine.placement.workspace import Workspace
from volbench.measure.execute.attached_target import AttachedTarget
from volbench.measure.execute.cell.agent import cell_run
from volbench.measure.execute.cell.attached_cell import AttachedCell
from volbench.measure.execute.cell.owned_cell import OwnedCell
from volbench.measure.execute.cell.recorder import recording

CODE = Path(volbench.__file__).parent
FACTORIES = {"measure/execute/cell/agent.py": "cell_run", "core/records/cell.py": "own_places"}
"""Where the question may be asked: by what chooses the class, and by what refuses a cell without places."""
STEPS = (IdleStep(name="first", duration_s=1), IdleStep(name="last", duration_s=1))


def cell(**where: object) -> CellSpec:
    return CellSpec.model_validate(
        {
            "run_id": "20260101T000000Z-s-0a1b2c",
            "cell_id": "01-a",
            "suite": "s",
            "volume": "a",
            "block": 0,
            "repeat": 1,
            "seed": 1,
            "server": ServerSpec(),
            "dataset": DatasetSpec(),
            "steps": STEPS,
            **where,
        }
    )


def places(directory: Path) -> CellPlaces:
    names = ("data_dir", "volume_dir", "control_dir", "template_dir", "scratch_dir")
    return CellPlaces.model_validate({name: str(directory / name) for name in names})


def made(spec: CellSpec, out: Path) -> Any:
    out.mkdir(exist_ok=True)
    with recording(out) as record:
        return cell_run(spec, out, record)


def test_a_cell_with_places_has_a_server_of_its_own(tmp_path: Path) -> None:
    run = made(cell(paths=places(tmp_path)), tmp_path / "out")
    assert isinstance(run, OwnedCell)
    assert [run.is_discarded_after(step) for step in run.cell.steps] == [False, True]
    assert run.dataset.schema_name == "sbtest"
    assert run.builder.volume_facts.path == str(tmp_path / "volume_dir")


def test_a_cell_with_an_address_is_on_a_server_that_runs_already(tmp_path: Path) -> None:
    run = made(cell(attach=AttachSpec(host="db1", schema_name="bench_new")), tmp_path / "out")
    assert isinstance(run, AttachedCell)
    assert not any(map(run.is_discarded_after, run.cell.steps))
    assert run.dataset.schema_name == "bench_new"
    run.server = object.__new__(AttachedServer)
    run.server.scratch_dir = tmp_path / "private"
    context = run.context()
    assert (context.volume_dir, context.scratch_dir) == (tmp_path / "out", tmp_path / "private")
    assert (context.layout, context.emulator_socket, context.take_snapshot) == ((), None, None)


def test_steps_of_an_own_server_have_its_volumes(tmp_path: Path) -> None:
    run = made(cell(paths=places(tmp_path).model_copy(update={"snapshots": True})), tmp_path / "out")
    run.server = object.__new__(Server)
    run._outage = lambda: None
    context = run.context()
    assert (context.volume_dir, context.scratch_dir) == (tmp_path / "volume_dir", tmp_path / "scratch_dir")
    assert context.take_snapshot is not None


@pytest.mark.parametrize("where", ["own", "running"])
def test_a_load_before_a_load_may_end_early_on_a_server_of_its_own(where: str, tmp_path: Path) -> None:
    steps = (OltpStep(name="a"), OltpStep(name="b"), IdleStep(name="c", duration_s=1), OltpStep(name="d"))
    server = {"paths": places(tmp_path)} if where == "own" else {"attach": AttachSpec(host="db1")}
    run = made(cell(**server).model_copy(update={"steps": steps}), tmp_path / "out")
    assert [run.is_before_load(step) for step in run.cell.steps] == [where == "own", False, where == "own", False]


def test_a_cell_with_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingPrerequisite, match="no places for a server of its own"):
        made(cell(), tmp_path / "out")


def test_a_target_of_running_servers_adds_an_address_and_has_no_template(tmp_path: Path) -> None:
    servers = {"a": AttachSpec(host="db1"), "b": AttachSpec(host="db2")}
    target = AttachedTarget(Workspace(run_id="20260101T000000Z-s-0a1b2c", cache=tmp_path), servers)
    assert target.with_server(cell(), None) == cell(attach=servers["a"])
    assert target.templates == "none"


def test_nothing_else_asks_who_started_a_server() -> None:
    asked = {
        (str(path.relative_to(CODE)), function)
        for package in ("core", "machine", "measure")
        for path in (CODE / package).rglob("*.py")
        for function in _asking(ast.parse(path.read_text()))
    }
    assert asked == set(FACTORIES.items())


@pytest.mark.parametrize(
    "question",
    ["isinstance(server, AttachedServer)", "cell.places is None", "not cell.attach", "cell.places and out"],
)
def test_the_guard_sees_a_question(question: str) -> None:
    assert list(_asking(ast.parse(f"def f():\n    if {question}:\n        pass"))) == ["f"]


def _asking(tree: ast.AST) -> Iterator[str]:
    """Yield each function in which a condition is about a cell's `places` or `attach`, or a server's class."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and any(map(_is_question, ast.walk(function))):
            yield function.name


def _is_question(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
        return "AttachedServer" in ast.unparse(node.args[1])
    operands = [node.test] if isinstance(node, ast.If | ast.IfExp) else []
    operands += node.values if isinstance(node, ast.BoolOp) else []
    operands += [node.operand] if isinstance(node, ast.UnaryOp) else []
    operands += [node.left] if isinstance(node, ast.Compare) else []
    return any(isinstance(asked, ast.Attribute) and asked.attr in {"places", "attach"} for asked in operands)
