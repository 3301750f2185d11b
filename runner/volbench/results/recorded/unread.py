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
    "mpstat": (
        r"\bCPU +%usr +%nice +%sys|\bCPU +CORE +SOCK +NODE +%usr",
        "text of `sar -u` beside `sar -d`",
    ),
    "free": (r"^ +total +used +free +shared ", _OF_HOST),
    "zpool iostat": (r"^pool +alloc +free +read +write|operations +bandwidth *$", "iostat -x of the pool's disks"),
    "cifsiostat": (r"^Filesystem:? +r(?:B|[kM]B|blk)/s", _OF_HOST),
    "tapestat": (r"^Tape:? +r/s", _OF_HOST),
    "JSON of another tool of sysstat": (r'\A\s*\{\s*"sysstat"\s*:', "text or JSON of `iostat -x`, text of sar"),
    "sar of another system": (
        r"^(?:SunOS|HP-UX|AIX) \S+ \S+|^ *\d\d:\d\d:\d\d +device +%busy +avque ",
        "recordings of Linux",
    ),
    "df": (r"^Filesystem .*Mounted on", _OF_HOST),
    "lsblk": (r"^NAME +MAJ:MIN ", _OF_HOST),
    "SHOW PROCESSLIST": (r"\| *Id *\| *User *\| *Host *\|", _OF_SERVER),
    "EXPLAIN of a statement": (r"\| *id *\| *select_type *\|", _OF_HOST),
    "pt-query-digest": (r"^# Overall: .* total, ", "the slow log itself, to `volbench capture`"),
    "an error log": (r"\[(?:Note|Warning|ERROR|System)\] (?:\[MY-|InnoDB)", _OF_SERVER),
    "a dump": (
        r"^-- (?:MySQL|MariaDB) dump |^CREATE DATABASE /\*!32312"
        r"|^/\*!40101 SET @(?:OLD_CHARACTER_SET_CLIENT|saved_cs_client)",
        "recordings; `dataset: {kind: dump}` of a suite takes it",
    ),
    "a suite of volbench": (r"^schema: \d+\n(?s:.*)^steps:", "recordings; `volbench run` takes it"),
    "pidstat": (
        r"\b(?:UID|USER|PID) +(?:PID|TGID +TID|%usr|kB_rd/s|minflt/s|cswch/s)\b",
        "iostat -x: figures of processes do not tell of the volume",
    ),
    "vmstat -d": (r"^disk-+ -*reads-+ ", "iostat -x: its counters of a disk have no times"),
    "vmstat -s or -D": (r"^ *\d+ (?:K total memory|total reads)$", _OF_HOST),
    "atop": (r"^ATOP - ", _OF_HOST),
    "nmon": (r"^AAA,progname,", _OF_HOST),
    "collectl's plot format": (r"^#(?:Date|UTC) Time \[", "collectl without -P: `collectl -sD -oDm`"),
    "sadf": (
        r"\"file-utc-time\":|^\S+\t-?\d+\t(?:\d{4}-\d\d-\d\d|\d{10})[^\n]*\t|<!DOCTYPE s(?:ysstat|vg)|^<sysstat$"
        r"|; major; \d+; minor; |^\d\d:\d\d:\d\d \S+; [A-Z]+; |^# uptime_cs; |^# hostname;interval;timestamp;"
        r"|^File created by sar/sadc ",
        "`sadf -d FILE -- -d` or `LC_ALL=C sar -d -f FILE`",
    ),
    "fio": (r"^fio-\d|^\d;fio-\d", _NO_TEST),
    "a log of fio": (r"\A(?:\d+, +\d+, +[012], +\d+(?:, +\d+)?\n){3}", _NO_TEST),
    "sysbench's test of files or CPUs": (
        r"^\[ *\d+s ?\] (?:reads: [\d.]+ MiB/s|thds: \d+ eps:)|^Extra file open flags|^CPU speed:$",
        _NO_TEST,
    ),
    "ioping": (r"^\d+(?:\.\d+)? [KM]iB <<< ", _NO_TEST),
    "SHOW PROCESSLIST without frames": (r"^Id\tUser\tHost\t|^ +Id: \d+\n +User: ", _OF_SERVER),
    "pt-mext": (
        r"^Aborted_clients +-?\d+ +-?\d+ +-?\d+",
        "what it was made of: `mysqladmin extended-status -i 10`",
    ),
    "SHOW VARIABLES, or a part of SHOW STATUS": (
        r"^\|?[ \t]*Variable_name[ \t]*(?:\||\t)[ \t]*Value[ \t]*\|?$|^auto_increment_increment\t",
        "all of SHOW GLOBAL STATUS, several times: `mysqladmin extended-status -i 10`",
    ),
    "INNODB_METRICS": (r"^NAME\tSUBSYSTEM\tCOUNT\t|\| NAME +\| SUBSYSTEM +\| COUNT ", _OF_SERVER),
    "XML of mysql": (r"^<resultset statement=", "the same statement without -X"),
    "pt-mysql-summary": (r"^# Percona Toolkit MySQL Summary Report|^# Report On Port \d+ #", _OF_HOST),
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
    "sar, without devices, CPUs or all I/O": (
        r"\A\s*Linux \S+ \([^)\n]*\)[^\n]*CPU\)\s*\n+(?:\d\d:\d\d:\d\d|\Z)",
        "text of `sar -d`, `sar -b` or `sar -u`",
    ),
    "what mysqlbinlog prints": (r"^#\d{6} +\d{1,2}:\d\d:\d\d server id \d+ +end_log_pos ", _OF_SERVER),
    "a general log": (r"^Time +Id Command +Argument", "recordings; `volbench capture` takes slow logs"),
    "mysqltuner": (r">> +MySQLTuner \d", _OF_HOST),
    "mysqladmin status": (
        r"^Uptime: \d+ +Threads: \d+ +Questions: ",
        "`mysqladmin extended-status -i 10`: it has the counters of files",
    ),
    "dmesg": (r"^\[ *\d+\.\d+\] \S", _OF_HOST),
    "a load of sysbench that failed": (
        r"^FATAL: (?:unable to connect|error \d+|mysql_|Worker|`)",
        "the log of a load that ran, with --report-interval=1",
    ),
    "a metric stream of CloudWatch": (
        r'"metric_stream_name" *:',
        "the answer of `aws cloudwatch get-metric-data`",
    ),
    "a part of CloudWatch's answer (--query)": (
        r'"Timestamp" *:[^}]*"(?:Sum|Average|Maximum|Minimum|SampleCount)" *:',
        "the whole answer, which names the metric",
    ),
    "metrics of Azure": (r'"namespace" *: *"Microsoft\.', _OF_HOST),
    "metrics of Google Cloud": (r'"type" *: *"\w+\.googleapis\.com/', _OF_HOST),
    "series of Datadog": (r'"pointlist" *:', _OF_HOST),
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
