"""Sampling beside a real server: its sources come and go with it, and never stop the machine's own."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scratch_server import PASSWORD, ScratchServer, scratch_server

from volbench.core.records.sources import SAMPLED
from volbench.machine.engine.connection import Account, connection
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.controller import SamplingProcess
from volbench.measure.sample.parsers.performance_schema import DIGESTS_MAX
from volbench.measure.sample.raw import RawTick, SourcePresence, read_raw
from volbench.measure.sample.rows import histogram_rows, series_rows

pytestmark = pytest.mark.mysqld

INTERVAL_S = 0.1
WAIT_S = 180.0
SERVER_SOURCES = {"innodb", "performance_schema"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path_factory.mktemp("server"), "--performance-schema-digests-size=5000") as running:
        yield running


@pytest.fixture
def process(server: ScratchServer, tmp_path: Path) -> Iterator[SamplingProcess]:
    config = SamplingConfig(
        raw_file=str(tmp_path / "raw" / "samples.jsonl"),
        zero_monotonic_ns=time.monotonic_ns(),
        interval_s=INTERVAL_S,
        option_file=str(server.option_file),
    )
    process = SamplingProcess(config)
    process.start()
    yield process
    process.stop()


def ticks_of(process: SamplingProcess) -> list[RawTick]:
    return [record for record in read_raw(process.raw_file) if isinstance(record, RawTick)]


def wait_until(process: SamplingProcess, done: Callable[[list[RawTick]], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done(ticks_of(process)):
        assert time.monotonic() < deadline, process.log_file.read_text()
        assert process.alive(), process.log_file.read_text()
        time.sleep(0.05)


def answers(ticks: list[RawTick]) -> int:
    return sum(tick.read.keys() >= SERVER_SOURCES for tick in ticks)


def test_a_servers_sources_become_catalogued_rows(process: SamplingProcess, server: ScratchServer) -> None:
    wait_until(process, lambda ticks: answers(ticks) >= 2)
    server.query("CREATE OR REPLACE TABLE mysql.sampled (a INT) ENGINE=InnoDB" if server.mariadb else "SELECT 1")
    observed = answers(ticks_of(process))
    wait_until(process, lambda ticks: answers(ticks) >= observed + 3)
    qualities = {quality.source: quality for quality in process.stop()}
    rows = list(series_rows(process.raw_file))
    assert {row.source for row in rows} >= SERVER_SOURCES
    assert all(SAMPLED[row.source][row.metric].unit and row.value >= 0 for row in rows)
    assert qualities["innodb"].available
    histograms = list(histogram_rows(process.raw_file))
    if server.mariadb:
        assert histograms == []
        assert "no statement histograms" in qualities["performance_schema"].reason
    else:
        assert histograms


def test_our_own_statements_are_not_counted(process: SamplingProcess) -> None:
    wait_until(process, lambda ticks: answers(ticks) >= 10)
    process.stop()
    counts = [
        tick.read["performance_schema"].values["statements", ""]
        for tick in ticks_of(process)
        if "performance_schema" in tick.read
    ]
    assert counts[-1] - counts[2] == 0


def test_digests_that_have_become_too_many_are_asked_for_no_more(
    process: SamplingProcess, server: ScratchServer
) -> None:
    """As of DDL on thousands of tables: each table's statement is a digest of its own."""

    def digests(ticks: list[RawTick]) -> list[bool]:
        """Of each reading, whether it has digests."""
        readings = [tick.read["performance_schema"].values for tick in ticks if "performance_schema" in tick.read]
        return [any(name == "digest_ps" for name, _ in values) for values in readings]

    wait_until(process, lambda ticks: any(digests(ticks)))
    account = Account(user="root", socket=str(server.socket))
    with connection(account, "mysql", timeout_s=WAIT_S) as session, session.cursor() as cursor:
        for number in range(DIGESTS_MAX + 1):
            cursor.execute(f"SELECT 1 AS many_{number}")
            cursor.fetchall()
    wait_until(process, lambda ticks: digests(ticks)[-3:] == [False] * 3)
    reasons = [
        record.presence.reason
        for record in read_raw(process.raw_file)
        if isinstance(record, SourcePresence) and record.source == "performance_schema"
    ]
    assert [bool(re.search(r"digests are not read: \d{4} of them", reason)) for reason in reasons] == [False, True]


def test_sessions_that_wait_for_a_table_are_counted_while_they_wait(
    process: SamplingProcess, server: ScratchServer
) -> None:
    """Three wait for a table that a fourth has locked and does nothing with: none of their statements ends."""
    server.query("CREATE TABLE IF NOT EXISTS mysql.awaited (a INT)")
    account = Account(user="root", socket=str(server.socket))
    with connection(account, "mysql", timeout_s=WAIT_S) as session, session.cursor() as cursor:
        cursor.execute("LOCK TABLES awaited WRITE")
        with ThreadPoolExecutor(3) as pool:
            for _ in range(3):
                pool.submit(server.query, "SELECT * FROM mysql.awaited")
            try:
                wait_until(process, lambda _: 3 in gauge(process, "metadata_lock_current_waits"))
            finally:
                cursor.execute("UNLOCK TABLES")


def gauge(process: SamplingProcess, metric: str) -> list[float]:
    return [row.value for row in series_rows(process.raw_file) if row.metric == metric]


def test_a_restart_is_a_gap_without_absurd_rates(process: SamplingProcess, server: ScratchServer) -> None:
    wait_until(process, lambda ticks: answers(ticks) >= 3)
    server.stop()
    wait_until(process, lambda ticks: "innodb" in ticks[-1].failed or any("innodb" in t.failed for t in ticks))
    server.start()
    before = answers(ticks_of(process))
    wait_until(process, lambda ticks: answers(ticks) >= before + 4)
    qualities = {quality.source: quality for quality in process.stop()}
    assert qualities["innodb"].available
    assert "no reading at" in qualities["innodb"].reason
    connections = {t.read["innodb"].values["connection", ""] for t in ticks_of(process) if "innodb" in t.read}
    assert len(connections) == 2
    questions = [row.value for row in series_rows(process.raw_file) if row.metric == "questions_per_s"]
    assert 0 <= max(questions) < 1000


def test_a_server_that_hangs_does_not_stop_the_machines_sources(
    process: SamplingProcess, server: ScratchServer
) -> None:
    """A stalled volume can make the server hang; the device's counters are then what everybody wants to see."""
    wait_until(process, lambda ticks: answers(ticks) >= 3)
    server.signal(signal.SIGSTOP)
    try:
        stopped_at = max(tick.tick for tick in ticks_of(process))
        wait_until(process, lambda ticks: any("cpu" in t.read and t.tick > stopped_at + 10 for t in ticks))
        hung = [t for t in ticks_of(process) if t.tick > stopped_at + 2]
        assert not any(t.read.keys() & SERVER_SOURCES for t in hung)
    finally:
        server.signal(signal.SIGCONT)
    before = answers(ticks_of(process))
    wait_until(process, lambda ticks: answers(ticks) >= before + 3)
    reason = {quality.source: quality for quality in process.stop()}["innodb"].reason
    assert "to answer" in reason


def test_the_password_is_in_no_file_of_the_results(process: SamplingProcess) -> None:
    wait_until(process, lambda ticks: answers(ticks) >= 1)
    process.stop()
    files = [path for path in process.raw_file.parent.rglob("*") if path.is_file()]
    assert len(files) == 3
    assert not [path for path in files if PASSWORD in path.read_text()]


def test_a_server_that_starts_later_is_found(server: ScratchServer, tmp_path: Path) -> None:
    """Sampling may begin before the server is up."""
    server.stop()
    config = SamplingConfig(
        raw_file=str(tmp_path / "samples.jsonl"),
        zero_monotonic_ns=time.monotonic_ns(),
        interval_s=INTERVAL_S,
        sources=("innodb",),
        option_file=str(server.option_file),
    )
    process = SamplingProcess(config)
    process.start()
    try:
        wait_until(process, lambda ticks: any("no connection" in t.failed.get("innodb", "") for t in ticks))
        server.start()
        wait_until(process, lambda ticks: any("innodb" in t.read for t in ticks))
    finally:
        results = {quality.source: quality for quality in process.stop()}
        server.stop()
        server.start()
    assert results["innodb"].available
