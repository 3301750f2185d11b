"""Siblings of the cases of tests/fixtures/evidence: other days, hosts, volumes, statistics, zones, forms.

Each was tried first as a user would, then kept; the figures are our own (evidence_texts).
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from evidence_texts import (
    START,
    Second,
    iostat,
    jitter,
    limited,
    metric_data,
    metric_statistics,
    quiet,
    sar,
)

from volbench.errors import UsageError
from volbench.results.credits.history import Defaults
from volbench.results.credits.sources import read_history
from volbench.results.explain.recordings.directory import RecordedExplanation, explain_recorded
from volbench.results.recorded.timelines import Choice

AT_LIMIT = iostat([*quiet(60), *limited(3000, 90)])
LIMIT = "storage.iops_limit"
EVIDENCE = Path(__file__).parents[4] / "fixtures" / "evidence"
PT_STALK = EVIDENCE / "31-two-collections-of-pt-stalk"


def given(directory: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def first_causes(result: RecordedExplanation) -> dict[str, str]:
    """The first cause of each timeline, by host and first day."""
    return {
        f"{timeline.timeline.host} {timeline.timeline.first_day or ''}".strip(): timeline.findings[0].cause
        if timeline.findings
        else ""
        for timeline in result.timelines
    }


def tarred(members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def zipped(members: Mapping[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


FORMS: dict[str, bytes] = {
    "CRLF": AT_LIMIT.replace("\n", "\r\n").encode(),
    "CR": AT_LIMIT.replace("\n", "\r").encode(),
    "UTF-16 big end, no mark": AT_LIMIT.encode("utf-16-be"),
    "UTF-16 with CRLF": AT_LIMIT.replace("\n", "\r\n").encode("utf-16"),
    "UTF-8 with a mark": AT_LIMIT.encode("utf-8-sig"),
    "bzip2": bz2.compress(AT_LIMIT.encode()),
    "xz without its suffix": lzma.compress(AT_LIMIT.encode()),
    "zip": zipped({"i.txt": AT_LIMIT}),
    "gzip of a tar": gzip.compress(tarred({"sos/block/i.txt": AT_LIMIT.encode()})),
    "cut in a line": AT_LIMIT[: len(AT_LIMIT) * 2 // 3].encode(),
    "decimal commas": re.sub(r"(\d)\.(\d\d)(?=\s)", r"\1,\2", AT_LIMIT).encode(),
    "ISO times": iostat([*quiet(60), *limited(3000, 90)], clock="%Y-%m-%dT%H:%M:%S+0100").encode(),
    "German times": iostat([*quiet(60), *limited(3000, 90)], clock="%d.%m.%Y %H:%M:%S").encode(),
    "over midnight": iostat([*quiet(60), *limited(3000, 90)], start=datetime(2025, 3, 11, 23, 59)).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_recording_says_the_same_in_every_form(tmp_path: Path, form: str) -> None:
    result = explain_recorded(given(tmp_path, {"recording": FORMS[form]}))
    assert [row.used for row in result.table] == [True]
    assert result.findings[0].cause == LIMIT
    assert result.table[0].host == "db1"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("cut.gz", gzip.compress(AT_LIMIT.encode())[:900], "cannot be read"),
        ("empty.txt", b"", "empty"),
        ("sa11", b"\x96\xd5" + bytes(600), "sar's binary file"),
        ("report.pdf", b"%PDF-1.7 x", "a PDF"),
        ("x.json", b'{"a": 1}', "not known"),
        ("y.json", b'{"MetricDataResults": [', "looks like cloudwatch"),
        ("screen.png", b"\x89PNG\r\n", "a picture"),
        ("dump.sql", b"-- MySQL dump 10.13\nSELECT 1;\n", "kind: dump"),
    ],
)
def test_a_file_that_cannot_be_read_silences_no_other(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    result = explain_recorded(given(tmp_path, {name: content, "i.txt": AT_LIMIT}))
    assert result.findings[0].cause == LIMIT
    (row,) = (row for row in result.table if row.file == name)
    assert not row.used
    assert reason in row.why_not


def test_two_days_of_iostat_never_meet(tmp_path: Path) -> None:
    before = iostat(quiet(120), start=START - timedelta(days=1))
    for number, files in enumerate(({"a.txt": before, "b.txt": AT_LIMIT}, {"both.txt": before + AT_LIMIT})):
        result = explain_recorded(given(tmp_path / str(number), files))
        assert first_causes(result) == {"db1 2025-03-10": "", "db1 2025-03-11": LIMIT}


def test_three_days_of_sar_in_any_order_of_names_are_one_timeline(tmp_path: Path) -> None:
    days = [datetime(2025, 3, day) for day in (10, 11, 12)]
    texts = [sar(quiet(140), start=days[0]), sar(quiet(140), start=days[1]), sar(limited(300, 140), start=days[2])]
    for order in ("abc", "cba", "bca"):
        directory = given(tmp_path / order, {f"{name}.txt": text for name, text in zip(order, texts, strict=True)})
        result = explain_recorded(directory)
        assert len(result.timelines) == 1
        assert result.findings[0].cause == LIMIT
        assert (result.findings[0].window_s or (0, 0))[0] >= 2 * 86_400
        assert len(read_history(directory, Defaults()).work.reads_per_s) > 400


def test_days_with_a_gap_are_asked_for(tmp_path: Path) -> None:
    files = {
        "a.txt": sar(quiet(140), start=datetime(2025, 3, 10)),
        "b.txt": sar(limited(300, 140), start=datetime(2025, 3, 14)),
    }
    assert first_causes(explain_recorded(given(tmp_path, files))) == {"db1 2025-03-10": "", "db1 2025-03-14": LIMIT}
    with pytest.raises(UsageError, match="never meet") as refused:
        read_history(tmp_path, Defaults())
    assert "--date 2025-03-10" in refused.value.next_step


@pytest.mark.parametrize("packed", [False, True])
def test_two_hosts_are_told_apart(tmp_path: Path, packed: bool) -> None:
    texts = {"db1/i.txt": AT_LIMIT, "db2/i.txt": iostat(quiet(150), host="db2")}
    files: Mapping[str, str | bytes] = {"case.zip": zipped(texts)} if packed else texts
    result = explain_recorded(given(tmp_path, files))
    assert first_causes(result) == {"db1 2025-03-11": LIMIT, "db2 2025-03-11": ""}
    with pytest.raises(UsageError, match="several hosts"):
        read_history(tmp_path, Defaults())


def test_one_host_by_two_spellings_is_one(tmp_path: Path) -> None:
    later = START + timedelta(seconds=61)
    files = {"a.txt": iostat(quiet(60), host="DB1.example.com"), "b.txt": iostat(limited(3000, 90), start=later)}
    result = explain_recorded(given(tmp_path, files))
    assert len(result.timelines) == 1
    assert result.findings[0].cause == LIMIT


def test_collections_of_pt_stalk_at_one_time_of_two_days_are_two(tmp_path: Path) -> None:
    slow, quick = ((PT_STALK / f"2025_03_11_{at}-diskstats").read_text() for at in ("14_40_02", "09_15_02"))
    files = {
        "2025_03_11_14_40_02-diskstats": slow,
        "2025_03_12_14_40_02-diskstats": quick.replace("2025-03-11 09:15", "2025-03-12 14:40"),
    }
    result = explain_recorded(given(tmp_path, files))
    assert first_causes(result) == {"2025-03-11": LIMIT, "2025-03-12": ""}
    assert result.table[0].begin.startswith("2025-03-11 14:40")


def busy_day() -> list[Second]:
    return [*quiet(36), *limited(900, 36), *quiet(36)]


def counted(rows: list[Second], more: float = 0.0) -> dict[str, list[float]]:
    return {
        "VolumeReadOps": [(row.reads + more) * 600 for row in rows],
        "VolumeWriteOps": [row.writes * 600 for row in rows],
    }


@pytest.mark.parametrize("hours", [-8.0, -5.0, 0.0, 1.0, 5.5, 9.0])
def test_sar_in_any_zone_is_put_on_cloudwatch_s_clock_and_accuses_nobody(tmp_path: Path, hours: float) -> None:
    rows, begin = busy_day(), datetime(2025, 3, 11, 12)
    files = {
        "sar.txt": sar(rows, start=begin + timedelta(hours=hours)),
        "cw.json": metric_data(counted(rows), start=begin.replace(tzinfo=UTC), period_s=600),
    }
    result = explain_recorded(given(tmp_path, files))
    assert not any(row.cause.startswith("interference.") for row in result.findings)
    (finding, *_) = result.findings
    assert finding.cause == LIMIT
    at = (begin + timedelta(hours=hours) + timedelta(hours=6)).strftime("%H:%M")
    day_s = (begin + timedelta(hours=hours)).replace(hour=0, minute=0)
    begun = day_s + timedelta(seconds=(finding.window_s or (0, 0))[0])
    assert abs((begun - (begin + timedelta(hours=hours + 6))).total_seconds()) % 86_400 <= 600, at
    if hours:
        assert "the other files' times fit CloudWatch's" in "\n".join(result.notes)


def test_a_foreign_user_is_not_named_while_the_zone_is_assumed(tmp_path: Path) -> None:
    """Somebody else's operations all day: no zone fits, so that other hours may be compared."""
    case = EVIDENCE / "08-sar-and-cloudwatch-of-different-days"
    of_that_day = (case / "sar.txt").read_text().replace("03/10/2025", "03/12/2025")
    given(tmp_path, {"sar.txt": of_that_day, "cw.json": (case / "cw.json").read_text()})
    result = explain_recorded(tmp_path)
    assert not any(row.cause.startswith("interference.") for row in result.findings)
    assert any("shared_volume would have been named, but the time zone" in note for note in result.notes)
    stated = explain_recorded(tmp_path, choice=Choice(zone="UTC"))
    assert "interference.shared_volume" in [row.cause for row in stated.findings]


@pytest.mark.parametrize(
    ("metric", "statistic", "problem"),
    [
        ("VolumeReadOps", "Average", "needs --statistics Sum, and has Average"),
        ("VolumeReadOps", "Maximum", "needs --statistics Sum, and has Maximum"),
        ("VolumeWriteBytes", "Average", "needs --statistics Sum"),
        ("ReadIOPS", "Sum", "needs --statistics Average, and has Sum"),
        ("BurstBalance", "Sum", "needs --statistics Average, and has Sum"),
        ("VolumeQueueLength", "SampleCount", "SampleCount"),
    ],
)
def test_a_statistic_of_another_meaning_is_refused(
    tmp_path: Path, metric: str, statistic: str, problem: str
) -> None:
    given(tmp_path, {"m.json": metric_statistics(metric, [90_000.0] * 60, statistic=statistic)})
    for read in (explain_recorded, lambda path: read_history(path, Defaults())):
        with pytest.raises(UsageError, match=problem):
            read(tmp_path)


def rates(level: float, *, before: str = "", after: str = "") -> dict[str, list[float]]:
    return {
        f"{before}ReadIOPS{after}": [level * jitter(number, 0.05) for number in range(60)],
        f"{before}WriteIOPS{after}": [1.0] * 60,
    }


TWO: dict[str, dict[str, str]] = {
    "labels that end in the volume": {
        "cw.json": metric_data(rates(30, after=" vol-0a") | rates(2400, after=" vol-0b"))
    },
    "labels that begin with it": {
        "cw.json": metric_data(rates(2400, before="vol-0b ") | rates(30, before="vol-0a "))
    },
    "instances of RDS": {"cw.json": metric_data(rates(30, before="db-1 ") | rates(2400, before="db-2 "))},
    "a region in the label": {
        "cw.json": metric_data(rates(30, after=" us-east-1 db1") | rates(2400, after=" eu-west-1 db1"))
    },
    "a directory an account": {"1111/cw.json": metric_data(rates(30)), "2222/cw.json": metric_data(rates(2400))},
    "a file a volume": {"vol-0a.json": metric_data(rates(30)), "vol-0b.json": metric_data(rates(2400))},
}


@pytest.mark.parametrize("form", TWO)
def test_two_volumes_are_never_one(tmp_path: Path, form: str) -> None:
    given(tmp_path, TWO[form])
    with pytest.raises(UsageError, match="several devices") as refused:
        read_history(tmp_path, Defaults())
    first, second = refused.value.evidence.removeprefix("devices: ").split(", ")
    means = sorted(
        float(read_history(tmp_path, Defaults(), device=name).work.reads_per_s.mean()) for name in (first, second)
    )
    assert means[0] < 40
    assert means[1] > 2000
    assert sum(len(row.devices) for row in explain_recorded(tmp_path).table) == 2


def console(rows: str, *, head: str = "Full label,A,B\nId,m1,m2\nStat,Average,Average\nPeriod,300,300\n") -> str:
    return f"{head}Label,WriteIOPS,ReadIOPS\n{rows}"


def five_minutes(form: str, *, cells: str = ",3,{value}") -> str:
    return "".join(
        f"{datetime(2025, 3, 11, 9) + timedelta(minutes=5 * number):{form}}{cells.format(value=600 + number)}\n"
        for number in range(40)
    )


CONSOLE = {
    "as it comes": console(five_minutes("%Y/%m/%d %H:%M:%S")),
    "an offset": console(five_minutes("%Y-%m-%dT%H:%M:%S.000+01:00")),
    "Z": console(five_minutes("%Y-%m-%dT%H:%M:%SZ")),
    "newest first": console("".join(reversed(five_minutes("%Y/%m/%d %H:%M:%S").splitlines(keepends=True)))),
    "semicolons and decimal commas": console(five_minutes("%Y/%m/%d %H:%M:%S")).replace(",", ";"),
    "a mark and CRLF": "\ufeff" + console(five_minutes("%Y/%m/%d %H:%M:%S")).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("form", CONSOLE)
def test_the_console_s_csv(tmp_path: Path, form: str) -> None:
    given(tmp_path, {"metrics.csv": CONSOLE[form]})
    assert read_history(tmp_path, Defaults()).work.reads_per_s.mean() == pytest.approx(619.5)
    (row,) = explain_recorded(tmp_path).table
    assert row.zone == ("UTC" if form in ("an offset", "Z") else "not stated")


def test_an_empty_cell_is_no_zero_of_the_other_column(tmp_path: Path) -> None:
    rows = five_minutes("%Y/%m/%d %H:%M:%S").splitlines(keepends=True)
    text = console("".join(row.replace(",3,", ",,") if number % 3 else row for number, row in enumerate(rows)))
    history = read_history(given(tmp_path, {"metrics.csv": text}), Defaults())
    assert history.work.reads_per_s.mean() == pytest.approx(619.5)
    assert "26 of 40 points have no writes: taken as none" in history.warnings


def test_an_error_of_the_cli_between_answers_hides_none_and_is_told(tmp_path: Path) -> None:
    error = "\nAn error occurred (Throttling) when calling the GetMetricData operation: Rate exceeded\n"
    text = metric_data(rates(600)) + error + metric_data({"BurstBalance": [100.0] * 60})
    result = explain_recorded(given(tmp_path, {"cw.json": text}))
    assert result.table[0].used
    assert any("Throttling" in note for note in result.notes)
    assert read_history(tmp_path, Defaults()).observed


@pytest.mark.parametrize(
    ("metric", "cause"),
    [
        ("EBSIOBalance%", "instance.storage_limit"),
        ("BurstBalance", "storage.burst_exhausted"),
        ("CPUCreditBalance", ""),
    ],
)
def test_whose_credits_ran_out(tmp_path: Path, metric: str, cause: str) -> None:
    columns = rates(600) | {metric: [max(0.0, 100 - 3.0 * number) for number in range(60)]}
    result = explain_recorded(given(tmp_path, {"cw.json": metric_data(columns)}))
    assert [row.cause for row in result.findings] == ([cause] if cause else [])


def test_of_two_devices_the_one_in_trouble_is_told(tmp_path: Path) -> None:
    """The log volume has more operations, and the data volume waits."""
    log = Second(writes=9000, kib=4, write_ms=0.1)
    text = iostat([*quiet(20), *limited(3000, 90)], more_devices=[("nvme2n1", log)])
    result = explain_recorded(given(tmp_path, {"i.txt": text}))
    assert result.timelines[0].title == "nvme2n1"
    assert any("nvme1n1" in note and LIMIT in note and "--device nvme1n1" in note for note in result.notes)


def test_two_recordings_of_one_device_that_contradict_each_other_are_told(tmp_path: Path) -> None:
    files = {"a.txt": iostat(quiet(60)), "b.txt": iostat(limited(3000, 60))}
    result = explain_recorded(given(tmp_path, files))
    assert [timeline.findings[0].cause if timeline.findings else "" for timeline in result.timelines] == ["", LIMIT]
    assert any("b.txt has other figures for the same device and time than a.txt" in note for note in result.notes)


def test_prometheus_names_its_error_and_its_hosts(tmp_path: Path) -> None:
    error = {"status": "error", "errorType": "bad_data", "error": "invalid parameter query"}
    with pytest.raises(UsageError, match=r"Prometheus.*invalid parameter query"):
        explain_recorded(given(tmp_path, {"q.json": json.dumps(error)}))


def test_a_rate_below_what_a_longer_queue_brings_is_no_limit(tmp_path: Path) -> None:
    """Three steps of load, each even: the middle one is served less because less is asked of the volume."""
    steps = [
        Second(reads=rate * jitter(n, 0.02), read_ms=wait_ms * jitter(n + 3, 0.03))
        for rate, wait_ms in ((170, 5.8), (400, 19.0), (640, 72.0))
        for n in range(50)
    ]
    result = explain_recorded(given(tmp_path, {"i.txt": iostat(steps)}))
    levels = [row.value for finding in result.findings for row in finding.evidence if row.metric == "iops"]
    assert all(isinstance(level, float) and level > 600 for level in levels)
    assert any("is no limit: the volume served 6" in note for note in result.notes)


def test_a_limit_that_was_raised_under_the_same_queue_is_still_named(tmp_path: Path) -> None:
    result = explain_recorded(given(tmp_path, {"i.txt": iostat([*limited(3000, 60), *limited(9000, 60)])}))
    assert LIMIT in {finding.cause for finding in result.findings}


def test_the_bytes_of_a_limit_are_those_of_its_own_operations(tmp_path: Path) -> None:
    """Operations of 8 KiB at the limit, of 32 KiB before: 7,000 of 8 KiB are 54.7 MiB/s."""
    rows = [Second(reads=200, kib=32.0)] * 60 + limited(7000, 90, kib=8.0)
    result = explain_recorded(given(tmp_path, {"i.txt": iostat(rows)}))
    assert "the volume gives 7,000 IOPS (54.7 MiB/s) and no more" in result.findings[0].evidence[0].text


@pytest.mark.parametrize("form", ["ExtendedStatistics", "label"])
def test_a_percentile_of_a_counter_is_refused(tmp_path: Path, form: str) -> None:
    """The largest of samples, or the 99th percentile of them, is not their sum."""
    values = [90_000.0] * 40
    if form == "label":
        text = metric_data({"VolumeReadOps p99": values})
    else:
        points = [
            {"Timestamp": f"2025-03-11T{10 + n // 12:02d}:{n % 12 * 5:02d}:00Z", form: {"p99": value}}
            for n, value in enumerate(values)
        ]
        text = json.dumps({"Label": "VolumeReadOps", "Datapoints": points})
    with pytest.raises(UsageError, match="VolumeReadOps counts: it needs --statistics Sum, and has p99"):
        explain_recorded(given(tmp_path, {"cw.json": text}))


def test_credits_of_two_instances_are_told_to_go_unused(tmp_path: Path) -> None:
    spent, full = [*range(90, 0, -3), *[0.0] * 60], [100.0] * 90
    text = metric_data(
        {"i-0aaa EBSIOBalance%": spent, "i-0bbb EBSIOBalance%": full, "VolumeReadOps": [115e3] * 30 + [37e3] * 60}
    )
    result = explain_recorded(given(tmp_path, {"cw.json": text}))
    assert result.findings == ()
    assert any("the credits of 2 instances go unused" in note and "i-0aaa, i-0bbb" in note for note in result.notes)
