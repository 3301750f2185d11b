"""What is made of an observation's directory: causes, incidents against the time before, text that is harmless."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from synthetic_observation import ZERO_EPOCH_S, add_incident, build, observation
from typer.testing import CliRunner

from sentences import plain
from volbench.cli.main import app
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.named_metrics import Diskstats, PerformanceSchema, Tasks
from volbench.errors import RunUnreadable, UsageError
from volbench.observe.model import OBSERVATION_FILE
from volbench.observe.report import ObservationReport, as_json, report_of
from volbench.observe.ring import segments_in
from volbench.observe.sections import document_of, headlines
from volbench.observe.triggers import METRICS
from volbench.results.explain.evidence.association import Along, Association
from volbench.results.report.formats.sections import sections_markdown, sections_page
from volbench.results.report.views.cause_clause import clause_of
from volbench.results.report.views.charts import chart_assets
from volbench.results.store.series import SeriesKey

STALL = range(61, 65)


def markdown(report: ObservationReport) -> str:
    """The report as the command writes it into report.md."""
    return sections_markdown(document_of(report))


def page(report: ObservationReport) -> str:
    """The report as the command writes it into report.html."""
    return sections_page(document_of(report))


def stalled(tick: int) -> tuple[float, float, float]:
    """Four seconds in which nothing completes while eight requests wait; then they complete."""
    if tick in STALL:
        return 0.0, 0.0, 8.0
    return (308.0, 40.0, 1.0) if tick == STALL.stop else (300.0 + tick % 7, 1.0, 1.0)


def test_a_stall_is_the_incidents_cause_with_its_begin(tmp_path: Path) -> None:
    directory = build(tmp_path / "o", 100, stalled)
    add_incident(directory, 60.0, 65.0)
    result = as_json(report_of(directory))
    (incident,) = result["incidents"]
    (stall,) = [finding for finding in incident["findings"] if finding["cause"] == "storage.stall"]
    assert not stall["also_before"]
    assert stall["window_s"][0] == pytest.approx(60.0, abs=1.0)
    assert incident["onset"] == "2025-10-09 08:54:20"
    levels = {level["name"]: (level["before"], level["during"]) for level in incident["levels"]}
    assert levels["operations"][0] == pytest.approx(303, abs=3)
    assert levels["operations"][1] == 0.0
    assert result["observation"]["zero_epoch_s"] == ZERO_EPOCH_S


def test_a_stall_that_the_trigger_saw_at_its_end_was_not_there_before(tmp_path: Path) -> None:
    """`await > 50ms` holds when the operations of a stall complete: the stall began four seconds earlier."""
    directory = build(tmp_path / "o", 100, stalled)
    add_incident(directory, 64.0, 66.0, trigger="await > 50ms", metric="await")
    (incident,) = report_of(directory).incidents
    assert "storage.stall" in {finding.cause for finding in incident.findings}
    assert "storage.stall" not in incident.also_before


def slow(tick: int) -> tuple[float, float, float]:
    """Writes that take 20 ms for a minute, 1 ms before: a statement takes 2.1 ms and 0.2 ms."""
    return (300.0, 20.0 if tick > 60 else 1.0, 1.0)


def test_the_extra_time_of_a_statement_is_stated_by_piece(tmp_path: Path) -> None:
    directory = build(tmp_path / "o", 120, slow)
    add_incident(directory, 60.0, 120.0)
    report = report_of(directory)
    result = as_json(report)
    (extra,) = (incident["extra_time"] for incident in result["incidents"])
    assert extra["before_ms"] == pytest.approx(0.2, rel=0.01)
    assert extra["during_ms"] == pytest.approx(2.1, rel=0.05)
    assert sum(piece["during_ms"] for piece in extra["pieces"]) == pytest.approx(extra["during_ms"])
    assert sum(piece["share"] for piece in extra["pieces"]) == pytest.approx(1.0)
    assert sum(piece["ms"] for piece in result["statement_time"]["pieces"]) == pytest.approx(
        result["statement_time"]["ms"]
    )
    assert "ms in the incident and 0.200 ms before it (mean). Of the extra" in extra["text"]
    for displayed in (markdown(report), page(report)):
        assert extra["text"] in displayed
        assert "CPU and what has no instrument" in displayed, "no CPU times here: what is left over has them"


def test_one_incident_has_one_mean_of_a_statement(tmp_path: Path) -> None:
    """Few end in a stall, and all that waited in the second after it: the sentence and the table agree."""
    directory = build(tmp_path / "o", 100, stalled)
    add_incident(directory, 60.0, 65.0)
    report = report_of(directory)
    (incident,) = report.incidents
    assert incident.extra is not None
    (mean,) = (level for level in incident.levels if "mean" in level.name)
    assert (mean.before, mean.during) == (incident.extra.before_ms, incident.extra.during_ms)
    for displayed in (markdown(report), page(report)):
        assert "edian of the intervals, unless named otherwise" in displayed


def test_an_incident_without_longer_statements_has_no_extra_time(tmp_path: Path) -> None:
    directory = build(tmp_path / "o", 100, lambda _: (300.0, 1.0, 1.0))
    add_incident(directory, 60.0, 80.0)
    (incident,) = report_of(directory).incidents
    assert incident.extra is None


def moving(key: SeriesKey, along: Mapping[str, Along]) -> Association:
    return Association(
        key=key, rho=0.9, lag=0, samples=100, effective_samples=90.0, p_value=0.001, q_value=0.01, along=along
    )


def test_json_says_of_a_correlation_what_the_page_says_it_is_to_the_first_cause(tmp_path: Path) -> None:
    report = report_of(build(tmp_path / "o", 100, stalled))
    along = {report.first_cause: Along(rho=0.9, rho_of_latency=0.9)}
    keys = (SeriesKey.of(Diskstats.w_await_ms), SeriesKey.of(Tasks.run_delay_s_per_s))
    associations = tuple(moving(key, of_cause) for key, of_cause in zip(keys, ({}, along), strict=True))
    report = dataclasses.replace(report, associations=associations)
    waits, delays = as_json(report)["associations"]
    assert (waits["first_cause"], waits["relation"], waits["moves_along"]) == (
        "storage.stall",
        "accounted for",
        None,
    )
    assert (delays["first_cause"], delays["relation"], delays["moves_along"]) == (
        "storage.stall",
        "shared",
        True,
    )
    text = plain(markdown(report))
    for row in (waits, delays):
        clause = clause_of(row["relation"], row["first_cause"], row["rho"], moves_along=row["moves_along"])
        assert clause in text


def test_the_report_begins_with_its_incidents(tmp_path: Path) -> None:
    directory = build(tmp_path / "o", 100, stalled)
    add_incident(directory, 60.0, 65.0)
    report = report_of(directory)
    line = "Incident 001, 2025-10-09 08:54:20 UTC: The volume stalled"
    assert markdown(report).index(line) < markdown(report).index("## All of the time")
    assert '<a href="#incident-001">Incident 001</a>, 2025-10-09 08:54:20 UTC: The volume stalled' in page(report)
    assert page(report).count('<h2 id="incident-001">') == 1
    (quiet,) = headlines(report_of(build(tmp_path / "q", 60, lambda _: (300.0, 1.0, 1.0))))
    assert quiet.startswith("No incident. All of the time: ")


def test_what_was_there_before_is_no_news(tmp_path: Path) -> None:
    """Two stalls, the first long before: the second incident says that the cause was there before."""

    def twice(tick: int) -> tuple[float, float, float]:
        return stalled(tick if tick < 80 else tick - 50)

    directory = build(tmp_path / "o", 140, twice)
    add_incident(directory, 110.0, 115.0)
    (incident,) = report_of(directory).incidents
    assert "storage.stall" in {finding.cause for finding in incident.findings}
    assert "storage.stall" in incident.also_before
    assert "it was there before, too" in markdown(report_of(directory))


def test_a_slow_stretch_is_found_without_a_trigger(tmp_path: Path) -> None:
    def slow(tick: int) -> tuple[float, float, float]:
        return 300.0 + tick % 7, (25.0 if 90 < tick <= 140 else 1.0) + tick % 3 / 10, 1.0

    result = report_of(build(tmp_path / "o", 200, slow))
    (incident,) = result.incidents
    assert incident.incident.trigger.startswith("found afterwards")
    assert incident.incident.onset_s == pytest.approx(90.0, abs=3)
    assert incident.incident.end_s == pytest.approx(140.0, abs=3)


def test_an_incident_whose_readings_are_gone_says_so(tmp_path: Path) -> None:
    directory = build(tmp_path / "o", 150, stalled)
    add_incident(directory, 20.0, 25.0)
    for segment in segments_in(directory / "ring")[:1]:
        segment.path.unlink()
    (incident,) = report_of(directory).incidents
    assert incident.findings == ()
    assert "were erased" in incident.notes[0]


def test_over_a_hole_in_the_ring_there_is_no_rate(tmp_path: Path) -> None:
    """What happened while nothing was kept is no interval of an hour."""
    directory = build(tmp_path / "o", 200, stalled)
    segments_in(directory / "ring")[1].path.unlink()
    iops = report_of(directory).case.at(PerformanceSchema.statements_per_s)
    assert iops is not None
    hole = iops[62:118]
    assert not (hole[2:] == hole[2:]).any(), "all of it is unknown"


def cloudwatch(begin_s: float, minutes: int) -> str:
    """A gp2 of 50 GiB: 3,000 operations a second until its credits are gone in the sixth minute, 150 after that."""
    starts = [datetime.fromtimestamp(begin_s + 60 * at, tz=UTC).isoformat() for at in range(minutes)]
    values = {
        "VolumeReadOps": [60.0 * (3000 if at < 5 else 150) for at in range(minutes)],
        "VolumeWriteOps": [0.0] * minutes,
        "BurstBalance": [max(0.0, 10.0 - 2 * at) for at in range(minutes)],
    }
    results = [
        {"Id": name.lower(), "Label": name, "Timestamps": starts, "Values": points}
        for name, points in values.items()
    ]
    return json.dumps({"MetricDataResults": results})


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """Ten minutes of a server whose host is not seen from here."""
    directory = build(tmp_path / "o", 600, lambda _: (300.0, 1.0, 1.0))
    elsewhere = observation(host=None, volume=None, notes=("the host is not seen from here",))
    (directory / OBSERVATION_FILE).write_text(elsewhere.model_dump_json(by_alias=True))
    for segment in (directory / "ring").glob("*.jsonl"):
        lines = [json.loads(line) for line in segment.read_text().splitlines()]
        for line in lines:
            line.get("read", {}).pop("diskstats", None)
        segment.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return directory


def test_cloudwatch_is_the_volumes_side_of_a_server_that_is_watched_over_tcp(remote: Path) -> None:
    assert "storage.burst_exhausted" not in {row.cause for row in report_of(remote).findings}
    file = remote.parent / "cloudwatch.json"
    file.write_text(cloudwatch(ZERO_EPOCH_S, 10))
    messages = report_of(remote, recorded=[str(file)])
    (gone,) = [row for row in messages.findings if row.cause == "storage.burst_exhausted"]
    assert gone.window_s is not None
    assert gone.window_s[0] == pytest.approx(300.0, abs=61.0), "CloudWatch has a point a minute"
    assert '<b>Credits</b> <span class="dim">%</span>' in page(messages)


def test_a_recording_of_another_day_is_refused_and_nothing_is_written(remote: Path) -> None:
    file = remote.parent / "cloudwatch.json"
    file.write_text(cloudwatch(ZERO_EPOCH_S + 86_400, 10))
    result = CliRunner().invoke(app, ["observe", "report", str(remote), "--add", str(file)])
    assert isinstance(result.exception, UsageError)
    assert "it tells of other times than the observation" in str(result.exception)
    assert "points from 2025-10-10T08:54:20Z" in str(result.exception)
    assert not (remote / "report.json").exists()


def test_what_was_cut_short_is_read_and_what_is_none_is_refused(tmp_path: Path) -> None:
    directory = build(tmp_path / "o", 30, stalled)
    with segments_in(directory / "ring")[-1].path.open("ab") as file:
        file.write(b'{"tick": 31, "la')
    assert report_of(directory).samples == 29
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunUnreadable, match="no directory of an observation"):
        report_of(tmp_path / "empty")
    (tmp_path / "unread/ring").mkdir(parents=True)
    (tmp_path / "unread" / OBSERVATION_FILE).write_text(observation().model_dump_json(by_alias=True))
    with pytest.raises(RunUnreadable, match="no readings"):
        report_of(tmp_path / "unread")


def test_text_from_outside_cannot_become_markup(tmp_path: Path) -> None:
    directory = build(tmp_path / "o", 60, stalled)
    evil = "<script>alert(1)</script>|`x`"
    output = observation(
        server_address=evil, notes=(evil,), volume=VolumeFacts(path=evil, disk="vda", mount_point=evil)
    )
    (directory / OBSERVATION_FILE).write_text(output.model_dump_json(by_alias=True))
    add_incident(directory, 20.0, None, trigger=evil)
    assets = chart_assets()
    html = page(report_of(directory)).replace(assets.library, "").replace(assets.script, "")
    assert html.count("<script") == 3, "the charts' data, the library, the charts"
    assert "<script>alert" not in html
    assert html.count("<h2") == html.count("</h2>")
    assert not re.search(r"https?://", html)
    assert not re.search(r"(?<!\\)[<>]", markdown(report_of(directory)))


def test_report_writes_three_files_and_prints_markdown(tmp_path: Path) -> None:
    directory = build(tmp_path / "o", 100, stalled)
    add_incident(directory, 60.0, 65.0)
    result = CliRunner().invoke(app, ["observe", "report", str(directory)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "storage.stall" in result.stdout
    assert json.loads((directory / "report.json").read_text())["incidents"][0]["name"] == "001"
    assert (directory / "report.html").read_text().startswith("<!doctype html>")
    assert plain((directory / "report.md").read_text()) in result.stdout, "nothing is markup on a terminal"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "a server is needed"),
        (["--server", "mysql://u:secret@h"], "a password does not belong on a command line"),
        (["--server", "mysql://u@h", "--on", "p59 > 1ms"], "perhaps you meant p9"),
        (["--server", "mysql://u@h", "--for", "soon"], "--for"),
        (["--server", "mysql://u@h", "--interval", "1ms"], "outside 0.1s to 60s"),
        (["--server", "mysql://u@127.0.0.1:1", "--max-size", "10KiB"], "at least 4 MiB"),
    ],
)
def test_a_wrong_command_line_is_told_before_anything_is_done(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        CliRunner().invoke(app, ["observe", *options], catch_exceptions=False)
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_documentation_lists_every_metric_of_triggers() -> None:
    text = (Path(__file__).parents[3] / "docs/observe.md").read_text()
    lines = [f"| `{name}` | {metric.unit or 'number'} | {metric.text} |" for name, metric in METRICS.items()]
    assert [line for line in text.splitlines() if line in lines] == lines
