"""What sampling costs: CPU of the sampling process, with every source of this machine and a real server.

    python tests/benchmarks/sampling.py [--interval 1.0] [--seconds 30] [--option-file FILE] [--load]

Without an option file it starts a mariadbd or mysqld of its own. Ends with 1 above 1 % of one core at 1 Hz (or as
much for each tick at another interval).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from scratch_server import scratch_server

from volbench.machine.engine.connection import account_from, read_option_file
from volbench.machine.engine.sysbench.config import sysbench_config
from volbench.machine.volume.facts.discovery import discover
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.controller import SamplingProcess
from volbench.measure.sample.quality import source_quality
from volbench.measure.sample.raw import RawTick, read_raw
from volbench.measure.sample.rows import series_rows

CPU_MS_PER_TICK_MAX = 10.0


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and its threads so far, to the nanosecond that the scheduler keeps."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def start_load(option_file: Path, directory: Path, seconds: float) -> subprocess.Popen[bytes]:
    """sysbench beside the sampling, 64 connections at 50 transactions a second."""
    config = directory / "sysbench.conf"
    config.write_text(sysbench_config(account_from(read_option_file(option_file)), "sbtest"))
    command = ["sysbench", f"--config-file={config}", "oltp_read_write", "--tables=2", "--table-size=10000"]
    subprocess.run([*command, "prepare"], check=True, capture_output=True)
    return subprocess.Popen(
        [*command, "--threads=64", "--rate=50", f"--time={seconds:.0f}", "run"], stdout=subprocess.DEVNULL
    )


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--option-file", type=Path)
    parser.add_argument("--load", action="store_true")
    expected = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        option_file = expected.option_file
        if option_file is None:
            server = stack.enter_context(scratch_server(directory))
            server.query("CREATE DATABASE sbtest")
            option_file = server.option_file
        load = start_load(option_file, directory, expected.seconds + 5) if expected.load else None
        used_s, process = sample(expected, directory, option_file)
        if load is not None:
            load.terminate()
            load.wait(30)
        ticks = [record for record in read_raw(process.raw_file) if isinstance(record, RawTick)]
        rounds = expected.seconds / expected.interval
        late_ms = sorted(tick.late_s * 1000 for tick in ticks)
        print(f"sources: {', '.join(q.source for q in source_quality(process.raw_file) if q.available)}")
        print(f"rows per tick: {len(list(series_rows(process.raw_file))) / rounds:.0f}")
        print(f"bytes per tick: {process.raw_file.stat().st_size / rounds:.0f}")
        print(f"lateness: median {late_ms[len(late_ms) // 2]:.2f} ms, max {late_ms[-1]:.2f} ms")
        print(f"missed: {sum(q.ticks_missed for q in source_quality(process.raw_file))}")
        per_tick_ms = used_s / rounds * 1000
        print(f"CPU: {used_s / expected.seconds:.3%} of one core, {per_tick_ms:.2f} ms a tick")
    return 0 if per_tick_ms <= CPU_MS_PER_TICK_MAX else 1


def sample(expected: argparse.Namespace, directory: Path, option_file: Path) -> tuple[float, SamplingProcess]:
    """CPU seconds of the sampling process between two moments, its start-up left out."""
    disk = discover(directory).disk
    config = SamplingConfig(
        raw_file=str(directory / "raw" / "samples.jsonl"),
        zero_monotonic_ns=time.monotonic_ns(),
        interval_s=expected.interval,
        disks=(disk,) if disk else (),
        option_file=str(option_file),
    )
    process = SamplingProcess(config)
    process.start()
    assert process.pid is not None
    time.sleep(2 * expected.interval + 1)  # the server's sources have been found
    before = cpu_s(process.pid)
    time.sleep(expected.seconds)
    used_s = cpu_s(process.pid) - before
    process.stop()
    return used_s, process


if __name__ == "__main__":
    sys.exit(main())
