"""`volbench explain`: why queries were slow, in the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from volbench.cli import console, options
from volbench.core.records.report import AssociationRow, FindingRow, QueryRow, TransactionRow, WhatIfRow
from volbench.errors import UsageError
from volbench.results.explain.accounts.per_transaction import TITLES
from volbench.results.explain.accounts.what_if import other_volume
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.explain.rules.acquittal import NONE
from volbench.results.explain.run import explain_run
from volbench.results.explain.tables import association_rows, query_rows, transaction_rows, what_if_rows
from volbench.results.explain.wording import number, percent
from volbench.results.recorded.window import clock_text, parse_window
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory
from volbench.results.store.run_names import run_path

ASSOCIATIONS_SHOWN = 5
QUERIES_SHOWN = 5


def explain(
    path: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run: its directory, its id, or `latest`.")
    ] = None,
    recorded: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Directory with output of sar, iostat -x, sysbench, pt-stalk, pt-diskstats or CloudWatch.",
        ),
    ] = None,
    what_if: options.WhatIf = [],  # noqa: B006 - typer copies it
    window: Annotated[
        str, typer.Option("--window", help="With --from: the part of the day to explain, such as 14:35-15:10.")
    ] = "",
    device: Annotated[
        str,
        typer.Option("--device", help="With --from: the volume's device (default: the one with most operations)."),
    ] = "",
    timezone: options.TimeZone = "",
    json: options.Json = False,
) -> None:
    """Name the causes of slow queries in a run or in recordings of other tools, with evidence."""
    if (path is None) == (recorded is None):
        raise UsageError("give either a run's directory or --from", next_step="volbench explain results/<run>")
    if recorded is not None:
        if what_if:
            raise UsageError("recordings have no transactions to predict from", where="--what-if")
        _explain_recorded(recorded, window, device, timezone, json=json)
    elif window or device or timezone:
        raise UsageError(
            "--window, --device and --timezone apply to recordings",
            where="--window, --device, --timezone",
            next_step="add --from",
        )
    elif path is not None:
        _explain_run(run_path(path), what_if, json=json)


def _explain_run(path: Path, what_if: list[str], *, json: bool) -> None:
    other_volumes = [other_volume(spec) for spec in what_if]  # a wrong SPEC is reported before anything is read
    loaded = load_run(RunDirectory.open(path))
    explanation = explain_run(loaded)
    for name in explanation.unreadable:
        console.say(f"skipped: {name}")
    volumes = [volume.name for volume in loaded.run.volumes]
    tables: dict[str, Sequence[Any]] = {
        "findings": explanation.findings,
        "transactions": transaction_rows(explanation, volumes),
        "queries": query_rows(explanation, volumes),
        "associations": association_rows(explanation, volumes),
        "what_if": what_if_rows(explanation, volumes, other_volumes),
    }
    if json:
        note_rows = [
            {"volume": volume, "step": step, "notes": list(step_notes)}
            for (volume, step), step_notes in explanation.notes.items()
        ]
        rows = {name: [row.model_dump(mode="json") for row in table] for name, table in tables.items()}
        console.show_json({**rows, "notes": note_rows})
        return
    for (volume, step), notes in explanation.notes.items():
        step_tables = {
            name: [row for row in table if (row.volume, row.step) == (volume, step)]
            for name, table in tables.items()
        }
        _print_step(f"{volume}, {step}", step_tables.pop("findings"), notes)
        for line in table_lines(**step_tables):
            console.out.print(f"  {line}", markup=False)
    if not explanation.notes:
        console.out.print(
            "no cause is named: no completed step of this run has samples (series.parquet)."
            " `volbench report RUN` shows its verdict and the cells that failed.",
            markup=False,
        )


def table_lines(
    *,
    transactions: Sequence[TransactionRow],
    queries: Sequence[QueryRow],
    associations: Sequence[AssociationRow],
    what_if: Sequence[WhatIfRow],
) -> Iterator[str]:
    """Yield the lines below a step's findings: predictions, costs, queries, associations."""
    for row in what_if:
        clients = f" with {row.threads} threads" if row.threads is not None else ""
        yield f"on {row.spec}{clients}: {row.text}"
    for threads in dict.fromkeys(row.threads for row in transactions):
        costs = [row for row in transactions if row.threads == threads]
        cost_texts = (f"{TITLES[row.metric]} {number(row.value)}{_against(row.ratio)}" for row in costs)
        clients = f" with {threads} threads" if threads is not None else ""
        yield f"a transaction{clients} costs: {', '.join(cost_texts)}"
    for query in queries[:QUERIES_SHOWN]:
        times = [
            f"{name} {number(value)} ms"
            for name, value in (("CPU", query.cpu_ms), ("waiting", query.wait_ms))
            if value is not None
        ]
        about = f" ({', '.join(times)})" if times else ""
        yield f"{percent(query.share)} of statement time, {number(query.mean_ms)} ms each{about}: {query.query}"
    if associations:
        yield "correlated with p95 (an association, not a cause):"
    for association in associations[:ASSOCIATIONS_SHOWN]:
        name = " ".join(filter(None, (association.source, association.metric, association.entity)))
        lag = f", {association.lag_s:g} s before" if association.lag_s else ""
        yield f"  {name}: rank correlation {association.rho:+.2f}{lag}, q {association.q_value:.2g}"


def _against(ratio: float | None) -> str:
    """Return the ratio to the baseline; empty for the baseline itself."""
    return "" if ratio is None or ratio == 1 else f" (x{ratio:.2f})"


def _explain_recorded(source: Path, window: str, device: str, timezone: str, *, json: bool) -> None:
    explanation = explain_recorded(
        source, device=device, window=parse_window(window) if window else None, zone=timezone
    )
    if json:
        rows = [
            {**row.model_dump(mode="json"), "clock": _clock(row.window_s) if explanation.clocked else None}
            for row in explanation.findings
        ]
        levels = [dataclasses.asdict(level) for level in explanation.levels]
        compared = {
            "window_s": explanation.window_s,
            "clock": _clock(explanation.window_s) if explanation.clocked else None,
        }
        p_value = None if explanation.episode is None else explanation.episode.p_value
        console.show_json(
            {
                "findings": rows,
                "files": explanation.files,
                "notes": list(explanation.notes),
                "compared": {**compared, "p_value": p_value, "levels": levels},
            }
        )
        return
    for name, kind in explanation.files.items():
        console.say(f"read: {name} ({kind})")
    volume = explanation.findings[0].volume if explanation.findings else source.name
    _print_step(volume, list(explanation.findings), explanation.notes, clocked=explanation.clocked)
    if explanation.levels:
        console.out.print(
            f"  before against {_span_text(explanation.window_s, clocked=explanation.clocked)}:", markup=False
        )
    for level in explanation.levels:
        console.out.print(f"  - {level.text}", markup=False)


def _clock(window_s: tuple[float, float] | None) -> tuple[str, str] | None:
    return None if window_s is None else (clock_text(window_s[0]), clock_text(window_s[1]))


def _span_text(window_s: tuple[float, float] | None, *, clocked: bool) -> str:
    if window_s is None:
        return ""
    return " to ".join(_clock(window_s) or ()) if clocked else f"{window_s[0]:g} s to {window_s[1]:g} s"


def _print_step(title: str, rows: Sequence[FindingRow], notes: tuple[str, ...], *, clocked: bool = False) -> None:
    console.out.print(title, markup=False)
    if not rows:
        console.out.print("  this evidence names no cause", markup=False)
    for row in rows:
        for line in finding_lines(row):
            console.out.print(f"  {line}", markup=False)
        if clocked and row.window_s is not None:
            console.out.print(f"  when: {_span_text(row.window_s, clocked=True)}", markup=False)
    for note in notes:
        console.out.print(f"  note: {note}", markup=False)


def finding_lines(row: FindingRow) -> Iterator[str]:
    """Yield one finding: the cause with its share, the evidence, the advice."""
    share = "" if row.share is None else f", explains {percent(row.share)} of the latency"
    name = "none: the volume is not the problem" if row.cause == NONE else row.cause
    confidence = "" if row.confidence is None else f", confidence {row.confidence:.2f}"
    yield f"{name}{share}{confidence}"
    for evidence in row.evidence:
        yield f"  - {evidence.text}"
    if row.advice:
        yield f"  advice: {row.advice}"
