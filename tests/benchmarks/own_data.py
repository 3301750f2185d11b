"""Own data of at least 1 GB with its own slow log, on two volumes: the slower volume and its slower statements.

    python tests/benchmarks/own_data.py [--flavor mysql] [--rows 3300000] [--a SPEC] [--b SPEC] [--dir DIR]
      [--repeats 6] [--seconds 30] [--pool 128M]

Writes DIR/shop.sql (tests/support/film_shop.py, not sysbench's tables), loads it into a real server, whose slow log
of a minute's load is DIR/slow.log, and replays the log on both volumes. What is in DIR already is used again. Ends
with 1 if volume b is not named as slower or no class of statements is, 3 when the run failed. The run stays in
DIR/results. A trial with few rows shows that all parts work, and ends with 1: its dump is below 1 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import film_shop
from mysql_container import mysql_container
from scratch_server import scratch_server

from volbench.machine.engine.connection import Account, rows

BYTES_MIN = 10**9
ROWS = 3_300_000
LOAD_S = 60
REPEATS = 6
"""The replay and its five classes are six rows: of 4 against 4 cells no row can be certain, of 5 just those without
any overlap (p = 2/252, times 6)."""
SUITE = """schema: 2
name: own-data
engine: {{flavor: {flavor}, config: {{innodb_buffer_pool_size: {pool}}}}}
dataset: {{kind: dump, path: {place}/shop.sql, schema: shop, size: 3GiB}}
steps: [{{kind: replay, name: replay, log: {place}/slow.log, warmup: 5s, duration: {seconds}s}}]
repeats: {repeats}
replacements: 0%
limits: {{foreign_iops: 1000000, foreign_cpu: 100%, cpu_steal: 100%, missed_samples: 50%, emulator_late: 100%}}
"""


def main() -> int:
    """Make the data where it is missing, run, print the figures, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--a", default="path:/var/tmp/volbench-own-data-a")
    parser.add_argument("--b", default="emulated:efs-elastic")
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp/volbench-own-data"))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--flavor", choices=("mariadb", "mysql"), default="mariadb", help="mysql: in containers")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--pool", default="128M")
    expected = parser.parse_args()
    expected.dir.mkdir(parents=True, exist_ok=True)
    if expected.a.startswith("path:"):
        Path(expected.a.removeprefix("path:")).mkdir(parents=True, exist_ok=True)
    dump, log = expected.dir / "shop.sql", expected.dir / "slow.log"
    if not dump.exists():
        _timed("writing the dump", lambda: film_shop.write_dump(expected.dir / "partial.sql", expected.rows))
        (expected.dir / "partial.sql").rename(dump)
    if not log.exists():
        _timed(
            "recording the slow log on a real server", lambda: _record(dump, log, expected.rows, expected.flavor)
        )
    suite = expected.dir / "own-data.yaml"
    suite.write_text(
        SUITE.format(
            place=expected.dir,
            repeats=expected.repeats,
            flavor=expected.flavor,
            pool=expected.pool,
            seconds=expected.seconds,
        )
    )
    target = "docker" if expected.flavor == "mysql" else "local"
    command = [
        sys.executable,
        "-m",
        "volbench",
        "run",
        str(suite),
        "--target",
        target,
        "--volume",
        f"a={expected.a}",
        "--volume",
        f"b={expected.b}",
        "--out",
        str(expected.dir / "results"),
        "--yes",
        "--json",
    ]
    started_s = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 6):  # 6: no verdict
        return 3
    return _judge(json.loads(done.stdout), dump.stat().st_size, time.monotonic() - started_s)


@dataclass(frozen=True)
class _Container:
    """MySQL in a container, as `record_load` uses a server; its directory is /run/mysql in there."""

    socket: Path

    def query(self, sql: str) -> object:
        return rows(Account(user="root", socket=str(self.socket)), sql)


def _record(dump: Path, log: Path, rentals: int, flavor: str) -> None:
    if flavor == "mysql":
        _record_in_container(dump, log, rentals)
        return
    options = ("--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=512M")
    with (
        tempfile.TemporaryDirectory(prefix="own-") as directory,
        scratch_server(Path(directory), *options) as server,
    ):
        server.query(f"CREATE DATABASE {film_shop.SCHEMA}")
        client = shutil.which("mariadb") or "mysql"
        with dump.open("rb") as sql:
            argv = [client, "--no-defaults", f"--socket={server.socket}", "-uroot", film_shop.SCHEMA]
            subprocess.run(argv, stdin=sql, check=True)
        film_shop.record_load(server, rentals, seconds=LOAD_S, log=Path(directory) / "slow.log")
        shutil.copyfile(Path(directory) / "slow.log", log)  # readable for containers, unlike a log of MySQL


def _record_in_container(dump: Path, log: Path, rentals: int) -> None:
    with tempfile.TemporaryDirectory(prefix="own-") as directory, mysql_container(Path(directory)) as account:
        server = _Container(Path(account.socket))
        server.query(f"CREATE DATABASE {film_shop.SCHEMA}")
        client = shutil.which("mariadb") or "mysql"
        argv = [client, "--no-defaults", f"--socket={account.socket}", "-uroot", film_shop.SCHEMA]
        with dump.open("rb") as sql:
            subprocess.run(argv, stdin=sql, check=True)
        film_shop.record_load(server, rentals, seconds=LOAD_S, log=Path("/run/mysql/slow.log"))
        shutil.copyfile(Path(directory) / "slow.log", log)  # readable for containers, unlike a log of MySQL


def _timed(text: str, action: object) -> None:
    assert callable(action)
    started_s = time.monotonic()
    action()
    print(f"{text}: {time.monotonic() - started_s:.0f} s, load {os.getloadavg()[0]:.0f}", flush=True)


def _judge(report: dict[str, Any], dump_bytes: int, wall_s: float) -> int:
    print(report["summary"]["sentence"])
    slower = [
        row for row in report["comparisons"] if row["verdict"] == "worse" and row["metric"].startswith("latency")
    ]
    classes = sorted({row["step"] for row in slower if "/" in row["step"]})
    print(f"{report['run_id']}: {wall_s:.0f} s, load {os.getloadavg()[0]:.0f}; the dump has {dump_bytes:,} bytes")
    print(f"slower on b: {', '.join(classes) or 'no class of statements'}")
    if dump_bytes < BYTES_MIN:
        print(f"a trial: the dump is below {BYTES_MIN:,} bytes")
    return 0 if slower and classes and dump_bytes >= BYTES_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
