"""Texts that people have at hand as well: recognised, not read, and what to give instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Unread:
    """A format that is recognised and not read, and what to give instead."""

    name: str
    matches: Callable[[str], bool]
    instead: str


def _begins(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text: compiled.search(text[:_HEAD]) is not None


_HEAD = 20_000
_OF_HOST = "text of `iostat -xt 1` of the same hours"
_NO_TEST = "what iostat recorded under the server's load: a test of the volume is no recording of a load"
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
    "pidstat": (
        r"\bPID +(?:kB_rd/s +kB_wr/s|%usr +%system|minflt/s|cswch/s)",
        "iostat -x: figures of processes do not tell of the volume",
    ),
    "vmstat -d": (r"^disk-+ -*reads-+ ", "iostat -x: its counters of a disk have no times"),
    "vmstat -s or -D": (r"^ *\d+ (?:K total memory|total reads)$", _OF_HOST),
    "atop": (r"^ATOP - ", _OF_HOST),
    "nmon": (r"^AAA,progname,", _OF_HOST),
    "collectl's plot format": (r"^#(?:Date|UTC) Time \[", "collectl without -P: `collectl -sD -oDm`"),
    "sadf": (
        r"\"file-utc-time\":|^\S+\t-?\d+\t\d{4}-\d\d-\d\d[^\n]*\t|<!DOCTYPE s(?:ysstat|vg)|; major; \d+; minor; ",
        "`sadf -d FILE -- -d` or `LC_ALL=C sar -d -f FILE`",
    ),
    "fio": (r"^fio-\d|^\d;fio-\d", _NO_TEST),
    "a log of fio": (r"\A(?:\d+, +\d+, +[012], +\d+(?:, +\d+)?\n){3}", _NO_TEST),
    "sysbench's test of files or CPUs": (
        r"^\[ *\d+s ?\] (?:reads: [\d.]+ MiB/s|thds: \d+ eps:)|^Extra file open flags|^CPU speed:$",
        _NO_TEST,
    ),
    "ioping": (r"^\d+(?:\.\d+)? [KM]iB <<< ", _NO_TEST),
    "SHOW PROCESSLIST without frames": (r"^Id\tUser\tHost\t", _OF_SERVER),
    "SHOW VARIABLES, or a part of SHOW STATUS": (
        r"^\|?[ \t]*Variable_name[ \t]*(?:\||\t)[ \t]*Value[ \t]*\|?$",
        "all of SHOW GLOBAL STATUS, several times: `mysqladmin extended-status -i 10`",
    ),
    "INNODB_METRICS": (r"^NAME\tSUBSYSTEM\tCOUNT\t|\| NAME +\| SUBSYSTEM +\| COUNT ", _OF_SERVER),
    "XML of mysql": (r"^<resultset statement=", "the same statement without -X"),
    "pt-mysql-summary": (r"^# Percona Toolkit MySQL Summary Report", _OF_HOST),
    "pt-summary": (r"^# Percona Toolkit System Summary Report", _OF_HOST),
    "Grafana's CSV": (
        r"\A\"?(?:Time|Series)\"?[,;]",
        "what Prometheus has of the counters (query_range): a panel's names say neither metric nor unit",
    ),
    "typeperf": (r"\A\"\(PDH-CSV ", "recordings of Linux: counters of Windows are not read"),
    "iostat of another system": (
        r"^ +extended device statistics|^ +tty +\S+ +(?:\S+ +)*cpu$|^ +disk0 +(?:disk\d+ +)*cpu +load average",
        "recordings of Linux",
    ),
    "a table or YAML of the AWS CLI": (
        r"^-{3,}\n\| *(?:GetMetric|DescribeVolumes)|^(?:Datapoints|MetricDataResults):$",
        "the same answer with `--output json`",
    ),
    "an answer printed by Python": (
        r"datetime\.datetime\(\d{4}",
        "its JSON: json.dumps(answer, default=str)",
    ),
    "a query of CloudWatch": (
        r'"MetricStat"\s*:|"Metrics"\s*:\s*\[\s*\{\s*"(?:Namespace|MetricName)"',
        "the answer to it: `aws cloudwatch get-metric-data`",
    ),
    "a description of the vendor's resources": (
        r'"(?:Volumes|DBInstances|Reservations)" *: *\[',
        "what CloudWatch counted of them: `aws cloudwatch get-metric-data`",
    ),
    "RTF": (r"\A\{\\rtf", "the text itself (save as plain text)"),
    "blkparse": (r"^ *\d+,\d+ +\d+ +\d+ +\d+\.\d{9} +\d+ +[A-Z]", _OF_HOST),
    "/proc/diskstats": (
        r"^ +\d+ +\d+ [a-z]\w*(?: \d+){7}",
        "iostat -x, or states of the counters behind the `TS` lines of pt-stalk (a file NAME-diskstats)",
    ),
}
UNREAD = tuple(
    Unread(name=name, matches=_begins(pattern), instead=instead) for name, (pattern, instead) in _UNREAD.items()
)
"""What people have at hand as well."""


def unread(text: str) -> Unread | None:
    """Return the format of a text that is recognised and not read."""
    return next((candidate for candidate in UNREAD if candidate.matches(text)), None)
