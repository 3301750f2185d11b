"""A slow log to classes of queries: megabytes for a second of CPU time, against pt-query-digest in the same run.

    python tests/benchmarks/slow_log.py [--log FILE] [--megabytes 128] [--rounds 3] [--kinds-only]

The log is one that a real server wrote, repeated to the size: FILE, else that of a mariadbd that sysbench loads
here. It is read by one process, by two, and statement by statement, as a replay does. Figures are medians of CPU
time, with imports and the start of processes. Ends with 1 when a limit is missed: of ratios, which hold on a busy
machine too, and of memory.

Six kinds of logs follow (tests/support/log_kinds.py), each beside pt-query-digest: statements of sysbench, lists of
1 to 400 values, rows of INSERT, JSON in strings, escapes and comments, 100,000 classes. On two busy cores (load 18)
one process read 42, 51, 123, 44, 34 and 25 MB of them for a second of CPU time, which is 8.4, 5.7, 6.6, 4.9, 5.7
and 4.6 times the rate of pt-query-digest. A log with one INSERT of 96 MB took 3 bytes of memory a character. Beside
go-mysql, the parser of PMM, built from its sources and fed to its aggregator: 1.8, 1.1, 1.2, 0.9, 1.2 and 2.6 times
its rate (load 10 to 17, least of three rounds in turn); lists were at 0.65 before the lexer passed over numbers.

On two busy cores (load 12), two processes read 38.9 MB for a second of CPU time of a MariaDB log, which is 78 MB/s
on two idle cores; one process read 44.9, statements 20.7, pt-query-digest 5.7. Of MySQL 9.7's log: 44.0 and 50.5. A
log whose statements hold forged entries every few kilobytes costs two processes 2.3 times what it costs one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from log_kinds import KINDS, write_log
from process_usage import usage_of
from scratch_server import scratch_server

MB = 1e6
TIMES_FASTER_MIN = 4.0
"""Than pt-query-digest, in CPU time for a byte."""
TIMES_STATEMENTS_MIN = 1.3
"""Than the statements one by one."""
OVERHEAD_MAX = 1.35
"""CPU time of two processes together, over that of one."""
MIB_MAX = 128.0
_LOGGING = ("--slow-query-log=1", "--long-query-time=0", "--log-output=FILE", "--innodb-flush-log-at-trx-commit=0")
_IN_PARTS = """
import sys
from pathlib import Path
from volbench.validation.queries.classes import classes_of_log
if __name__ == "__main__":
    classes_of_log(Path(sys.argv[1]), ["shop", "sbtest"], processes=int(sys.argv[2]))
"""
_STATEMENTS = """
import sys
from pathlib import Path
from volbench.validation.queries.classes import query_classes
from volbench.measure.workload.replay.slowlog import slow_log
with slow_log(Path(sys.argv[1])) as log:
    query_classes(log, ["shop", "sbtest"])
"""


def main() -> int:
    """Write the log, measure in turn, judge."""
    arguments = _arguments()
    missed = _judge_kinds(arguments.megabytes / 4, arguments.rounds)
    if arguments.kinds_only:
        return missed
    with tempfile.TemporaryDirectory(prefix="volbench-slow-log-") as temporary:
        directory = Path(temporary)
        seed = (arguments.log or _recorded(directory)).read_bytes()
        log, short = directory / "slow.log", directory / "short.log"
        size = _repeated(seed, log, arguments.megabytes)
        short_size = _repeated(seed, short, max(2.0, arguments.megabytes / 32))
        script = directory / "in_parts.py"
        script.write_text(_IN_PARTS)
        commands: dict[str, tuple[Sequence[str], int]] = {
            "one process": ((sys.executable, str(script), str(log), "1"), size),
            "two processes": ((sys.executable, str(script), str(log), "2"), size),
            "statement by statement": ((sys.executable, "-c", _STATEMENTS, str(log)), size),
        }
        if shutil.which("pt-query-digest"):
            commands["pt-query-digest"] = (("pt-query-digest", str(short)), short_size)
        rates, peaks = _measured(commands, arguments.rounds)
    return _judged(rates, peaks) | missed


def _judge_kinds(megabytes: float, rounds: int) -> int:
    """Print the rate of each kind of log, and return 1 where one is not read fast enough."""
    missed = False
    with tempfile.TemporaryDirectory(prefix="volbench-slow-log-") as temporary:
        directory = Path(temporary)
        log, short, script = directory / "slow.log", directory / "short.log", directory / "in_parts.py"
        script.write_text(_IN_PARTS)
        for kind in KINDS:
            commands: dict[str, tuple[Sequence[str], int]] = {
                "one process": ((sys.executable, str(script), str(log), "1"), write_log(kind, log, megabytes))
            }
            if shutil.which("pt-query-digest"):
                size = write_log(kind, short, max(2.0, megabytes / 8))
                commands["pt-query-digest"] = (("pt-query-digest", str(short)), size)
            rates, peaks = _measured(commands, rounds)
            ratio = rates["one process"] / rates.get("pt-query-digest", rates["one process"])
            missed |= "pt-query-digest" in rates and ratio < TIMES_FASTER_MIN
            print(
                f"{kind}: {rates['one process']:.1f} MB for a second of CPU time, {ratio:.1f} times the rate of "
                f"pt-query-digest (at least {TIMES_FASTER_MIN:.1f}); peak {peaks['one process']:.0f} MiB"
            )
    return int(missed)


def _judged(rates: dict[str, float], peaks: dict[str, float]) -> int:
    """Print the rates, and return 1 for a limit that is missed."""
    for name, rate in rates.items():
        print(f"{name}: {rate:.1f} MB for a second of CPU time; peak {peaks[name]:.0f} MiB a process")
    print(f"two processes on two idle CPUs: {2 * rates['two processes']:.0f} MB/s")
    ratios = [
        ("statement by statement", "one process", TIMES_STATEMENTS_MIN),
        ("one process", "two processes", 1 / OVERHEAD_MAX),
    ]
    if "pt-query-digest" in rates:
        ratios.append(("pt-query-digest", "one process", TIMES_FASTER_MIN))
    missed = max(peaks["one process"], peaks["two processes"]) > MIB_MAX
    for than, name, ratio_min in ratios:
        ratio = rates[name] / rates[than]
        missed |= ratio < ratio_min
        print(f"{name}: {ratio:.2f} times the rate of {than} (at least {ratio_min:.2f})")
    return int(missed)


def _measured(
    commands: dict[str, tuple[Sequence[str], int]], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return MB for each second of CPU time, and MiB of the largest process, by the name of the command."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runner")}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    peaks = dict.fromkeys(commands, 0.0)
    for _ in range(rounds):
        for name, (command, _) in commands.items():
            used = usage_of(command, environment, stdout=subprocess.DEVNULL)
            seconds[name].append(used.cpu_s)
            peaks[name] = max(peaks[name], used.mib)
    return {name: size / MB / median(seconds[name]) for name, (_, size) in commands.items()}, peaks


def _recorded(directory: Path) -> Path:
    """The log of 3,000 transactions of sysbench, half of them with prepared statements."""
    (directory / "server").mkdir()
    log = directory / "own.log"
    with scratch_server(directory / "server", *_LOGGING, f"--slow-query-log-file={log}") as server:
        server.query("CREATE DATABASE shop")
        _load(str(server.socket))
    return log


def _load(socket: str) -> None:
    sysbench = (
        "sysbench",
        "oltp_read_write",
        f"--mysql-socket={socket}",
        "--mysql-user=root",
        "--mysql-db=shop",
        "--tables=2",
        "--table-size=2000",
        "--threads=2",
        "--time=120",
        "--events=1500",
    )
    for more in (("prepare",), ("--db-ps-mode=disable", "run"), ("run",)):
        subprocess.run([*sysbench, *more], check=True, stdout=subprocess.DEVNULL, timeout=300)


def _repeated(seed: bytes, path: Path, megabytes: float) -> int:
    """Write the log as often as gives the size; return its bytes."""
    with path.open("wb") as file:
        while file.tell() < megabytes * MB:
            file.write(seed)
        return file.tell()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, help="a slow log of a real server")
    parser.add_argument("--megabytes", type=float, default=128.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds-only", action="store_true", help="the six kinds of logs only, without a server")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
