"""One timeline of what other tools recorded, explained as one step: one host at one time, or one file by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.records.named_metrics import CPU, PERCENTILES, Client, Diskstats
from volbench.core.records.report import FindingRow
from volbench.errors import UsageError
from volbench.results.explain.case import Case
from volbench.results.explain.causes import OF_VOLUME
from volbench.results.explain.evidence.device import Device, device_of
from volbench.results.explain.evidence.episodes import Episode, FigureChange, find_episode, levels
from volbench.results.explain.findings import OF_INSTANCE, Explanation, explain_case
from volbench.results.explain.pooling import finding_rows
from volbench.results.explain.recordings.clients import client_count, queue_of_clients, without_acquittal
from volbench.results.explain.recordings.doubtful_limits import with_doubts, without_idle
from volbench.results.explain.recordings.exceeded_limits import with_instance, with_slots, without_refuted
from volbench.results.explain.recordings.recorded_case import STEP, case_of
from volbench.results.explain.recordings.remarks import is_noticed, remarks
from volbench.results.explain.rules.stretch import SAMPLES_MIN
from volbench.results.explain.rules.volume.counted_by_volume import SHARED, SPLIT
from volbench.results.explain.wording import clock
from volbench.results.recorded.clocks import VOLUME_SOURCES
from volbench.results.recorded.one_volume import of_one_volume, unused_instances
from volbench.results.recorded.parsed import Recorded
from volbench.results.recorded.sar import merged_by_device
from volbench.results.recorded.table import Timeline
from volbench.results.recorded.window import DayWindow, clock_text
from volbench.results.stats.grid import Floats, Grid, median
from volbench.results.store.series import SeriesKey

STALL = "storage.stall"
"""Named for some seconds; what the volume did in the rest of an episode says more."""
MEMBER_MIN = 0.1
"""Part of the operations of a device without waiting times that one with them must have to stand for it."""
_COMPARED = frozenset({SHARED, SPLIT})
"""What the volume did that the host did not send, or in other pieces: of the same time."""
OTHER_DEVICES_MAX, SAME_RATE = 8, 0.1
"""Devices that are looked at besides the chosen one, and how near the rates of a device and a part of it are."""
_OF_LENGTH = frozenset({"credits_spent", "spent", "recovery_s", "refill_s"})
"""Evidence that is a sum over time: nothing where the samples' interval is not known."""


@dataclass(frozen=True, kw_only=True)
class TimelineExplanation:
    """Findings of a timeline; `notes` say what is missing or to be known. `title` names its host, device and day.

    `clocked`: times are seconds since midnight of its first day, else since the first sample. `window_s` is what
    was compared with the time before it, the window that was asked for or an episode that stands out (`episode`);
    `levels` are the figures of both. `grid` has the curves.
    """

    title: str
    timeline: Timeline
    findings: tuple[FindingRow, ...]
    notes: tuple[str, ...]
    clocked: bool
    grid: Grid
    device: Device | None = None
    window_s: tuple[float, float] | None = None
    episode: Episode | None = None
    levels: tuple[FigureChange, ...] = ()


def explain_timeline(
    timeline: Timeline,
    *,
    name: str,
    device: str,
    volume: str,
    window: DayWindow | None,
    instance: str = "",
    companions: Sequence[Recorded] = (),
) -> TimelineExplanation:
    """Findings of a timeline.

    Args:
        timeline: what belongs together.
        name: of the timeline, where no device names it.
        device: kernel name of the volume's device, or the vendor's name of it; empty: the one with most operations.
        volume: what the vendor calls it, of several; empty: the only one.
        window: the part of the day to explain; None: all of it, or where nothing can be named in that, the episode
            in which the volume was worse than before.
        instance: the vendor's type of the virtual machine; empty: not known.
        companions: recordings of other timelines, which tell how many clients there were.

    Raises UsageError for a device or a window that it has nothing of.
    """
    recordings = list(timeline.recordings.values())
    series, of_volumes = of_one_volume(merged_by_device(recordings), device=device, volume=volume)
    case = _of_device(case_of(series, clocked=timeline.clocked, collection=timeline.collection), device)
    case = replace(case, instance=instance)
    span = None if window is None else window.within(*case.window_s)
    explained_case, explained, episode = _explained(case, span)
    unplaced = [*_unplaced(explained)] if _zone_is_assumed(timeline) else []
    if unplaced:  # nothing else may rest on the comparison either, such as how much a limit leaves to others
        series = {key: samples for key, samples in series.items() if not _is_count_of_volume(key)}
        case = _of_device(case_of(series, clocked=timeline.clocked, collection=timeline.collection), device)
        case = replace(case, instance=instance)
        explained_case, explained, episode = _explained(case, span)
    episode = episode if episode is not None and is_noticed(case, episode) else None
    episode = _with_one_begin(episode, explained, case.grid.width_s)
    notes = [note for recording in recordings for note in recording.notes]
    if any(not recording.interval_known for recording in recordings):
        notes.append(
            "no line tells the interval of its samples: they are counted as if they were 1 s apart, so lengths of"
            " time, and sums over time, are not known (--interval states it)"
        )
    named = any(finding.cause in OF_VOLUME | OF_INSTANCE for finding in explained.findings)
    clock = _text_of(timeline.clocked)
    notes += [
        *of_volumes,
        *unused_instances(series),
        *remarks(case, episode if span is None else None, clock, named=named),
    ]
    if episode is not None and span is None:
        span = (episode.t0_s, episode.t1_s)
    device_explained = explained_case.device
    rows = finding_rows(
        (device_explained.entity if device_explained is not None else "") or name, STEP, {name: explained}
    )
    rows, refuted = without_refuted(
        rows,
        case,
        is_member=case.disk is not None and not device and timeline.collection is None,
    )
    rows, idle = without_idle(rows, case)
    rows = with_doubts(with_slots(with_instance(rows, case), case), case)
    notes += [*unplaced, *refuted, *idle]
    queue = queue_of_clients(explained_case, client_count([*recordings, *companions]))
    if queue is not None and queue.has_most_clients and not any(row.cause in OF_VOLUME for row in rows):
        notes.append(queue.text)
    notes += [
        *_which_device(explained_case, is_chosen=bool(device) or timeline.collection is not None),
        *([] if device or (span is not None and episode is None) else _of_other_devices(case)),
        *explained.refuted_texts,
        *explained.notes,
        *_not_recorded(explained_case),
    ]
    has_intervals = all(recording.interval_known for recording in recordings)
    return TimelineExplanation(
        title=(device_explained.entity if device_explained is not None else "") or name,
        timeline=timeline,
        findings=tuple(row if has_intervals else _without_lengths(row) for row in without_acquittal(rows, queue)),
        notes=tuple(dict.fromkeys(notes)),
        clocked=timeline.clocked,
        grid=case.cell_grid,
        device=device_of(case.cell_grid, case.disk),
        window_s=span,
        episode=episode,
        levels=() if span is None else tuple(_levels(case, span)),
    )


def _with_one_begin(episode: Episode | None, explained: Explanation, width_s: float) -> Episode | None:
    """Return the episode with begin and end of a finding that has them within an interval: one time, one label."""
    if episode is None:
        return None
    for finding in explained.findings:
        (t0_s, t1_s), slack_s = finding.window_s, 1.5 * width_s
        if abs(t0_s - episode.t0_s) <= slack_s and t0_s < episode.t1_s:
            end_s = t1_s if abs(t1_s - episode.t1_s) <= slack_s else episode.t1_s
            return replace(episode, t0_s=t0_s, t1_s=end_s)
    return episode


def devices(timeline: Timeline) -> set[str]:
    """Names of the devices and volumes that a timeline has operations of."""
    return {
        key.entity
        for recording in timeline.recordings.values()
        for key in recording.series
        if key.metric in ("reads_per_s", "writes_per_s", "operations_per_s")
    } - {""}


def _without_lengths(row: FindingRow) -> FindingRow:
    """A finding without what is a sum over time, of samples whose interval is not known."""
    return row.model_copy(
        update={"evidence": tuple(item for item in row.evidence if item.metric not in _OF_LENGTH)}
    )


def _zone_is_assumed(timeline: Timeline) -> bool:
    """Whether the vendor's times, which are UTC, were put on those of a host whose zone nothing tells."""
    clocked = [recording for recording in timeline.recordings.values() if recording.clocked]
    return not timeline.zone and len({recording.midnight_epoch_s is None for recording in clocked}) > 1


def _unplaced(explained: Explanation) -> Iterator[str]:
    """Say of each finding that compares host and volume that other hours may be compared."""
    for finding in explained.findings:
        if finding.cause in _COMPARED:
            yield (
                f"{finding.cause} would have been named, but the time zone of the host is not known: --timezone"
                " states it"
            )


def _is_count_of_volume(key: SeriesKey) -> bool:
    """Whether it is what the vendor counted of operations or bytes: what is compared with the host's."""
    return key.source in VOLUME_SOURCES and key.metric.endswith("_per_s")


def _text_of(clocked: bool) -> Callable[[float], str]:
    return clock_text if clocked else clock


def _of_device(case: Case, device: str) -> Case:
    if not device:
        return _of_known_waits(case)
    present = {key.entity for key in case.grid.columns if key.metric in ("reads_per_s", "operations_per_s")}
    if device not in present:
        raise UsageError(
            f"the recording has no device {device!r}", evidence=f"devices: {', '.join(sorted(present - {''}))}"
        )
    return replace(case, disk=device)


def _of_known_waits(case: Case) -> Case:
    """The case of the busiest device whose waiting times are counted, where those of the busiest of all are not.

    A device that passes its operations on (md) has none in old kernels, and those it passes them on to have.
    """
    busiest = case.device
    if case.disk is not None or busiest is None or busiest.await_ms is not None or busiest.source != "diskstats":
        return case
    waiting = {
        entity: device
        for metric in (Diskstats.await_ms, Diskstats.r_await_ms, Diskstats.w_await_ms)
        for entity in case.grid.entities(*metric)
        if (device := device_of(case.grid, entity)) is not None
        and float(np.nansum(device.iops)) >= MEMBER_MIN * float(np.nansum(busiest.iops))
    }
    if not waiting:
        return case
    return replace(case, disk=max(sorted(waiting), key=lambda entity: float(np.nansum(waiting[entity].iops))))


def _which_device(case: Case, *, is_chosen: bool) -> Iterator[str]:
    """Says which of several devices was taken for the volume."""
    device = case.device
    if device is None or is_chosen:
        return
    entities = {
        entity
        for metric in (Diskstats.reads_per_s, Diskstats.operations_per_s)
        for entity in case.grid.entities(*metric.of(device.source))
    }
    if len(entities) > 1:
        yield (
            f"{device.entity} is taken for the volume, since it has the most operations of {len(entities)} devices"
            " (--device names another)"
        )


def _of_other_devices(case: Case) -> Iterator[str]:
    """Say of each other device what it shows: the one with the most operations need not be the one that waits."""
    chosen = device_of(case.cell_grid, case.disk)
    if chosen is None or chosen.source != "diskstats":
        return
    candidates = {
        entity: device
        for metric in (Diskstats.reads_per_s, Diskstats.operations_per_s)
        for entity in case.cell_grid.entities(*metric)
        if entity != chosen.entity and (device := device_of(case.cell_grid, entity)) is not None
    }
    for entity, candidate in sorted(candidates.items())[:OTHER_DEVICES_MAX]:
        rate, same = median(candidate.iops), median(np.abs(candidate.iops - chosen.iops))
        if not rate or same is None or same <= SAME_RATE * rate or (candidate.await_ms is None):
            continue  # idle, or the same operations a layer above or below
        named = [
            finding.cause
            for finding in explain_case(replace(case, disk=entity)).findings
            if finding.cause in OF_VOLUME
        ]
        if named:
            yield f"{entity} shows {named[0]} (--device {entity} explains it)"


def _explained(case: Case, span: tuple[float, float] | None) -> tuple[Case, Explanation, Episode | None]:
    """The case as it was explained: its window, else all of it, else the episode where all of it names nothing."""
    if span is not None:
        windowed = replace(case, grid=case.cell_grid.within(*span))
        return windowed, explain_case(windowed), None
    explained = explain_case(case)
    latency = next(
        (values for metric in PERCENTILES.values() if (values := case.at(metric)) is not None),
        None,
    )
    waits = None if case.device is None else case.device.await_ms
    episode = find_episode(case.grid, waits if latency is None else latency)
    if episode is None or any(finding.cause != STALL for finding in explained.findings):
        return case, explained, episode
    windowed = replace(case, grid=case.cell_grid.within(episode.t0_s, episode.t1_s))
    if len(windowed.grid) < SAMPLES_MIN:
        return case, explained, episode
    of_episode = explain_case(windowed)
    return (windowed, of_episode, episode) if of_episode.findings else (case, explained, episode)


def _levels(case: Case, span: tuple[float, float]) -> Iterator[FigureChange]:
    middle = case.cell_grid.t_s - case.cell_grid.width_s / 2
    during = (middle > span[0]) & (middle <= span[1])
    if not during.any():
        return
    user, system = case.at(CPU.user_ratio), case.at(CPU.system_ratio)
    columns = {
        "transactions": (case.at(Client.tps), "1/s"),
        "p95": (case.at(Client.latency_ms_p95), "ms"),
        "CPUs busy": (None if user is None or system is None else 100 * (user + system), "%"),
        "waiting for I/O": (_percent(case.at(CPU.iowait_ratio)), "%"),
    }
    yield from levels(case.cell_grid, device_of(case.cell_grid, case.disk), during, columns)


def _percent(values: Floats | None) -> Floats | None:
    return None if values is None else 100 * values


def _not_recorded(case: Case) -> Iterator[str]:
    """What no file tells, and what is not known for that."""
    if case.at(Client.tps) is None:
        yield "no log of the client: what users waited for is not known"
    if case.budget is None:
        yield "no statement times of the server: shares of latency are not known"
    if case.cpu_busy is None:
        yield "no CPU times: whether the CPUs were saturated is not known"
