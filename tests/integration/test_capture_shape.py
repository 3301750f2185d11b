"""A mix made of a capture, run on a real server and captured again, has the shares of the first."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest
from scratch_server import ScratchServer, scratch_server

from volbench.engine.connection import Account
from volbench.records.capture import Capture
from volbench.suite.load import check_suite
from volbench.validation.capture import capture
from volbench.validation.shape import mix_of, shape_of_capture, suite_text
from volbench.validation.source import read_only

pytestmark = pytest.mark.mysqld
SECONDS = 6
PRODUCTION = {
    "point_selects": 7, "simple_ranges": 2, "sum_ranges": 0, "order_ranges": 1, "distinct_ranges": 0,
    "index_updates": 1, "non_index_updates": 2, "delete_inserts": 1, "range_size": 40,
}  # fmt: skip
"""What stands for production: 15 statements a transaction."""


def sysbench(server: ScratchServer, options: dict[str, object], *command: str) -> subprocess.Popen[bytes]:
    given = {
        "mysql-socket": server.socket, "mysql-user": "root", "mysql-db": "app", "tables": 2, "table-size": 5000,
        "threads": 4, "rand-type": "uniform", "db-ps-mode": "disable", "mysql-ignore-errors": "1213,1062",
    }  # fmt: skip
    argv = [f"--{name}={value}" for name, value in (given | options).items()]
    return subprocess.Popen(
        ["sysbench", *argv, "oltp_read_write", *command], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )


def captured(server: ScratchServer, options: dict[str, object]) -> Capture:
    """The digests while this mix runs."""
    running = sysbench(server, {**options, "time": SECONDS + 6}, "run")
    try:
        threading.Event().wait(2.0)  # past its start
        with read_only(Account(user="root", socket=str(server.socket)), snapshot=False) as reader:
            return capture(reader, SECONDS, masked=True, progress=lambda *_: None)
    finally:
        running.terminate()
        running.wait(30)


def test_the_suite_of_a_capture_sends_the_shares_and_the_rate_of_the_capture(tmp_path: Path) -> None:
    with scratch_server(tmp_path) as server:
        server.query("CREATE DATABASE app")
        assert sysbench(server, {}, "prepare").wait(60) == 0
        first = shape_of_capture(captured(server, {**PRODUCTION, "rate": 25}))
        mix = mix_of(first)
        (step,) = check_suite(suite_text(first, mix, origin="capture"), name="made").steps
        second = shape_of_capture(captured(server, {**step.options, "rate": round(step.rate)}))
    assert step.options["range_size"] == pytest.approx(40, rel=0.05)
    assert first.shares()["point select"] == pytest.approx(7 / 15, abs=0.01)
    for kind, share in first.shares().items():
        assert second.shares()[kind] == pytest.approx(share, abs=0.03), kind
    assert second.per_s == pytest.approx(first.per_s, rel=0.15)
