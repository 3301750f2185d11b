"""Evidence as users have it (tests/fixtures/evidence): each case states what is right about it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from explained_recordings import explanation_of
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import UsageError
from volbench.machine.engine.own_data.dump_filter import DumpFilter, LeftOut
from volbench.machine.engine.own_data.form import check_sql_file
from volbench.results.credits.history import Defaults
from volbench.results.credits.sources import read_history
from volbench.results.explain.recordings.directory import RecordedExplanation, explain_recorded
from volbench.results.explain.wording import clock
from volbench.results.recorded.timelines import Choice
from volbench.results.report.recordings import span_text

EVIDENCE = Path(__file__).parents[4] / "fixtures" / "evidence"
STORAGE = ("storage.", "instance.")


def evidence(name: str) -> Path:
    (location,) = EVIDENCE.glob(f"{name}*")
    return location


def causes(result: RecordedExplanation) -> dict[str, list[str]]:
    """Causes by the title of the timeline, with its host where it has one."""
    return {
        " ".join(filter(None, (timeline.timeline.host, timeline.title))): [row.cause for row in timeline.findings]
        for timeline in result.timelines
    }


def notes(result: RecordedExplanation) -> str:
    return "\n".join(result.notes)


@pytest.mark.parametrize("directory", sorted(EVIDENCE.glob("*/")), ids=lambda location: location.name)
def test_every_file_of_every_case_is_in_the_table_once_and_each_row_says_what_became_of_it(directory: Path) -> None:
    sources = [directory] if any(path.is_file() for path in directory.iterdir()) else list(directory.iterdir())
    for source in sources:
        if directory.name.startswith("28-"):
            with pytest.raises(UsageError, match="--statistics Sum"):
                explain_recorded(source)
            continue
        if directory.name.startswith(("21-", "22-", "27-")):
            with pytest.raises(UsageError, match=r"a slow query log|this is a dump, not read: give"):
                explain_recorded(source)
            continue
        table = explanation_of(source).table
        assert len({row.file for row in table}) == len(table)
        assert all(row.used or row.why_not for row in table)
        assert all(row.used for row in table)


def test_a_limit_below_what_the_volume_served_is_none() -> None:
    """01: bytes are constant at the plateau; more operations were served before and after."""
    result = explanation_of(evidence("01"))
    assert [row.cause for row in result.findings] == ["storage.throughput_limit", "instance.storage_limit"]
    assert 0.5 < (result.findings[0].confidence or 0) <= 0.75  # the instance's may be the one
    assert "a volume that gives more than 81.4 MiB/s" in result.findings[0].advice
    assert "is no limit: the volume served" in notes(result)
    (of_type, _) = explain_recorded(evidence("01"), choice=Choice(instance="m5.large")).findings
    assert of_type.cause == "instance.storage_limit"
    (second,) = explain_recorded(evidence("01"), choice=Choice(instance="r4.16xlarge")).findings
    assert (second.cause, (second.confidence or 0) > 0.9) == ("storage.throughput_limit", True)


def test_a_healthy_disk_is_not_degraded() -> None:
    """32: 1 to 19 % busy, 0.4 in flight, CPUs at 87 %."""
    result = explanation_of(evidence("32"))
    assert not any(row.cause.startswith(STORAGE) for row in result.findings)
    assert "slower" not in notes(result)
    assert not any(timeline.levels for timeline in result.timelines)


def test_credits_of_the_instance_are_not_the_volume_s() -> None:
    """02: EBSByteBalance% of the instance ran out."""
    (finding,) = explanation_of(evidence("02")).findings
    assert finding.cause == "instance.storage_limit"
    assert "burst credits for bandwidth ran out at 09:00:00" in finding.evidence[0].text
    assert "larger volume or more provisioned IOPS would not help" in finding.advice


def test_more_load_is_not_a_slower_volume() -> None:
    """03: 48 in flight in place of 1, and 3.8 times the operations."""
    result = notes(explanation_of(evidence("03")))
    assert "the volume was slower" not in result
    assert "the load grew from 14:01:39 to 14:03:19" in result
    causes_found = [row.cause for row in explanation_of(evidence("03")).findings]
    assert "storage.degraded" not in causes_found
    assert causes_found[0] == "storage.iops_limit"


def test_a_client_s_log_alone_says_nothing_of_a_volume() -> None:
    """04: transactions fell and p95 rose."""
    result = notes(explanation_of(evidence("04")))
    assert "the volume was slower" not in result
    assert "the clients were slower from second 745 to second 1200" in result
    assert "transactions 3,208 and 2,050 1/s then" in result


def test_files_without_clocks_are_not_aligned_by_their_first_lines() -> None:
    """05: a minute of iostat and half an hour of sysbench."""
    result = explanation_of(evidence("05"))
    assert set(causes(result)) == {"db1 qbd0", "sysbench.log"}
    assert not any(level.during is None for timeline in result.timelines for level in timeline.levels)
    assert "no clock is common to the files" in notes(result)
    assert "the volume was slower" not in notes(result)
    together = explain_recorded(evidence("05"), choice=Choice(align=True))
    assert len(together.timelines) == 1
    assert "as --align says" in notes(together)


def test_two_hosts_with_one_device_name_are_explained_each_for_itself() -> None:
    """06: the source is fine, the replica is at a limit."""
    result = explanation_of(evidence("06"))
    assert causes(result) == {
        "db-primary nvme1n1": [],
        "db-replica nvme1n1": ["storage.iops_limit", "storage.throughput_limit"],
    }
    replica = explain_recorded(evidence("06"), choice=Choice(host="db-replica"))
    assert list(causes(replica)) == ["db-replica nvme1n1"]
    assert [row.why_not for row in replica.table if not row.used] == ["of db-primary, not of db-replica"]
    with pytest.raises(UsageError, match="db-primary, db-replica"):
        explain_recorded(evidence("06"), choice=Choice(host="db3"))
    with pytest.raises(UsageError, match="several hosts"):
        read_history(evidence("06"), Defaults())
    history = read_history(evidence("06"), Defaults(), choice=Choice(host="db-replica"))
    assert history.work.reads_per_s.mean() > 2900


@pytest.mark.parametrize("names", [("sar10.txt", "sar11.txt"), ("sar11.txt", "sar10.txt"), ("b.txt", "a.txt")])
def test_two_days_of_sar_are_two_days_whatever_the_files_names_are(tmp_path: Path, names: tuple[str, str]) -> None:
    """07: on the second day the volume gives its baseline all day."""
    for name, original in zip(names, ("sar10.txt", "sar11.txt"), strict=True):
        shutil.copy(evidence("07") / original, tmp_path / name)
    result = explain_recorded(tmp_path)
    ((title, named),) = causes(result).items()
    assert title == "db1 nvme1n1"
    assert any(cause.startswith("storage.") for cause in named)
    assert result.findings[0].window_s is not None
    assert result.findings[0].window_s[0] >= 86_400
    assert len(read_history(tmp_path, Defaults()).work.reads_per_s) >= 286
    first = explain_recorded(tmp_path, choice=Choice(day=result.timelines[0].timeline.first_day))
    assert causes(first) == {"db1 nvme1n1": []}


def test_files_of_different_days_never_meet() -> None:
    """08: sar of 10 March, CloudWatch of 12 March."""
    result = explanation_of(evidence("08"))
    assert "interference.shared_volume" not in {row.cause for row in result.findings}
    assert "these never meet" in notes(result)
    assert "sar.txt from 2025-03-10 00:10:01" in notes(result)
    assert causes(result)["db1 nvme1n1"] == []


@pytest.mark.parametrize(("name", "cause"), [("09", "storage.burst_exhausted"), ("10", "storage.iops_limit")])
def test_iostat_as_old_versions_and_grep_leave_it(name: str, cause: str) -> None:
    assert cause in {row.cause for row in explanation_of(evidence(name)).findings}


def test_sysbench_s_other_reporters_are_read() -> None:
    """11 and 12: the CSV reporter of 1.0, and the lines of 0.5."""
    csv = explanation_of(evidence("11") / "res.txt")
    assert csv.table[0].points == 299
    assert "the clients were slower" in notes(csv)
    old = explanation_of(evidence("12"))
    assert old.table[0].points == 60
    assert "p99 of the clients" in notes(old)


@pytest.mark.parametrize("name", ["13", "14", "19"])
def test_cloudwatch_in_one_file_as_csv_and_in_five_files_says_the_same(name: str) -> None:
    result = explanation_of(evidence(name))
    assert [row.cause for row in result.findings] == ["storage.burst_exhausted"]
    assert "10:50:00" in result.findings[0].evidence[0].text


@pytest.mark.parametrize(
    "location",
    ["15-utf16-from-powershell", *(f"16-compressed-or-one-level-down/{kind}" for kind in ("gz", "nested", "tgz"))],
)
def test_encodings_and_containers_are_read(location: str) -> None:
    result = explanation_of(EVIDENCE / location)
    assert "storage.burst_exhausted" in {row.cause for row in result.findings}


def test_nfsiostat_tells_metadata_and_the_client_s_queue() -> None:
    """17: three quarters of the operations are metadata; a write waits for a slot of the client."""
    result = notes(explanation_of(evidence("17")))
    assert "are neither reads nor writes but metadata" in result
    assert "12.6 ms on the network and the server, and 38.1 ms" in result
    (limit,) = explanation_of(evidence("17")).findings
    assert (limit.confidence or 0) <= 0.5
    assert limit.advice.startswith("Give the client more slots")


def test_innodb_s_status_says_that_commits_wait_for_syncs() -> None:
    """18: one moment, which is said."""
    result = explanation_of(evidence("18"))
    assert result.findings == ()
    assert "84.1 syncs/s for 55.2 changed rows/s" in notes(result)
    assert "is one moment" in notes(result)


def test_the_cpu_of_cloudwatch_is_used() -> None:
    """19: 36 % before and 8 % while throttled."""
    result = explanation_of(evidence("19"))
    assert not any("no CPU times" in note for note in result.notes)
    grid = result.timelines[0].grid
    busy = grid.column("cpu", "user_ratio")
    assert busy is not None
    throttled = grid.t_s > 11 * 3600
    assert busy[throttled].mean() < 0.1
    assert busy[~throttled].mean() > 0.3
    assert not any("no data points" in warning for warning in read_history(evidence("19"), Defaults()).warnings)


def test_the_marks_and_warnings_before_a_dump_are_left_out() -> None:
    """21 and 27: MariaDB's first mark, which stops MySQL's client, and the warning that `2>&1` puts into a dump."""
    for case, text in (("21", b"999999"), ("27", b"Using a password")):
        dump = evidence(case) / "dump.sql"
        check_sql_file(dump)
        content = dump.read_bytes()
        assert text in content
        left_out = LeftOut()
        loaded = b"".join(DumpFilter("shop", left_out).filtered([content]))
        assert text not in loaded
        assert loaded.count(b"INSERT INTO") == content.count(b"INSERT INTO") == 1


def test_the_server_s_remark_in_a_slow_log_is_no_statement(tmp_path: Path) -> None:
    """22: `throttle: 17 'index not used' warning(s) suppressed.`"""
    out = tmp_path / "out.log"
    done = CliRunner().invoke(app, ["capture", str(out), "--from", str(evidence("22") / "slow.log"), "--mask"])
    assert done.exit_code == 0, done.output
    assert "throttle" not in out.read_text()
    assert out.read_text().count("SELECT") == 1
    assert "1 of them statements" in done.output or "1 statement" in done.output


def test_a_queue_from_begin_to_end_is_not_silent() -> None:
    """23: 153 in flight at 2.2 s each."""
    findings = explanation_of(evidence("23")).findings
    assert [row.cause for row in findings] == ["storage.throughput_limit", "storage.iops_limit"]
    assert all((row.confidence or 0) <= 0.5 for row in findings)
    assert "154 operations are in flight in 100 % of the time" in findings[0].evidence[1].text


def test_an_outage_of_the_client_is_said() -> None:
    """24: it has no latency."""
    result = notes(explanation_of(evidence("24")))
    assert "no transaction ended from second 695 to second 1245 although 256 clients waited" in result


def test_prometheus_tells_what_node_exporter_counted() -> None:
    """25: reads fall from 1,500 to 300 a second at 14:30 UTC."""
    result = explanation_of(evidence("25"))
    assert [row.cause for row in result.findings] == ["storage.burst_exhausted"]
    assert result.table[0].host == "db1"
    history = read_history(evidence("25") / "query_range.json", Defaults())
    assert history.work.reads_per_s.max() > 1400


def test_reads_thirty_times_slower_than_writes_are_said() -> None:
    """26: blocks of a volume from a snapshot."""
    (finding,) = explanation_of(evidence("26")).findings
    assert finding.cause == "storage.read_latency"
    assert "reads take 35.9 ms and writes 1.2 ms" in finding.evidence[0].text
    assert "made from a snapshot" in finding.advice


def test_the_average_of_a_counter_is_refused() -> None:
    """28: VolumeReadOps with Average."""
    for read in (explain_recorded, lambda path: read_history(path, Defaults())):
        with pytest.raises(UsageError, match="VolumeReadOps counts: it needs --statistics Sum, and has Average"):
            read(evidence("28"))


def test_two_volumes_in_one_answer_are_told_apart_in_any_order() -> None:
    """29: the busy one is vol-0bbb."""
    for order in ("quiet-first", "busy-first"):
        result = explanation_of(evidence("29") / order)
        assert result.table[0].devices == ("vol-0aaa", "vol-0bbb")
        with pytest.raises(UsageError, match="devices: vol-0aaa, vol-0bbb"):
            read_history(evidence("29") / order, Defaults())
        quiet, busy = (
            read_history(evidence("29") / order, Defaults(), device=device).work
            for device in ("vol-0aaa", "vol-0bbb")
        )
        assert (busy.reads_per_s + busy.writes_per_s).mean() > 2000
        assert (quiet.reads_per_s + quiet.writes_per_s).mean() < 100


def test_three_days_of_cloudwatch_and_the_sar_of_the_third_agree() -> None:
    """30: nothing is named."""
    result = explanation_of(evidence("30"))
    assert result.findings == ()
    assert {row.file: row.begin[:10] for row in result.table} == {
        "cw.json": "2025-03-10",
        "sar12.txt": "2025-03-12",
    }


def test_two_collections_of_pt_stalk_are_both_explained() -> None:
    """31: the second has the trouble."""
    first, second = explanation_of(evidence("31")).timelines
    assert first.findings == ()
    assert second.findings[0].cause.startswith("storage.")


def test_a_device_without_waiting_times_is_not_one_that_waits_for_0_ms() -> None:
    """33: md0 of an old kernel, whose members have 41 ms."""
    result = explanation_of(evidence("33"))
    assert "0 ms with 0 in flight" not in notes(result)
    assert "md0 has operations and neither a queue nor a waiting time" in notes(result)
    assert result.timelines[0].title in ("sdc", "sdd")


def test_an_interval_that_no_line_tells_is_asked_for() -> None:
    """34: iostat -x 60 without times is a gp2 of 100 GiB whose credits last 100 minutes."""
    with pytest.raises(UsageError, match="--interval 60s"):
        read_history(evidence("34"), Defaults())
    history = read_history(evidence("34"), Defaults(), interval_s=60.0)
    assert history.work.interval_s.sum() == 179 * 60
    unknown = explanation_of(evidence("34"))
    assert "no line tells the interval of its samples" in notes(unknown)
    assert not any("were spent until then" in item.text for row in unknown.findings for item in row.evidence)
    known_names = explain_recorded(evidence("34"), interval_s=60.0)
    assert any("were spent until then" in item.text for row in known_names.findings for item in row.evidence)


def test_one_bad_file_does_not_silence_the_others(tmp_path: Path) -> None:
    shutil.copy(evidence("13") / "cw.json", tmp_path / "a.json")
    (tmp_path / "b.json").write_text('{"MetricDataResults": [')
    (tmp_path / "c.bin").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "d.gz").write_bytes(b"\x1f\x8b\x08 not gzip")
    (tmp_path / "e.zip").write_bytes(b"PK\x03\x04 not zip")
    (tmp_path / "f.txt").write_text("hello\n")
    result = explain_recorded(tmp_path)
    assert [row.cause for row in result.findings] == ["storage.burst_exhausted"]
    assert {row.file: row.used for row in result.table} == {
        "a.json": True,
        "b.json": False,
        "c.bin": False,
        "d.gz": False,
        "e.zip": False,
        "f.txt": False,
    }
    assert all(row.why_not for row in result.table if not row.used)


def test_a_recorded_balance_that_contradicts_the_size_says_which_size_it_implies() -> None:
    """20: 100 % for four hours under 520 operations a second is a gp2 of 174 GiB or more, or several."""
    done = CliRunner().invoke(
        app, ["credits", "--profile", "ebs-gp2", "--size", "100GiB", "--from", str(evidence("20"))]
    )
    assert done.exit_code == 0, done.output
    assert "contradicts the stated size" in done.output
    implied = re.search(r"of ebs-gp2 of (\d+) GiB or more", done.output)
    assert implied is not None
    assert 165 <= int(implied[1]) <= 180
    assert "If this load continues" not in done.output
    right = CliRunner().invoke(
        app, ["credits", "--profile", "ebs-gp2", "--size", "200GiB", "--from", str(evidence("20"))]
    )
    assert "contradicts the stated size" not in right.output


def test_a_file_for_each_query_of_prometheus_tells_the_same(tmp_path: Path) -> None:
    answer = json.loads((evidence("25") / "query_range.json").read_text())
    for number, result in enumerate(answer["data"]["result"]):
        item = {"status": "success", "data": {"resultType": "matrix", "result": [result]}}
        (tmp_path / f"q{number}.json").write_text(json.dumps(item))
    entry = explain_recorded(tmp_path)
    assert [row.cause for row in entry.findings] == ["storage.burst_exhausted"]
    waits = [level for level in explanation_of(evidence("25")).levels if level.name == "waiting time"]
    assert [level for level in entry.levels if level.name == "waiting time"] == waits


def test_the_page_has_the_table_and_the_curves(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["explain", "--from", str(evidence("06")), "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert done.stdout.lstrip().startswith("file ")
    text = page.read_text()
    assert "iostat-replica.txt" in text
    assert "<h2>db-replica, nvme1n1</h2>" in text
    assert text.count('class="chart-data"') == 2
    wrong = CliRunner().invoke(app, ["explain", "--from", str(evidence("06")), "--html", "page.txt"])
    assert isinstance(wrong.exception, UsageError)


def test_one_begin_has_one_label() -> None:
    """The note on the episode begins where the finding begins, and both say it in the same words."""
    timeline = explanation_of(evidence("09")).timelines[0]
    assert timeline.window_s is not None
    begin = clock(timeline.window_s[0])
    assert span_text(timeline.window_s, clocked=timeline.clocked).startswith(begin)
    assert any(f"at {begin} the volume fell" in row.text for row in timeline.findings[0].evidence)
    assert any(f"slower from {begin} to" in note for note in timeline.notes)
