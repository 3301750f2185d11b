"""Formats of recordings: how a text is recognised, what reads it, or what to give instead."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from volbench.results.recorded.cloudwatch import looks_like_cloudwatch, parse_cloudwatch
from volbench.results.recorded.cloudwatch_texts import (
    looks_like_console_csv,
    looks_like_output_text,
    parse_console_csv,
    parse_output_text,
)
from volbench.results.recorded.collectl import (
    looks_like_collectl,
    looks_like_collectl_disks,
    parse_collectl,
    parse_collectl_disks,
)
from volbench.results.recorded.fio import looks_like_fio, parse_fio
from volbench.results.recorded.host_texts import (
    is_sample,
    looks_like_dstat,
    looks_like_vmstat,
    parse_dstat,
    parse_vmstat,
)
from volbench.results.recorded.iostat import begins_report, looks_like_iostat, parse_iostat
from volbench.results.recorded.nfs import (
    looks_like_mountstats,
    looks_like_nfsiostat,
    parse_mountstats,
    parse_nfsiostat,
)
from volbench.results.recorded.nvme_log import looks_like_nvme_log, parse_nvme_recording
from volbench.results.recorded.parsed import Recorded, banner, with_interval, without_uncounted_flushes
from volbench.results.recorded.passed_on import (
    PassedOn,
    clocked_by,
    loads_of,
    of_stamps,
    passed_on,
    with_times,
)
from volbench.results.recorded.prometheus import (
    looks_like_exporter,
    looks_like_prometheus,
    parse_exporter,
    parse_prometheus,
)
from volbench.results.recorded.pt_diskstats import looks_like_pt_diskstats, parse_pt_diskstats
from volbench.results.recorded.pt_stalk import looks_like_disk_samples, parse_disk_samples
from volbench.results.recorded.rds import (
    looks_like_enhanced_monitoring,
    looks_like_performance_insights,
    parse_enhanced_monitoring,
    parse_performance_insights,
)
from volbench.results.recorded.sadf import looks_like_sadf, parse_sadf
from volbench.results.recorded.sar import looks_like_sar, parse_sar
from volbench.results.recorded.server_status import (
    begin_of_status,
    looks_like_innodb_status,
    looks_like_status,
    parse_innodb_status,
    parse_status,
)
from volbench.results.recorded.sysbench import begins_load, looks_like_sysbench, parse_sysbench, told_s
from volbench.results.recorded.tpcc_clients import (
    begins_tpcc_mysql,
    ends_go_tpc,
    looks_like_go_tpc,
    looks_like_hammerdb,
    looks_like_tpcc_mysql,
    parse_go_tpc,
    parse_hammerdb,
    parse_tpcc_mysql,
    told_of_tpcc_mysql,
)

Readings = Recorded | Sequence[Recorded]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format by its name. `parse` returns a recording, or one for each host that the text tells of.

    It raises ValueError, KeyError or StopIteration for a damaged text.

    Of a text whose lines were given times by another program (`passed_on`): `told_s` returns the seconds from the
    load's begin that a line tells. `begins_load`, where logs of several loads may be in one text: whether a line is
    a load's first. Of samples without times `begins` says whether one begins with a line, and
    `stamp_after` whether the tool's own times stand behind a line.
    """

    name: str
    matches: Callable[[str], bool]
    parse: Callable[[str], Readings]
    told_s: Callable[[str], float | None] | None = None
    begins_load: Callable[[str], bool] | None = None
    begins: Callable[[str], bool] | None = None
    stamp_after: bool = False


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
            for text_part in texts:
                by_host.setdefault(banner(text_part)[0], []).append(text_part)
            texts = ["".join(pieces) for pieces in by_host.values()]
        return [recorded for recorded in map(parse, texts) if recorded.series] or parse(text)

    return read


_BANNER_LINE = re.compile(r"^\S+ \S+ \([^)\n]*\)\s[^\n]*\(\d+ CPU\)", re.MULTILINE)
FORMATS = (
    Format(name="pt-stalk", matches=looks_like_disk_samples, parse=parse_disk_samples),
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
    Format(
        name="iostat",
        matches=looks_like_iostat,
        parse=_each_banner(parse_iostat, of_host=False),
        begins=begins_report,
    ),
    Format(
        name="sysbench",
        matches=looks_like_sysbench,
        parse=parse_sysbench,
        told_s=told_s,
        begins_load=begins_load,
    ),
    Format(
        name="tpcc-mysql",
        matches=looks_like_tpcc_mysql,
        parse=parse_tpcc_mysql,
        told_s=told_of_tpcc_mysql,
        begins_load=begins_tpcc_mysql,
    ),
    Format(name="go-tpc", matches=looks_like_go_tpc, parse=parse_go_tpc, begins_load=ends_go_tpc),
    Format(name="HammerDB", matches=looks_like_hammerdb, parse=parse_hammerdb),
    Format(name="server status", matches=looks_like_status, parse=parse_status, told_s=begin_of_status),
    Format(name="sar", matches=looks_like_sadf, parse=parse_sadf),
    Format(name="sar", matches=looks_like_sar, parse=_each_banner(parse_sar, of_host=True)),
    Format(name="vmstat", matches=looks_like_vmstat, parse=parse_vmstat, begins=is_sample, stamp_after=True),
    Format(name="dstat", matches=looks_like_dstat, parse=parse_dstat),
    Format(name="collectl", matches=looks_like_collectl_disks, parse=parse_collectl_disks),
    Format(name="collectl", matches=looks_like_collectl, parse=parse_collectl),
)
"""In this order: the first that matches reads a text."""


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
    lines = passed_on(text)
    matching = next((candidate for candidate in FORMATS if candidate.matches(lines.text)), None)
    recorded = None if matching is None else _recordings(matching, lines)
    if not any(recording.series for recording in recorded or ()) and (shifted := _dedented(text)) != text:
        return read_text(shifted, interval_s)  # indented, as a page that quotes it
    if matching is None or recorded is None:
        return None
    recorded = _with_note(
        recorded,
        [candidate.name for candidate in FORMATS if candidate.name in _OF_LINES and candidate.matches(lines.text)],
    )
    recorded = _bounded(recorded)
    if interval_s is not None:
        recorded = tuple(with_interval(recording, interval_s) for recording in recorded)
    return matching.name, tuple(without_uncounted_flushes(recording) for recording in recorded)


def _bounded(recorded: tuple[Recorded, ...]) -> tuple[Recorded, ...]:
    """The first RECORDINGS_MAX recordings of a text, with a note on more: each is explained for itself."""
    if len(recorded) <= RECORDINGS_MAX:
        return recorded
    note = f"the first {RECORDINGS_MAX} of {len(recorded)} recordings in this file are read: divide it"
    return (replace(recorded[0], notes=(*recorded[0].notes, note)), *recorded[1:RECORDINGS_MAX])


RECORDINGS_MAX = 50


def _dedented(text: str) -> str:
    """Return a text without what all lines begin with, and without spaces in lines that have nothing else."""
    indented = text.lstrip("\n").startswith((" ", "\t"))
    may_change = indented or " \n" in text or "\t\n" in text or text.endswith((" ", "\t"))
    return textwrap.dedent(text) if may_change else text


_OF_LINES = frozenset(
    ["iostat", "sysbench", "go-tpc", "tpcc-mysql", "server status", "InnoDB status", "vmstat", "nfsiostat"]
)
"""Formats whose lines are told from those of any other one."""


def _with_note(recorded: tuple[Recorded, ...], names: Sequence[str]) -> tuple[Recorded, ...]:
    """The recordings, with a note where a text has lines of more than one format: only the first is read."""
    several = [*dict.fromkeys(names)]
    if len(several) < 2 or not recorded:
        return recorded
    note = (
        f"lines of {' and '.join(several[1:])} in a file of {several[0]} are not read: give them in their own file"
    )
    return (replace(recorded[0], notes=(*recorded[0].notes, note)), *recorded[1:])


def _recordings(matching: Format, lines: PassedOn) -> tuple[Recorded, ...]:
    try:
        if matching.begins_load is not None:
            loads = loads_of(lines, matching.told_s, matching.begins_load)
            if len(loads) > 1:
                return _of_loads(matching, loads)
        readings = _parsed(matching, lines)
    except (ValueError, KeyError, StopIteration) as error:
        raise ValueError(f"looks like {matching.name}, but cannot be read: {error}") from error
    return (readings,) if isinstance(readings, Recorded) else tuple(readings)


def _of_loads(matching: Format, loads: Sequence[PassedOn]) -> tuple[Recorded, ...]:
    """One recording for each load that has anything: nothing tells when one began after the one before it."""
    readings = [_parsed(matching, load) for load in loads]
    recorded = [reading for reading in readings if isinstance(reading, Recorded)]
    return tuple([reading for reading in recorded if reading.series] or recorded[:1])


def _parsed(matching: Format, lines: PassedOn) -> Readings:
    """What a format's reader makes of a text, on the clock of its lines where it has none of its own."""
    readings = matching.parse(lines.text)
    if not lines.stamps or not isinstance(readings, Recorded):
        return readings
    if readings.clocked:
        return readings
    if matching.begins is not None:
        timed = matching.parse(with_times(lines, begins=matching.begins, after=matching.stamp_after))
        readings = of_stamps(timed, lines) if isinstance(timed, Recorded) else timed
    elif matching.told_s is not None:
        readings = clocked_by(readings, lines, matching.told_s)
    host = lines.host
    return replace(readings, host=readings.host or host) if isinstance(readings, Recorded) else readings
