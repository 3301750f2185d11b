"""The sampling process as it runs: on time, through kills, and never longer than who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_state import is_running

from volbench.errors import StepFailed
from volbench.measure.sample.config import SamplingConfig, read_config
from volbench.measure.sample.controller import SamplingProcess, launch
from volbench.measure.sample.raw import End, RawTick, read_raw
from volbench.measure.sample.rows import series_rows

INTERVAL_S = 0.1
WAIT_S = 60.0


def wait_for(process: SamplingProcess, ticks: int) -> list[RawTick]:
    """The ticks of the machine's own sources, once there are so many."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        results = [r for r in read_raw(process.raw_file) if isinstance(r, RawTick) and "cpu" in r.read]
        if len(results) >= ticks:
            return results
        time.sleep(0.02)
    raise AssertionError(f"{len(results)} ticks within {WAIT_S} s; log: {process.log_file.read_text()}")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[SamplingProcess]:
    config = SamplingConfig(
        raw_file=str(tmp_path / "raw" / "samples.jsonl"),
        zero_monotonic_ns=time.monotonic_ns(),
        interval_s=INTERVAL_S,
        disks=("no-such-disk",),
    )
    process = SamplingProcess(config)
    process.start()
    yield process
    process.stop()


def test_ticks_lie_on_the_grid_and_rates_come_out(process: SamplingProcess) -> None:
    ticks = wait_for(process, 5)
    process.stop()
    assert all(tick.late_s >= 0 for tick in ticks)
    assert all(
        abs(tick.read["cpu"].t_s - tick.tick * INTERVAL_S - tick.late_s) < tick.took_s + 1e-3 for tick in ticks
    )
    rows = list(series_rows(process.raw_file))
    assert {"cpu", "vm"} <= {row.source for row in rows}


def test_the_first_reading_is_there_at_the_start(tmp_path: Path) -> None:
    """The first interval begins then, not at the next tick, which here comes after a minute."""
    zero_ns = time.monotonic_ns() - 10**9
    config = SamplingConfig(raw_file=str(tmp_path / "samples.jsonl"), zero_monotonic_ns=zero_ns, interval_s=60.0)
    process = SamplingProcess(config)
    process.start()
    (first,) = [
        record for record in read_raw(process.raw_file) if isinstance(record, RawTick) and "cpu" in record.read
    ]
    assert first.tick == 0
    assert 1 < first.read["cpu"].t_s < 1 + WAIT_S
    results = {quality.source: quality for quality in process.stop()}
    assert (results["cpu"].ticks_due, results["cpu"].ticks_missed) == (0, 0)


def test_a_launched_process_samples_once_it_knows_what(tmp_path: Path) -> None:
    """Who launches it need not know yet what to sample."""
    raw_file = tmp_path / "raw" / "samples.jsonl"
    launched = launch(raw_file)
    config = SamplingConfig(raw_file=str(raw_file), zero_monotonic_ns=time.monotonic_ns(), interval_s=INTERVAL_S)
    process = SamplingProcess(config, launched=launched)
    process.start()
    wait_for(process, 2)
    assert process.pid == launched.pid
    assert process.stop()
    assert process.log_file.read_text() == ""


def test_a_launched_process_ends_with_who_launched_it(tmp_path: Path) -> None:
    """The pipe closes, whatever ended that process."""
    launched = launch(tmp_path / "samples.jsonl")
    assert launched.stdin is not None
    assert launched.stdout is not None
    launched.stdin.close()
    assert launched.wait(WAIT_S) == 0
    launched.stdout.close()
    assert (tmp_path / "samples.log").read_text() == ""
    assert not (tmp_path / "samples.jsonl").exists()


def test_a_launched_process_that_is_gone_is_an_error(tmp_path: Path) -> None:
    raw_file = tmp_path / "samples.jsonl"
    launched = launch(raw_file)
    launched.kill()
    launched.wait(WAIT_S)
    with pytest.raises(StepFailed, match="did not start"):
        SamplingProcess(SamplingConfig(raw_file=str(raw_file), zero_monotonic_ns=0), launched=launched).start()


def test_absent_sources_say_why(process: SamplingProcess) -> None:
    wait_for(process, 3)
    results = {quality.source: quality for quality in process.stop()}
    assert results["cpu"].available
    assert results["cpu"].ticks_due >= 2
    assert "no line for no-such-disk" in results["diskstats"].reason
    assert results["innodb"].reason == "there is no server to ask"
    assert results["mountstats"].reason == "the data directory is not on NFS"
    assert all(item.available or (item.reason and item.ticks_due == 0) for item in results.values())


def test_it_ends_cleanly_and_stop_may_be_called_again(process: SamplingProcess) -> None:
    wait_for(process, 1)
    first = process.stop()
    assert not process.alive()
    assert isinstance(list(read_raw(process.raw_file))[-1], End)
    assert process.log_file.read_text() == ""
    assert process.stop() == first


def test_what_was_read_before_a_kill_is_kept(process: SamplingProcess) -> None:
    ticks = wait_for(process, 4)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    results = {quality.source: quality for quality in process.stop()}
    remaining = [r for r in read_raw(process.raw_file) if isinstance(r, RawTick) and "cpu" in r.read]
    assert remaining[: len(ticks)] == ticks
    assert results["cpu"].available


def test_one_that_was_stopped_goes_on(process: SamplingProcess) -> None:
    """A frozen container, a debugger, Ctrl-Z: that is no word to end."""
    before = len(wait_for(process, 2))
    assert process.pid is not None
    for _ in range(2):
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.5)  # longer than it looks for its parent
        os.kill(process.pid, signal.SIGCONT)
        before = len(wait_for(process, before + 3))
    assert process.alive()


def test_only_wanted_sources_are_read(tmp_path: Path) -> None:
    config = SamplingConfig(
        raw_file=str(tmp_path / "samples.jsonl"),
        zero_monotonic_ns=time.monotonic_ns(),
        interval_s=INTERVAL_S,
        sources=("cpu",),
    )
    process = SamplingProcess(config)
    process.start()
    wait_for(process, 2)
    results = {quality.source: quality for quality in process.stop()}
    assert results["vm"].reason == "not asked for"
    assert {row.source for row in series_rows(process.raw_file)} == {"cpu"}


def test_it_does_not_outlive_who_started_it(tmp_path: Path) -> None:
    """The parent is killed without a chance to stop it."""
    config = SamplingConfig(raw_file=str(tmp_path / "samples.jsonl"), zero_monotonic_ns=0, interval_s=INTERVAL_S)
    script = (
        "import sys\nfrom volbench.measure.sample.config import read_config\n"
        "from volbench.measure.sample.controller import SamplingProcess\nfrom pathlib import Path\n"
        "process = SamplingProcess(read_config(Path(sys.argv[1])))\nprocess.start()\n"
        "print(process.pid, flush=True)\nsys.stdin.read()\n"
    )
    config_file = tmp_path / "config.json"
    config_file.write_text(config.to_json())
    with subprocess.Popen(
        [sys.executable, "-c", script, str(config_file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)


def test_a_parent_that_died_before_it_looked_is_noticed(tmp_path: Path) -> None:
    """Killed while the sampling process was still starting: its parent then is somebody else."""
    config = SamplingConfig(raw_file=str(tmp_path / "samples.jsonl"), zero_monotonic_ns=0, parent_pid=2**22 + 1)
    config_file = tmp_path / "config.json"
    config_file.write_text(config.to_json())
    command = [sys.executable, "-m", "volbench.measure.sample.process", str(config_file)]
    done = subprocess.run(command, check=False, capture_output=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (0, b"")


def test_no_line_is_written_for_sources_that_are_not_there(process: SamplingProcess) -> None:
    wait_for(process, 3)
    process.stop()
    ticks = [record for record in read_raw(process.raw_file) if isinstance(record, RawTick)]
    assert all(tick.read for tick in ticks)


def test_a_process_that_cannot_write_says_so(tmp_path: Path) -> None:
    target = tmp_path / "samples.jsonl"
    target.mkdir()
    with pytest.raises(StepFailed, match="did not start") as raised:
        SamplingProcess(SamplingConfig(raw_file=str(target), zero_monotonic_ns=0)).start()
    assert "samples.jsonl" in raised.value.evidence


def test_a_process_that_was_never_started_cannot_be_stopped(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="never started"):
        SamplingProcess(SamplingConfig(raw_file=str(tmp_path / "x"), zero_monotonic_ns=0)).stop()


def test_the_configuration_survives_its_file(tmp_path: Path) -> None:
    config = SamplingConfig(raw_file="x", zero_monotonic_ns=5, interval_s=0.5, sources=("cpu",), disks=("vda",))
    (tmp_path / "config.json").write_text(config.to_json())
    assert read_config(tmp_path / "config.json") == config


@pytest.mark.parametrize("interval_s", [0.05, 61.0])
def test_an_interval_outside_the_bounds_is_refused(interval_s: float) -> None:
    with pytest.raises(ValueError, match="interval"):
        SamplingConfig(raw_file="x", zero_monotonic_ns=0, interval_s=interval_s)
