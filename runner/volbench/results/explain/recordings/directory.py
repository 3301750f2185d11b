"""A directory of what other tools recorded, explained timeline by timeline: which files, and what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from volbench.core.records.report import FindingRow
from volbench.errors import UsageError
from volbench.results.explain.evidence.episodes import Episode, FigureChange
from volbench.results.explain.evidence.instance_figures import check_instance
from volbench.results.explain.recordings.sweep import SweepExplanation, explain_sweep, without_exceeded
from volbench.results.explain.recordings.timeline import TimelineExplanation, devices, explain_timeline
from volbench.results.recorded.files import RecordedFile, read_files, unreadable
from volbench.results.recorded.formats import ACCEPTED
from volbench.results.recorded.parsed import Recorded
from volbench.results.recorded.slow_log import COMMANDS
from volbench.results.recorded.sweeps import sweeps_of
from volbench.results.recorded.table import FileRow, Timeline
from volbench.results.recorded.timelines import Choice, sort_files
from volbench.results.recorded.window import DayWindow


@dataclass(frozen=True, kw_only=True)
class RecordedExplanation:
    """The table of files, what each timeline of them tells, and `sorting`, the notes on what belongs together.

    `sweeps`: recordings of one host at several loads, which tell together what none of them can.
    """

    table: tuple[FileRow, ...]
    timelines: tuple[TimelineExplanation, ...]
    sorting: tuple[str, ...] = ()
    sweeps: tuple[SweepExplanation, ...] = ()

    @property
    def findings(self) -> tuple[FindingRow, ...]:
        """Those of all sweeps and timelines."""
        of_sweeps = (row for sweep in self.sweeps for row in sweep.findings)
        return (*of_sweeps, *(row for timeline in self.timelines for row in timeline.findings))

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of the sorting, and of all sweeps and timelines."""
        of_sweeps = [note for sweep in self.sweeps for note in sweep.notes]
        of_timelines = [note for timeline in self.timelines for note in timeline.notes]
        return tuple(dict.fromkeys([*self.sorting, *of_sweeps, *of_timelines]))

    @property
    def files(self) -> dict[str, str]:
        """The format of each file that is used."""
        return {row.file: row.kind for row in self.table if row.used}

    @property
    def clocked(self) -> bool:
        """Whether the first timeline has times of day."""
        return bool(self.timelines) and self.timelines[0].clocked

    @property
    def window_s(self) -> tuple[float, float] | None:
        """What was compared in the first timeline."""
        return self.timelines[0].window_s if self.timelines else None

    @property
    def episode(self) -> Episode | None:
        """The first timeline's."""
        return self.timelines[0].episode if self.timelines else None

    @property
    def levels(self) -> tuple[FigureChange, ...]:
        """The first timeline's."""
        return self.timelines[0].levels if self.timelines else ()


def explain_recorded(
    source: Path | Sequence[Path],
    *,
    device: str = "",
    window: DayWindow | None = None,
    zone: str = "",
    choice: Choice | None = None,
    interval_s: float | None = None,
) -> RecordedExplanation:
    """Findings from a directory of recordings, or from one file or several.

    What belongs together is explained together: `timelines.sort_files`.

    Args:
        source: a directory, a file, or several files.
        device: kernel name of the volume's device; empty: the one with the most operations.
        window: the part of the day to explain; None: all of it, or where nothing can be named in that, the episode
            in which the volume was worse than before.
        zone: time zone of the files that state none; empty: the one that fits CloudWatch's times.
        choice: of host, volume and day; None: all of them.
        interval_s: of samples without times; None: not known.

    Raises UsageError when nothing in it is known, or nothing of what was chosen.
    """
    sources = [source] if isinstance(source, Path) else list(source)
    choice = choice or Choice(device=device, zone=zone)
    check_instance(choice.instance)
    files = read_files(sources, interval_s)
    if not any(file.recordings for file in files):
        raise _unreadable(sources[0], files)
    sorted_files = sort_files(files, choice)
    timelines = _chosen(sorted_files.timelines, device, window)
    sweeps = _sweeps(timelines, choice) if window is None else ()
    explained = tuple(
        _of_sweeps(
            explain_timeline(
                timeline,
                name=_name(timeline, sources[0], only=len(sorted_files.timelines) == 1),
                device=device if device in devices(timeline) else "",
                volume=choice.volume,
                instance=choice.instance,
                window=window,
                companions=_logs_of_clients(timeline, timelines, sweeps),
            ),
            sweeps,
        )
        for timeline in timelines
    )
    return RecordedExplanation(
        table=sorted_files.rows, timelines=explained, sorting=sorted_files.notes, sweeps=sweeps
    )


def _sweeps(timelines: Sequence[Timeline], choice: Choice) -> tuple[SweepExplanation, ...]:
    recordings = {name: recording for timeline in timelines for name, recording in timeline.recordings.items()}
    return tuple(
        explain_sweep(sweep, device=choice.device, instance=choice.instance) for sweep in sweeps_of(recordings)
    )


def _of_sweeps(explained: TimelineExplanation, sweeps: Sequence[SweepExplanation]) -> TimelineExplanation:
    """A timeline's explanation without what its sweep refutes."""
    findings, notes = without_exceeded(explained.findings, explained.timeline.recordings, sweeps)
    return replace(explained, findings=findings, notes=(*notes, *explained.notes)) if notes else explained


def _logs_of_clients(
    timeline: Timeline, timelines: Sequence[Timeline], sweeps: Sequence[SweepExplanation]
) -> list[Recorded]:
    """What may tell the number of a recording's clients: the log of its own run where it is one of a sweep."""
    members = [
        member for explained in sweeps for member in explained.sweep.members if member.name in timeline.recordings
    ]
    if members:
        return [member.log for member in members if member.log is not None]
    return [explained for rival in timelines if rival is not timeline for explained in rival.recordings.values()]


def _chosen(timelines: Sequence[Timeline], device: str, window: DayWindow | None) -> list[Timeline]:
    """The timelines that have the device and the window, where these are given. Raises UsageError when none has."""
    chosen = list(timelines)
    if device:
        chosen = [timeline for timeline in timelines if device in devices(timeline) or not devices(timeline)]
        if not any(devices(timeline) for timeline in chosen):
            present = sorted({name for timeline in timelines for name in devices(timeline)})
            raise UsageError(f"the recording has no device {device!r}", evidence=f"devices: {', '.join(present)}")
    if window is None:
        return chosen
    clocked = [timeline for timeline in chosen if timeline.clocked]
    if not clocked:
        raise UsageError("a window of the day needs recordings with times of day", where=f"--window {window.text}")
    with_it = [timeline for timeline in clocked if _has(timeline, window)]
    return with_it or clocked[:1]  # whose explanation says what it has


def _has(timeline: Timeline, window: DayWindow) -> bool:
    try:
        window.within(*timeline.extent_s)
    except UsageError:
        return False
    return True


def _name(timeline: Timeline, source: Path, *, only: bool) -> str:
    return source.name if only else ", ".join(timeline.recordings)


def _unreadable(source: Path, files: Sequence[RecordedFile]) -> UsageError:
    if files and all(file.slow_log for file in files):
        return UsageError(
            "a slow query log is no recording of a volume or a host",
            where=str(source),
            evidence=", ".join(file.name for file in files),
            next_step=f"give text of sar, iostat -x or pt-stalk; {COMMANDS}",
        )
    return unreadable(source, files, "nothing here that can be read", f"give a directory with {ACCEPTED}")
