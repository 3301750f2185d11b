"""`volbench pack`: a run in one file for others, and the check of such a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.core.base.text import counted, size
from volbench.errors import UsageError
from volbench.results.pack.check import CheckedPack, check_pack
from volbench.results.pack.make import make_pack
from volbench.results.store.run_directory import RunDirectory

app = typer.Typer(help="Make a result pack of a run, or check one.", no_args_is_help=True)


@app.command("make")
def make(
    path: options.RunPath,
    out: Annotated[
        Path | None, typer.Option("--out", help="A new file.", show_default="RUN_ID.volbench.zip")
    ] = None,
    storage_class: Annotated[
        list[str],
        typer.Option("--class", metavar="VOLUME=CLASS", help="Class of storage of a volume, such as ebs-gp3."),
    ] = [],
    region: Annotated[
        str | None, typer.Option("--region", help="Where the machine is, such as eu-central-1.")
    ] = None,
    with_own_data: Annotated[
        bool, typer.Option("--with-own-data", help="Pack a run over your own data or statements too.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Write a run as one file, without names of machines and servers, and print its SHA-256."""
    made = make_pack(
        RunDirectory.open(path),
        out,
        storage_classes=dict(_pair(text) for text in storage_class),
        region=region,
        with_own_data=with_own_data,
    )
    if json:
        console.show_json({"path": str(made.path), "sha256": made.digest, "bytes": made.bytes})
        return
    console.out.print(f"{made.path}: {size(made.bytes)}, {counted(len(made.record.files), 'file')}")
    console.out.print(f"SHA-256 {made.digest}: publish it with the file", markup=False)
    for name in made.without_class:
        console.say(f"the class of storage of {name} is not known: name it with --class {name}=CLASS")
    if made.record.region is None:
        console.say("the region is not known: name it with --region")


@app.command("check")
def check(
    packs: Annotated[list[Path], typer.Argument(help="Files that `volbench pack make` wrote.")],
    json: options.Json = False,
) -> None:
    """Compute the figures of packs again from their tables, and say what limits their worth."""
    checked = [check_pack(path) for path in packs]
    if json:
        console.show_json([_pack_row(pack) for pack in checked])
        return
    for pack in checked:
        console.out.print(
            f"{pack.path}: run {pack.record.run_id}, {pack.recomputed} of {counted(pack.figures, 'figure')}"
            " computed again from the tables, none differs",
            markup=False,
        )
        console.out.print(f"SHA-256 {pack.digest}: compare it with the one that its maker published", markup=False)
        for mark in pack.marks:
            console.out.print(f"note: {mark}", markup=False)


def _pack_row(pack: CheckedPack) -> dict[str, object]:
    return {
        "path": str(pack.path),
        "run_id": pack.record.run_id,
        "sha256": pack.digest,
        "load": pack.suite_digest,
        "figures": pack.figures,
        "figures_computed_again": pack.recomputed,
        "marks": list(pack.marks),
    }


def _pair(text: str) -> tuple[str, str]:
    """Return VOLUME and CLASS of an option. Raises UsageError."""
    volume, separator, storage_class = text.partition("=")
    if not separator or not volume or not storage_class:
        raise UsageError(
            "a class of storage is named as VOLUME=CLASS",
            where="--class",
            evidence=repr(text),
            next_step="for example --class data=ebs-gp3",
        )
    return volume, storage_class
