"""`volbench add`: adds metrics of CloudWatch or of the volume's own counters to a finished run."""

from __future__ import annotations

from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.core.base.text import counted
from volbench.results.recorded.after import add_recorded
from volbench.results.store.run_directory import RunDirectory


def add(
    path: options.RunPath,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|cloudwatch:NAME",
            help="CloudWatch JSON, or lines of `nvme amzn stats -o json` with a timestamp, or a live query.",
        ),
    ],
    volume: Annotated[str, typer.Option("--volume", help="The volume of the run that was recorded.")],
    json: options.Json = False,
) -> None:
    """Add metrics that another tool recorded to a run, on the run's clock; `report` and `explain` then use them."""
    directory = RunDirectory.open(path)
    with directory.lock():
        added = add_recorded(directory, source, volume=volume)
    if json:
        console.show_json({"kind": added.kind, "samples": added.samples, "notes": list(added.notes)})
        return
    for cell, samples in added.samples.items():
        console.out.print(f"{cell}: {counted(samples, 'sample')} of {added.kind}", markup=False)
    for note in added.notes:
        console.out.print(f"  note: {note}", markup=False)
    console.out.print(f"next: volbench explain {path}; volbench report {path}", markup=False)
