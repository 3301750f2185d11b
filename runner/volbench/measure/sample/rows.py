"""After the cell: raw readings become rows of series.parquet and histograms.parquet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from volbench.core.records.layout import base_source
from volbench.core.records.series import LATENESS, HistogramRow, SeriesRow
from volbench.errors import RunUnreadable
from volbench.measure.sample.change import Change
from volbench.measure.sample.device.emulator import EmulatorSampler
from volbench.measure.sample.interface import Reading
from volbench.measure.sample.parsers.emulator import BINS_PER_OCTAVE, LATENESS_BIN
from volbench.measure.sample.raw import RawTick, read_raw
from volbench.measure.sample.server.performance_schema import GENERATION, STATEMENT_BUCKET, PerformanceSchemaSampler
from volbench.measure.sample.sources import SAMPLERS

SERVER_EDGE_MULT = 50 / math.log(10)
SERVER_EDGE_DEDUCT = math.log(0.01)
"""Edges of the server's bins: each is 10^(1/50) times the one before. Bucket 0 of performance_schema holds what
took less than 10 us, so bucket i + 1 is bin i."""
_BUCKET_BELOW, _BUCKET_ABOVE = 0, 449
LATENESS_EDGE_MULT = BINS_PER_OCTAVE / math.log(2)
LATENESS_EDGE_DEDUCT = math.log(1e-3)
"""Edges of the emulator's bins: bin i begins at 2^(i / 4) us, and bin 0, which begins at 0, is what is below."""


def series_rows(raw_file: Path) -> Iterator[SeriesRow]:
    """Yield rows of all sources, each source in order of time.

    A row is about the time since the source's previous reading: after missed ticks that is longer than the
    interval. Raises RunUnreadable.
    """
    for source, before, after in _pairs(raw_file):
        base, component = base_source(source)
        rates = SAMPLERS[base].rates(before, after)
        yield from (replace(row, source=source) for row in rates) if component else rates


def histogram_rows(raw_file: Path) -> Iterator[HistogramRow]:
    """Yield statement latencies, and the lateness of an emulated volume's operations, of each interval.

    None where the server or the volume keeps no histograms. `step` is left empty. Raises RunUnreadable.
    """
    for source, before, after in _pairs(raw_file):
        if source == PerformanceSchemaSampler.source:
            row = histogram_of(before, after)
            if row is not None:
                yield row
        elif source == EmulatorSampler.source:
            yield from lateness_of(before, after)


def lateness_of(before: Reading, after: Reading) -> Iterator[HistogramRow]:
    """Yield each kind of operation of an emulated volume that ended in the interval, by its lateness."""
    change = Change(source=EmulatorSampler.source, before=before, after=after)
    if not change.usable or change.grown("uptime_s") is None:
        return
    kinds = {entity.rpartition(" ")[0] for name, entity in after.values if name == LATENESS_BIN}
    for kind in sorted(kinds):
        earlier, later = (_bins(reading.values, LATENESS_BIN, f"{kind} ") for reading in (before, after))
        bins = {number: int(count - earlier.get(number, 0)) for number, count in later.items()}
        inside = {number: count for number, count in sorted(bins.items()) if number and count}
        if min(bins.values()) >= 0 and any(bins.values()):
            yield HistogramRow(
                t_s=after.t_s,
                interval_s=change.dt_s,
                step="",
                source=f"{LATENESS} {kind}",
                events=sum(bins.values()),
                errors=0,
                edge_mult=LATENESS_EDGE_MULT,
                edge_deduct=LATENESS_EDGE_DEDUCT,
                bin=tuple(inside),
                count=tuple(inside.values()),
                below=bins.get(0, 0),
            )


def _pairs(raw_file: Path) -> Iterator[tuple[str, Reading, Reading]]:
    """Yield each source's readings, two and two."""
    last: dict[str, Reading] = {}
    for record in read_raw(raw_file):
        if not isinstance(record, RawTick):
            continue
        for source, reading in record.read.items():
            before = last.get(source)
            last[source] = reading
            if before is not None and base_source(source)[0] in SAMPLERS:
                yield source, before, reading


def histogram_of(before: Reading, after: Reading) -> HistogramRow | None:
    """Return the interval's statements by bin, of two readings of performance_schema.

    None without histograms, and when they began anew.
    """
    if before.values.get(GENERATION) != after.values.get(GENERATION):
        return None
    earlier, later = (_bins(reading.values, STATEMENT_BUCKET) for reading in (before, after))
    if not later and not earlier:
        return None
    grown = {number: count - earlier.get(number, 0) for number, count in sorted(later.items())}
    if min(grown.values(), default=0) < 0 or earlier.keys() - later.keys():
        return None
    inside = {n - 1: c for n, c in grown.items() if c and n not in (_BUCKET_BELOW, _BUCKET_ABOVE)}
    errors = after.values.get(("statement_errors", ""), 0) - before.values.get(("statement_errors", ""), 0)
    return HistogramRow(
        t_s=after.t_s,
        interval_s=after.t_s - before.t_s,
        step="",
        source="server",
        events=int(sum(grown.values())),
        errors=max(0, int(errors)),
        edge_mult=SERVER_EDGE_MULT,
        edge_deduct=SERVER_EDGE_DEDUCT,
        bin=tuple(inside),
        count=tuple(int(count) for count in inside.values()),
        below=int(grown.get(_BUCKET_BELOW, 0)),
        above=int(grown.get(_BUCKET_ABOVE, 0)),
    )


def _bins(values: Mapping[tuple[str, str], float], counter: str, prefix: str = "") -> dict[int, float]:
    """Return counts by bin, whose number ends the entity. Raise RunUnreadable where it is no number."""
    counts = {
        entity.removeprefix(prefix): count
        for (name, entity), count in values.items()
        if name == counter and entity.startswith(prefix)
    }
    try:
        return {int(entity): count for entity, count in counts.items()}
    except ValueError as error:
        raise RunUnreadable("the samples are damaged", where="samples", evidence=f"a bin: {error}") from error
