"""What was recorded elsewhere while a run went on, put on the clock of each of its cells."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from volbench.core.base import safe_files
from volbench.core.base.parse import parse_json
from volbench.core.records.cell import CellResult
from volbench.errors import UsageError
from volbench.results.recorded.cloudwatch import looks_like_cloudwatch, parse_answers
from volbench.results.recorded.cloudwatch_live import SCHEME, fetch
from volbench.results.recorded.nvme_log import looks_like_nvme_log, parse_nvme_log
from volbench.results.stats.grid import interval_s
from volbench.results.store.added import write_added
from volbench.results.store.run_directory import RunDirectory
from volbench.results.store.series import Series, SeriesKey

SeriesByKey = dict[SeriesKey, Series]
CLOCK_STEP_MAX_S = 1.0
TIMES_ARE_UTC = "the times of the file are taken as UTC where they name no zone"
PERIOD_S = 60.0
"""What a single point is about: CloudWatch's usual period."""


@dataclass(frozen=True, kw_only=True)
class Added:
    """What was kept: samples by cell, and what a reader must know."""

    kind: str
    samples: dict[str, int]
    notes: tuple[str, ...]


def add_recorded(directory: RunDirectory, source: str, *, volume: str) -> Added:
    """Keep what `source` tells of a volume beside the samples of its cells.

    Args:
        source: a file (CloudWatch's JSON, a log of NVMe counters), or `cloudwatch:NAME` to be asked live.
        volume: the run's volume that it is about.

    Raises UsageError for a source that cannot be read, an unknown volume, or one that tells of other times.
    """
    names = [declared.name for declared in directory.run.volumes]
    if volume not in names:
        raise UsageError(f"the run has no volume {volume!r}", next_step=f"--volume {' or '.join(names)}")
    of_volume = {cell.cell_id for cell in directory.run.cells if cell.volume == volume}
    cells = [result for result in directory.results() if result.cell_id in of_volume]
    if not cells:
        raise UsageError(f"no cell of volume {volume} has a result", where=str(directory.path))
    kind, series, notes = read_recorded(source, begin_s=_begin(cells), end_s=_end(cells))
    samples = {}
    for cell in cells:
        of_cell = on_clock(series, zero_epoch_s=_zero(cell), length_s=cell.wall_s)
        if of_cell:
            samples[cell.cell_id] = write_added(directory.cell_dir(cell.cell_id), kind, of_cell)
    if not samples:
        raise UsageError(
            "it tells of other times than the run",
            where=source,
            evidence=f"it has {span_text(series)}; the run's from {_moment(_begin(cells))}"
            f" to {_moment(_end(cells))}",
            next_step=TIMES_ARE_UTC,
        )
    stepped = [cell.cell_id for cell in cells if abs(cell.clock_step_s) > CLOCK_STEP_MAX_S]
    if stepped:
        notes = (*notes, f"the wall clock was set during {', '.join(stepped)}: times there are off by as much")
    return Added(kind=kind, samples=samples, notes=notes)


def read_recorded(source: str, *, begin_s: float, end_s: float) -> tuple[str, SeriesByKey, tuple[str, ...]]:
    """Return what a volume's own side tells: its kind, its series with times since the epoch, and notes.

    Args:
        source: a file (CloudWatch's JSON, a log of NVMe counters), or `cloudwatch:NAME` to be asked live.
        begin_s, end_s: what is asked for live, seconds since the epoch.

    Raises UsageError for a source that cannot be read.
    """
    if source.startswith(SCHEME):
        window = (datetime.fromtimestamp(begin_s, tz=UTC), datetime.fromtimestamp(end_s + PERIOD_S, tz=UTC))
        return "cloudwatch", *parse_answers(fetch(source, window=window))
    path = Path(source)
    try:
        text = safe_files.read_given(path).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError("the file cannot be read", where=source, evidence=str(error)) from error
    try:
        if looks_like_cloudwatch(text):
            return "cloudwatch", *parse_answers(parse_json(text))
        if looks_like_nvme_log(text):
            return "ebs_nvme", parse_nvme_log(text), ()
    except (ValueError, KeyError) as error:
        raise UsageError("the file cannot be used", where=source, evidence=str(error)) from error
    raise UsageError(
        "neither CloudWatch's JSON nor a log of NVMe counters",
        where=source,
        next_step="give what `aws cloudwatch get-metric-data` wrote, or lines of `nvme amzn stats -o json` with a "
        "timestamp",
    )


def on_clock(series_by_key: SeriesByKey, *, zero_epoch_s: float, length_s: float) -> SeriesByKey:
    """Return the samples that are about the `length_s` seconds after a zero, in seconds since it."""
    series_within = {}
    for key, series in series_by_key.items():
        shifted = series.shifted(-zero_epoch_s)
        period_s = interval_s(shifted.t_s) or PERIOD_S
        within = (shifted.t_s > 0) & (shifted.t_s - period_s < length_s)
        if within.any():
            series_within[key] = shifted.where(within)
    return series_within


def _zero(cell: CellResult) -> float:
    return datetime.fromisoformat(cell.zero_utc).timestamp()


def _begin(cells: list[CellResult]) -> float:
    return min(_zero(cell) for cell in cells)


def _end(cells: list[CellResult]) -> float:
    return max(_zero(cell) + cell.wall_s for cell in cells)


def span_text(series_by_key: SeriesByKey) -> str:
    """Return from when to when a source has points."""
    if not series_by_key:
        return "no points"
    first, last = (
        pick(float(series.t_s[at]) for series in series_by_key.values()) for pick, at in ((min, 0), (max, -1))
    )
    return f"points from {_moment(first)} to {_moment(last)}"


def _moment(epoch_s: float) -> str:
    """Return a time of day in UTC; seconds since 1970 for one that no calendar has."""
    try:
        moment = datetime.fromtimestamp(epoch_s, tz=UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{epoch_s:,.0f} s since 1970"
