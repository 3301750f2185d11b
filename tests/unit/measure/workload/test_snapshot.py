"""The snapshot step: what it reports of an orchestrator's answer, how it asks, and where it is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from command_line import volbench
from step_context import context_on
from waiting import wait_for

from volbench.core.records.failures import failure_of
from volbench.core.records.snapshots import RestoreTimes, SnapshotAnswer, SnapshotTimes, answer_file
from volbench.core.records.steps import snapshot as step_records
from volbench.core.records.steps.snapshot import SnapshotStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.measure.execute.cell.progress import PROGRESS_FILE, ProgressFile
from volbench.measure.execute.cell.snapshots import SnapshotRequests
from volbench.measure.workload.backup.snapshot import Snapshot
from volbench.measure.workload.interface import TakenSnapshot

STEP = SnapshotStep(name="snapshot-1", snapshot_class="ebs", timeout_s=60.0)
RESTORED = RestoreTimes(restore_s=4.0, files=2, bytes=8 << 20, unreadable=1, first_read_s=2.0, second_read_s=0.5)
TIMES = SnapshotTimes(claim="data", snapshot="s", cut_s=1.0, ready_s=3.5, restored=RESTORED)


def requested(directory: Path) -> dict[str, object] | None:
    """Return what the agent asks for in its progress."""
    path = directory / PROGRESS_FILE
    request: dict[str, object] | None = json.loads(path.read_text()).get("request") if path.exists() else None
    return request


def result(directory: Path, number: int) -> dict[str, object] | None:
    request = requested(directory)
    return request if request is not None and request["number"] == number else None


@contextmanager
def orchestrator(directory: Path, *answers: SnapshotAnswer | str) -> Iterator[list[dict[str, object]]]:
    """Answers one request after the other, as the orchestrator does: by a file that appears whole."""
    observed: list[dict[str, object]] = []

    def run() -> None:
        for number, answer in enumerate(answers, start=1):
            observed.append(wait_for(partial(result, directory, number)))
            text = answer if isinstance(answer, str) else answer.model_dump_json()
            (directory / "partial").write_text(text)
            (directory / "partial").replace(directory / answer_file(number))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield observed
    finally:
        thread.join()


def test_the_step_reports_the_answer_and_withdraws_its_request(tmp_path: Path) -> None:
    requests = SnapshotRequests(ProgressFile(tmp_path), tmp_path)
    context, _ = context_on(tmp_path)
    context = replace(context, take_snapshot=requests.take)
    with orchestrator(tmp_path, SnapshotAnswer(number=1, times=TIMES, work_s=7.0, ended_ago_s=0.5)) as observed:
        outcome = Snapshot().run(STEP, context)
    begin_s, end_s = outcome.window_s
    assert end_s - begin_s == pytest.approx(7.0), "the work itself, not the way of request and answer"
    assert end_s <= context.clock.now_s() - 0.5
    assert {name: value.value for name, value in outcome.metrics.items()} == {
        "snapshot_ready_s": 3.5,
        "snapshot_cut_s": 1.0,
        "snapshot_restore_s": 4.0,
        "first_touch_mib_per_s": 4.0,
        "second_touch_mib_per_s": 16.0,
    }
    assert any("after a power cut" in note for note in outcome.notes)
    assert any("1 files" in note for note in outcome.notes)
    assert observed[0]["snapshot_class"] == "ebs"
    assert observed[0]["timeout_s"] == 60.0
    assert requested(tmp_path) is None, "what nobody waits for is not asked for"


def test_a_second_request_has_a_number_of_its_own_and_a_failure_keeps_its_kind(tmp_path: Path) -> None:
    requests = SnapshotRequests(ProgressFile(tmp_path), tmp_path)
    lacks = MissingPrerequisite("no snapshot API", evidence="404", next_step="install it", cause="no_snapshots")
    only_taken = TIMES.model_copy(update={"restored": None})
    answers = (SnapshotAnswer(number=1, failure=failure_of(lacks)), SnapshotAnswer(number=2, times=only_taken))
    with orchestrator(tmp_path, *answers) as observed:
        with pytest.raises(MissingPrerequisite) as raised:
            requests.take(STEP, threading.Event())
        assert raised.value == lacks
        assert requests.take(STEP.model_copy(update={"restore": False}), threading.Event()) == TakenSnapshot(
            times=only_taken, work_s=0.0, ended_ago_s=0.0
        )
    assert [request["number"] for request in observed] == [1, 2]
    assert [request["restore"] for request in observed] == [True, False]


@pytest.mark.parametrize("damaged", ["", "{", '{"number": 1, "times": 3}', '{"number": 1}'])
def test_a_damaged_answer_is_named(tmp_path: Path, damaged: str) -> None:
    requests = SnapshotRequests(ProgressFile(tmp_path), tmp_path)
    with orchestrator(tmp_path, damaged), pytest.raises(StepFailed, match="answer"):
        requests.take(STEP, threading.Event())


def test_a_cancelled_step_waits_no_longer_and_withdraws_its_request(tmp_path: Path) -> None:
    requests = SnapshotRequests(ProgressFile(tmp_path), tmp_path)
    cancelled = threading.Event()

    def cancel() -> None:
        wait_for(lambda: requested(tmp_path))
        cancelled.set()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(StepFailed, match="cancelled"):
        requests.take(STEP, cancelled)
    thread.join()
    assert requested(tmp_path) is None


def test_an_orchestrator_that_is_away_for_good_ends_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_records, "ANSWER_LATE_S", 0.0)
    requests = SnapshotRequests(ProgressFile(tmp_path), tmp_path)
    step = STEP.model_copy(update={"timeout_s": 0.05})
    with pytest.raises(StepFailed, match="no answer") as failed:
        requests.take(step, threading.Event())
    assert "volbench k8s submit" in failed.value.next_step


def test_progress_of_other_threads_keeps_the_request(tmp_path: Path) -> None:
    progress = ProgressFile(tmp_path)
    requests = SnapshotRequests(progress, tmp_path)
    with orchestrator(tmp_path, SnapshotAnswer(number=1, times=TIMES)):
        thread = threading.Thread(target=requests.take, args=(STEP, threading.Event()))
        thread.start()
        while thread.is_alive():
            progress.report("the load goes on")
            thread.join(0.01)
    assert json.loads((tmp_path / PROGRESS_FILE).read_text()) == {"text": "the load goes on", "fraction": None}


def test_a_concurrent_snapshot_is_not_restored(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text("name: s\nsteps:\n  - {kind: oltp, concurrent: [{kind: snapshot}]}\n", encoding="utf-8")
    ended = volbench("plan", str(suite), "--target", "kubernetes", "--volume", "a=storage-class:x")
    assert ended.returncode == 2
    assert "restore: false" in ended.stderr


def test_it_is_refused_where_nobody_takes_snapshots(tmp_path: Path) -> None:
    context, _ = context_on(tmp_path)
    with pytest.raises(UsageError, match="Kubernetes"):
        Snapshot().check(STEP, context)
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: s\nsteps:\n  - kind: oltp\n    concurrent: [{kind: snapshot, restore: false}]\n", encoding="utf-8"
    )
    for target in ("local", "docker"):
        ended = volbench("plan", str(suite), "--target", target, "--volume", "a=path:/tmp")
        assert ended.returncode == 2
        assert "a snapshot needs volumes of a Kubernetes cluster" in ended.stderr
    assert volbench("plan", str(suite), "--target", "kubernetes", "--volume", "a=storage-class:x").returncode == 0
