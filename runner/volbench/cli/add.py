"""`volbench add`: what CloudWatch or the volume's own counters told, put beside a run's samples afterwards."""

from __future__ import annotations

from typing import Annotated

import typer

from volbench.analysis.recorded.after import add_recorded
from volbench.cli import console, options
from volbench.store.run_directory import RunDirectory


def add(
    path: options.RunPath,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|cloudwatch:NAME",
            help="CloudWatch's JSON, lines of `nvme amzn stats -o json` with a timestamp; or asked live.",
        ),
    ],
    volume: Annotated[str, typer.Option("--volume", help="The run's volume that it is about.")],
    json: options.Json = False,
) -> None:
    """Put what was recorded elsewhere on a run's clock; reports and explain then use it."""
    directory = RunDirectory.open(path)
    with directory.lock():
        found = add_recorded(directory, source, volume=volume)
    if json:
        console.show_json({"kind": found.kind, "samples": found.samples, "notes": list(found.notes)})
        return
    for cell, samples in found.samples.items():
        console.out.print(f"{cell}: {samples} samples of {found.kind}", markup=False)
    for note in found.notes:
        console.out.print(f"  note: {note}", markup=False)
    console.out.print(f"now: volbench explain {path}; volbench report {path}", markup=False)
