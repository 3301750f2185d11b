"""The table of files: what each is, of which host and devices, from when to when, and whether it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from volbench.core.base.text import time_of_day
from volbench.results.recorded.files import RecordedFile
from volbench.results.recorded.parsed import DAY_S, Recorded
from volbench.results.recorded.pt_stalk import Collection
from volbench.results.recorded.window import clock_text

_DEVICES = frozenset({"reads_per_s", "writes_per_s", "operations_per_s"})


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Recordings that belong together, by the names of their files, on one clock.

    `clocked`: `t_s` counts from midnight of `first_day` (None: no file tells it), else from the first line.
    `zone`: of the times of day, empty: the hosts' own.
    """

    recordings: Mapping[str, Recorded]
    clocked: bool
    host: str = ""
    first_day: date | None = None
    zone: str = ""
    collection: Collection | None = None

    @property
    def extent_s(self) -> tuple[float, float]:
        """First and last moment."""
        return extent_s(self.recordings.values())


@dataclass(frozen=True, kw_only=True)
class FileRow:
    """A line of the table of files: what a file is, of which host and devices, from when to when, and its use.

    `begin`, `end`: date and time of day, or seconds from the first line. `zone` as far as it is known. `why_not` is
    empty where the file is used.
    """

    file: str
    kind: str
    host: str = ""
    devices: tuple[str, ...] = ()
    begin: str = ""
    end: str = ""
    zone: str = ""
    points: int = 0
    used: bool = False
    why_not: str = ""


def extent_s(recordings: Iterable[Recorded]) -> tuple[float, float]:
    """First and last time of recordings."""
    times = [samples.t_s for recorded in recordings for samples in recorded.series.values() if len(samples.t_s)]
    return min(float(t_s[0]) for t_s in times), max(float(t_s[-1]) for t_s in times)


def pieces_of(file: RecordedFile) -> Iterator[tuple[str, Recorded]]:
    """Yield a file's recordings, by the file's name, with host and day where it has several, numbered where these
    are the same.
    """
    if len(file.recordings) == 1:
        yield file.name, file.recordings[0]
        return
    members = [_member(file.name, recorded) for recorded in file.recordings]
    for at, (member, recorded) in enumerate(zip(members, file.recordings, strict=True)):
        number = f", recording {members[:at].count(member) + 1}" if members.count(member) > 1 else ""
        yield f"{member}{number}", recorded


def _member(name: str, recorded: Recorded) -> str:
    day = recorded.dates[0].isoformat() if recorded.dates else ""
    return " ".join(timeline for timeline in (name, recorded.host and f"({recorded.host})", day) if timeline)


def file_rows(file: RecordedFile, timelines: Sequence[Timeline], why_not: Mapping[str, str]) -> Iterator[FileRow]:
    """Yield a file's lines of the table."""
    names = dict(pieces_of(file))
    if not names:
        reason = "" if file.of_collection and not file.why_not else file.why_not
        yield FileRow(file=file.name, kind=file.kind, used=not reason, why_not=reason)
    for name, original in names.items():
        timeline = next((timeline for timeline in timelines if name in timeline.recordings), None)
        recorded = original if timeline is None else timeline.recordings[name]
        begin, end = extent_s([recorded])
        day = timeline.first_day if timeline is not None else (recorded.dates[0] if recorded.dates else None)
        clocked = recorded.clocked
        zone = timeline.zone if timeline is not None else ""
        stated = "UTC" if recorded.midnight_epoch_s is not None and not zone else zone
        yield FileRow(
            file=name,
            kind=file.kind,
            host=recorded.host,
            devices=_devices(recorded),
            begin=moment_text(begin, day) if clocked else "0 s",
            end=moment_text(end, day) if clocked else _length(recorded, end),
            zone=(stated or ("not stated" if file.kind == "cloudwatch" else "the host's own"))
            if clocked
            else "no clock",
            points=max(len(samples.t_s) for samples in recorded.series.values()),
            used=timeline is not None,
            why_not="" if timeline is not None else why_not.get(name, "not of what was chosen"),
        )


def _length(recorded: Recorded, end: float) -> str:
    return f"{end:g} s" if recorded.interval_known else f"{end:g} intervals"


def _devices(recorded: Recorded) -> tuple[str, ...]:
    """Names of the devices and volumes that a recording has operations of."""
    return tuple(sorted({key.entity for key in recorded.series if key.metric in _DEVICES} - {""}))


def moment_text(t_s: float, day: date | None) -> str:
    """Seconds since midnight of a day as a date and a time of day; without a date where it is not known."""
    if day is None:
        return clock_text(t_s)
    days, of_day = divmod(round(t_s), int(DAY_S))
    try:
        return f"{day + timedelta(days=days)} {time_of_day(of_day)}"
    except OverflowError:
        return time_of_day(of_day)
