"""`volbench explain`: why queries were slow, in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from volbench.analysis.explain.findings import NONE
from volbench.analysis.explain.run import explain_run, ranked_associations
from volbench.analysis.recorded.directory import explain_recorded
from volbench.cli import console, options
from volbench.errors import UsageError
from volbench.records.report import FindingRow
from volbench.store.run_directory import RunDirectory

ASSOCIATIONS_SHOWN = 5


def explain(
    path: Annotated[Path | None, typer.Argument(help="A run's directory below results/.")] = None,
    recorded: Annotated[
        Path | None,
        typer.Option(
            "--from", help="A directory of sar, iostat -x, sysbench or CloudWatch output, in place of a run."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Name the causes of what a run saw, with evidence; or of what other tools recorded."""
    if (path is None) == (recorded is None):
        raise UsageError(
            "one of a run's directory and --from is needed", next_step="volbench explain results/<run>"
        )
    if recorded is not None:
        _explain_recorded(recorded, json=json)
    elif path is not None:
        _explain_run(path, json=json)


def _explain_run(path: Path, *, json: bool) -> None:
    directory = RunDirectory.open(path)
    found = explain_run(directory)
    for name in found.unreadable:
        console.say(f"passed over: {name}")
    moving = ranked_associations(directory, most=ASSOCIATIONS_SHOWN)
    if json:
        rows = [row.model_dump(mode="json") for row in found.findings]
        said = [{"volume": volume, "step": step, "notes": list(one)} for (volume, step), one in found.notes.items()]
        console.show_json({"findings": rows, "notes": said})
        return
    for (volume, step), notes in found.notes.items():
        _print_step(
            f"{volume}, {step}", [row for row in found.findings if (row.volume, row.step) == (volume, step)], notes
        )
        shown = moving.get((volume, step), ())
        if shown:
            console.out.print("  moves with p95 (association, no cause):", markup=False)
            for one in shown:
                name = " ".join(filter(None, (one.key.source, one.key.metric, one.key.entity)))
                lag = f", {one.lag} intervals before" if one.lag else ""
                console.out.print(
                    f"    {name}: rank correlation {one.rho:+.2f}{lag}, q {one.q_value:.2g}", markup=False
                )
    if not found.notes:
        console.out.print("no step with samples to explain", markup=False)


def _explain_recorded(place: Path, *, json: bool) -> None:
    found = explain_recorded(place)
    if json:
        rows = [row.model_dump(mode="json") for row in found.findings]
        console.show_json({"findings": rows, "files": found.files, "notes": list(found.notes)})
        return
    for name, kind in found.files.items():
        console.say(f"read: {name} ({kind})")
    volume = found.findings[0].volume if found.findings else place.name
    _print_step(volume, list(found.findings), found.notes)


def _print_step(title: str, rows: list[FindingRow], notes: tuple[str, ...]) -> None:
    console.out.print(title, markup=False)
    if not rows:
        console.out.print("  no cause can be named from this evidence", markup=False)
    for row in rows:
        for line in finding_lines(row):
            console.out.print(f"  {line}", markup=False)
    for note in notes:
        console.out.print(f"  note: {note}", markup=False)


def finding_lines(row: FindingRow) -> Iterator[str]:
    """One finding: the cause with its share, the evidence, the advice."""
    share = "" if row.share is None else f", {row.share:.0%} of the time"
    name = "none: the volume is not the problem" if row.cause == NONE else row.cause
    confidence = "" if row.confidence is None else f", confidence {row.confidence:.2f}"
    yield f"{name}{share}{confidence}"
    for evidence in row.evidence:
        yield f"  - {evidence.text}"
    if row.advice:
        yield f"  advice: {row.advice}"
