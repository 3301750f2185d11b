"""Formats of recordings: how a text is recognised, what reads it, or what to give instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from volbench.results.recorded.cloudwatch import looks_like_cloudwatch, parse_cloudwatch
from volbench.results.recorded.iostat import looks_like_iostat, parse_iostat
from volbench.results.recorded.nvme_log import looks_like_nvme_log, parse_nvme_recording
from volbench.results.recorded.parsed import Recorded, banner, with_interval
from volbench.results.recorded.pt_diskstats import looks_like_pt_diskstats, parse_pt_diskstats
from volbench.results.recorded.sar import looks_like_sar, parse_sar
from volbench.results.recorded.sysbench import looks_like_sysbench, parse_sysbench

Readings = Recorded | Sequence[Recorded]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format by its name. `parse` returns a recording, or one for each host that the text tells of.

    It raises ValueError, KeyError or StopIteration for a damaged text.
    """

    name: str
    matches: Callable[[str], bool]
    parse: Callable[[str], Readings]


@dataclass(frozen=True, kw_only=True)
class Unread:
    """A format that is recognised and not read, and what to give instead."""

    name: str
    matches: Callable[[str], bool]
    instead: str


def _each_banner(parse: Callable[[str], Recorded], *, of_host: bool) -> Callable[[str], Readings]:
    """Return a reader of a text that several recordings were appended to, each with a banner of sysstat.

    Args:
        parse: reads one of them.
        of_host: whether it reads all of one host together.
    """

    def read(text: str) -> Readings:
        starts = [match.start() for match in _BANNER_LINE.finditer(text)]
        if len(starts) < 2:
            return parse(text)
        texts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
        if of_host:
            by_host: dict[str, list[str]] = {}
            for part in texts:
                by_host.setdefault(banner(part)[0], []).append(part)
            texts = ["".join(parts) for parts in by_host.values()]
        return [one for one in map(parse, texts) if one.series] or parse(text)

    return read


_BANNER_LINE = re.compile(r"^\S+ \S+ \([^)\n]*\)\s[^\n]*\(\d+ CPU\)", re.MULTILINE)
FORMATS = (
    Format(name="pt-diskstats", matches=looks_like_pt_diskstats, parse=parse_pt_diskstats),
    Format(name="cloudwatch", matches=looks_like_cloudwatch, parse=parse_cloudwatch),
    Format(name="nvme", matches=looks_like_nvme_log, parse=parse_nvme_recording),
    Format(name="iostat", matches=looks_like_iostat, parse=_each_banner(parse_iostat, of_host=False)),
    Format(name="sysbench", matches=looks_like_sysbench, parse=parse_sysbench),
    Format(name="sar", matches=looks_like_sar, parse=_each_banner(parse_sar, of_host=True)),
)
"""In this order: the first that matches reads a text."""


def _begins(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text: compiled.search(text[:_HEAD]) is not None


_HEAD = 20_000
_OF_HOST = "text of `iostat -xt 1` of the same hours"
_OF_SERVER = "SHOW ENGINE INNODB STATUS beside iostat"
_UNREAD = {
    "iotop": (r"Total DISK READ", _OF_HOST),
    "top": (r"^top - \d\d:\d\d:\d\d up ", _OF_HOST),
    "mpstat": (r"\bCPU +%usr +%nice +%sys", "text of `sar -u` beside `sar -d`"),
    "df": (r"^Filesystem .*Mounted on", _OF_HOST),
    "lsblk": (r"^NAME +MAJ:MIN ", _OF_HOST),
    "SHOW PROCESSLIST": (r"\| *Id *\| *User *\| *Host *\|", _OF_SERVER),
    "EXPLAIN of a statement": (r"\| *id *\| *select_type *\|", _OF_HOST),
    "pt-query-digest": (r"^# Overall: .* total, ", "the slow log itself, to `volbench capture`"),
    "an error log": (r"\[(?:Note|Warning|ERROR|System)\] (?:\[MY-|InnoDB)", _OF_SERVER),
    "a dump": (r"^-- (?:MySQL|MariaDB) dump ", "recordings; `dataset: {kind: dump}` of a suite takes it"),
    "a suite of volbench": (r"^schema: \d+\n(?s:.*)^steps:", "recordings; `volbench run` takes it"),
    "blkparse": (r"^ *\d+,\d+ +\d+ +\d+ +\d+\.\d{9} +\d+ +[A-Z]", _OF_HOST),
    "/proc/diskstats": (r"^ +\d+ +\d+ [a-z]\w*(?: \d+){7}", "iostat: one state of the counters has no rates"),
}
UNREAD = tuple(
    Unread(name=name, matches=_begins(pattern), instead=instead) for name, (pattern, instead) in _UNREAD.items()
)
"""What people have at hand as well."""

ACCEPTED = "text of sar -d, sar -b, iostat -x, sysbench, pt-stalk or pt-diskstats, or JSON of CloudWatch"
"""What to give, in an error's next step."""


def read_text(text: str, interval_s: float | None = None) -> tuple[str, tuple[Recorded, ...]] | None:
    """Return the name of a text's format and its recordings; None for a format that is not known or not read.

    Args:
        text: of a file.
        interval_s: of samples that have no times; None: not known.

    Raises ValueError for a damaged text, saying what it looks like.
    """
    found = next((one for one in FORMATS if one.matches(text)), None)
    if found is None:
        return None
    try:
        readings = found.parse(text)
    except (ValueError, KeyError, StopIteration) as error:
        raise ValueError(f"looks like {found.name}, but cannot be read: {error}") from error
    recorded = (readings,) if isinstance(readings, Recorded) else tuple(readings)
    if interval_s is not None:
        recorded = tuple(with_interval(one, interval_s) for one in recorded)
    return found.name, recorded


def unread(text: str) -> Unread | None:
    """Return the format of a text that is recognised and not read."""
    return next((one for one in UNREAD if one.matches(text)), None)
