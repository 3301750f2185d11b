"""After the cell: raw readings become rows of series.parquet and histograms.parquet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from volbench.core.records.layout import base_source
from volbench.core.records.series import HistogramRow, SeriesRow
from volbench.errors import RunUnreadable
from volbench.measure.sample.interface import Reading
from volbench.measure.sample.raw import Tick, read_raw
from volbench.measure.sample.server.performance_schema import GENERATION, STATEMENT_BUCKET, PerformanceSchema
from volbench.measure.sample.sources import SAMPLERS

SERVER_EDGE_MULT = 50 / math.log(10)
SERVER_EDGE_DEDUCT = math.log(0.01)
"""Edges of the server's bins: each is 10^(1/50) times the one before. Bucket 0 of performance_schema holds what
took less than 10 us, so bucket i + 1 is bin i."""
_BUCKET_BELOW, _BUCKET_ABOVE = 0, 449


def series_rows(raw_file: Path) -> Iterator[SeriesRow]:
    """Rows of all sources, each source in order of time.

    A row is about the time since the source's previous reading: after missed ticks that is longer than the
    interval. Raises RunUnreadable.
    """
    for source, before, after in _pairs(raw_file):
        base, component = base_source(source)
        rates = SAMPLERS[base].rates(before, after)
        yield from (replace(row, source=source) for row in rates) if component else rates


def server_histogram_rows(raw_file: Path) -> Iterator[HistogramRow]:
    """Statement latencies of each interval; none where the server keeps no histograms. `step` is left empty.

    Raises RunUnreadable.
    """
    for source, before, after in _pairs(raw_file):
        if source == PerformanceSchema.source:
            row = histogram_of(before, after)
            if row is not None:
                yield row


def _pairs(raw_file: Path) -> Iterator[tuple[str, Reading, Reading]]:
    """Each source's readings, two and two."""
    last: dict[str, Reading] = {}
    for record in read_raw(raw_file):
        if not isinstance(record, Tick):
            continue
        for source, reading in record.read.items():
            before = last.get(source)
            last[source] = reading
            if before is not None and base_source(source)[0] in SAMPLERS:
                yield source, before, reading


def histogram_of(before: Reading, after: Reading) -> HistogramRow | None:
    """The interval's statements by bin, of two readings of performance_schema.

    None without histograms, and when they began anew.
    """
    if before.values.get(GENERATION) != after.values.get(GENERATION):
        return None
    earlier, later = _buckets(before.values), _buckets(after.values)
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


def _buckets(values: Mapping[tuple[str, str], float]) -> dict[int, float]:
    """Return counts by bucket. Raise RunUnreadable for a bucket that is no number: the file is damaged."""
    counts = {entity: count for (name, entity), count in values.items() if name == STATEMENT_BUCKET}
    try:
        return {int(entity): count for entity, count in counts.items()}
    except ValueError as error:
        raise RunUnreadable("the samples are damaged", where="samples", evidence=f"a bucket: {error}") from error
