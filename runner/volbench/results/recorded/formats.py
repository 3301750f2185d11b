"""Formats of recordings: how a text is recognised, what reads it, or what to give instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from volbench.results.recorded.cloudwatch import looks_like_cloudwatch, parse_cloudwatch
from volbench.results.recorded.cloudwatch_texts import (
    looks_like_console_csv,
    looks_like_output_text,
    parse_console_csv,
    parse_output_text,
)
from volbench.results.recorded.fio import looks_like_fio, parse_fio
from volbench.results.recorded.host_texts import (
    looks_like_collectl,
    looks_like_dstat,
    looks_like_vmstat,
    parse_collectl,
    parse_dstat,
    parse_vmstat,
)
from volbench.results.recorded.iostat import looks_like_iostat, parse_iostat
from volbench.results.recorded.nfs import (
    looks_like_mountstats,
    looks_like_nfsiostat,
    parse_mountstats,
    parse_nfsiostat,
)
from volbench.results.recorded.nvme_log import looks_like_nvme_log, parse_nvme_recording
from volbench.results.recorded.parsed import Recorded, banner, with_interval, without_uncounted_flushes
from volbench.results.recorded.prometheus import (
    looks_like_exporter,
    looks_like_prometheus,
    parse_exporter,
    parse_prometheus,
)
from volbench.results.recorded.pt_diskstats import looks_like_pt_diskstats, parse_pt_diskstats
from volbench.results.recorded.rds import (
    looks_like_enhanced_monitoring,
    looks_like_performance_insights,
    parse_enhanced_monitoring,
    parse_performance_insights,
)
from volbench.results.recorded.sar import looks_like_sar, parse_sar
from volbench.results.recorded.server_status import (
    looks_like_innodb_status,
    looks_like_status,
    parse_innodb_status,
    parse_status,
)
from volbench.results.recorded.sysbench import looks_like_sysbench, parse_sysbench
from volbench.results.recorded.tpcc_clients import (
    looks_like_go_tpc,
    looks_like_hammerdb,
    parse_go_tpc,
    parse_hammerdb,
)

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
    Format(name="Enhanced Monitoring", matches=looks_like_enhanced_monitoring, parse=parse_enhanced_monitoring),
    Format(name="cloudwatch", matches=looks_like_cloudwatch, parse=parse_cloudwatch),
    Format(name="cloudwatch", matches=looks_like_console_csv, parse=parse_console_csv),
    Format(name="cloudwatch", matches=looks_like_output_text, parse=parse_output_text),
    Format(name="Performance Insights", matches=looks_like_performance_insights, parse=parse_performance_insights),
    Format(name="Prometheus", matches=looks_like_prometheus, parse=parse_prometheus),
    Format(name="exporter", matches=looks_like_exporter, parse=parse_exporter),
    Format(name="fio", matches=looks_like_fio, parse=parse_fio),
    Format(name="nvme", matches=looks_like_nvme_log, parse=parse_nvme_recording),
    Format(name="nfsiostat", matches=looks_like_nfsiostat, parse=parse_nfsiostat),
    Format(name="mountstats", matches=looks_like_mountstats, parse=parse_mountstats),
    Format(name="InnoDB status", matches=looks_like_innodb_status, parse=parse_innodb_status),
    Format(name="iostat", matches=looks_like_iostat, parse=_each_banner(parse_iostat, of_host=False)),
    Format(name="sysbench", matches=looks_like_sysbench, parse=parse_sysbench),
    Format(name="go-tpc", matches=looks_like_go_tpc, parse=parse_go_tpc),
    Format(name="HammerDB", matches=looks_like_hammerdb, parse=parse_hammerdb),
    Format(name="server status", matches=looks_like_status, parse=parse_status),
    Format(name="sar", matches=looks_like_sar, parse=_each_banner(parse_sar, of_host=True)),
    Format(name="vmstat", matches=looks_like_vmstat, parse=parse_vmstat),
    Format(name="dstat", matches=looks_like_dstat, parse=parse_dstat),
    Format(name="collectl", matches=looks_like_collectl, parse=parse_collectl),
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
    "pidstat": (r"\bPID +kB_rd/s +kB_wr/s", "iostat -x: processes' bytes do not tell of the volume"),
    "blkparse": (r"^ *\d+,\d+ +\d+ +\d+ +\d+\.\d{9} +\d+ +[A-Z]", _OF_HOST),
    "/proc/diskstats": (r"^ +\d+ +\d+ [a-z]\w*(?: \d+){7}", "iostat: one state of the counters has no rates"),
}
UNREAD = tuple(
    Unread(name=name, matches=_begins(pattern), instead=instead) for name, (pattern, instead) in _UNREAD.items()
)
"""What people have at hand as well."""

ACCEPTED = (
    "text of sar -d, sar -b, iostat -x, sysbench, pt-stalk, pt-diskstats, nfsiostat, vmstat, dstat, collectl,"
    " go-tpc, HammerDB or the server's status, or JSON of CloudWatch, RDS or Prometheus"
)
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
    return found.name, tuple(without_uncounted_flushes(one) for one in recorded)


def unread(text: str) -> Unread | None:
    """Return the format of a text that is recognised and not read."""
    return next((one for one in UNREAD if one.matches(text)), None)
