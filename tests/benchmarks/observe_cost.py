"""What `volbench observe` costs: CPU of its processes, of the server's thread for it, and transactions of the load.

    python tests/benchmarks/observe_cost.py --server mysql --blocks 60 --seconds 4

A server (MySQL in a container, or the local mariadbd) with idle connections beside a closed loop of sysbench.
The observation goes on all the time and is stopped (SIGSTOP) in every other block, the order drawn anew for each
pair; transactions are compared by pairs of a few seconds, so that what else the machine does hits both alike. CPU
times are the kernel's (schedstat), so that a busy machine does not add to them: beside other work, CPU seconds of
server and client for a transaction, with and without, bound the loss where transactions a second cannot.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2] / "runner")]

from mysql_container import mysql_container
from scratch_server import scratch_server

from volbench.machine.engine.connection import Account, connection, rows

WATCH = "watch"
THREAD = "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_USER = 'watch'"
SETTLE_S = 4.0


def task_cpu_s(task: Path) -> float:
    return int((task / "schedstat").read_text().split()[0]) / 1e9


def process_cpu_s(pid: int) -> float:
    return sum(task_cpu_s(task) for task in Path(f"/proc/{pid}/task").iterdir())


def children_of(pid: int) -> list[int]:
    return [int(field) for field in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def server_task(account: Account) -> Path:
    """The server's thread for our connection, as this machine numbers it."""
    result = rows(account, THREAD)
    (inside,) = (str(item[0]) for item in result)
    for comm in Path("/proc").glob("[0-9]*/comm"):
        if comm.read_text().strip() not in {"mysqld", "mariadbd"}:
            continue
        for task in (comm.parent / "task").iterdir():
            status = (task / "status").read_text()
            if status.partition("NSpid:")[2].splitlines()[0].split()[-1] == inside:
                socket = str(account.socket).split("/")[-2]
                if (
                    socket in (comm.parent / "cmdline").read_text()
                    or len(status.partition("NSpid:")[2].splitlines()[0].split()) > 1
                ):
                    return task
    raise LookupError(f"no thread {inside}")


def transactions(account: Account) -> int:
    return int(rows(account, "SHOW GLOBAL STATUS LIKE 'Com_commit'")[0][1])


@contextmanager
def served(flavor: str, directory: Path) -> Iterator[Account]:
    if flavor == "mysql":
        with mysql_container(directory) as account:
            yield account
    else:
        with scratch_server(directory) as server:
            yield Account(user="root", socket=str(server.socket))


def sysbench(account: Account, threads: int, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            "sysbench",
            f"--mysql-socket={account.socket}",
            "--mysql-user=root",
            "--mysql-db=app",
            "--tables=4",
            "--table-size=20000",
            f"--threads={threads}",
            "--db-ps-mode=disable",
            "oltp_read_write",
            *command,
        ],
        stdout=subprocess.DEVNULL,
    )


def block(
    account: Account, seconds: float, watching: Callable[[], list[float]], load: int
) -> tuple[float, list[float], float]:
    """Transactions a second, CPU seconds a second of what `watching` names, CPU of load and server by each."""
    server = int(server_task(account).parts[2])
    before, begin, cpu = transactions(account), time.monotonic(), watching()
    work = process_cpu_s(server) + process_cpu_s(load)
    time.sleep(seconds)
    took = time.monotonic() - begin
    after, work_after = watching(), process_cpu_s(server) + process_cpu_s(load)
    done = transactions(account) - before
    of_load = work_after - work - (after[-1] - cpu[-1])
    return done / took, [(b - a) / took for a, b in zip(cpu, after, strict=True)], of_load / done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=("mysql", "mariadb"), default="mysql")
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--connections", type=int, default=100)
    args = parser.parse_args()
    source = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="ob") as name, ExitStack() as stack:
        account = stack.enter_context(served(args.server, Path(name)))
        rows(account, f"CREATE USER {WATCH}@localhost")
        rows(account, f"GRANT SELECT ON performance_schema.* TO {WATCH}@localhost")
        rows(account, f"GRANT PROCESS ON *.* TO {WATCH}@localhost")
        rows(account, "CREATE DATABASE app")
        for _ in range(args.connections):
            stack.enter_context(connection(account))
        assert sysbench(account, args.threads, "prepare").wait() == 0
        load = sysbench(account, args.threads, "--time=0", "run")
        stack.callback(load.wait)
        stack.callback(load.terminate)
        time.sleep(SETTLE_S)
        cpus: list[list[float]] = []
        pairs: list[float] = []
        per_transaction: list[float] = []
        process, sampler, cpu_of = stack.enter_context(observed(account, Path(name) / "o"))
        for _ in range(args.blocks):
            rates, works = {}, {}
            for watched in source.sample([True, False], 2):
                for pid in (process, sampler):
                    os.kill(pid, signal.SIGCONT if watched else signal.SIGSTOP)
                rates[watched], cpu, works[watched] = block(account, args.seconds, cpu_of, load.pid)
                if watched:
                    cpus.append(cpu)
            pairs.append(rates[True] / rates[False])
            per_transaction.append(works[True] / works[False])
        for pid in (process, sampler):
            os.kill(pid, signal.SIGCONT)
    for title, ratios in (("tps with / without", pairs), ("CPU a transaction with / without", per_transaction)):
        resampled = sorted(median(source.choices(ratios, k=len(ratios))) for _ in range(2000))
        interval = f"95 % {resampled[50]:.4f} to {resampled[1949]:.4f}"
        print(f"{title}, median of {len(ratios)} pairs: {median(ratios):.4f}, {interval}")
    for title, column in zip(
        ("observe", "sampling process", "server's thread"), zip(*cpus, strict=True), strict=True
    ):
        print(f"{title}: median {100 * median(column):.2f} % of a core, at most {100 * max(column):.2f} %")


@contextmanager
def observed(account: Account, out: Path) -> Iterator[tuple[int, int, Callable[[], list[float]]]]:
    dsn = f"mysql://{WATCH}@localhost?socket={account.socket}"
    process = subprocess.Popen(
        [sys.executable, "-m", "volbench", "observe", "--server", dsn, "--out", str(out), "--on", "p95 > 10s"],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "runner")},
    )
    try:
        while not (out / "ring").exists() or not rows(account, THREAD):
            assert process.poll() is None
            time.sleep(0.2)
        time.sleep(2.0)  # the connections that look at the server are closed
        (sampler,) = children_of(process.pid)
        task = server_task(account)
        cpu_of: Callable[[], list[float]] = lambda: [  # noqa: E731
            process_cpu_s(process.pid),
            process_cpu_s(sampler),
            task_cpu_s(task),
        ]
        yield process.pid, sampler, cpu_of
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
