"""All records of a ring, for tests."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.measure.sample.raw import End, Header, SourcePresence, Tick, read_raw
from volbench.observe.ring import Segment


def records_of(segments: list[Segment]) -> Iterator[Header | SourcePresence | Tick | End]:
    """All records in order of time. Raises RunUnreadable for a damaged segment; an empty one has none."""
    for segment in segments:
        if segment.path.stat().st_size:
            yield from read_raw(segment.path)
