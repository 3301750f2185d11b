"""`volbench site`: the history of all runs as a static site, and regressions for a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.core.base.text import counted
from volbench.errors import EXIT_NO_GO, EXIT_REFUSED
from volbench.results.site.build import BOARD_FILE, JUNIT_FILE, build_site
from volbench.results.site.history import RECENT_RUNS


def site(
    results: Annotated[Path, typer.Argument(help="The directory of runs.")] = Path("results"),
    out: Annotated[
        Path, typer.Option("--out", help="A new directory for the site, or that of the last time.")
    ] = Path("history"),
    pair: Annotated[
        list[str], typer.Option("--pair", metavar="RUN..RUN", help="Put two runs side by side; may be repeated.")
    ] = [],
    recent: Annotated[
        int, typer.Option("--recent", min=1, help="A worse level within so many latest runs is a regression.")
    ] = RECENT_RUNS,
    copy_reports: Annotated[
        bool, typer.Option("--copy-reports", help="Copy each run's report.html, to publish the site elsewhere.")
    ] = False,
    pack: Annotated[
        list[Path],
        typer.Option(
            "--pack", metavar="FILE", help="A result pack, or a directory of them, for the board; repeat it."
        ),
    ] = [],
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit with 1 if there is a regression.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Write a static site of all runs: index, trends with change points, runs side by side."""
    pairs = [_names(text) for text in pair]
    built = build_site(results, out, pairs=pairs, recent=recent, copy_reports=copy_reports, packs=pack)
    if json:
        console.show_json(
            {
                "index": str(built.index),
                "runs": built.runs,
                "unreadable": built.unreadable,
                "read": built.read,
                "written": built.written,
                "regressions": built.regressions,
                "junit": str(out / JUNIT_FILE),
                "packs": built.packs,
                "refused_packs": {refused.name: refused.fault for refused in built.refused},
            }
        )
    else:
        console.out.print(
            f"{built.index}: {built.runs} runs, {built.read} read, {built.written} files written", markup=False
        )
        for sentence in built.regressions:
            console.out.print(f"regression: {sentence}", markup=False)
        if built.unreadable:
            console.say(f"{built.unreadable} of {built.runs} runs have no readable report: the index names them")
        if pack:
            console.out.print(f"{out / BOARD_FILE}: {counted(built.packs, 'result pack')}", markup=False)
        for refused in built.refused:
            console.say(f"not on the board: {refused.name}: {refused.fault}")
    if built.refused:
        raise typer.Exit(EXIT_REFUSED)
    if fail_on_regression and built.regressions:
        raise typer.Exit(EXIT_NO_GO)


def _names(text: str) -> tuple[str, str]:
    """Return the two runs of `RUN..RUN`. Raises BadParameter."""
    first, separator, second = text.partition("..")
    if not separator or not first or not second:
        raise typer.BadParameter(f"{text!r} is not RUN..RUN", param_hint="--pair")
    return first, second
