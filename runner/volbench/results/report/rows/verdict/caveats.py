"""The caveats of a report: each is a sentence on what limits the conclusions from this run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from volbench.core.base.text import counted, upper_first
from volbench.core.profile.shared_storage import shared_storage
from volbench.core.records.cell import COUNTED_AS_SLOWEST, ENDED_BY_QUEUE, UNANSWERED, CellResult, ValidityLimits
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow, FigureRow, ServerRow, VolumeRow
from volbench.core.records.run import JournalEvent, RunRecord, not_begun, repeated_cells
from volbench.results.compare.comparison_summary import PairSummary
from volbench.results.compare.figures import figure_rows
from volbench.results.compare.settings import server_differences
from volbench.results.report.rows.reproduce import resume_command
from volbench.results.report.rows.verdict.adjustments import adjustment_caveats
from volbench.results.report.rows.verdict.clauses import LIMITS_RAISED
from volbench.results.report.rows.verdict.disturbances import validity_caveats
from volbench.results.report.rows.verdict.progress import progress_caveats
from volbench.results.report.rows.verdict.settings import with_names
from volbench.results.report.rows.verdict.volumes import place_caveats, volume_caveats
from volbench.results.report.wording import figure_text, joined

_DURABLE = {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1", "innodb_doublewrite": "ON"}
_COLDNESS_NOTES = {
    "lukewarm": "read lukewarm: a cache above the volume could have served part of it",
    "file-cold": "read file-cold: its data came from the device, but names and inodes may have been cached",
    "client-cold": "read client-cold: only this host's caches were empty, the storage server's were not",
}

FIGURES_MAX = 4
"""More than this many in one sentence are not read."""
OVER_BUDGET = "The run stopped for its time budget, before it was decided."


def caveats(
    run: RunRecord,
    volumes: Sequence[VolumeRow],
    cells: Sequence[CellRow],
    server: ServerRow | None,
    pairs: Sequence[PairSummary],
    *,
    with_result: int,
    events: Sequence[JournalEvent],
    first: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Return all caveats that apply, the gravest first.

    Args:
        with_result: cells that are done.
        events: of the journal.
        first: caveats of volumes that could not be used, and of the nodes of the cells.
        settings: of a sweep, the setting of each variant of a volume, by which its cells are named.
    """
    cells = with_names(cells, settings)
    sentences = [
        *first,
        *losses_text(cells, frozenset(settings.values())),
        *volume_caveats(volumes),
        *place_caveats(run, volumes),
        *progress_caveats(run, with_result, events),
        *_of_limits(run),
        *_of_replacements(run, events),
        *validity_caveats(cells, pairs),
        *_of_figures(cells),
        *adjustment_caveats(pairs),
        *_of_durability(server),
        *_of_coldness(cells),
        *_of_full_queues(cells),
        *_of_unanswered(cells),
        *_of_power(run, pairs),
    ]
    return tuple(dict.fromkeys(sentences))


def server_caveats(run: RunRecord, results: Iterable[CellResult]) -> Iterator[str]:
    """Yield a caveat where the attached servers of a run differ in what matters for storage."""
    if run.target != "attach":
        return
    differences = server_differences(results, {cell.cell_id: cell.volume for cell in run.cells})
    if differences:
        texts = (
            f"{name} ({', '.join(f'{server}: {value}' for server, value in values.items())})"
            for name, values in differences.items()
        )
        yield (
            f"The servers differ: {'; '.join(texts)}. The comparison is of the servers as they are, and not of "
            "their storage alone."
        )


def losses_text(cells: Iterable[CellRow], settings: Collection[str] = ()) -> Iterator[str]:
    """Yield, by volume and crash step, the losses of all cells together.

    Args:
        cells: of the run.
        settings: those of their volumes that are settings of a sweep.
    """
    sums: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        if "lost_commits" in cell.metrics:
            names = (
                "lost_commits",
                "acknowledged_commits",
                "failed_recoveries",
                "torn_commits",
                "damaged_rows",
                "damaged_tables",
            )
            values = [cell.metrics[name].value if name in cell.metrics else 0.0 for name in names]
            before = sums.get((cell.volume, cell.step), [0.0] * len(names))
            sums[cell.volume, cell.step] = [a + b for a, b in zip(before, values, strict=True)]
    losses: dict[str, list[tuple[str, str]]] = {}
    for (name, step), (lost, acknowledged, failed, *broken) in sums.items():
        volume = name if name in settings else f"volume {name}"
        subject = _capital(volume)
        if failed:
            cuts = "a cut" if failed == 1 else f"{failed:,.0f} cuts"
            yield f"{subject}: the server did not recover from {cuts} ({step}); only a backup would help."
        if lost:
            losses.setdefault(step, []).append((volume, f"{lost:,.0f} of {acknowledged:,.0f}"))
        if any(broken):
            yield f"{subject} left data torn or damaged after a crash ({step})."
    for step, of_step in losses.items():
        (volume, figures), *further = of_step
        if not further:
            yield (
                f"{_capital(volume)} lost {figures} acknowledged commits in the crash"
                f" test ({step}): a server with these settings on it is not durable."
            )
        else:
            listed = joined([f"{volume} lost {of_volume}" for volume, of_volume in of_step])
            yield (
                f"In the crash test ({step}), {listed} acknowledged commits: servers with these settings on these"
                " volumes are not durable."
            )


def _capital(subject: str) -> str:
    """Return a subject as a sentence begins, unless it is a setting such as `mode=async`."""
    return subject if "=" in subject else upper_first(subject)


def _of_limits(run: RunRecord) -> Iterator[str]:
    """Yield the validity limits that the run raised: what they would have left out is in the figures."""
    texts = raised_limits(run)
    if texts:
        yield (
            f"Validity limits were raised: {', '.join(texts)}. Cells that would be invalid at the defaults count in"
            " every verdict."
        )


def doubts(run: RunRecord, volumes: Sequence[VolumeRow], *, compared: bool) -> Iterator[str]:
    """Yield clauses for a headline: what takes its conclusion away, whatever the figures are.

    Args:
        volumes: those that are compared, or the only one.
        compared: whether there is a comparison.
    """
    facts = {volume.name: VolumeFacts.model_validate(volume.facts) for volume in volumes if volume.facts}
    shared = shared_storage(facts) if compared else ()
    if shared:
        more = ", and others share theirs" if len(shared) > 1 else ""
        yield f"{shared[0].names} lie on the same {shared[0].storage}{more}"
    if raised_limits(run):
        yield LIMITS_RAISED


def raised_limits(run: RunRecord) -> list[str]:
    """Return `foreign_cpu 0.9 instead of 0.1` for each limit above its default; all are upper limits."""
    defaults = ValidityLimits()
    return [
        f"{name} {value:,.10g} instead of {default:,.10g}"
        for name in ValidityLimits.model_fields
        if (value := getattr(run.suite.limits, name)) > (default := getattr(defaults, name))
    ]


def _of_replacements(run: RunRecord, events: Sequence[JournalEvent]) -> Iterator[str]:
    if replaced := len(repeated_cells(events)):
        cells = "cells were" if replaced > 1 else "cell was"
        yield (
            f"{replaced} {cells} repeated, neighbours in time together, because an outside disturbance had made a"
            " first attempt invalid; cells/*.attempt-* has the files of each attempt."
        )
    if waiting := len(not_begun(events)):
        repeats, were = counted(waiting, "repeat"), "was" if waiting == 1 else "were"
        more = f": `{resume_command(run.command, run.run_id)}` makes them"
        more = "" if events[-1].event == "run_finished" else more
        yield f"{repeats} of disturbed cells and their neighbours {were} planned and not made{more}."


def _of_figures(cells: Sequence[CellRow]) -> Iterator[str]:
    """Yield, of each step's first primary metric, the figures that are not of all cells, with the others beside."""
    first = {cell.step: next(iter(PRIMARY_METRICS.get(cell.kind, ())), "") for cell in cells}
    rows = [row for row in figure_rows(cells) if row.metric == first[row.step]]
    partial = [figure_text(row, _varied(row, rows)) for row in rows if row.excluded or row.standing != "valid"]
    if partial:
        more = (
            f"; {len(partial) - FIGURES_MAX} more are in the table of all metrics" if partial[FIGURES_MAX:] else ""
        )
        yield f"Figures, and what the other cells measured: {'; '.join(partial[:FIGURES_MAX])}{more}."


def _varied(row: FigureRow, rows: Iterable[FigureRow]) -> list[str]:
    """Return the parameters by which a row differs from another one of its volume and step."""
    levels = [figure.parameters for figure in rows if (figure.volume, figure.step) == (row.volume, row.step)]
    return [name for name, value in row.parameters.items() if any(level.get(name) != value for level in levels)]


def _of_durability(server: ServerRow | None) -> Iterator[str]:
    variables: Mapping[str, str] = server.variables if server else {}
    relaxed = [
        f"{name}={variables[name]}"
        for name, safe in _DURABLE.items()
        if name in variables and variables[name].upper() not in (safe, "ON" if safe == "1" else "1", "TRUE")
    ]
    if relaxed:
        yield f"The server's settings are not durable ({', '.join(relaxed)}): commits wait less for the volume."


def _of_coldness(cells: Iterable[CellRow]) -> Iterator[str]:
    warmer: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for note in cell.notes:
            for marker in _COLDNESS_NOTES:
                if marker in note:
                    volumes = warmer.setdefault((cell.step, marker), [])
                    if cell.volume not in volumes:
                        volumes.append(cell.volume)
    steps: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (step, marker), warm_volumes in warmer.items():
        steps.setdefault((marker, tuple(warm_volumes)), []).append(step)
    for (marker, names), of_marker in steps.items():
        subject = f"Step {of_marker[0]}" if len(of_marker) == 1 else f"Steps {joined(of_marker)}"
        verb = "was" if len(of_marker) == 1 else "were"
        yield f"{subject} on {', '.join(names)} {verb} {_COLDNESS_NOTES[marker]}."


def _of_full_queues(cells: Sequence[CellRow]) -> Iterator[str]:
    loads = _with_note(cells, ENDED_BY_QUEUE)
    if len(loads) == 1:
        ((where, share),) = loads
        yield (
            f"The load of step {where} {ENDED_BY_QUEUE} in {share} cells: the server did not keep up with its rate,"
            " and latencies and sums over the step depend on when it ended."
        )
    elif loads:
        yield (
            f"In steps {_listed(loads)}, the load {ENDED_BY_QUEUE}: the server did not keep up with its rate, and"
            " latencies and sums over such a step depend on when it ended."
        )


def _of_unanswered(cells: Sequence[CellRow]) -> Iterator[str]:
    loads = _with_note(cells, COUNTED_AS_SLOWEST)
    missing = f"{COUNTED_AS_SLOWEST}, and one that lies among them is missing"
    if len(loads) == 1:
        ((where, share),) = loads
        yield f"In step {where}, some transactions or heartbeats had no answer in {share} cells: {missing}."
    elif loads:
        yield f"In steps {_listed(loads)}, some transactions or heartbeats had no answer: {missing}."
    earlier = [cell for cell in cells if not any(COUNTED_AS_SLOWEST in note for note in cell.notes)]
    loads = _with_note(earlier, UNANSWERED)  # recorded when percentiles were of the answered ones
    if loads:
        of_steps = f"step {loads[0][0]}" if len(loads) == 1 else f"steps {_listed(loads)}"
        share = f" in {loads[0][1]} cells" if len(loads) == 1 else ""
        yield (
            f"Of the load of {of_steps}, transactions {UNANSWERED}{share}: no percentile has them, so that a volume"
            " that answers fewer may look faster."
        )


def _listed(loads: Sequence[tuple[str, str]]) -> str:
    """Return `load on a (2 of 5 cells) and dump on b (1 of 5 cells)`."""
    return joined([f"{where} ({share} cells)" for where, share in loads])


def _with_note(cells: Sequence[CellRow], marker: str) -> list[tuple[str, str]]:
    """Return `STEP on VOLUME` and `2 of 5` cells, where some have a note with the marker."""
    of_step = Counter((cell.step, cell.volume) for cell in cells)
    marked = Counter((cell.step, cell.volume) for cell in cells if any(marker in note for note in cell.notes))
    return [
        (f"{step} on {volume}", f"{count} of {of_step[step, volume]}") for (step, volume), count in marked.items()
    ]


def _of_power(run: RunRecord, pairs: Iterable[PairSummary]) -> Iterator[str]:
    if run.suite.underpowered:
        yield f"Suite {run.suite.name} has few or short cells by design (low power): small differences stay open."
    elif any(pair.low_power for pair in pairs):
        yield "There are too few valid cells for a verdict on some metrics, whatever their values (low power)."
