"""`volbench explain`: why queries were slow, in the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from volbench.cli import console, options
from volbench.core.records.report import (
    AssociationRow,
    FindingRow,
    QueryRow,
    RefutedRow,
    TransactionRow,
    WhatIfRow,
)
from volbench.errors import UsageError
from volbench.results.explain.accounts.per_transaction import TITLES
from volbench.results.explain.accounts.what_if import known_volumes, other_volume
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.explain.recordings.sweep import SweepExplanation
from volbench.results.explain.recordings.timeline import TimelineExplanation
from volbench.results.explain.rules.acquittal import NONE
from volbench.results.explain.run import explain_run
from volbench.results.explain.tables import association_rows, query_rows, transaction_rows, what_if_rows
from volbench.results.explain.wording import number, percent
from volbench.results.recorded.timelines import Choice
from volbench.results.recorded.window import clock_text, parse_window
from volbench.results.report.recordings import file_data, file_lines, span_text, write_html
from volbench.results.report.rows.response import TITLES as TITLES_OF_WAITS
from volbench.results.report.rows.response import response_tables
from volbench.results.report.rows.verdict.lead import is_counted
from volbench.results.report.views.cause_clause import cause_clause
from volbench.results.report.views.cost_tables import remark_on
from volbench.results.response.prediction import predicted_by, prediction_text, tails_by_step
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
    what_if: options.WhatIf = [],
    await_ms: options.AwaitMs = [],
    window: Annotated[
        str, typer.Option("--window", help="With --from: the part of the day to explain, such as 14:35-15:10.")
    ] = "",
    device: Annotated[
        str,
        typer.Option("--device", help="With --from: the volume's device (default: the one with most operations)."),
    ] = "",
    timezone: options.TimeZone = "",
    host: options.RecordedHost = "",
    volume: options.RecordedVolume = "",
    date: options.RecordedDate = "",
    interval: options.RecordedInterval = "",
    instance: Annotated[
        str,
        typer.Option("--instance", help="With --from: the instance, such as m5.large or db.r6g.large."),
    ] = "",
    align: Annotated[
        bool, typer.Option("--align", help="With --from: files without times began when the others did.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE.html", help="With --from: the table and the curves as a page."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Name the causes of slow queries in a run or in recordings of other tools, with evidence."""
    if (path is None) == (recorded is None):
        raise UsageError("give either a run's directory or --from", next_step="volbench explain results/<run>")
    if recorded is not None:
        if what_if:
            raise UsageError("recordings have no transactions to predict from", where="--what-if")
        if await_ms:
            raise UsageError("recordings have no transactions to predict from", where="--await-ms")
        if html is not None and html.suffix != ".html":
            raise UsageError("the page is HTML", where=f"--html {html}", next_step="name it FILE.html")
        choice = Choice(
            host=host,
            device=device,
            volume=volume,
            day=options.day_of(date),
            zone=timezone,
            align=align,
            instance=instance,
        )
        _explain_recorded(recorded, choice, window, options.interval_of(interval), json=json, html=html)
    elif window or device or timezone or host or volume or date or interval or instance or align or html:
        raise UsageError(
            "--window, --device, --volume, --host, --date, --timezone, --interval, --instance, --align and --html"
            " apply to recordings",
            next_step="add --from",
        )
    elif path is not None:
        _explain_run(run_path(path), what_if, options.awaits_of(await_ms), json=json)


def _explain_run(path: Path, what_if: list[str], awaits_ms: Mapping[str, float], *, json: bool) -> None:
    other_volumes = [other_volume(spec) for spec in what_if]  # a wrong SPEC is reported before anything is read
    loaded = load_run(RunDirectory.open(path))
    explanation = explain_run(loaded)
    for name in explanation.unreadable:
        console.say(f"skipped: {name}")
    volumes = [volume.name for volume in loaded.run.volumes]
    tables: dict[str, Sequence[Any]] = {
        "findings": explanation.findings,
        "refuted": explanation.refuted,
        "transactions": transaction_rows(explanation, volumes),
        "queries": query_rows(explanation, volumes),
        "associations": association_rows(explanation, volumes),
        "what_if": what_if_rows(explanation, volumes, other_volumes, known_volumes(loaded.run.volumes)),
    }
    responses = response_tables(explanation, volumes).rows if awaits_ms else ()
    predictions = predicted_by(responses, awaits_ms) if awaits_ms else ()
    tails = tails_by_step(explanation.measured, predictions, awaits_ms)
    predictions = (*predictions, *(tail for predicted, _ in tails.values() for tail in predicted))
    if json:
        note_rows = [
            {"volume": volume, "step": step, "notes": list(step_notes)}
            for (volume, step), step_notes in explanation.notes.items()
        ]
        rows = {name: [row.model_dump(mode="json") for row in table] for name, table in tables.items()}
        forecasts: dict[str, Any] = {}
        if awaits_ms:
            forecasts["predictions"] = [dataclasses.asdict(prediction) for prediction in predictions]
            forecasts["unpredicted"] = {step: list(reasons) for step, (_, reasons) in tails.items() if reasons}
        console.show_json({**rows, **forecasts, "notes": note_rows})
        return
    for (volume, step), notes in explanation.notes.items():
        step_tables = {
            name: [row for row in table if (row.volume, row.step) == (volume, step)]
            for name, table in tables.items()
        }
        _print_step(
            f"{volume}, {step}", step_tables.pop("findings"), (*_refuted(step_tables.pop("refuted")), *notes)
        )
        for line in table_lines(**step_tables):
            console.out.print(f"  {line}", markup=False)
    for prediction in predictions:
        console.out.print(
            f"{prediction.step} with {_awaits_text(awaits_ms)}: {prediction_text(prediction)}", markup=False
        )
    for step, (_, reasons) in tails.items():
        for reason in reasons:
            console.out.print(f"{step}: {reason}", markup=False)
    if not explanation.notes:
        console.out.print(
            "no cause is named: no completed step of this run has samples (series.parquet)."
            " `volbench report RUN` shows its verdict and the cells that failed.",
            markup=False,
        )


def _awaits_text(awaits_ms: Mapping[str, float]) -> str:
    return ", ".join(f"{TITLES_OF_WAITS.get(term, term)} of {number(ms)} ms" for term, ms in awaits_ms.items())


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
        strength = f"rank correlation {association.rho:+.2f}{lag}, q {association.q_value:.2g}"
        clause = cause_clause(association) if association.relation else ""
        yield f"  {name}: {strength}{remark_on(association)}{clause}"


def _against(ratio: float | None) -> str:
    """Return the ratio to the baseline; empty for the baseline itself."""
    return "" if ratio is None or ratio == 1 else f" (x{ratio:.2f})"


def _explain_recorded(
    source: Path, choice: Choice, window: str, interval_s: float | None, *, json: bool, html: Path | None
) -> None:
    explanation = explain_recorded(
        source,
        device=choice.device,
        window=parse_window(window) if window else None,
        choice=choice,
        interval_s=interval_s,
    )
    timeline_lines = [
        list(_timeline_lines(timeline, alone=len(explanation.timelines) == 1)) for timeline in explanation.timelines
    ]
    sweep_lines = [list(_sweep_lines(sweep)) for sweep in explanation.sweeps]
    if html is not None:
        write_html(html, explanation, timeline_lines, sweep_lines)
        console.say(f"the table and the curves are in {html}")
    if json:
        console.show_json(
            {
                "files": file_data(explanation.table),
                "notes": list(explanation.notes),
                "timelines": [_timeline_data(timeline) for timeline in explanation.timelines],
                "sweeps": [_sweep_data(sweep) for sweep in explanation.sweeps],
                "findings": [
                    *(row for sweep in explanation.sweeps for row in _rows_of_sweep(sweep)),
                    *(row for timeline in explanation.timelines for row in _finding_data(timeline)),
                ],
                "compared": _compared(explanation.timelines[0]),
            }
        )
        return
    for line in file_lines(explanation.table):
        console.out.print(line, markup=False)
    for note in explanation.sorting:
        console.out.print(f"note: {note}", markup=False)
    for lines in [*sweep_lines, *timeline_lines]:
        console.out.print("")
        for line in lines:
            console.out.print(line, markup=False)


def _timeline_lines(timeline: TimelineExplanation, *, alone: bool) -> Iterator[str]:
    """Yield what one timeline tells, as the terminal has it."""
    yield timeline.title if alone else _timeline_title(timeline)
    yield from _step_lines(timeline.findings, timeline.notes, clocked=timeline.clocked)
    if timeline.levels:
        yield f"  before against {span_text(timeline.window_s, clocked=timeline.clocked)}:"
    for level in timeline.levels:
        yield f"  - {level.text}"


def _sweep_lines(sweep: SweepExplanation) -> Iterator[str]:
    """Yield what the recordings of a sweep tell together."""
    yield sweep.title
    yield from _step_lines(sweep.findings, sweep.notes, clocked=False)


def _sweep_data(sweep: SweepExplanation) -> dict[str, Any]:
    return {
        "title": sweep.title,
        "host": sweep.sweep.host,
        "device": sweep.device,
        "files": [member.name for member in sweep.sweep.members],
        "axis": sweep.sweep.axis,
        "levels": [dataclasses.asdict(level) for level in sweep.levels],
        "at_plateau": sorted(sweep.at_plateau),
        "findings": _rows_of_sweep(sweep),
        "notes": list(sweep.notes),
    }


def _rows_of_sweep(sweep: SweepExplanation) -> list[dict[str, Any]]:
    return [{**row.model_dump(mode="json"), "clock": None} for row in sweep.findings]


def _timeline_title(timeline: TimelineExplanation) -> str:
    files = ", ".join(timeline.timeline.recordings)
    day = "" if timeline.timeline.first_day is None else f", {timeline.timeline.first_day.isoformat()}"
    host = f"{timeline.timeline.host}, " if timeline.timeline.host else ""
    return f"{host}{timeline.title}{day}" + ("" if timeline.title == files else f" ({files})")


def _timeline_data(timeline: TimelineExplanation) -> dict[str, Any]:
    return {
        "title": timeline.title,
        "host": timeline.timeline.host,
        "date": None if timeline.timeline.first_day is None else timeline.timeline.first_day.isoformat(),
        "files": list(timeline.timeline.recordings),
        "findings": _finding_data(timeline),
        "notes": list(timeline.notes),
        "compared": _compared(timeline),
    }


def _finding_data(timeline: TimelineExplanation) -> list[dict[str, Any]]:
    return [
        {**row.model_dump(mode="json"), "clock": _clock(row.window_s) if timeline.clocked else None}
        for row in timeline.findings
    ]


def _compared(timeline: TimelineExplanation) -> dict[str, Any]:
    return {
        "window_s": timeline.window_s,
        "clock": _clock(timeline.window_s) if timeline.clocked else None,
        "p_value": None if timeline.episode is None else timeline.episode.p_value,
        "levels": [dataclasses.asdict(level) for level in timeline.levels],
    }


def _clock(window_s: tuple[float, float] | None) -> tuple[str, str] | None:
    return None if window_s is None else (clock_text(window_s[0]), clock_text(window_s[1]))


def _refuted(rows: Sequence[RefutedRow]) -> Iterator[str]:
    """Yield what would have been named, and why it is not."""
    return (f"{row.cause} would have been named, but {row.text}" for row in rows)


def _print_step(title: str, rows: Sequence[FindingRow], notes: tuple[str, ...]) -> None:
    console.out.print(title, markup=False)
    for line in _step_lines(rows, notes, clocked=False):
        console.out.print(line, markup=False)


def _step_lines(rows: Sequence[FindingRow], notes: tuple[str, ...], *, clocked: bool) -> Iterator[str]:
    if not rows:
        yield "  this evidence names no cause"
    for row in rows:
        yield from (f"  {line}" for line in finding_lines(row))
        if clocked and row.window_s is not None:
            yield f"  when: {span_text(row.window_s, clocked=True)}"
    for note in notes:
        yield f"  note: {note}"


def finding_lines(row: FindingRow) -> Iterator[str]:
    """Yield one finding: the cause with its share, the evidence, the advice."""
    share = "" if row.share is None else f", explains {percent(row.share)} of the {row.share_of}"
    name = "none: the volume is not the problem" if row.cause == NONE else row.cause
    not_counted = "" if is_counted(row) else "not counted, at most "
    confidence = "" if row.confidence is None else f", confidence {not_counted}{row.confidence:.2f}"
    yield f"{name}{share}{confidence}"
    for evidence in row.evidence:
        yield f"  - {evidence.text}"
    if row.advice:
        yield f"  advice: {row.advice}"
