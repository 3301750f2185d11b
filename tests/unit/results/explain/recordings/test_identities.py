"""Recordings that share a file, a name or a time and are not one: appended runs, hosts, clusters, copies.

The figures are our own (evidence_texts); the layouts are those of sysbench 1.0.20, of sadf of sysstat 11.6 to 12.7
(tests/expected.sadf-d-T-tz and expected.sadf-U-se-epoch of its repository) and of Prometheus' HTTP API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from evidence_texts import START, Second, iostat, jitter, limited, metric_data, quiet, sar

from volbench.results.credits.history import Defaults
from volbench.results.credits.sources import read_history
from volbench.results.explain.recordings.directory import RecordedExplanation, explain_recorded
from volbench.results.recorded.formats import RECORDINGS_MAX
from volbench.results.recorded.timelines import Choice

LIMIT = "storage.iops_limit"
SLOW, FINE = [*quiet(60), *limited(300, 60)], quiet(120)


def explained(directory: Path, text: str, choice: Choice | None = None) -> RecordedExplanation:
    (directory / "recording").write_text(text)
    return explain_recorded(directory, choice=choice or Choice())


def first_causes(result: RecordedExplanation) -> list[str]:
    return [timeline.findings[0].cause if timeline.findings else "" for timeline in result.timelines]


@pytest.mark.parametrize("clock", ["%m/%d/%Y %I:%M:%S %p", ""])
def test_each_run_of_iostat_that_was_appended_to_a_file_is_explained(tmp_path: Path, clock: str) -> None:
    """On one host and day, the later run took the place of the earlier one."""
    texts = [
        iostat(rows, start=START + timedelta(hours=hours), clock=clock)
        for hours, rows in ((0, limited(3000, 90)), (3, quiet(60)))
    ]
    result = explained(tmp_path, "".join(texts))
    assert first_causes(result) == [LIMIT, ""]
    assert [row.points for row in result.table] == [90, 60]
    assert len({row.file for row in result.table}) == 2


def load(threads: int, rates: Sequence[float], *, banner: bool = True) -> str:
    """A log of sysbench 1.0, one report a second."""
    head = f"sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)\n\nNumber of threads: {threads}\n\n"
    return (head if banner else "") + "".join(
        f"[ {t}s ] thds: {threads} tps: {rate:.2f} qps: {20 * rate:.2f} (r/w/o: 1.00/1.00/1.00) lat (ms,95%):"
        f" {1500 * threads / rate:.2f} err/s: 0.00 reconn/s: 0.00\n"
        for t, rate in enumerate(rates, start=1)
    )


@pytest.mark.parametrize("banner", [True, False])
def test_each_load_in_a_log_is_read(tmp_path: Path, banner: bool) -> None:
    """`sysbench ... >>log` in a loop: the seconds of the last load stood in for those of all others."""
    rates = [[800.0] * 60, [1500.0] * 60, [1500.0] * 40 + [400.0] * 80]
    result = explained(
        tmp_path,
        "".join(load(threads, rate, banner=banner) for threads, rate in zip((8, 32, 64), rates, strict=True)),
    )
    assert [row.points for row in result.table] == [60, 60, 120]
    slower = [any("the clients were slower" in note for note in timeline.notes) for timeline in result.timelines]
    assert slower == [False, False, True]


def test_summaries_of_several_loads_are_each_read(tmp_path: Path) -> None:
    summary = (
        "sysbench 1.0.20 (using system LuaJIT 2.1.0)\n\nNumber of threads: {threads}\n\n    transactions:"
        "                        {count}  ({tps:.2f} per sec.)\n    total time:                          60.0s\n"
    )
    text = "".join(summary.format(threads=n, count=60 * tps, tps=tps) for n, tps in ((8, 100), (16, 200)))
    assert len(explained(tmp_path, text).table) == 2


def test_lines_of_two_clients_at_once_are_told(tmp_path: Path) -> None:
    first, second = (load(8, [rate] * 30).splitlines()[4:] for rate in (800.0, 400.0))
    lines = [line for pair in zip(first, second, strict=True) for line in pair]
    result = explained(tmp_path, "\n".join(lines))
    assert any("some seconds twice" in note for timeline in result.timelines for note in timeline.notes)


def test_loads_of_one_log_are_not_aligned_together(tmp_path: Path) -> None:
    (tmp_path / "i.txt").write_text(iostat(SLOW))
    result = explained(tmp_path, load(8, [800.0] * 60) + load(32, [300.0] * 60), Choice(align=True))
    assert [[*timeline.timeline.recordings] for timeline in result.timelines] == [
        ["i.txt"],
        ["recording, recording 1"],
        ["recording, recording 2"],
    ]


def sadf(host: str, rows: Sequence[Second], *, zone: str = " UTC", epoch: bool = False) -> str:
    """`sadf -d -- -d` of sysstat 12."""
    lines = ["# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util\n"]
    for at, row in enumerate(rows, start=1):
        moment = datetime(2025, 3, 11, tzinfo=UTC) + timedelta(minutes=10 * at)
        time = f"{moment.timestamp():.0f}" if epoch else f"{moment:%Y-%m-%d %H:%M:%S}{zone}"
        total = row.reads + row.writes
        lines.append(
            f"{host};600;{time};nvme1n1;{total:.2f};{row.reads * row.kib:.2f};{row.writes * row.kib:.2f};0.00;"
            f"{row.kib:.2f};{row.in_flight:.2f};{1000 * row.in_flight / total:.2f};{row.util:.2f}\n"
        )
    return "".join(lines)


def test_two_hosts_in_one_output_of_sadf_are_two(tmp_path: Path) -> None:
    """The second host's day was put behind the first one's, as if it were the next day."""
    result = explained(tmp_path, sadf("db1", FINE) + sadf("db2", SLOW))
    assert [timeline.timeline.host for timeline in result.timelines] == ["db1", "db2"]
    assert first_causes(result) == ["", LIMIT]


@pytest.mark.parametrize(("zone", "epoch", "zone_text"), [(" CET", False, "the host's own"), ("", True, "UTC")])
def test_times_of_sadf_with_a_zone_or_since_the_epoch(
    tmp_path: Path, zone: str, epoch: bool, zone_text: str
) -> None:
    restart = f"db1;-1;2025-03-11 00:00:00{zone or ' UTC'};LINUX-RESTART\t(8 CPU)\n" * (not epoch)
    result = explained(tmp_path, restart + sadf("db1", SLOW, zone=zone, epoch=epoch))
    assert [(row.begin, row.points, row.zone) for row in result.table] == [("2025-03-11 00:10:00", 120, zone_text)]


def query_range(
    rows: Sequence[Second], labels: Mapping[str, str], *, late_s: float = 0.0
) -> list[dict[str, object]]:
    """Results of one host's counters every 15 s; `late_s`: how much later they were scraped."""
    totals: dict[str, list[list[object]]] = {}
    for at in range(len(rows)):
        before = [*rows[:at]]
        sums = {
            "reads_completed_total": sum(row.reads for row in before),
            "writes_completed_total": sum(row.writes for row in before),
            "read_time_seconds_total": sum(row.reads * row.read_ms / 1000 for row in before),
            "write_time_seconds_total": sum(row.writes * row.write_ms / 1000 for row in before),
            "io_time_weighted_seconds_total": sum(row.in_flight for row in before),
        }
        growth = rows[at]
        more = {"reads_completed_total": growth.reads, "writes_completed_total": growth.writes}
        for name, value in sums.items():
            total = 15 * value + late_s * more.get(name, 0.0)
            totals.setdefault(name, []).append([1_741_701_600 + 15 * at, f"{total:.3f}"])
    return [
        {"metric": {"__name__": f"node_disk_{name}", "device": "nvme1n1", **labels}, "values": values}
        for name, values in totals.items()
    ]


def answer(*results: list[dict[str, object]]) -> str:
    listed = [result for of_host in results for result in of_host]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": listed}})


@pytest.mark.parametrize(
    "labels",
    [
        ({"instance": "10.0.0.5:9100", "cluster": "a"}, {"instance": "10.0.0.5:9100", "cluster": "b"}),
        ({"nodename": "db1"}, {"nodename": "db2"}),
        ({"node": "ip-10-0-0-5"}, {"node": "ip-10-0-0-6"}),
        ({"region": "eu"}, {"region": "us"}),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_two_machines_of_prometheus_are_two_by_whatever_label(
    tmp_path: Path, labels: tuple[dict[str, str], dict[str, str]], first: int
) -> None:
    """Which one was left hung on the order of the answer."""
    results = [query_range(SLOW, labels[0]), query_range(FINE, labels[1])]
    result = explained(tmp_path, answer(*(results if first == 0 else results[::-1])))
    assert len(result.table) == 2
    assert sorted(first_causes(result)) == ["", LIMIT]


def test_two_servers_that_scrape_one_exporter_tell_of_one_host(tmp_path: Path) -> None:
    copies = [query_range(SLOW, {"instance": "db1:9100", "replica": str(at)}, late_s=7.0 * at) for at in range(2)]
    result = explained(tmp_path, answer(*copies))
    assert [(row.host, row.used) for row in result.table] == [("db1", True)]


def test_an_exporter_that_was_started_anew_under_another_label_is_one_host(tmp_path: Path) -> None:
    results = query_range(SLOW, {"instance": "db1:9100", "pod": "a"})
    halves = [
        [{"metric": {**result["metric"], "pod": pod}, "values": result["values"][rows]} for result in results]  # type: ignore[dict-item, index]
        for pod, rows in (("a", slice(0, 60)), ("b", slice(60, None)))
    ]
    result = explained(tmp_path, answer(*halves))
    assert [row.points for row in result.table] == [119]
    assert first_causes(result) == [LIMIT]


def test_recordings_that_agree_half_of_the_time_and_differ_in_all_are_of_two_devices(tmp_path: Path) -> None:
    """Two hosts without names, of which both rest for most of the time."""
    for name, rows in (("a.txt", quiet(120)), ("b.txt", [*quiet(80), *limited(3000, 40)])):
        (tmp_path / name).write_text("".join(iostat(rows).splitlines(keepends=True)[1:]))
    result = explain_recorded(tmp_path)
    assert len(result.timelines) == 2
    assert any("other figures for the same device" in note for note in result.notes)


def test_a_device_that_a_report_leaves_out_was_idle(tmp_path: Path) -> None:
    """`iostat -xz` prints no row of it: 484 operations a second on average were 2,904."""
    rows = [row for _ in range(3) for row in (*limited(2900, 10), *[Second()] * 50)]
    text = "".join(
        line for line in iostat(rows).splitlines(keepends=True) if not re.match(r"nvme1n1 +0\.00 +0\.00 ", line)
    )
    (tmp_path / "i.txt").write_text(text)
    work = read_history(tmp_path, Defaults()).work
    assert float(np.average(work.reads_per_s, weights=work.interval_s)) == pytest.approx(2900 * 30 / 130, rel=0.02)


def test_a_time_below_0_is_not_known(tmp_path: Path) -> None:
    """A counter that ran over; numpy's warning stood before the answer."""
    text = iostat([*quiet(60), *limited(3000, 60)]).replace("    0.80    0.70", "   -0.80    0.70")
    assert explained(tmp_path, text).findings[0].cause == LIMIT


def test_what_another_volume_did_is_no_part_of_a_limit(tmp_path: Path) -> None:
    """Zones that fit nowhere: of a volume that may be another one, `others` were to be looked for all the same."""
    rows = [*quiet(36), *limited(900, 36), *quiet(36)]
    begin = datetime(2025, 3, 11, 12)
    (tmp_path / "sar.txt").write_text(sar(rows, start=begin))
    counts = {
        "VolumeReadOps": [600 * 50.0] * 108,
        "VolumeWriteOps": [600 * 2500 * jitter(n, 0.1) for n in range(108)],
    }
    (tmp_path / "cw.json").write_text(metric_data(counts, start=begin.replace(tzinfo=UTC), period_s=600))
    result = explain_recorded(tmp_path)
    (finding, *_) = result.findings
    assert finding.cause == LIMIT
    text = " ".join([finding.advice, *(item.text for item in finding.evidence)])
    assert "who else uses" not in text
    assert "to all that use it" not in text
    assert any("shared_volume would have been named, but the time zone" in note for note in result.notes)


def test_one_day_whose_reading_is_open_is_one_day_of_two_tools(tmp_path: Path) -> None:
    """05/03/2025 was March of iostat, with its clock of 24 hours, and May of sar."""
    start = datetime(2025, 3, 5, 14)
    text = iostat(SLOW, start=start, clock="%d/%m/%Y %H:%M:%S")
    (tmp_path / "i.txt").write_text(text.replace("03/05/2025", "05/03/2025"))
    (tmp_path / "s.txt").write_text(sar(quiet(6), start=start - timedelta(minutes=30), banner_date="%d/%m/%Y"))
    result = explain_recorded(tmp_path)
    assert {row.begin.split()[0] for row in result.table} == {"2025-03-05"}


def test_loads_of_go_tpc_in_one_log_are_two(tmp_path: Path) -> None:
    """The second one was said to be slower than the first, as if it were one load."""
    line = (
        "[Current] NEW_ORDER - Takes(s): 10.0, Count: 1000, TPM: {tpm}.0, Sum(ms): 1.0, Avg(ms): 10.0,"
        " 50th(ms): 9.0, 90th(ms): 12.0, 95th(ms): {p95}.0, 99th(ms): 99.0, 99.9th(ms): 99.0, Max(ms): 99.0\n"
    )
    ends = "Finished\n[Summary] NEW_ORDER - Takes(s): 300.0, Count: 30000, TPM: 6000.0\ntpmC: 6000.0\n"
    text = "".join(30 * line.format(tpm=tpm, p95=p95) + ends for tpm, p95 in ((6000, 15), (2000, 90)))
    result = explained(tmp_path, text)
    assert [row.points for row in result.table] == [30, 30]
    assert not any("slower" in note for timeline in result.timelines for note in timeline.notes)


def test_of_very_many_loads_in_a_file_the_first_are_read(tmp_path: Path) -> None:
    """Each is explained for itself, which takes time."""
    result = explained(tmp_path, 500 * load(8, [800.0, 700.0]))
    assert len(result.table) == RECORDINGS_MAX
    assert any("the first 50 of 500 recordings in this file" in note for note in result.timelines[0].notes)
