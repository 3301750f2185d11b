"""`volbench cell`: the agent's commands, which targets call; users do not need them.

Each command imports what it needs by itself: every cell pays for the imports of its agent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from volbench.cli import console, logs
from volbench.core.base.python import importing_modules
from volbench.errors import EXIT_INTERRUPTED
from volbench.measure.sample.config import RAW_FILE

if TYPE_CHECKING:
    from volbench.core.records.cell import CellResult, CellSpec

app = typer.Typer(help="The agent: runs one cell next to the server.", no_args_is_help=True)
CellFile = Annotated[Path, typer.Argument(help="cell.json")]
Out = Annotated[Path, typer.Option("--out", help="The cell's directory.")]


@app.command("run")
def run(cell: CellFile, out: Out) -> None:
    """Run one cell and write its result to --out; its log is in raw/volbench.log there."""
    from volbench.measure.sample.controller import launch, wait_launched

    logs.add_agent_log(out / "raw/volbench.log")
    _stop_on_sigterm()
    sampling_process = launch(out / RAW_FILE)  # it imports its modules while this process does
    with importing_modules():
        from volbench.measure.execute.cell.agent import run_cell

    wait_launched(sampling_process)
    _end(run_cell(_read(cell), out, sampling_process=sampling_process))


@app.command("stand-by")
def stand_by() -> None:
    """Import what `run` needs, wait for the cell's directory on standard input, then run that cell.

    Its output goes to the directory's log. It ends where its standard input does: its turn did not come.
    """
    from volbench.measure.sample.controller import launch, wait_launched

    sampling_process = launch()
    with importing_modules():
        from volbench.machine.placement.local import AGENT_LOG
        from volbench.measure.execute.cell.agent import run_cell

    wait_launched(sampling_process)
    line = sys.stdin.readline()
    if not line:
        sampling_process.end()
        return
    out = Path(json.loads(line))
    with (out / AGENT_LOG).open("ab") as log, Path(os.devnull).open("rb") as nothing:
        for source, streams in ((log, (sys.stdout, sys.stderr)), (nothing, (sys.stdin,))):
            for stream in streams:
                os.dup2(source.fileno(), stream.fileno())
    logs.add_agent_log(out / "raw/volbench.log")
    _stop_on_sigterm()
    _end(run_cell(_read(out / "cell.json"), out, sampling_process=sampling_process))


@app.command("prepare")
def prepare(cell: CellFile, out: Out) -> None:
    """Make the dataset's template in the cache unless the cache has it."""
    with importing_modules():
        from volbench.measure.execute.cell.prepare import prepare_dataset

    _stop_on_sigterm()
    _end(prepare_dataset(_read(cell), out))


@app.command("first-touch")
def first_touch(directory: Annotated[Path, typer.Argument(help="Of a volume restored from a snapshot.")]) -> None:
    """Read all files below a directory twice, and print the times as a line of JSON; write nothing."""
    from dataclasses import asdict

    from volbench.measure.workload.cold.first_touch import read_twice

    console.out.file.write(f"{json.dumps(asdict(read_twice(directory)))}\n")


@app.command("erase")
def erase(
    directory: Annotated[Path, typer.Argument(help="A directory that volbench marked as its own.")],
    owner: Annotated[
        list[int], typer.Option("--owner", help="Another user whose directories belong to volbench.")
    ] = [],
) -> None:
    """Remove a directory that has volbench's marker; refuse any other."""
    from volbench.core.base import ownership

    ownership.remove(directory, owners=frozenset(owner))


@app.command("node-helper")
def run_node_helper(
    pods: Annotated[Path, typer.Option("--pods", help="The kubelet's directory of pods.")],
    devices: Annotated[Path, typer.Option("--devices", help="The node's /dev.")] = Path("/dev"),
) -> None:
    """Drop a node's caches and read EBS log pages for the cells on it, until SIGTERM."""
    from volbench.measure.execute.node_helper import LOOK_EVERY_S, Node, node_helper

    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    with node_helper(pods, Node(devices=devices)) as helper:
        while not stopped.wait(LOOK_EVERY_S):
            for message in helper.look():
                console.say(message)


def _stop_on_sigterm() -> None:
    """End the cell in good order at the first SIGTERM, and ignore further signals."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _end(result: CellResult) -> None:
    if result.failure is not None:
        console.say(f"{result.failure.message} ({result.failure.where})\n{result.failure.evidence}")
        raise typer.Exit(result.failure.exit_code)
    if result.status == "interrupted":
        raise typer.Exit(EXIT_INTERRUPTED)


def _read(cell: Path) -> CellSpec:
    from volbench.core.records.cell import CELL_SCHEMA, CellSpec
    from volbench.results.store.files import read_record

    return read_record(_behind_links(cell), CellSpec, schema=CELL_SCHEMA)


def _behind_links(cell: Path) -> Path:
    """Return the cell's file itself: the files of a mounted ConfigMap are links within its directory."""
    real = cell.resolve()
    return real if real.is_relative_to(cell.parent.resolve()) else cell
