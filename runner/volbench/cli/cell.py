"""`volbench cell`: the agent's commands. A target calls them; people do not need them."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from volbench.cli import console, logs
from volbench.errors import EXIT_INTERRUPTED
from volbench.execute.agent import run_cell
from volbench.execute.node_helper import LOOK_EVERY_S, Node, node_helper
from volbench.execute.prepare import prepare_dataset
from volbench.records.cell import CELL_SCHEMA, CellResult, CellSpec
from volbench.store.files import read_record
from volbench.volume import ownership

app = typer.Typer(help="The agent: runs one cell beside the server.", no_args_is_help=True)
CellFile = Annotated[Path, typer.Argument(help="cell.json")]
Out = Annotated[Path, typer.Option("--out", help="The cell's directory.")]


@app.command("run")
def run(cell: CellFile, out: Out) -> None:
    """Run one cell and write its result to --out; its log is in raw/volbench.log there."""
    logs.add_agent_log(out / "raw/volbench.log")
    _stop_on_sigterm()
    _end(run_cell(read_record(_behind_links(cell), CellSpec, schema=CELL_SCHEMA), out))


@app.command("prepare")
def prepare(cell: CellFile, out: Out) -> None:
    """Make the dataset's template in the cache, or find it there."""
    _stop_on_sigterm()
    _end(prepare_dataset(read_record(_behind_links(cell), CellSpec, schema=CELL_SCHEMA), out))


@app.command("erase")
def erase(
    directory: Annotated[Path, typer.Argument(help="A directory that volbench marked as its own.")],
    owner: Annotated[list[int], typer.Option("--owner", help="A user whose directories are ours too.")] = [],  # noqa: B006
) -> None:
    """Remove a directory of ours; one without our marker is refused."""
    ownership.remove(directory, owners=frozenset(owner))


@app.command("node-helper")
def help_node(
    pods: Annotated[Path, typer.Option("--pods", help="The kubelet's directory of pods.")],
    devices: Annotated[Path, typer.Option("--devices", help="The node's /dev.")] = Path("/dev"),
) -> None:
    """Drop a node's caches and read EBS log pages for the cells on it, until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, lambda *_: ended.set())
    with node_helper(pods, Node(devices=devices)) as helper:
        while not ended.wait(LOOK_EVERY_S):
            for said in helper.look():
                console.say(said)


def _stop_on_sigterm() -> None:
    """The first SIGTERM ends the cell in good order; further ones do not disturb that."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _end(result: CellResult) -> None:
    if result.failure is not None:
        console.say(f"{result.failure.what} ({result.failure.where})\n{result.failure.evidence}")
        raise typer.Exit(result.failure.exit_code)
    if result.status == "interrupted":
        raise typer.Exit(EXIT_INTERRUPTED)


def _behind_links(cell: Path) -> Path:
    """The cell's file itself: a mounted ConfigMap holds its files behind links that stay in its directory."""
    real = cell.resolve()
    return real if real.is_relative_to(cell.parent.resolve()) else cell
