"""pt-diskstats' text, with or without time stamps. Source: pt-diskstats(1) of Percona Toolkit 3.

Its rd_rt and wr_rt are a request's time, counted before requests are merged: the time of all operations over
operations and merges. iostat's r_await is over operations. rd_mrg tells the one from the other.
"""

from __future__ import annotations

from volbench.results.recorded.parsed import DayClock, Recorded, SeriesTable, first_lines, number, time_of_day

_COLUMNS = {
    "rd_s": ("reads_per_s", 1.0),
    "wr_s": ("writes_per_s", 1.0),
    "rd_mb_s": ("read_mib_per_s", 1.0),
    "wr_mb_s": ("write_mib_per_s", 1.0),
    "rd_rt": ("r_await_ms", 1.0),
    "wr_rt": ("w_await_ms", 1.0),
    "in_prg": ("in_flight", 1.0),
    "busy": ("util_ratio", 0.01),
}
_RATE_OF = {"rd_rt": "rd_s", "wr_rt": "wr_s"}
_MERGED = {"rd_rt": "rd_mrg", "wr_rt": "wr_mrg"}
"""Percent of requests that were merged into another's operation."""
_MERGED_MAX = 0.99


def looks_like_pt_diskstats(text: str) -> bool:
    """Whether a file has its heading."""
    return any(_is_heading(line.split()) for line in first_lines(text, 200))


def parse_pt_diskstats(text: str) -> Recorded:
    """Series of a text. A response time without an operation is printed as 0 and not known."""
    table, clock = SeriesTable(), DayClock()
    columns: list[str] = []
    clocked = False
    for line in text.splitlines():
        fields = line.split()
        if _is_heading(fields):
            columns = [heading.lstrip("#") for heading in fields]
        elif columns and len(fields) == len(columns):
            cells = dict(zip(columns, fields, strict=True))
            t_s, is_clock = _time_s(cells["ts"], clock)
            clocked = clocked or is_clock
            if t_s is not None:
                _sample(table, t_s, cells)
    per_request = "pt-diskstats' times are of requests before merging: taken as of operations by its rd_mrg, wr_mrg"
    no_clock = "pt-diskstats counts from its first sample: it has no time of day"
    notes = (per_request,) if clocked else (per_request, no_clock)
    return Recorded(series=table.series(), clocked=clocked, notes=notes)


def _is_heading(headings: list[str]) -> bool:
    return bool(headings) and headings[0] == "#ts" and {"device", "rd_s", "wr_s", "busy"} <= set(headings)


def _time_s(text: str, clock: DayClock) -> tuple[float | None, bool]:
    """Seconds since the first sample, or of the day with --show-timestamps; and which of the two."""
    seconds = number(text)
    if seconds is not None:
        return seconds, False
    stamp = time_of_day(text)
    return (None, False) if stamp is None else (clock.at(stamp[0]), True)


def _sample(table: SeriesTable, t_s: float, cells: dict[str, str]) -> None:
    concurrency = [number(cells[name]) for name in ("rd_cnc", "wr_cnc") if name in cells]
    depths = [depth for depth in concurrency if depth is not None]
    table.add(t_s, "diskstats", "aqu_sz", cells["device"], sum(depths) if len(depths) == 2 else None)
    for name, (metric, scale) in _COLUMNS.items():
        value = number(cells[name].rstrip("%")) if name in cells else None
        rate = _RATE_OF.get(name)
        if rate is not None and not (number(cells.get(rate, "")) or 0) > 0:
            value = None
        if name in _MERGED and value is not None:
            value = _of_an_operation(value, cells.get(_MERGED[name], ""))
        table.add(t_s, "diskstats", metric, cells["device"], None if value is None else value * scale)


def _of_an_operation(request_ms: float, merged: str) -> float | None:
    """A request's time as that of an operation; None where nearly all were merged, or it is not told how many."""
    percent = number(merged.rstrip("%"))
    if percent is None or percent / 100 > _MERGED_MAX:
        return None
    return request_ms / (1 - percent / 100)
