"""report.json from a run's directory: counts, validity, verdict, evidence; all from files alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from synthetic_run import Synthetic, SyntheticVolume, build_run, two_volumes

from volbench.core.records.cell import COUNTED_AS_SLOWEST, ENDED_BY_QUEUE, UNANSWERED, Failure
from volbench.core.records.report import Report
from volbench.core.records.run import JournalEvent
from volbench.errors import RunUnreadable
from volbench.results.report.build import build_report
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.render import render
from volbench.results.report.rows.cells import finished_at, timing
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RunDirectory


def test_every_step_of_every_cell_is_a_row(pair_report: Report) -> None:
    """10 cells of 4 steps, with their wall-clock start."""
    assert len(pair_report.cells) == 40
    assert {(c.volume, c.repeat) for c in pair_report.cells} == {(v, r) for v in "ab" for r in range(1, 6)}
    assert all(c.started_at is not None and c.started_at.startswith("2026-03-02T") for c in pair_report.cells)


def test_the_better_volume_is_named_with_its_evidence(pair_report: Report) -> None:
    """b is 1.4 times as fast: every time shorter by 1 - 1/1.4, the intervals hold the truth."""
    assert pair_report.summary.verdict == "candidate_better"
    by_metric = {row.metric: row for row in pair_report.comparisons if row.primary}
    assert set(by_metric) == {
        "tps",
        "latency_ms_p95",
        "latency_ms_p99",
        "dump_s",
        "restore_s",
        "cold_read_mib_per_s",
        "table_scan_s",
        "first_query_ms",
    }
    for name in ("dump_s", "restore_s", "table_scan_s", "first_query_ms"):
        row = by_metric[name]
        assert row.verdict == "better"
        assert row.ratio == pytest.approx(1 / 1.4, rel=0.03)
        assert row.ci is not None
        assert row.ci[0] <= 1 / 1.4 <= row.ci[1]
        assert row.runs == (5, 5)
    sentence = pair_report.summary.sentence
    assert sentence.startswith("Volume b is better for MySQL than a: transactions/s +")
    assert sentence.endswith("5 against 5 valid cells.")


def test_metrics_without_direction_are_not_compared(pair_report: Report) -> None:
    """More IOPS is neither good nor bad."""
    assert all(row.better != "none" for row in pair_report.comparisons)


def test_a_complete_run_says_so(pair_report: Report) -> None:
    """With its end, and where its time went."""
    assert pair_report.complete
    assert pair_report.finished_at is not None
    assert pair_report.timing.measured_share is not None
    assert 0.5 < pair_report.timing.measured_share < 1


def test_what_differs_is_listed(pair_report: Report) -> None:
    """Only what explains something: not paths, not free space."""
    assert pair_report.differing_settings == {
        "volume.device": {"a": "nvme1n1p1", "b": "nvme2n1p1"},
        "volume.disk": {"a": "nvme1n1", "b": "nvme2n1"},
        "volume.scheduler": {"a": "none", "b": "mq-deadline"},
    }


def test_the_command_line_is_given(pair_report: Report) -> None:
    """Quoted for a shell, with the seed."""
    assert pair_report.reproduce[0].startswith("volbench run suites/synthetic.yaml --volume a=path:/mnt/a")
    assert "seed 7" in pair_report.reproduce[1]


def test_trouble_is_told_and_left_out(troubled_report: Report) -> None:
    """Invalid cells are kept, shown and not compared; a failed cell's steps count as invalid."""
    report = troubled_report
    assert not report.complete
    assert {(c.volume, c.repeat) for c in report.cells if not c.valid} == {("a", 1), ("b", 2)}
    assert all(row.runs[0] <= 2 and row.runs[1] <= 1 for row in report.comparisons)
    assert report.summary.verdict == "inconclusive"
    assert report.summary.underpowered
    assert report.summary.sentence.startswith("No verdict on b against a yet: ")
    text = "\n".join(report.summary.caveats)
    assert "4 of 6 planned cells are done" in text
    assert "client CPU-bound (0.97 of its cores)" in text
    assert "low power" in text


def test_failures_carry_their_evidence(troubled_report: Report) -> None:
    """Cause, what was seen, and the next step; told once, though the journal tells it too."""
    (failure,) = troubled_report.failures
    assert failure["cause"] == "server_killed"
    assert failure["evidence"] == "signal 9"
    assert failure["next_step"] == "look at dmesg"
    assert failure["volume"] == "b"


def test_earlier_attempts_are_failures_too(tmp_path: Path, troubled: RunDirectory) -> None:
    """A failed attempt that was set apart and one that left nothing but its journal line."""
    result = tmp_path / "run"
    shutil.copytree(troubled.path, result)
    directory = RunDirectory.open(result)
    failed = next(c.cell_id for c in directory.run.cells if (c.volume, c.repeat) == ("b", 2))
    directory.set_attempt_apart(failed)
    directory.journal.append("cell_abandoned", cell_id=failed, attempt=2, message="the agent vanished")
    failures = build_report(directory).failures
    assert [(f["attempt"], f["message"]) for f in failures] == [(1, "mysqld was killed"), (2, "the agent vanished")]


def test_a_single_volume_has_no_verdict_but_numbers(single_report: Report) -> None:
    """Medians in the sentence; nothing is compared."""
    assert single_report.summary.verdict == "single_volume"
    assert single_report.comparisons == ()
    assert "One volume, a; medians: transactions/s " in single_report.summary.sentence


def test_a_run_without_any_result_is_reported(tmp_path: Path) -> None:
    """Interrupted at once: no numbers, no crash."""
    expected = two_volumes(repeats=1, not_run=frozenset({("a", 1), ("b", 1)}))
    report = build_report(build_run(tmp_path, expected))
    assert report.cells == ()
    assert report.server is None
    assert report.summary.verdict == "inconclusive"
    assert report.summary.sentence == "No verdict: no cell gave a metric that can be compared."


def test_alike_volumes_are_equivalent_not_better(tmp_path: Path) -> None:
    """The same speed with little noise: equivalent within the margin, and never better or worse."""
    expected = Synthetic(volumes=(SyntheticVolume(name="a"), SyntheticVolume(name="b")), noise=0.003)
    report = build_report(build_run(tmp_path, expected))
    assert report.summary.verdict == "equivalent"
    assert "equivalent for MySQL, within 5 %" in report.summary.sentence


def test_the_baseline_may_win(tmp_path: Path) -> None:
    """The candidate stays the subject, so that the numbers go the way of the verdict."""
    volumes = (SyntheticVolume(name="a", speed=2), SyntheticVolume(name="b"))
    report = build_report(build_run(tmp_path, Synthetic(volumes=volumes)))
    assert report.summary.verdict == "candidate_worse"
    assert report.summary.sentence.startswith("Volume b is worse for MySQL than a: transactions/s × 1/")


def test_three_volumes_give_one_short_sentence(tmp_path: Path) -> None:
    """Every candidate against the first volume; the figures are in the ranking."""
    volumes = tuple(SyntheticVolume(name=n, speed=s) for n, s in (("a", 1.0), ("b", 1.5), ("c", 0.6)))
    report = build_report(build_run(tmp_path, Synthetic(volumes=volumes)))
    assert report.summary.verdict == "mixed"
    assert report.summary.sentence == "Against a, b is better; c is worse."


@pytest.mark.parametrize(
    ("facts", "variables", "message"),
    [
        ({"memory_backed": True, "filesystem": "tmpfs"}, {}, "Volume b is memory (tmpfs), not durable storage."),
        ({"overlay": True}, {}, "overlay filesystem"),
        (
            {"claim": "data", "foreign_pods": ("pod app",)},
            {},
            "Claim data of volume b is not this run's alone: pod app",
        ),
        ({"nfs_server": "10.0.0.1", "mount_options": ("rw", "async")}, {}, "mount loses nothing that was synced"),
        ({"nfs_server": "10.0.0.1", "mount_options": ("rw",)}, {}, "server (sync, or async, which loses"),
        ({"device_number": "8:1", "disk": "nvme1n1"}, {}, "Volumes a and b lie on the same disk nvme1n1"),
        ({"mount_point": "/"}, {}, "Volume b: /mnt/b is not a mount point; it is a directory of / (ext4, nvme"),
        ({"emulated_profile": "ebs-gp2"}, {}, "Volume b is emulated (ebs-gp2)"),
        ({}, {"sync_binlog": "0"}, "sync_binlog=0"),
    ],
)
def test_caveats(tmp_path: Path, facts: dict[str, object], variables: dict[str, str], message: str) -> None:
    """What a reader must know before believing a number."""
    a = SyntheticVolume(name="a", variables=variables)
    b = SyntheticVolume(name="b", facts=facts, variables=variables)
    report = build_report(build_run(tmp_path, Synthetic(volumes=(a, b), repeats=1)))
    assert message in "\n".join(report.summary.caveats)
    assert report.volumes[1].emulated == ("emulated_profile" in facts)


def test_reads_that_were_not_cold_are_said(tmp_path: Path) -> None:
    """Lukewarm reads are a caveat of the step and the volume; true-cold ones are none."""
    a, b = SyntheticVolume(name="a"), SyntheticVolume(name="b", notes=("lukewarm",))
    report = build_report(build_run(tmp_path, Synthetic(volumes=(a, b), repeats=1)))
    caveats = [caveat for caveat in report.summary.caveats if "lukewarm" in caveat]
    assert caveats == ["Step cold on b was read lukewarm: a cache above the volume could have served part of it."]


def test_a_load_that_ended_at_the_longest_queue_is_a_caveat(tmp_path: Path) -> None:
    """Its latencies are of a shorter time than asked for."""
    a, b = (
        SyntheticVolume(name="a"),
        SyntheticVolume(name="b", notes=(f"the load {ENDED_BY_QUEUE} after 9 of 60 s",)),
    )
    report = build_report(build_run(tmp_path, Synthetic(volumes=(a, b), repeats=2)))
    sentences = [caveat for caveat in report.summary.caveats if ENDED_BY_QUEUE in caveat]
    assert sentences == [
        f"The load of step cold on b {ENDED_BY_QUEUE} in 2 of 2 cells: the server did not keep up with its rate,"
        " and latencies and sums over the step depend on when it ended."
    ]


def test_transactions_without_an_answer_are_one_caveat_of_the_step(tmp_path: Path) -> None:
    a, b = (
        SyntheticVolume(name="a"),
        SyntheticVolume(name="b", notes=(f"81,280 of 766,911 transactions {UNANSWERED}: {COUNTED_AS_SLOWEST}",)),
    )
    report = build_report(build_run(tmp_path, Synthetic(volumes=(a, b), repeats=2)))
    (sentence,) = [caveat for caveat in report.summary.caveats if COUNTED_AS_SLOWEST in caveat]
    assert sentence.startswith("In step cold on b, some transactions or heartbeats had no answer in 2 of 2 cells")


def test_a_result_that_left_unanswered_transactions_out_says_so(tmp_path: Path) -> None:
    """As results were recorded before."""
    before = SyntheticVolume(name="b", notes=(f"9 of 99 transactions {UNANSWERED}: no percentile has them",))
    report = build_report(build_run(tmp_path, Synthetic(volumes=(SyntheticVolume(name="a"), before), repeats=2)))
    (sentence,) = [caveat for caveat in report.summary.caveats if UNANSWERED in caveat]
    assert "no percentile has them" in sentence


def test_a_damaged_result_is_named(tmp_path: Path, troubled: RunDirectory) -> None:
    """The message has the file."""
    shutil.copytree(troubled.path, tmp_path / "run")
    path = next((tmp_path / "run").glob("cells/*/result.json"))
    path.write_text(path.read_text()[:100])
    with pytest.raises(RunUnreadable, match=r"result\.json"):
        build_report(RunDirectory.open(tmp_path / "run"))


def event(name: str, second: int) -> JournalEvent:
    return JournalEvent.model_validate({"at": f"2026-03-02T09:30:{second:02d}.000Z", "event": name})


def test_a_resumed_run_is_not_finished(pair: RunDirectory) -> None:
    """Only an end after the last start counts."""
    assert finished_at([event("run_started", 0), event("run_finished", 9)]) == "2026-03-02T09:30:09.000Z"
    assert finished_at([event("run_finished", 9), event("run_resumed", 20)]) is None
    assert finished_at([]) is None


def test_time_between_interruption_and_resume_is_not_the_run(pair: RunDirectory) -> None:
    """Somebody went to lunch."""
    events = [
        event("run_started", 0),
        event("run_interrupted", 10),
        event("run_resumed", 50),
        event("run_finished", 55),
    ]
    assert timing(pair.run, events, ()).wall_s == pytest.approx(15)


def test_reports_of_the_same_files_are_the_same(pair: RunDirectory, pair_report: Report) -> None:
    """Rebuilding old results changes nothing."""
    assert json.loads(build_report(pair).model_dump_json()) == json.loads(pair_report.model_dump_json())


def test_a_cell_whose_second_attempt_is_done_has_not_failed(tmp_path: Path, pair: RunDirectory) -> None:
    """The first attempt is still told, as what it is, in every format."""
    entry = tmp_path / "run"
    shutil.copytree(pair.path, entry)
    directory = RunDirectory.open(entry)
    cell_id = directory.run.cells[0].cell_id
    result = directory.result(cell_id)
    assert result is not None
    failure = Failure(
        cause="oom", message="mysqld was killed", where="step dump", evidence="signal 9", next_step="look"
    )
    failed = result.model_copy(update={"status": "failed", "failure": failure, "steps": ()})
    done = result.model_copy(update={"attempt": result.attempt + 1})
    write_record(directory.cell_dir(cell_id) / "result.json", failed)
    directory.set_attempt_apart(cell_id)
    directory.cell_dir(cell_id).mkdir()
    write_record(directory.cell_dir(cell_id) / "result.json", done)
    report = build_report(directory)
    assert [row["done_later"] for row in report.failures] == [True]
    assert f"  {cell_id}: attempt {failed.attempt} failed, a later one is done: mysqld was killed" in summary_lines(
        report
    )
    assert f"- `{cell_id}`: attempt {failed.attempt} failed, a later one is done" in render(report, directory, "md")
    assert "a later attempt is done" in render(report, directory, "html")
    suite = ElementTree.fromstring(render(report, directory, "junit"))  # noqa: S314 - of ours
    assert [match.get("failures") for match in suite.findall("testsuite")][1] == "0"
