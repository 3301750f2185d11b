"""Which recordings belong together: of one host, on one time axis, at times that meet.

A value is put beside another one only within a timeline. Hosts are kept apart, so are stretches of time that never
meet, and files without times, which nothing puts on a clock. Recordings that follow each other on one device are
one timeline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import combinations
from pathlib import PurePosixPath

import numpy as np

from volbench.errors import UsageError
from volbench.results.recorded.clocks import HOST_SOURCES, VOLUME_SOURCES, on_one_axis
from volbench.results.recorded.files import RecordedFile
from volbench.results.recorded.parsed import DAY_S, Recorded
from volbench.results.recorded.pt_stalk import Collection
from volbench.results.recorded.table import FileRow, Timeline, extent_s, file_rows, moment_text, pieces_of
from volbench.results.stats.grid import interval_s
from volbench.results.store.series import series_within

_FOLLOWS = 1.0
"""Longest gap between two recordings of one device that one timeline may have, in lengths of the longer one."""
_SAME = 1e-6
_OPERATIONS = ("reads_per_s", "writes_per_s", "operations_per_s")
_COMMON_MIN, _AS_LONG, _DIFFERENT = 5, 0.1, 1.5
"""Common samples, how much their lengths may differ, and how many times more one counts in most of them, or in all
together, from which on two recordings are not of one device: tools that read one counter at other moments of a
second differ by less."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a user chose among what the files tell: empty or None where all of it counts.

    `align`: files without times begin at the first moment of those with times, or of each other. `instance`: the
    vendor's type of the virtual machine.
    """

    host: str = ""
    device: str = ""
    volume: str = ""
    day: date | None = None
    zone: str = ""
    align: bool = False
    instance: str = ""


@dataclass(frozen=True, kw_only=True)
class Sorted:
    """All files sorted into timelines, the table of them, and what a reader must know of the sorting."""

    timelines: tuple[Timeline, ...]
    rows: tuple[FileRow, ...]
    notes: tuple[str, ...]


def sort_files(files: Sequence[RecordedFile], choice: Choice) -> Sorted:
    """Sort files into timelines by what they tell of host, day and time.

    Raises UsageError for a host, a day or a zone that the files do not have.
    """
    pieces = {name: piece for file in files for name, piece in pieces_of(file)}
    pieces = _with_own_entities(pieces)
    why_not = {file.name: file.why_not for file in files if file.why_not and not file.of_collection}
    pieces, of_other_hosts = _of_host(pieces, choice.host)
    why_not |= of_other_hosts
    clocked = {name: recording for name, recording in pieces.items() if recording.clocked}
    counted = {name: recording for name, recording in pieces.items() if not recording.clocked}
    axis = on_one_axis(clocked, choice.zone, choice.day)
    why_not |= axis.apart
    placed, notes = dict(axis.recordings), list(axis.notes)
    if choice.day is not None and axis.first_day is not None:
        placed, of_other_days = _of_day(placed, axis.first_day, choice.day)
        why_not |= of_other_days
    placed = {name: _of_volume(recording, choice.volume) for name, recording in placed.items()}
    alone = {name for file in files if len(file.recordings) == 1 for name, _ in pieces_of(file)}
    aligned = choice.align and not alone.isdisjoint(counted)
    if aligned:
        placed = _aligned(placed, {name: recording for name, recording in counted.items() if name in alone})
        counted = {name: recording for name, recording in counted.items() if name not in alone}
        notes.append("files without times are aligned by their first lines, as --align says")
    collections = {file.name: file.collection for file in files if file.collection is not None}
    timelines = [
        _timeline(
            group,
            host=host,
            clocked=bool(clocked) or not aligned,
            day=axis.first_day,
            zone=axis.zone,
            collections=collections,
        )
        for host, together in _groups(placed, together=aligned and not clocked)
        for group in _without_contradictions(together)
    ]
    timelines += [
        _timeline({name: recording}, host=recording.host, clocked=False, day=None, zone="", collections=collections)
        for name, recording in counted.items()
    ]
    notes += _apart_notes(timelines)
    notes += _contradictions(placed)
    rows = tuple(row for file in files for row in file_rows(file, timelines, why_not))
    return Sorted(timelines=tuple(timelines), rows=rows, notes=tuple(notes))


def same_host(first: str, second: str) -> bool:
    """Whether two names are of one host: with or without domain or port."""
    return bool(first) and bool(second) and _short(first) == _short(second)


def _short(host: str) -> str:
    name = host.split(":", maxsplit=1)[0]
    if re.fullmatch(r"\d+(?:\.\d+){3}", name):
        return name
    named = re.fullmatch(r"ip-(\d+)-(\d+)-(\d+)-(\d+)(?:\..*)?", name)
    return ".".join(named.groups()) if named is not None else name.split(".", maxsplit=1)[0].lower()


def _with_own_entities(pieces: Mapping[str, Recorded]) -> dict[str, Recorded]:
    """Recordings of which two tell other values of one volume that no label names: the file's name is its name.

    Such are the answers for two accounts, regions or volumes, in a file each.
    """
    vendor = {name: recording for name, recording in pieces.items() if recording.midnight_epoch_s is not None}
    differing = {
        name
        for name, recording in vendor.items()
        if any(name_of_other != name and _contradict(recording, vendor[name_of_other]) for name_of_other in vendor)
    }
    return {
        name: _renamed(recording, name) if name in differing else recording for name, recording in pieces.items()
    }


def _contradict(first: Recorded, second: Recorded) -> bool:
    for key, series in first.series.items():
        counterpart = second.series.get(key)
        if key.source not in VOLUME_SOURCES or counterpart is None:
            continue
        shift_s = (first.midnight_epoch_s or 0.0) - (second.midnight_epoch_s or 0.0)
        _, at, in_other = np.intersect1d(series.t_s + shift_s, counterpart.t_s, return_indices=True)
        difference = np.abs(series.value[at] - counterpart.value[in_other])
        if len(at) and (difference > _SAME * np.maximum(1.0, np.abs(series.value[at]))).mean() > 0.5:
            return True
    return False


def _without_contradictions(group: Mapping[str, Recorded]) -> list[dict[str, Recorded]]:
    """The files of one host, divided so that no two of a part tell other figures of one device at one time."""
    groups: list[dict[str, Recorded]] = []
    for name, recording in group.items():
        member_group = next(
            (
                member_group
                for member_group in groups
                if not any(_differ(recording, member) for member in member_group.values())
            ),
            None,
        )
        if member_group is None:
            groups.append({name: recording})
        else:
            member_group[name] = recording
    return groups


def _contradictions(placed: Mapping[str, Recorded]) -> Iterator[str]:
    """Say which files contradict each other."""
    names = list(placed)
    for at, name in enumerate(names):
        for earlier in names[:at]:
            hosts = placed[name].host, placed[earlier].host
            if (hosts[0] == hosts[1] or same_host(*hosts)) and _differ(placed[name], placed[earlier]):
                yield (
                    f"{name} has other figures for the same device and time than {earlier}: each is explained for"
                    " itself"
                )
                break


def _differ(first: Recorded, second: Recorded) -> bool:
    """Whether two recordings on one axis, of samples as long, tell other operations of a host's device."""
    for key, series in first.series.items():
        counterpart = second.series.get(key)
        if key.source not in HOST_SOURCES or key.metric not in _OPERATIONS or counterpart is None:
            continue
        lengths = interval_s(series.t_s), interval_s(counterpart.t_s)
        _, at, in_other = np.intersect1d(np.round(series.t_s), np.round(counterpart.t_s), return_indices=True)
        if len(at) < _COMMON_MIN or None in lengths or abs((lengths[0] or 0) / (lengths[1] or 1) - 1) > _AS_LONG:
            continue
        pair = series.value[at], counterpart.value[in_other]
        more, less = (pick(*pair) for pick in (np.maximum, np.minimum))
        sums = sorted(float(values.sum()) for values in pair)
        if (more > _DIFFERENT * less + 1).mean() > 0.5 or sums[1] > _DIFFERENT * sums[0] + len(at):
            return True
    return False


def _renamed(recorded: Recorded, name: str) -> Recorded:
    path = PurePosixPath(name)
    stem = path.stem if str(path.parent) == "." else f"{path.parent}/{path.stem}"
    series = {
        replace(key, entity=f"{key.entity} of {stem}") if key.source in VOLUME_SOURCES else key: samples
        for key, samples in recorded.series.items()
    }
    return replace(recorded, series=series)


def _of_host(pieces: Mapping[str, Recorded], host: str) -> tuple[dict[str, Recorded], dict[str, str]]:
    """The recordings of a host and those that name none, and why the others are not used."""
    if not host:
        return dict(pieces), {}
    hosts = sorted({recording.host for recording in pieces.values()} - {""})
    if not any(same_host(recording, host) for recording in hosts):
        raise UsageError(
            f"no file is of the host {host!r}",
            where=f"--host {host}",
            evidence=f"hosts: {', '.join(hosts) or 'no file names one'}",
        )
    of_host = {
        name: recording
        for name, recording in pieces.items()
        if not recording.host or same_host(recording.host, host)
    }
    return of_host, {
        name: f"of {recording.host}, not of {host}" for name, recording in pieces.items() if name not in of_host
    }


def _of_day(placed: Mapping[str, Recorded], first: date, day: date) -> tuple[dict[str, Recorded], dict[str, str]]:
    """What recordings have of a day, and why the others are not used."""
    begin_s = DAY_S * (day - first).days
    cut = {name: _between(recording, begin_s, begin_s + DAY_S) for name, recording in placed.items()}
    inside = {name: recording for name, recording in cut.items() if recording.series}
    if not inside:
        raise UsageError(
            f"no file has anything of {day.isoformat()}",
            where=f"--date {day.isoformat()}",
            evidence=f"they go from {moment_text(extent_s(placed.values())[0], first)} to"
            f" {moment_text(extent_s(placed.values())[1], first)}",
        )
    return inside, {name: f"has nothing of {day.isoformat()}" for name in cut if name not in inside}


def _between(recorded: Recorded, begin_s: float, end_s: float) -> Recorded:
    """What a recording has of a time; a sample is about the time before it."""
    return replace(recorded, series=series_within(recorded.series, begin_s, end_s))


def _of_volume(recorded: Recorded, volume: str) -> Recorded:
    """A recording without what the vendor says of other volumes."""
    if not volume:
        return recorded
    series = {
        key: samples
        for key, samples in recorded.series.items()
        if key.source not in VOLUME_SOURCES or key.metric.startswith("instance_") or volume in key.entity
    }
    return replace(recorded, series=series)


def _from(recorded: Recorded, start_s: float, *, clocked: bool) -> Recorded:
    """A recording without times, from a moment on."""
    return replace(recorded.shifted(start_s), clocked=clocked)


def _aligned(placed: Mapping[str, Recorded], counted: Mapping[str, Recorded]) -> dict[str, Recorded]:
    """All recordings, those without times from the first moment of the others on."""
    start_s = extent_s(placed.values())[0] if placed else 0.0
    moved = {name: _from(recording, start_s, clocked=bool(placed)) for name, recording in counted.items()}
    return {**placed, **moved}


def _groups(placed: Mapping[str, Recorded], *, together: bool) -> Iterator[tuple[str, dict[str, Recorded]]]:
    """Yield host and recordings of each timeline: of one host, at times that meet or follow each other."""
    hosts: list[str] = []
    for recording in placed.values():
        if recording.host and not any(same_host(recording.host, host) for host in hosts):
            hosts.append(recording.host)
    for host in hosts or [""]:
        of_host = {
            name: recording
            for name, recording in placed.items()
            if recording.series and (same_host(recording.host, host) or (not recording.host and len(hosts) <= 1))
        }
        for group in [of_host] if together and of_host else _meeting(of_host):
            yield (host if any(recording.host for recording in group.values()) else ""), group
    if len(hosts) > 1:
        for group in _meeting(
            {name: recording for name, recording in placed.items() if not recording.host and recording.series}
        ):
            yield "", group


def _meeting(recordings: Mapping[str, Recorded]) -> Iterator[dict[str, Recorded]]:
    """Yield the recordings whose times meet, in order of time."""
    left = sorted(recordings, key=lambda name: extent_s([recordings[name]])[0])
    while left:
        group = [left.pop(0)]
        while joining := [
            name for name in left if any(_meet(recordings[name], recordings[member]) for member in group)
        ]:
            group += joining
            left = [name for name in left if name not in joining]
        yield {name: recordings[name] for name in recordings if name in group}


def _meet(first: Recorded, second: Recorded) -> bool:
    """Whether the times of two recordings overlap, or one follows the other on a device of both."""
    (begin, end), (other_begin, other_end) = extent_s([first]), extent_s([second])
    if begin <= other_end and other_begin <= end:
        return True
    same = {(key.source, key.entity) for key in first.series} & {(key.source, key.entity) for key in second.series}
    gap_s = max(begin - other_end, other_begin - end)
    width_s = max((interval_s(samples.t_s) or 0.0 for samples in first.series.values()), default=0.0)
    if not same:
        return gap_s <= width_s
    return gap_s <= max(_FOLLOWS * max(end - begin, other_end - other_begin), 2 * width_s)


def _timeline(
    recordings: Mapping[str, Recorded],
    *,
    host: str,
    clocked: bool,
    day: date | None,
    zone: str,
    collections: Mapping[str, Collection],
) -> Timeline:
    """A timeline, its times counted from midnight of its own first day."""
    collected = [collections[name] for name in recordings if name in collections]
    days = int(extent_s(recordings.values())[0] // DAY_S) if clocked and day is not None else 0
    if days > 0 and day is not None:
        recordings = {
            name: _from(recording, -days * DAY_S, clocked=recording.clocked)
            for name, recording in recordings.items()
        }
        day += timedelta(days=days)
    return Timeline(
        recordings=recordings,
        clocked=clocked,
        host=host,
        first_day=day,
        zone=zone,
        collection=collected[0] if collected else None,
    )


def _overlap(first: Timeline, second: Timeline) -> bool:
    """Whether two timelines have a time in common."""
    days = 0 if first.first_day is None or second.first_day is None else (second.first_day - first.first_day).days
    (begin, end), (other_begin, other_end) = first.extent_s, second.extent_s
    return begin < other_end + DAY_S * days and other_begin + DAY_S * days < end


def _apart_notes(timelines: Sequence[Timeline]) -> Iterator[str]:
    """Say of timelines why they are apart."""
    hosts = sorted({timeline.host for timeline in timelines} - {""})
    if len(hosts) > 1:
        yield f"these are {len(hosts)} hosts, explained each for itself: {', '.join(hosts)} (--host takes one)"
    for host in hosts or [""]:
        clocked = [timeline for timeline in timelines if timeline.clocked and timeline.host in (host, "")]
        if len(clocked) > 1 and not any(_overlap(first, second) for first, second in combinations(clocked, 2)):
            stretches = "; ".join(
                f"{', '.join(timeline.recordings)} from {moment_text(timeline.extent_s[0], timeline.first_day)} to"
                f" {moment_text(timeline.extent_s[1], timeline.first_day)}"
                for timeline in clocked
            )
            yield f"these never meet, so nothing of one is put beside the other: {stretches}"
    if len(timelines) > 1 and any(not timeline.clocked for timeline in timelines):
        names = ", ".join(name for timeline in timelines if not timeline.clocked for name in timeline.recordings)
        yield (
            f"no clock is common to the files, each is explained for itself: {names} without times of day (--align"
            " takes files to begin together)"
        )
