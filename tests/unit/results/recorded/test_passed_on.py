"""Texts that another program passed on: `ts`, `kubectl logs`, Compose, journald, a mail, `cat -n`.

The fixtures of tests/fixtures/passed-on are cut from what `ts` of moreutils 0.67 made of sysbench 1.0.20, iostat
12.6.1 and vmstat 4.0.2, and of what iostat prints in colours.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from evidence_texts import START, iostat, limited, quiet

from volbench.results.recorded.contents import decoded
from volbench.results.recorded.formats import read_text
from volbench.results.recorded.parsed import DAY_S, Recorded

FIXTURES = Path(__file__).parents[3] / "fixtures" / "passed-on"
ROWS = [*quiet(60), *limited(3000, 30)]
REPORTS = [f"[ {t}s ] thds: 4 tps: {10 + t}.00 qps: 1 lat (ms,95%): 5.00 err/s: 0.00" for t in range(1, 9)]


def read(text: str) -> Recorded:
    result = read_text(text)
    assert result is not None
    return result[1][0]


def fixture(name: str) -> Recorded:
    return read(decoded((FIXTURES / name).read_bytes()))


def times(recorded: Recorded, metric: str) -> list[float]:
    (series,) = (item for key, item in recorded.series.items() if key.metric == metric)
    return [float(t_s) for t_s in series.t_s]


def at(clock: str) -> float:
    hours, minutes, seconds = map(int, clock.split(":"))
    return hours * 3600.0 + minutes * 60 + seconds


def test_ts_gives_sysbench_a_time_of_day() -> None:
    recorded = fixture("sysbench-ts.txt")
    assert recorded.clocked
    assert recorded.dates == ()  # no year in "Nov 26"
    assert times(recorded, "tps")[0] == at("14:30:52")
    assert not any("time of day" in note for note in recorded.notes)


def test_ts_with_a_zone_gives_a_time_of_utc() -> None:
    recorded = fixture("sysbench-ts-iso.txt")
    midnight = datetime(2026, 11, 26, tzinfo=UTC).timestamp()
    assert recorded.midnight_epoch_s == midnight
    assert times(recorded, "tps")[0] == at("14:30:52")


def test_seconds_since_the_begin_are_no_time_of_day() -> None:
    recorded = fixture("sysbench-ts-elapsed.txt")
    assert not recorded.clocked
    assert times(recorded, "tps")[0] == 1.0


def test_ts_gives_iostat_and_vmstat_the_times_that_they_print_on_request() -> None:
    disks = fixture("iostat-ts.txt")
    assert disks.clocked
    assert (disks.host, disks.dates) == ("vm", (date(2026, 11, 26),))  # the banner tells the year
    assert times(disks, "aqu_sz")[0] == at("14:30:48")
    assert len(times(disks, "aqu_sz")) >= 4
    cpus = fixture("vmstat-ts.txt")
    assert cpus.clocked
    assert times(cpus, "iowait_ratio")[0] == at("14:30:48")


def test_colours_are_no_part_of_a_device_s_name() -> None:
    recorded = fixture("iostat-colour.txt")
    assert {key.entity for key in recorded.series if key.source == "diskstats"} == {"vda"}
    assert recorded.host == "vm"


def stamped(text: str, form: str, *, every: int = 1) -> str:
    """Each line behind a time; a report has `every` lines."""
    return "\n".join(
        f"{START + timedelta(seconds=number // every):{form}}{line}"
        for number, line in enumerate(text.splitlines())
    )


STAMPS = {
    "kubectl logs --timestamps": "%Y-%m-%dT%H:%M:%S.123456789Z ",
    "docker logs -t in another zone": "%Y-%m-%dT%H:%M:%S.5+00:00 ",
    "a log file of Kubernetes": "%Y-%m-%dT%H:%M:%S.123456789Z stdout F ",
    "ts": "%b %d %H:%M:%S ",
    "ts %F %T": "%Y-%m-%d %H:%M:%S ",
    "ts between brackets": "[%Y-%m-%d %H:%M:%S] ",
    "ts %T": "%H:%M:%S ",
    "ts %s": "%s ",
    "journald": "%b %d %H:%M:%S db1 sysbench[71]: ",
    "Compose with times": "load-1  | %Y-%m-%dT%H:%M:%S.1Z ",
}


@pytest.mark.parametrize("form", STAMPS)
def test_each_program_s_times_put_sysbench_on_a_clock(form: str) -> None:
    recorded = read(stamped("\n".join(REPORTS), STAMPS[form]))
    assert recorded.clocked
    result = times(recorded, "tps")
    assert len(result) == len(REPORTS)
    assert result[0] == (at("14:00:00") if form != "ts %s" else result[0])
    assert [b - a for a, b in pairwise(result)] == [1.0] * (len(REPORTS) - 1)
    assert recorded.host == ("db1" if form == "journald" else "")


BEFORE = {"a mail's quotes": "> ", "an indented page": "    ", "Compose": "db-1  | "}


@pytest.mark.parametrize("form", BEFORE)
def test_what_stands_before_all_lines_is_taken_off(form: str) -> None:
    plain = iostat(ROWS)
    recorded = read("".join(f"{BEFORE[form]}{line}" for line in plain.splitlines(keepends=True)))
    assert recorded.host == "db1"
    assert len(times(recorded, "aqu_sz")) == len(times(read(plain), "aqu_sz")) == len(ROWS)


def test_numbers_of_lines_are_taken_off_and_numbers_of_a_tool_are_not() -> None:
    plain = iostat(ROWS)
    numbered = "".join(f"{at:6d}\t{line}" for at, line in enumerate(plain.splitlines(keepends=True), start=1))
    assert len(times(read(numbered), "aqu_sz")) == len(ROWS)
    one_a_line = "".join(f"{t},4,10.00,200.00,1.00,1.00,1.00,5.00,0.00,0.00\n" for t in range(1, 9))
    assert len(times(read(one_a_line), "tps")) == 8


def test_a_report_of_iostat_begins_where_its_line_came() -> None:
    lines = iostat(ROWS, clock="").splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("avg-cpu")]
    second = [max(0, sum(start <= at for start in starts) - 1) for at in range(len(lines))]
    text = "\n".join(
        f"{START + timedelta(seconds=second[at]):%Y-%m-%dT%H:%M:%S.7Z} {line}" for at, line in enumerate(lines)
    )
    recorded = read(text)
    assert times(recorded, "aqu_sz") == times(read(iostat(ROWS)), "aqu_sz")
    assert recorded.midnight_epoch_s == START.replace(hour=0, tzinfo=UTC).timestamp()
    assert (recorded.midnight_epoch_s or 0.0) % DAY_S == 0


@pytest.mark.parametrize("unstamped", [0, 60])
def test_a_long_text_that_was_passed_on_is_read_as_a_short_one(unstamped: int) -> None:
    """Of a long text some lines tell whether they have times; those without one may come together."""
    reports = [
        f"[ {t}s ] thds: 4 tps: {10 + t % 7}.00 qps: 1 lat (ms,95%): 5.00 err/s: 0.00" for t in range(1, 901)
    ]
    stamped = [f"{START + timedelta(seconds=t):%Y-%m-%dT%H:%M:%SZ} {line}" for t, line in enumerate(reports)]
    text = "\n".join([*["starting"] * unstamped, *stamped])
    recorded = read(text)
    assert recorded.clocked
    assert len(times(recorded, "tps")) == 900
