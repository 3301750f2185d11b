"""Texts that another program passed on line by line: with times before the lines, quoted, numbered, after a name.

Such are `ts` of moreutils, `kubectl logs --timestamps` and `--prefix`, `docker logs -t`, Docker's json-file log,
logs of Compose, a mail's quotes and empty lines, and `cat -n`. What was put before the lines is taken off;
times of lines give a text a clock that has none of its own.
Source: ts(1) of moreutils 0.67; Kubernetes, kubectl logs; strftime of `ts FORMAT`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TypeVar

import numpy as np

from volbench.core.base.parse import EPOCH_MAX_S, parse_json
from volbench.results.recorded.parsed import DAY_S, Recorded, banner

_Value = TypeVar("_Value")
_SHARE_MIN = 0.9
"""Part of the lines that must have what is taken off: a cut may begin within a line."""
_LINES_MIN = 3
_DOUBLED_MIN = 10
_LOOKED_AT = 400
_ISO = re.compile(
    r"\[?(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,]\d+)?(?P<zone>Z|[+-]\d\d:?\d\d)?\]?:?(?:[ \t]|$)"
)
_SYSLOG = re.compile(r"\[?(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<time>\d\d:\d\d:\d\d)(?:\.\d+)?\]?(?: |$)")
_EPOCH = re.compile(r"(?P<epoch>\d{10})(?:\.\d+)?(?: |$)")
_CLOCK = re.compile(r"\[?(?P<time>\d\d:\d\d:\d\d)(?:\.\d+)?\]?(?: |$)")
_OF_A_LOAD = re.compile(r"^\[?\d\d:\d\d:\d\d(?:\.\d+)?\]? \[ *\d+(?:\.\d+)?s ?\]", re.MULTILINE)
_TAG = re.compile(r"(?P<host>[^\s:\[\]]+) [\w./-]+(?:\[\d+\])?:(?: |$)")
_TAG_ALONE = re.compile(r"[\w./-]+\[\d+\]:(?: |$)")
_POD = re.compile(r"\[pod/[\w./-]+\] ?")
_STREAM = re.compile(r"(?:stdout|stderr) [FP](?: |$)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_YEARS = 1970, 9000
_NO_YEAR = 2000
"""Stands for a year that is not told: a leap year."""
_QUOTE = re.compile(r"> ?")
_NUMBER = re.compile(r"\s*(\d+)[\t:] ?")
_NAME = re.compile(r"([\w.-]+) +\| ?")
_LOAD_MAX_S = 366 * DAY_S
_ELAPSED_S = 5.0
"""How far the time of `ts -s` may lie from the load's own seconds."""


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """When a line was passed on: `moment` in UTC where `zoned`, else in a local time; `dated` says whether its day
    and year are told.
    """

    moment: datetime
    zoned: bool = False
    dated: bool = True


@dataclass(frozen=True, kw_only=True)
class PassedOn:
    """A text without what was put before its lines, and the time of each line; no times: `stamps` is empty.

    `host`: as the lines tell it (journald).
    """

    text: str
    stamps: tuple[Stamp | None, ...] = ()
    host: str = ""


def passed_on(text: str) -> PassedOn:
    """Return a text as the first program printed it, and when each of its lines came."""
    lines = original = text.splitlines()
    for taken_off in (_of_containers, _doubled, _quoted, _numbered, _named, _of_pods):
        lines = taken_off(lines)
    for read in (_iso, _syslog, _epoch, _clock):
        if (ends := _ends_of_most(lines, read)) is None:
            continue
        if read is _clock and _OF_A_LOAD.search(text) is None:
            continue  # a time of day alone may as well be the tool's own, as sar and collectl have it
        texts = [line if end is None else line[end[0] :] for line, end in zip(lines, ends, strict=True)]
        texts = _without(texts, _STREAM)
        tags = {matched["host"] for line in texts if (matched := _TAG.match(line))}
        host = tags.pop() if len(tags) == 1 else ""
        return PassedOn(
            text="\n".join(_without(texts, _TAG if host else _TAG_ALONE)),
            stamps=tuple(None if end is None else end[1] for end in ends),
            host=host,
        )
    return PassedOn(text=text if lines is original else "\n".join(lines))


def _ends_of_most(lines: Sequence[str], read: Callable[[str], _Value | None]) -> list[_Value | None] | None:
    """Return what `read` finds in each line; None as soon as too many lines that are not empty have nothing."""
    if len(lines) > _LOOKED_AT and _is_rare(lines, read):
        return None
    ends: list[_Value | None] = []
    filled = missed = 0
    for line in lines:
        ends.append(read(line))
        if not line.strip():
            continue
        filled += 1
        if ends[-1] is None:
            missed += 1
            if len(lines) - missed < _SHARE_MIN * len(lines):
                return None
    return ends if filled >= _LINES_MIN and filled - missed >= _SHARE_MIN * filled else None


def _is_rare(lines: Sequence[str], read: Callable[[str], _Value | None]) -> bool:
    """Whether `read` finds nothing in half of some lines that are not empty: all of a large file are not tried."""
    drawn = (lines[number] for number in np.random.default_rng(1).integers(len(lines), size=_LOOKED_AT).tolist())
    hits = [read(line) is not None for line in drawn if line.strip()]
    return sum(hits) < len(hits) / 2


def _without(lines: list[str], prefix: re.Pattern[str]) -> list[str]:
    """The lines without a prefix that most of them have."""
    if _ends_of_most(lines, prefix.match) is None:
        return lines
    return [prefix.sub("", line, count=1) for line in lines]


def _of_containers(lines: list[str]) -> list[str]:
    """Lines of Docker's json-file log, each with its time before it."""
    if not lines or not lines[0].startswith('{"log":'):
        return lines
    entries = []
    for line in lines:
        try:
            entry = parse_json(line)
        except ValueError:
            continue  # the last one may be cut
        if isinstance(entry, dict):
            entries.append(f"{entry.get('time', '')} {str(entry.get('log', '')).rstrip()}")
    return entries


def _doubled(lines: list[str]) -> list[str]:
    """Without the empty lines between all lines, as some mail programs put them there."""
    if len(lines) < _DOUBLED_MIN or any(line.strip() for line in lines[1::2]):
        return lines
    return lines[::2]


def _of_pods(lines: list[str]) -> list[str]:
    """Without what `kubectl logs --prefix` puts before each line."""
    return _without(lines, _POD) if lines and _POD.match(lines[0]) else lines


def _quoted(lines: list[str]) -> list[str]:
    if _ends_of_most(lines, lambda line: line.startswith(">") or None) is None:
        return lines
    return [_QUOTE.sub("", line, count=1) if line.startswith(">") else line for line in lines]


def _numbered(lines: list[str]) -> list[str]:
    """Without numbers that count the lines (`cat -n`, `nl -ba`, `grep -n`)."""
    begin = [_NUMBER.match(line) for line in lines[:_LOOKED_AT]]
    numbers = [int(matched[1][:18]) for matched in begin if matched is not None]
    if len(numbers) < max(_LINES_MIN, _SHARE_MIN * len(lines[:_LOOKED_AT])):
        return lines
    if any(after - before != 1 for before, after in pairwise(numbers)):
        return lines
    matches = [_NUMBER.match(line) for line in lines]
    return [
        line if matched is None else line[matched.end() :] for line, matched in zip(lines, matches, strict=True)
    ]


def _named(lines: list[str]) -> list[str]:
    """Without the name of a container (`db-1  | `), where it is the same in all lines."""
    if any(_NAME.match(line) is None for line in lines if line.strip()):
        return lines
    matches = [_NAME.match(line) for line in lines if line.strip()]
    names = {matched[1] for matched in matches if matched is not None}
    if len(matches) < _LINES_MIN or len(names) != 1:
        return lines
    return [_NAME.sub("", line, count=1) for line in lines]


_Ended = tuple[int, Stamp]


def _iso(line: str) -> _Ended | None:
    matched = _ISO.match(line)
    if matched is None:
        return None
    try:
        moment = datetime.fromisoformat(matched["iso"] + (matched["zone"] or ""))
    except ValueError:
        return None
    if not _YEARS[0] <= moment.year < _YEARS[1]:
        return None
    if moment.tzinfo is None:
        return matched.end(), Stamp(moment=moment)
    return matched.end(), Stamp(moment=moment.astimezone(UTC).replace(tzinfo=None), zoned=True)


def _syslog(line: str) -> _Ended | None:
    matched = _SYSLOG.match(line)
    if matched is None or matched["month"] not in _MONTHS:
        return None
    try:
        day = date(_NO_YEAR, _MONTHS.index(matched["month"]) + 1, int(matched["day"]))
        moment = datetime.fromisoformat(f"{day.isoformat()}T{matched['time']}")
    except ValueError:
        return None
    return matched.end(), Stamp(moment=moment, dated=False)


def _epoch(line: str) -> _Ended | None:
    matched = _EPOCH.match(line)
    if matched is None:
        return None
    seconds = int(matched["epoch"])
    if not 0 <= seconds < EPOCH_MAX_S:
        return None
    return matched.end(), Stamp(moment=datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None), zoned=True)


def _clock(line: str) -> _Ended | None:
    """A time of day."""
    matched = _CLOCK.match(line)
    if matched is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{_NO_YEAR}-01-01T{matched['time']}")
    except ValueError:
        return None
    return matched.end(), Stamp(moment=moment, dated=False)


def with_times(text: PassedOn, *, begins: Callable[[str], bool], after: bool) -> str:
    """Return a text whose reports have the times of their lines, as the tool itself prints them on request.

    Args:
        text: of a tool whose samples have no times.
        begins: whether a report begins with a line.
        after: the time stands behind the line, as vmstat -t has it; else on a line before it, as iostat -t has it.
    """
    lines = []
    for line, stamp in zip(text.text.splitlines(), text.stamps, strict=False):
        is_stamped = stamp is not None and begins(line)
        if is_stamped and stamp is not None:
            moment = stamp.moment.replace(microsecond=0)
            lines += [f"{line} {moment}"] if after else [moment.isoformat(), line]
        else:
            lines.append(line)
    return "\n".join(lines)


def loads_of(
    text: PassedOn, told_s: Callable[[str], float | None] | None, begins_load: Callable[[str], bool]
) -> list[PassedOn]:
    """Return the parts of a text that the logs of several loads were appended to, one for each load.

    Args:
        text: of one load or more.
        told_s: seconds from a load's begin that a line tells; where they are again those of a load's first report,
            another load has begun; None: no line tells any.
        begins_load: whether a line is the first that the client prints, or the first after its last report.
    """
    lines = text.text.splitlines()
    starts, first_s = [0], None
    for at, line in enumerate(lines):
        t_s = None if told_s is None else told_s(line)
        if at and (begins_load(line) or (t_s is not None and first_s is not None and t_s <= first_s)):
            starts.append(at)
            first_s = None
        first_s = t_s if first_s is None else first_s
    if len(starts) < 2:
        return [text]
    return [
        replace(text, text="\n".join(lines[start:end]), stamps=text.stamps[start:end])
        for start, end in pairwise([*starts, len(lines)])
    ]


def of_stamps(recorded: Recorded, text: PassedOn) -> Recorded:
    """Return a recording that was read with its lines' times: of UTC where these say so, of the banner's date where
    they tell no year.
    """
    first = next((stamp for stamp in text.stamps if stamp is not None), None)
    if first is None or not recorded.clocked or not recorded.series:
        return recorded
    if not first.dated:
        return replace(recorded, dates=banner(text.text)[1])
    return _in_zone(replace(recorded, dates=(first.moment.date(),)), first)


def clocked_by(recorded: Recorded, text: PassedOn, told_s: Callable[[str], float | None]) -> Recorded:
    """Return a recording whose samples count from its begin on the clock of its lines.

    Args:
        recorded: without a clock.
        text: that it was read from.
        told_s: seconds from the begin that a line tells; None: nothing.
    """
    pairs = ((told_s(line), stamp) for line, stamp in zip(text.text.splitlines(), text.stamps, strict=False))
    first_stamp = next(((t_s, stamp) for t_s, stamp in pairs if t_s is not None and stamp is not None), None)
    if first_stamp is None or recorded.clocked or not recorded.series or not 0 <= first_stamp[0] < _LOAD_MAX_S:
        return recorded
    t_s, stamp = first_stamp
    of_day_s = (stamp.moment - datetime.combine(stamp.moment.date(), datetime.min.time())).total_seconds()
    if not stamp.dated and stamp.moment.year == _NO_YEAR and abs(of_day_s - t_s) <= _ELAPSED_S:
        return recorded  # `ts -s`: seconds since the begin, no time of day
    start = stamp.moment - timedelta(seconds=t_s)
    start_s = (start - datetime.combine(start.date(), datetime.min.time())).total_seconds()
    moved = replace(
        recorded.shifted(start_s),
        clocked=True,
        dates=(start.date(),) if stamp.dated else (),
        notes=tuple(note for note in recorded.notes if "time of day" not in note),
    )
    return _in_zone(moved, replace(stamp, moment=start))


def _in_zone(recorded: Recorded, stamp: Stamp) -> Recorded:
    """A recording in UTC, where the stamp is: its times count from that day's midnight."""
    if not stamp.zoned:
        return recorded
    midnight = datetime.combine(stamp.moment.date(), datetime.min.time(), tzinfo=UTC)
    return replace(recorded, midnight_epoch_s=midnight.timestamp() - midnight.timestamp() % DAY_S, dates=())
