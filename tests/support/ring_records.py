"""All records of a ring, for tests."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.measure.sample.raw import End, Header, RawTick, SourcePresence, read_raw
from volbench.observe.ring import RingSegment


def records_of(segments: list[RingSegment]) -> Iterator[Header | SourcePresence | RawTick | End]:
    """All records in order of time. Raises RunUnreadable for a damaged segment; an empty one has none."""
    for segment in segments:
        if segment.path.stat().st_size:
            yield from read_raw(segment.path)
