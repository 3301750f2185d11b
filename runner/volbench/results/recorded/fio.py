"""fio's JSON: what a test of the volume gave. It is no recording of a load, and says what the volume can do.

Source: fio 3, stat.c (show_thread_status_json).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from volbench.core.base.parse import parse_json
from volbench.core.base.text import number
from volbench.results.recorded.parsed import Recorded

_DIRECTIONS = ("read", "write")


def looks_like_fio(text: str) -> bool:
    """Whether a file is fio's JSON."""
    return '"fio version"' in text[:20_000] and "{" in text[:20_000]


def parse_fio(text: str) -> Recorded:
    """Raise ValueError with the figures of a test: they are no recording, and its own load is not the server's."""
    start = text.index("{")  # fio prints warnings before it
    jobs = parse_json(text[start : text.rindex("}") + 1]).get("jobs")
    if not isinstance(jobs, list):
        raise ValueError("it has no jobs")
    figures = "; ".join(line for job in jobs if isinstance(job, Mapping) for line in _figures(job))
    raise ValueError(
        f"fio's result is a test of the volume and no recording of a load ({figures or 'no operation in it'});"
        " `volbench run` makes such a test itself: give what iostat recorded under the load"
    )


def _figures(job: Mapping[str, Any]) -> Iterator[str]:
    for direction in _DIRECTIONS:
        of_direction = job.get(direction)
        rate = of_direction.get("iops") if isinstance(of_direction, Mapping) else None
        if isinstance(rate, int | float) and rate > 0 and isinstance(of_direction, Mapping):
            latency = of_direction.get("lat_ns")
            mean_ns = latency.get("mean") if isinstance(latency, Mapping) else None
            wait = f", {number(mean_ns / 1e6)} ms" if isinstance(mean_ns, int | float) else ""
            yield f"{job.get('jobname', 'a job')}: {rate:,.0f} {direction}s/s{wait}"
