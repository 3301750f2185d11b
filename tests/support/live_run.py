"""Real runs for tests: `volbench run` and `resume` as processes, small, with all that they could leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest

from volbench.core.records.cell import CellResult
from volbench.errors import EXIT_OK, EXIT_UNDECIDED
from volbench.machine.placement.docker.containers import LABEL_RUN
from volbench.machine.placement.local import AGENT_PID_FILE
from volbench.machine.placement.processes import LABEL_VARIABLE
from volbench.results.store.run_directory import RunDirectory, find_runs

SUITE = Path(__file__).parents[2] / "suites" / "quick.yaml"
SMALL = (
    "dataset.tables=1",
    "dataset.rows=2000",
    "steps.0.threads=2",
    "steps.0.rate=20",
    "steps.0.warmup=0s",
    "steps.0.duration=2s",
    "repeats=1",
    "comparison.until=all_cells",
    "limits.foreign_iops=1000000",
    "limits.foreign_cpu=100%",
    "limits.cpu_steal=100%",
    "limits.rate_shortfall=100%",
    "replacements=0",
    "sampling.interval=500ms",
    "sampling.summaries=false",
    "limits.missed_samples=90%",
)
"""What a cell waits for by its clock is short: the watch at rest before it is two intervals of the samplers.

A load of two clients in memory would take all CPUs as long as it runs: transactions come at a rate.
"""
AT_FULL_SPEED = "steps.0.rate=null"
"""For a test whose volume has to be busy."""
LONG_ENOUGH = "steps.0.duration=6s"
"""For a test that acts within a step of a cell that ends by itself: two seconds are over too soon at times."""
UNTIL_ENDED = "steps.0.duration=60s"
"""For a test that ends the cell."""
LOCAL_IF_SLOW = [
    pytest.param("local", marks=[pytest.mark.mysqld, pytest.mark.slow]),
    pytest.param("docker", marks=pytest.mark.docker),
]
"""For a long run whose assertions are the same on both targets: `make test` makes it in containers."""
DOCKER_IF_SLOW = [
    pytest.param("local", marks=pytest.mark.mysqld),
    pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow]),
]
"""The other way round, where other tests of the same file run in containers."""
BOUND_S = 240.0
FINISHED = (EXIT_OK, EXIT_UNDECIDED)
"""Exit codes of a run whose cells are done; so few cells often give no verdict."""
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that ended."""

    code: int
    output: str


@dataclass(kw_only=True)
class Bench:
    """One test's volumes, results, cache and directory for temporary files."""

    target: str
    root: Path
    volumes: dict[str, Path]
    cache: Path
    temporary: Path
    environment: dict[str, str] = field(default_factory=dict)
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def results(self) -> Path:
        """Where runs are."""
        return self.root / "results"

    @property
    def directory(self) -> RunDirectory:
        """The test's run."""
        (run,) = find_runs(self.results)
        return run

    def start(self, *settings: str, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """`volbench run` with the small suite."""
        volumes = [
            argument for name, path in self.volumes.items() for argument in ("--volume", f"{name}=path:{path}")
        ]
        flavor = ["engine.flavor=mariadb"] if self.target == "local" and shutil.which("mariadbd") else []
        chosen = [argument for setting in (*SMALL, *flavor, *settings) for argument in ("--set", setting)]
        return self.volbench(
            "run",
            str(SUITE),
            "--target",
            self.target,
            *volumes,
            *chosen,
            "--out",
            str(self.results),
            "--yes",
            *options,
        )

    def resume(self) -> subprocess.Popen[bytes]:
        """`volbench resume` of the test's run."""
        return self.volbench("resume", str(self.directory.path))

    def volbench(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command; its output is appended to `output`."""
        with (self.root / "output").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "volbench", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(),
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes], bound_s: float = BOUND_S) -> Ended:
        """Wait for a command; its exit code, and the output of all so far."""
        code = process.wait(bound_s)
        return Ended(code=code, output=(self.root / "output").read_text(errors="replace"))

    def until(self, condition: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
        """Wait for a moment of the run. Fails when the command ends before it, or BOUND_S pass."""
        until_s = time.monotonic() + BOUND_S
        while not condition():
            output = (self.root / "output").read_text(errors="replace")
            assert process is None or process.poll() is None, f"it ended before its time: {output}"
            assert time.monotonic() < until_s, f"that moment never came: {output}"
            time.sleep(_POLL_S)

    def in_step(self, cell_id: str | None = None) -> bool:
        """Whether a cell's load is running now: sysbench has reported a second of it."""
        doing = [path.parent.name for path in self.results.glob("*/cells/*/progress.json") if _in_step(path)]
        now = [name for name in doing if ".attempt-" not in name]
        return any(cell_id in {None, name} and not self._result(name) for name in now)

    def current_cell(self) -> Path:
        """The directory of the cell that was started last and has no result."""
        started = [event.cell_id for event in self.directory.events() if event.event == "cell_started"]
        return self.directory.cell_dir(started[-1])

    def cells_started(self) -> set[str]:
        """Cells that have begun, in whatever attempt."""
        return {cell_id for cell_id, _ in self.events("cell_started")}

    def failed_causes(self) -> dict[tuple[str, int], str]:
        """(cell, attempt) of the attempts that failed, in order, and the cause that the journal tells."""
        events = [event for run in find_runs(self.results) for event in run.events()]
        ends = [event for event in events if event.event in {"cell_failed", "cell_abandoned"}]
        return {(event.cell_id, event.attempt): str(event.details.get("cause")) for event in ends}

    def control_dir(self) -> Path:
        """Of the cell that runs."""
        return self.temporary / f"volbench-{self.directory.path.name[-6:]}-{self.current_cell().name}"

    def container(self, role: str) -> str:
        """The name of the running cell's container."""
        return f"volbench-{self.directory.path.name[-6:]}-{self.current_cell().name}-{role}"

    def events(self, kind: str) -> list[tuple[str, int]]:
        """(cell, attempt) of the journal's events of a kind."""
        events = [event for run in find_runs(self.results) for event in run.events()]
        return [(event.cell_id, event.attempt) for event in events if event.event == kind]

    def run_ids(self) -> list[str]:
        """Runs that this test began."""
        return [path.name for path in self.results.glob("2*")]

    def scratch(self) -> list[Path]:
        """Scratch directories of this test's runs; the cache they are in is shared by all tests."""
        return [path for run_id in self.run_ids() for path in (self.cache / "scratch").glob(f"{run_id[-6:]}-*")]

    def processes(self) -> dict[int, list[str]]:
        """Processes that the run's agents started, and the agents: process id and arguments."""
        run_ids = self.run_ids()
        result = {}
        for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            except OSError:
                continue
            if arguments and any(f"{LABEL_VARIABLE}={run_id}/".encode() in environment for run_id in run_ids):
                result[pid] = arguments
        return result

    def process(self, *words: str) -> int | None:
        """The process of the run's whose program's name is, or whose arguments hold, one of the words."""
        for pid, arguments in self.processes().items():
            if Path(arguments[0]).name in words or any(argument in arguments for argument in words):
                return pid
        return None

    def agent(self) -> int | None:
        """The current cell's agent, by its pid file: a child that it has just forked looks alike."""
        try:
            return int(json.loads((self.current_cell() / AGENT_PID_FILE).read_text())["pid"])
        except FileNotFoundError:
            return None

    def leftovers(self) -> list[str]:
        """All that a run may leave behind and should not."""
        left = [f"process {pid}: {' '.join(arguments)}" for pid, arguments in self.processes().items()]
        left += [str(entry) for path in self.volumes.values() if path.is_dir() for entry in path.glob("volbench-*")]
        left += [str(entry) for entry in self.temporary.glob("volbench*")]
        left += [str(entry) for entry in self.scratch()]
        if self.target == "docker":
            client = docker.from_env()
            for run_id in self.run_ids():
                filters: dict[str, Any] = {"label": f"{LABEL_RUN}={run_id}"}
                left += [f"container {item.name}" for item in client.containers.list(all=True, filters=filters)]
            client.close()
        return left

    def assert_all_done_once(self) -> None:
        """Every cell is done, none was run again after it was, and nothing is left behind."""
        directory = self.directory
        planned = [cell.cell_id for cell in directory.run.cells]
        assert [result.cell_id for result in directory.results() if result.status == "done"] == planned
        finished = self.events("cell_finished")
        assert sorted(cell_id for cell_id, _ in finished) == sorted(planned)
        for cell_id, attempt in finished:
            assert (cell_id, attempt) == self.events_of(cell_id)[-1], "it was started again after it was done"
        for path, result in directory.failed_attempts():
            assert result.status != "done" or path.name.startswith("template"), f"{path} was done already"
        assert self.leftovers() == []

    def events_of(self, cell_id: str) -> list[tuple[str, int]]:
        """(cell, attempt) of each start of a cell."""
        return [event for event in self.events("cell_started") if event[0] == cell_id]

    def report(self) -> dict[str, object]:
        """report.json."""
        report: dict[str, object] = json.loads((self.directory.path / "report.json").read_bytes())
        return report

    def kill_agents(self) -> None:
        """End the agents and all that they started, of this test only."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.until(lambda: self.processes() == {})

    def close(self) -> None:
        """End whatever still runs, of this test only."""
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.kill_agents()
        if self.target == "docker":
            for name in (leftover.split()[1] for leftover in self.leftovers() if leftover.startswith("container ")):
                subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True)
        for path in self.scratch():
            shutil.rmtree(path)

    def _result(self, cell_id: str) -> CellResult | None:
        return self.directory.result(cell_id)

    def _environment(self) -> dict[str, str]:
        package = str(Path(__file__).parents[2] / "runner")
        return {
            **os.environ,
            "PYTHONPATH": package,
            "VOLBENCH_CACHE": str(self.cache),
            "TMPDIR": str(self.temporary),
            "COLUMNS": "200",
            **self.environment,
        }


def _in_step(progress: Path) -> bool:
    try:
        return "transactions/s" in json.loads(progress.read_bytes())["text"]
    except (OSError, ValueError):
        return False


@contextmanager
def bench(target: str, root: Path, cache: Path, volumes: dict[str, Path] | None = None) -> Iterator[Bench]:
    """A place for one test; volumes in memory unless others are given, since the disk may be busy."""
    memory = Path(tempfile.mkdtemp(prefix="volbench-test-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    temporary = Path(tempfile.mkdtemp(prefix="vbt-", dir="/tmp"))  # short: a Unix socket's path is limited
    if volumes is None:
        volumes = {name: memory / name for name in ("a", "b")}
        for path in volumes.values():
            path.mkdir()
    memory.chmod(0o755)
    opened = Bench(target=target, root=root, volumes=volumes, cache=cache, temporary=temporary)
    try:
        yield opened
    finally:
        opened.close()
        shutil.rmtree(memory, ignore_errors=True)
        shutil.rmtree(temporary, ignore_errors=True)


def send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """A signal to the command alone: its agents lead sessions of their own."""
    os.kill(process.pid, number)
