"""`volbench.run`: a run in Python returns what it measured, fails as the command line does, and leaves nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_target import FakeTarget, FakeVolume, Script, failed, good
from synthetic_run import build_run, two_volumes

import volbench
from volbench.core.records.cell import CellResult
from volbench.core.records.run import RunRecord
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.measure.execute import attempts
from volbench.measure.execute.interruptions import Interruptions
from volbench.measure.session import runner
from volbench.results.store.run_directory import RunDirectory, find_runs

SUITE = "suites/quick.yaml"
SETTINGS = {
    "repeats": 4,
    "comparison.until": "all_cells",
    "steps": [{"kind": "oltp", "name": "read-write", "threads": 4}],
}


class AnyCell(dict[str, CellResult]):
    """A good result for whichever cell is asked for."""

    def __init__(self, directory: RunDirectory) -> None:
        result = directory.results()[0]
        super().__init__({result.cell_id: result.model_copy(update={"steps": result.steps[:1]})})

    def __missing__(self, cell_id: str) -> CellResult:
        return next(iter(self.values())).model_copy(update={"cell_id": cell_id})


class Polls(dict[str, int]):
    """How often a cell's agent is seen running; a template's never is."""

    def __init__(self, of_cell: Callable[[], int]) -> None:
        self._of_cell = of_cell

    def pop(self, cell_id: str, default: int = 0) -> int:  # type: ignore[override]
        return default if cell_id == "template" else self._of_cell()


@pytest.fixture
def use_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeTarget]:
    """Makes a target without servers, which `volbench.run` gets for the rest of the test."""
    results = AnyCell(build_run(tmp_path / "recorded", two_volumes(repeats=1)))
    monkeypatch.setattr(attempts, "POLL_S", 0.0)

    def make(script: Script = good, **options: Any) -> FakeTarget:
        target = FakeTarget(results, script, **options)

        def made(run: RunRecord, _results: object = (), **_: object) -> tuple[FakeTarget, dict[str, FakeVolume]]:
            return target, {spec.name: FakeVolume(spec) for spec in run.volumes}

        monkeypatch.setattr(runner, "make_target", made)
        return target

    return make


def run(tmp_path: Path, **options: Any) -> volbench.Run:
    for name in ("a", "b"):
        (tmp_path / name).mkdir(exist_ok=True)
    defaults: dict[str, Any] = {"settings": SETTINGS, "target": "local", "results": tmp_path / "results"}
    return volbench.run(SUITE, {"a": tmp_path / "a", "b": f"path:{tmp_path}/b"}, **defaults | options)


def test_a_run_returns_what_open_returns(use_target: Callable[..., FakeTarget], tmp_path: Path) -> None:
    lines: list[str] = []
    target = use_target(polls=Polls(lambda: 1))
    measured = run(tmp_path, progress=lines.append)
    opened = volbench.open(measured.path)
    assert type(measured) is type(opened)
    assert measured.report == opened.report
    assert measured.volumes == ("a", "b")
    assert len(target.launched) == 8
    assert lines[0] == f"results: {measured.path}"
    assert sum("transactions/s" in line for line in lines) == 8, lines
    assert (measured.path / "report.html").is_file()
    html = measured._repr_html_()
    assert html.startswith("<pre>")
    assert measured.summary.sentence.split(".")[0] in html.replace("&#x27;", "'")


def test_the_record_has_the_same_command_line(use_target: Callable[..., FakeTarget], tmp_path: Path) -> None:
    use_target()
    command = RunDirectory(run(tmp_path, settings={"repeats": 4}).path).run.command
    assert command == (
        "volbench",
        "run",
        SUITE,
        f"--volume=a=path:{tmp_path}/a",
        f"--volume=b=path:{tmp_path}/b",
        "--set=repeats=4",
        "--target=local",
    )


def test_latest_is_the_newest_run_below_results(
    use_target: Callable[..., FakeTarget], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_target()
    suite = Path(SUITE).absolute()
    monkeypatch.chdir(tmp_path)
    measured = volbench.run(suite, {"a": tmp_path}, settings=SETTINGS, target="local")
    assert measured.path.parent == tmp_path / "results"
    assert volbench.open("latest").path == measured.path
    assert volbench.open(measured.run_id).path == measured.path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "lokal"}, "there is no target 'lokal'"),
        ({"settings": {"repeets": 4}}, "the suite has 1 fault"),
        ({"budget": "soon"}, "is not a duration"),
        ({"budget": "5m", "until": "all_cells"}, "--budget needs --until decided"),
        ({"budget": "5m"}, "--budget needs comparison.until=decided"),  # the settings run all cells
    ],
)
def test_a_mistake_is_the_error_of_the_command_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(tmp_path, **options)
    assert not (tmp_path / "results").exists()


def test_without_an_engine_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(MissingPrerequisite) as raised:
        run(tmp_path, target="docker")
    assert raised.value.exit_code == 3
    assert raised.value.next_step
    assert not [*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()]
    assert not any(directory.results() for directory in find_runs(tmp_path / "results"))


def test_an_interruption_before_the_first_cell_leaves_no_cell_and_no_agent(
    use_target: Callable[..., FakeTarget], tmp_path: Path
) -> None:
    """As a notebook's stop button while the dataset's template is prepared."""
    target = use_target(polls=Polls(lambda: 0))

    def interrupt(line: str) -> None:
        if line.startswith("results:"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=interrupt)
    assert target.launched == []
    (directory,) = find_runs(tmp_path / "results")
    assert not directory.results()


def test_a_failed_cell_raises_after_the_reports(use_target: Callable[..., FakeTarget], tmp_path: Path) -> None:
    use_target(lambda cell, _attempt, result: failed(result) if cell.endswith("-a") else result)
    with pytest.raises(StepFailed, match="sysbench failed"):
        run(tmp_path)
    (directory,) = find_runs(tmp_path / "results")
    assert (directory.path / "report.json").is_file()


def test_an_interrupted_run_keeps_its_cells_and_leaves_no_agent(
    use_target: Callable[..., FakeTarget], tmp_path: Path
) -> None:
    """Ctrl-C in a terminal and a notebook's stop button send the same signal."""
    polls = Polls(lambda: 10**9 if len(target.launched) == 2 else 0)
    target = use_target(polls=polls, on_poll=lambda: os.kill(os.getpid(), signal.SIGINT))
    target.script = lambda _cell, _attempt, result: None if len(target.launched) == 3 else result
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert signal.getsignal(signal.SIGINT) is before
    assert target.calls[-1] == "clean up"
    assert f"interrupt {target.launched[2]}" in target.calls
    assert f"remove {target.launched[2]}" in target.calls
    (directory,) = find_runs(tmp_path / "results")
    assert directory.events()[-1].event == "run_interrupted"
    assert len(directory.results()) == 2


def test_a_time_limit_ends_a_run_in_the_main_thread_and_in_others(
    use_target: Callable[..., FakeTarget], tmp_path: Path
) -> None:
    """Signals reach the main thread only; a thread of a notebook or a server gets the limit all the same."""

    def hanging() -> FakeTarget:
        return use_target(lambda *_: None, polls=Polls(lambda: 10**9))

    target = hanging()
    with pytest.raises(StepFailed, match=r"did not end within 0\.3 s"):
        run(tmp_path, time_limit_s=0.3)
    assert target.calls[-1] == "clean up"
    target = hanging()
    ended: list[BaseException] = []

    def in_a_thread() -> None:
        try:
            run(tmp_path, time_limit_s=0.3)
        except StepFailed as error:
            ended.append(error)

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join(60)
    assert [str(error) for error in ended] == ["run: the run did not end within 0.3 s"]
    assert target.calls[-1] == "clean up"


def test_two_runs_at_once_have_directories_of_their_own(
    use_target: Callable[..., FakeTarget], tmp_path: Path
) -> None:
    use_target()
    runs: list[volbench.Run] = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    threads = [threading.Thread(target=lambda: runs.append(run(tmp_path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len({measured.path for measured in runs}) == 2
    assert all(measured.report.complete for measured in runs)


def test_a_time_limit_that_comes_after_the_end_interrupts_nobody() -> None:
    interruptions = Interruptions()
    with interruptions.handled():
        pass
    interruptions.interrupt()
    interruptions.check()
