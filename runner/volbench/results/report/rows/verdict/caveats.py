"""The caveats of a report: each is a sentence on what limits the conclusions from this run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from volbench.core.base.text import counted, percent
from volbench.core.profile.shared_storage import not_mounted_text, shared_storage
from volbench.core.records.cell import (
    COUNTED_AS_SLOWEST,
    ENDED_BY_QUEUE,
    UNANSWERED,
    CellResult,
    Disturbance,
    ValidityLimits,
)
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow, FigureRow, ServerRow, VolumeRow
from volbench.core.records.run import JournalEvent, RunRecord, not_begun, repeated_cells
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import PairSummary
from volbench.results.compare.figures import figure_rows, standing_of
from volbench.results.compare.settings import server_differences
from volbench.results.report.rows.reproduce import resume_command
from volbench.results.report.rows.verdict.adjustments import adjustment_caveats
from volbench.results.report.rows.verdict.progress import progress_caveats
from volbench.results.report.wording import figure_text, joined

_DURABLE = {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1", "innodb_doublewrite": "ON"}
_DISTURBANCES = {
    "foreign_cpu": "CPU use by other work",
    "cpu_steal": "CPU steal",
    "emulator_late": "late emulated operations",
    "foreign_io": "I/O of others on the volume's device",
    "swapping": "swapping of the host",
}
_COLDNESS_NOTES = {
    "lukewarm": "read lukewarm: a cache above the volume could have served part of it",
    "file-cold": "read file-cold: its data came from the device, but names and inodes may have been cached",
    "client-cold": "read client-cold: only this host's caches were empty, the storage server's were not",
}

FIGURES_MAX = 4
"""More than this many in one sentence are not read."""
_OR_ADJUSTED = ", or where an adjustment for such work (below) claims no more than they allow"
_DIGITS = re.compile(r"[\d.,]+")
"""Reasons that differ in these only are of one kind."""
_Key = TypeVar("_Key", float, str)
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
) -> tuple[str, ...]:
    """Return all caveats that apply, the gravest first.

    Args:
        with_result: cells that are done.
        events: of the journal.
        first: caveats of volumes that could not be used, and of the nodes of the cells.
    """
    sentences = [
        *first,
        *losses_text(cells),
        *_of_volumes(volumes),
        *_of_places(run, volumes),
        *progress_caveats(run, with_result, events),
        *_of_limits(run),
        *_of_replacements(run, events),
        *_of_validity(cells, pairs),
        *_of_figures(cells),
        *adjustment_caveats(pairs),
        *_of_durability(server),
        *_of_coldness(cells),
        *_of_full_queues(cells),
        *_of_unanswered(cells),
        *_of_power(run, pairs),
    ]
    return tuple(dict.fromkeys(sentences))


def unavailable_volumes(events: Iterable[JournalEvent], volume_of: Mapping[str, str]) -> dict[str, str]:
    """Return volume -> the caveat that it could not be used; without volumes that a later cell ran on.

    Args:
        events: the journal.
        volume_of: the volume of each cell id.
    """
    volumes: dict[str, str] = {}
    for event in events:
        if event.event == "volume_unavailable":
            name, details = str(event.details.get("volume")), event.details
            evidence = next(iter(str(details.get("evidence", "")).splitlines()), "")
            reason = f"{details.get('message')} ({evidence})"
            volumes[name] = f"Volume {name} could not be used, and its other cells did not run: {reason}."
        elif event.event == "cell_started":
            volumes.pop(volume_of.get(event.cell_id, ""), None)
    return volumes


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


def _of_volumes(volumes: Sequence[VolumeRow]) -> Iterator[str]:
    """Yield what kind of storage the volumes are, each kind in a sentence with all of them."""
    emulated = [volume for volume in volumes if volume.emulated]
    if emulated:
        kinds = [volume.profile or volume.spec for volume in emulated]
        listed = joined([f"{volume.name} ({kind})" for volume, kind in zip(emulated, kinds, strict=True)])
        yield (
            f"Volume {emulated[0].name} is emulated ({kinds[0]}): it imitates that kind of storage and is not a"
            " measurement of it."
            if len(emulated) == 1
            else f"Volumes {listed} are emulated: they imitate these kinds of storage and do not measure them."
        )
    for scale, names in _named(emulated, _time_scale).items():
        if scale != 1:
            text = f"credit buckets {scale:,.10g} times smaller than the real ones (time_scale)"
            yield f"{_have(names)} {text}: {'its' if len(names) == 1 else 'their'} bursts end so much sooner."
    in_memory = [volume for volume in volumes if volume.facts.get("memory_backed")]
    for filesystem, names in _named(in_memory, lambda volume: str(volume.filesystem)).items():
        yield f"{_are(names)} memory ({filesystem}), not durable storage."
    layers = [volume.name for volume in volumes if volume.facts.get("overlay")]
    if layers:
        kind = "a container's layer, not a volume" if len(layers) == 1 else "containers' layers, not volumes"
        yield f"{_are(layers)} on an overlay filesystem: {kind}."
    nfs = [volume.name for volume in volumes if volume.facts.get("nfs_server") and not volume.emulated]
    if nfs:
        yield (
            f"{_are(nfs)} NFS: {'its' if len(nfs) == 1 else 'their'} export decides whether a commit survives a"
            " crash of the NFS server (sync, or async, which loses acknowledged commits). A client cannot see the"
            " export's options. The option async of the mount loses nothing that was synced."
        )


def _named(volumes: Iterable[VolumeRow], key: Callable[[VolumeRow], _Key]) -> dict[_Key, list[str]]:
    """Return the names of volumes by what they have in common."""
    names: dict[_Key, list[str]] = {}
    for volume in volumes:
        names.setdefault(key(volume), []).append(volume.name)
    return names


def _time_scale(volume: VolumeRow) -> float:
    return float(volume.facts.get("emulated_parameters", {}).get("time_scale", 1))


def _are(names: Sequence[str]) -> str:
    return f"Volume {names[0]} is" if len(names) == 1 else f"Volumes {joined(names)} are"


def _have(names: Sequence[str]) -> str:
    return f"Volume {names[0]} has" if len(names) == 1 else f"Volumes {joined(names)} have"


def _of_places(run: RunRecord, volumes: Sequence[VolumeRow]) -> Iterator[str]:
    """Yield volumes that share their storage, and directories on which nothing is mounted."""
    facts = {volume.name: VolumeFacts.model_validate(volume.facts) for volume in volumes if volume.facts}
    yield from (shared.text for shared in shared_storage(facts))
    for name, volume in facts.items():
        if volume.foreign_pods:
            pods, verb = ", ".join(volume.foreign_pods), "mounts" if len(volume.foreign_pods) == 1 else "mount"
            yield f"Claim {volume.claim} of volume {name} is not this run's alone: {pods} {verb} it too."
    for spec in run.volumes:
        if spec.kind == "path" and spec.name in facts and facts[spec.name].emulated_profile is None:
            text = not_mounted_text(spec.name, spec.location, facts[spec.name])
            yield from [text] if text else []


def losses_text(cells: Iterable[CellRow]) -> Iterator[str]:
    """Yield, by volume and crash step, the losses of all cells together."""
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
    for (volume, step), (lost, acknowledged, failed, *broken) in sums.items():
        if failed:
            cuts = "a cut" if failed == 1 else f"{failed:,.0f} cuts"
            yield f"Volume {volume}: the server did not recover from {cuts} ({step}); only a backup would help."
        if lost:
            losses.setdefault(step, []).append((volume, f"{lost:,.0f} of {acknowledged:,.0f}"))
        if any(broken):
            yield f"Volume {volume} left data torn or damaged after a crash ({step})."
    for step, of_step in losses.items():
        (volume, figures), *further = of_step
        if not further:
            yield (
                f"Volume {volume} lost {figures} acknowledged commits in the crash test ({step}): a server with"
                " these settings on it is not durable."
            )
        else:
            listed = joined([f"volume {name} lost {of_volume}" for name, of_volume in of_step])
            yield (
                f"In the crash test ({step}), {listed} acknowledged commits: servers with these settings on these"
                " volumes are not durable."
            )


def _of_limits(run: RunRecord) -> Iterator[str]:
    """Yield the validity limits that the run raised: what they would have left out is in the figures."""
    texts = raised_limits(run)
    if texts:
        yield (
            f"Validity limits were raised: {', '.join(texts)}. Cells that would be invalid at the defaults count in"
            " every verdict."
        )


def doubts(run: RunRecord, volumes: Sequence[VolumeRow], *, compared: bool) -> Iterator[str]:
    """Yield clauses that a headline ends with: what takes its conclusion away, whatever the figures are.

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
        yield "validity limits were raised"


def raised_limits(run: RunRecord) -> list[str]:
    """Return `foreign_cpu 0.9 instead of 0.1` for each limit above its default; all are upper limits."""
    defaults = ValidityLimits()
    return [
        f"{name} {value:,.10g} instead of {default:,.10g}"
        for name in ValidityLimits.model_fields
        if (value := getattr(run.suite.limits, name)) > (default := getattr(defaults, name))
    ]


def _sizes(kind: str, disturbances: Sequence[Disturbance]) -> str:
    """Return the smallest and the largest share; disturbances that are no shares are in the texts of the cells."""
    if kind in ("foreign_io", "swapping"):
        return ""
    low, high = (end(disturbance.size for disturbance in disturbances) for end in (min, max))
    return f" {_span(low, high)} (limit {percent(disturbances[0].limit)})"


def _span(low: float, high: float) -> str:
    """Return two shares as a range, and as one figure where they read alike."""
    return percent(low) if percent(low) == percent(high) else f"{percent(low)} to {percent(high)}"


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


def _of_validity(cells: Sequence[CellRow], pairs: Sequence[PairSummary]) -> Iterator[str]:
    yield from _of_disturbances(cells, adjusted=any(row.adjustments for pair in pairs for row in _rows_of(pair)))
    invalid = [cell for cell in cells if not cell.valid and not cell.used_within_bounds]
    if invalid:
        kinds: dict[str, list[str]] = {}
        for reason in (reason for cell in invalid for reason in cell.invalid_reasons):
            kinds.setdefault(_DIGITS.sub("", reason), []).append(reason)
        reasons = [
            f"{of_kind[0]}{f', and {len(of_kind) - 1} more of this kind' if len(set(of_kind)) > 1 else ''}"
            for of_kind in kinds.values()
        ]
        more = f" and {counted(len(reasons) - 2, 'more reason')}" if len(reasons) > 2 else ""
        verb = "is" if len(invalid) == 1 else "are"
        kinds_of_cells = sorted({standing_of(valid=False, bounded=bool(cell.bounds)) for cell in invalid})
        yield (
            f"{len(invalid)} of {len(cells)} step results {verb} {' or '.join(kinds_of_cells)} and excluded from"
            " every comparison: "
            f"{'; '.join(reasons[:2])}{more}."
        )


def _rows_of(pair: PairSummary) -> tuple[Comparison, ...]:
    return (*pair.better, *pair.worse, *pair.equivalent, *pair.inconclusive, *pair.alone)


def _of_disturbances(cells: Iterable[CellRow], *, adjusted: bool) -> Iterator[str]:
    """Yield kind, size and possible effect of the disturbances of cells that are compared within bounds."""
    used = [cell for cell in cells if cell.used_within_bounds]
    if not used:
        return
    kinds: dict[str, list[Disturbance]] = {}
    for cell in used:
        for disturbance in cell.disturbances:
            if disturbance.beyond:
                kinds.setdefault(disturbance.kind, []).append(disturbance)
    results_of: Counter[str] = Counter()
    for cell in used:
        results_of.update({disturbance.kind for disturbance in cell.disturbances if disturbance.beyond})
    summary = "; ".join(
        f"{_DISTURBANCES[kind]}{_sizes(kind, disturbances)} in {results_of[kind]}"
        for kind, disturbances in kinds.items()
    )
    several = "; some have more than one cause" if results_of.total() > len(used) else ""
    low, high = (end(cell.delayed_share_max or 0.0 for cell in used) for end in (min, max))
    span = percent(high) if percent(low) == percent(high) else f"{percent(low)} (least) to {percent(high)} (most)"
    results = "step result was" if len(used) == 1 else "step results were"
    yield (
        f"{len(used)} {results} disturbed from outside: {summary}{several}. By its own bound each was delayed for "
        f"at most {span} of its time. Their figures are compared within the bounds that "
        "follow, and a verdict is given only where it holds for every value within"
        f"{_OR_ADJUSTED if adjusted else ''}."
    )


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
