"""Directories as people bring them: two tools, two clocks, two users of a volume. The figures are our own."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from evidence_texts import START, Second, iostat, jitter, limited, metric_data, quiet, sar
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.results.credits.history import Defaults
from volbench.results.credits.sources import read_history
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.recorded.timelines import Choice

ROWS = [*quiet(60), *limited(3000, 90)]
AT_LIMIT = iostat(ROWS)
LIMIT = "storage.iops_limit"
SHARED = "interference.shared_volume"


def written(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


def reports(count: int, slow: range, form: str, start: datetime = START) -> str:
    """sysbench's log as `ts FORM` passes it on."""
    return "".join(
        f"{start + timedelta(seconds=t):{form}}[ {t}s ] thds: 64 tps: {300 if t in slow else 1000}.00 qps: 1"
        f" lat (ms,95%): {200 if t in slow else 60}.00 err/s: 0.00\n"
        for t in range(1, count + 1)
    )


@pytest.mark.parametrize("form", ["%b %d %H:%M:%S ", "%Y-%m-%d %H:%M:%S ", "%H:%M:%S "])
def test_a_client_s_log_with_times_is_put_beside_the_host_s(tmp_path: Path, form: str) -> None:
    result = explain_recorded(written(tmp_path, i__txt=AT_LIMIT, s__log=reports(150, range(61, 151), form)))
    assert [row.begin for row in result.table] == ["2025-03-11 14:00:01"] * 2
    (timeline,) = result.timelines
    assert timeline.findings[0].cause == LIMIT
    assert "the clients were slower from 14:01:00 to 14:02:30" in "\n".join(result.notes)


def test_a_client_s_log_of_another_day_is_not(tmp_path: Path) -> None:
    log = reports(150, range(61, 151), "%Y-%m-%d %H:%M:%S ", START + timedelta(days=1))
    result = explain_recorded(written(tmp_path, i__txt=AT_LIMIT, s__log=log))
    assert len(result.timelines) == 2
    assert any("these never meet" in note for note in result.notes)


def test_a_log_in_utc_beside_a_host_in_another_zone(tmp_path: Path) -> None:
    log = reports(150, range(61, 151), "%Y-%m-%dT%H:%M:%S.5Z ")
    written(tmp_path, i__txt=iostat(ROWS, start=START + timedelta(hours=1)), s__log=log)
    apart = explain_recorded(tmp_path)
    assert len(apart.timelines) == 2
    assert any("--timezone states it" in note for note in apart.notes)
    together = explain_recorded(tmp_path, choice=Choice(zone="+01:00"))
    assert len(together.timelines) == 1


def test_lines_of_a_second_tool_in_a_file_are_told(tmp_path: Path) -> None:
    log = "".join(f"[{line.split('[')[1]}" for line in reports(90, range(0), "%s ").splitlines(keepends=True))
    result = explain_recorded(written(tmp_path, all__txt=AT_LIMIT + "\n" + log))
    assert result.findings[0].cause == LIMIT
    assert any("lines of sysbench in a file of iostat are not read" in note for note in result.notes)


def test_files_of_one_time_are_not_said_never_to_meet(tmp_path: Path) -> None:
    without = ["".join(text.splitlines(keepends=True)[1:]) for text in (AT_LIMIT, iostat(quiet(150)))]
    result = explain_recorded(written(tmp_path, a__txt=without[0], b__txt=without[1]))
    assert len(result.timelines) == 2
    assert any("other figures for the same device" in note for note in result.notes)
    assert not any("never meet" in note for note in result.notes)


def shared(directory: Path, others: Sequence[float], *, with_bytes: bool) -> Path:
    """A host at 900 operations/s for six hours, and a volume that serves `others` in each period besides."""
    rows, begin = [*quiet(36), *limited(900, 36), *quiet(36)], datetime(2025, 3, 11, 12)
    counts = {
        "VolumeReadOps": [(item.reads + more) * 600 for item, more in zip(rows, others, strict=True)],
        "VolumeWriteOps": [item.writes * 600 for item in rows],
    }
    if with_bytes:
        counts |= {
            f"Volume{verb}Bytes": [16_384 * value for value in counts[f"Volume{verb}Ops"]]
            for verb in ("Read", "Write")
        }
    answer = metric_data(counts, start=begin.replace(tzinfo=UTC), period_s=600)
    return written(directory, sar__txt=sar(rows, start=begin), cw__json=answer)


@pytest.mark.parametrize("with_bytes", [True, False])
def test_others_and_a_limit_of_the_host_s_device_are_both_named(tmp_path: Path, with_bytes: bool) -> None:
    """The volume serves 3,000 operations/s, of which this host gets 900 with a queue."""
    directory = shared(tmp_path, [0] * 36 + [2100] * 36 + [0] * 36, with_bytes=with_bytes)
    result = explain_recorded(directory, choice=Choice(zone="UTC"))
    causes = [row.cause for row in result.findings]
    assert {LIMIT, SHARED} <= set(causes)
    limit = result.findings[causes.index(LIMIT)]
    assert "the volume gives this host 900 IOPS" in limit.evidence[0].text
    assert "the volume served 3,000 operations/s to all that use it" in limit.evidence[1].text
    assert limit.advice.startswith("First find who else uses this volume")


@pytest.mark.parametrize("with_bytes", [True, False])
def test_a_host_alone_on_its_volume_is_told_of_no_others(tmp_path: Path, with_bytes: bool) -> None:
    result = explain_recorded(shared(tmp_path, [0] * 108, with_bytes=with_bytes), choice=Choice(zone="UTC"))
    assert SHARED not in [row.cause for row in result.findings]
    assert result.findings[0].evidence[0].text.startswith("the volume gives 900 IOPS")


def monitoring(rows: Sequence[Second]) -> list[str]:
    """Messages of RDS Enhanced Monitoring."""
    return [
        json.dumps(
            {
                "engine": "MYSQL",
                "instanceID": "db1",
                "timestamp": f"{START + timedelta(seconds=at):%Y-%m-%dT%H:%M:%SZ}",
                "cpuUtilization": {"user": 8.0, "system": 2.0, "wait": 4.0, "idle": 86.0, "steal": 0.0},
                "diskIO": [
                    {
                        "device": "rdsdev",
                        "readIOsPS": item.reads * jitter(at, 0.0005),
                        "writeIOsPS": item.writes,
                        "readKbPS": item.reads * item.kib,
                        "writeKbPS": item.writes * item.kib,
                        "await": 1000 * item.in_flight / (item.reads + item.writes),
                        "avgQueueLen": item.in_flight,
                        "util": item.util,
                    }
                ],
            }
        )
        for at, item in enumerate(rows)
    ]


def test_enhanced_monitoring_as_it_is_exported(tmp_path: Path) -> None:
    """Lines of an export to S3, and CSV of Logs Insights."""
    messages, table = monitoring(ROWS), io.StringIO()
    csv.writer(table).writerows([["@timestamp", "@message"], *([f"{START}", each] for each in messages)])
    lines = "".join(f"2025-03-11T14:00:00.000Z {each}\n" for each in messages)
    (tmp_path / "000000.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "insights.csv").write_text(table.getvalue())
    (tmp_path / "tail.log").write_text("".join(f"2025-03-11T14:00:00+00:00 db-X {each}\n" for each in messages))
    for name in ("000000.gz", "insights.csv", "tail.log"):
        result = explain_recorded(tmp_path / name)
        assert (result.table[0].kind, result.table[0].host) == ("Enhanced Monitoring", "db1")
        assert result.findings[0].cause == LIMIT


SERIES = "time,iops\n" + "".join(f"{1_741_701_600 + 60 * at},600\n" for at in range(60))
PLAIN: dict[str, tuple[str, bytes]] = {
    "packed": ("h.csv.gz", gzip.compress(SERIES.encode())),
    "UTF-16": ("h.csv", SERIES.encode("utf-16")),
    "capitals and blanks": ("h.csv", SERIES.replace("time,iops", " Time , IOPS ").encode()),
    "semicolons and decimal commas": ("h.csv", SERIES.replace(",", ";").replace("600\n", "600,0\n").encode()),
    "milliseconds": ("h.csv", SERIES.replace(",", "000,").replace("time000", "time").encode()),
    "a mark and CRLF": ("h.csv", SERIES.replace("\n", "\r\n").encode("utf-8-sig")),
}


@pytest.mark.parametrize("form", PLAIN)
def test_a_series_for_credits_in_each_form(tmp_path: Path, form: str) -> None:
    name, content = PLAIN[form]
    (tmp_path / name).write_bytes(content)
    work = read_history(tmp_path / name, Defaults()).work
    assert float((work.reads_per_s + work.writes_per_s).mean()) == pytest.approx(600)
    assert float(work.interval_s.sum()) == 3600


def test_the_table_is_in_json_and_in_the_page_with_the_curves(tmp_path: Path) -> None:
    written(tmp_path, db1__txt=AT_LIMIT, db2__txt=iostat(quiet(150), host="db2"), x__txt="hello\n")
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["explain", "--from", str(tmp_path), "--json", "--html", str(page)])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    rows = {row["file"]: row for row in answer["files"]}
    assert {name: row["used"] for name, row in rows.items()} == {"db1.txt": True, "db2.txt": True, "x.txt": False}
    assert rows["db1.txt"]["host"] == "db1"
    assert rows["x.txt"]["why_not"]
    text = page.read_text()
    assert all(name in text for name in rows)
    assert text.count('class="chart-data"') == 2
