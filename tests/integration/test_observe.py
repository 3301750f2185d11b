"""`volbench observe` beside a real server under load: it only reads, and names what was done to the volume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from general_log import statements_of
from mysql_container import mysql_container
from ring_records import records_of
from scratch_server import ScratchServer, scratch_server

from volbench.core.profile.resolve import resolve
from volbench.core.records.named_metrics import Client, PerformanceSchema
from volbench.core.sql.guard import refuse_writes
from volbench.errors import EXIT_ENVIRONMENT, EXIT_OK, EXIT_REFUSED
from volbench.machine.engine.connection import Account, connection, rows
from volbench.machine.volume.emulated.requirements import find_daemon
from volbench.machine.volume.emulated.volume import EmulatedVolume
from volbench.measure.sample.raw import RawTick
from volbench.observe.model import read_incidents, read_observation
from volbench.observe.report import report_of
from volbench.observe.ring import segments_in
from volbench.validation.capture.digests import capture
from volbench.validation.source.server import CONNECTING, read_only

WATCH, PASSWORD = "watch", "open, sesame#2"
BOUND_S = 90.0
STALL_S, SHORT_S = 3.0, 0.9
ONSET_S_MAX = 2.0
ATTEMPTS = 3


@contextmanager
def server_on(volume: EmulatedVolume, directory: Path, *options: str) -> Iterator[ScratchServer]:
    data = volume.data / "server"
    data.mkdir()
    server = ScratchServer(directory, *options, data_on=data)
    server.create()
    server.start()
    try:
        yield server
    finally:
        server.stop()
        server.remove()


def sysbench(server: ScratchServer, *command: str, **options: object) -> subprocess.Popen[bytes]:
    input_value = {
        "mysql-socket": server.socket,
        "mysql-user": "root",
        "mysql-db": "app",
        "tables": 1,
        "table-size": 20000,
        "threads": 2,
        "rand-type": "uniform",
        "db-ps-mode": "disable",
        **{name.replace("_", "-"): value for name, value in options.items()},
    }
    argv = [f"--{name}={value}" for name, value in input_value.items()]
    return subprocess.Popen(["sysbench", *argv, "oltp_read_write", *command], stdout=subprocess.DEVNULL)


@contextmanager
def load(server: ScratchServer, rate: int) -> Iterator[None]:
    server.query("CREATE DATABASE app")
    assert sysbench(server, "prepare").wait(BOUND_S) == 0
    running = sysbench(server, "run", rate=rate, time=0)
    try:
        yield
    finally:
        running.terminate()
        running.wait(120)


def account_for(query: Callable[[str], object], directory: Path, *, rights: bool = True) -> Path:
    """An option file of an account that may only read what `observe` documents."""
    query(f"CREATE USER {WATCH}@localhost IDENTIFIED BY '{PASSWORD}'")
    if rights:
        query(f"GRANT SELECT ON performance_schema.* TO {WATCH}@localhost")
        query(f"GRANT PROCESS ON *.* TO {WATCH}@localhost")
    file = directory / "watch.cnf"
    file.touch(mode=0o600)
    file.write_text(f'[client]\nuser={WATCH}\npassword="{PASSWORD}"\n')
    return file


def volbench(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "volbench", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": "runner"},
    )


@contextmanager
def observe(socket: Path, option_file: Path, out: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """An observation; killed at the end of the block when it still runs."""
    dsn = f"mysql://{WATCH}@localhost?socket={socket}"
    process = volbench("observe", "--server", dsn, "--option-file", option_file, "--out", out, *options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.1)


def ticks(out: Path) -> int:
    """Of the server's source, in the ring so far."""
    records = records_of(segments_in(out / "ring"))
    return sum(isinstance(record, RawTick) and "innodb" in record.read for record in records)


def is_onset(out: Path, onset_s: float, epoch_s: float) -> bool:
    """Whether an incident began at a time: on a busy machine the server may stand at another one, too."""
    return abs(read_observation(out).zero_epoch_s + onset_s - epoch_s) <= ONSET_S_MAX


def has_ended(out: Path, epoch_s: float) -> bool:
    """Whether the incident that began at a time is over."""
    return any(incident.end_s and is_onset(out, incident.onset_s, epoch_s) for incident in read_incidents(out))


def incident_at(out: Path, epoch_s: float) -> dict[str, Any]:
    """The only incident of the report that began at a time."""
    incidents = report(out)["incidents"]
    chosen = [incident for incident in incidents if is_onset(out, incident["onset_s"], epoch_s)]
    assert len(chosen) == 1, incidents
    return dict(chosen[0])


def ended(process: subprocess.Popen[str], number: signal.Signals | None = None) -> tuple[int, str]:
    if number is not None:
        process.send_signal(number)
    output, _ = process.communicate(timeout=BOUND_S)
    return process.returncode, output


def only_read(statements: list[str]) -> None:
    """Every statement is one that reads, or one that the client library sends for each connection."""
    assert len(statements) > 10
    for sql in statements:
        if sql not in CONNECTING:
            refuse_writes(sql)
    assert not [sql for sql in statements if sql.upper().startswith(("UPDATE", "SET GLOBAL", "CALL", "TRUNCATE"))]


def report(out: Path) -> dict[str, Any]:
    code, output = ended(volbench("observe", "report", out))
    assert code == EXIT_OK, output
    return dict(json.loads((out / "report.json").read_text()))


@pytest.mark.mysqld
@pytest.mark.emulator
@pytest.mark.skipif(find_daemon() is None, reason="needs the daemon: pip install runner/emulator")
@pytest.mark.parametrize("stands", ["server", "volume"])
def test_a_stand_of_less_than_an_interval_is_one_incident_with_its_cause(
    base: Path, tmp_path: Path, stands: str
) -> None:
    """Half of its statements have ended in the second that it is in: only what is asked more often shows it.

    A machine whose CPUs others took, and of which the incident says so, may hide it: then it is made once more.
    """
    named, second = ("storage.stall", "server.stall") if stands == "volume" else ("server.stall", "storage.stall")
    for attempt in range(ATTEMPTS):
        own = tmp_path / str(attempt)
        own.mkdir()
        incident = stand(base / "volumes", f"v{attempt}", own, stands)
        fresh = [finding["cause"] for finding in incident["findings"] if not finding["also_before"]]
        assert second not in fresh, incident["findings"]
        if named in fresh or "interference.cpu" not in [finding["cause"] for finding in incident["findings"]]:
            break
    assert named in fresh, incident["findings"]  # on a busy machine what took its CPUs is named, too


def stand(volumes: Path, name: str, own: Path, stands: str) -> dict[str, Any]:
    """The incident of a volume or a server that stands still for SHORT_S while it is observed."""
    out = own / "observed"
    triggers = ("--on", "standstill > 500ms", "--on", "await > 400ms")
    with (
        EmulatedVolume(resolve("ebs-gp3", {"size": "2GiB"}), volumes, name=name) as volume,
        server_on(volume, own, "--innodb-flush-log-at-trx-commit=1") as server,
        load(server, rate=0),
        observe(server.socket, account_for(server.query, own), out, *triggers) as watching,
    ):
        wait_until(lambda: ticks(out) >= 14 if out.exists() else False, watching)
        stood_at = time.time()
        if stands == "volume":
            volume.fault("stall", seconds=SHORT_S)
        else:
            server.pause(SHORT_S)
        wait_until(lambda: has_ended(out, stood_at), watching)
        code, output = ended(watching, signal.SIGINT)
        assert code == EXIT_OK, output
    return incident_at(out, stood_at)


@pytest.mark.mysqld
@pytest.mark.emulator
@pytest.mark.skipif(find_daemon() is None, reason="needs the daemon: pip install runner/emulator")
def test_a_stall_of_the_volume_is_named_with_its_begin_and_nothing_was_written(base: Path, tmp_path: Path) -> None:
    log, out = tmp_path / "general.log", tmp_path / "observed"
    options = ("--general-log=1", f"--general-log-file={log}", "--innodb-flush-log-at-trx-commit=1")
    with (
        EmulatedVolume(resolve("ebs-gp3", {"size": "2GiB"}), base / "volumes", name="v") as volume,
        server_on(volume, tmp_path, *options) as server,
        load(server, rate=30),
        observe(server.socket, account_for(server.query, tmp_path), out, "--on", "stalled > 1s") as watching,
    ):
        wait_until(lambda: ticks(out) >= 14 if out.exists() else False, watching)
        stalled_at = time.time()
        volume.fault("stall", seconds=STALL_S)
        wait_until(lambda: has_ended(out, stalled_at), watching)
        code, output = ended(watching, signal.SIGINT)
        assert code == EXIT_OK, output
        only_read(statements_of(log, WATCH))
        assert statements_of(log, "root"), "the log has what others sent"
    observation = read_observation(out)
    assert observation.volume is not None
    assert observation.volume.emulated_profile == "ebs-gp3"
    incident = incident_at(out, stalled_at)
    fresh = {finding["cause"]: finding for finding in incident["findings"] if not finding["also_before"]}
    assert "storage.stall" in fresh, incident["findings"]
    begin_s = fresh["storage.stall"]["window_s"][0]
    assert observation.zero_epoch_s + begin_s == pytest.approx(stalled_at, abs=ONSET_S_MAX)
    texts = [statement["text"] for statement in incident["statements"]]
    assert any("sbtest" in text for text in texts)
    assert not any("performance_schema" in text or "STATUS" in text for text in texts), "ours do not count"


@pytest.mark.mysqld
def test_what_a_killed_observation_read_can_be_reported(tmp_path: Path) -> None:
    out = tmp_path / "observed"
    with (
        scratch_server(tmp_path) as server,
        load(server, rate=30),
        observe(server.socket, account_for(server.query, tmp_path), out) as watching,
    ):
        wait_until(lambda: ticks(out) >= 8 if out.exists() else False, watching)
        children = Path(f"/proc/{watching.pid}/task/{watching.pid}/children").read_text().split()
        watching.kill()
        watching.communicate(timeout=BOUND_S)
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in children):
            assert time.monotonic() < deadline, "the sampling process outlives its parent"
            time.sleep(0.1)
    assert children
    result = report(out)
    assert result["samples"] >= 7
    assert any("sbtest" in statement["text"] for statement in result["statements"]) or not result["statements"]


@pytest.mark.mysqld
def test_an_account_that_may_not_read_is_told_the_grants(tmp_path: Path) -> None:
    with scratch_server(tmp_path) as server:
        file = account_for(server.query, tmp_path, rights=False)
        with observe(server.socket, file, tmp_path / "observed", "--for", "5s") as watching:
            code, output = ended(watching)
        assert code == EXIT_ENVIRONMENT
        assert f"GRANT SELECT ON performance_schema.* TO '{WATCH}'@'localhost'" in output
        assert f"GRANT PROCESS ON *.* TO '{WATCH}'@'localhost'" in output
        assert not (tmp_path / "observed").exists(), "nothing is half done"
        (tmp_path / "mine").mkdir()
        with observe(server.socket, file, tmp_path / "mine", "--for", "5s") as watching:
            code, output = ended(watching)
        assert code == EXIT_REFUSED, output


@pytest.mark.docker
def test_latencies_of_mysql_are_those_of_the_statements_and_our_own_do_not_count(tmp_path: Path) -> None:
    """Statements of a known length, sent at a known rate, beside nothing else."""
    out = tmp_path / "observed"
    with mysql_container(tmp_path) as account:

        def query(sql: str) -> object:
            return rows(account, sql, timeout_s=30)

        with observe(tmp_path / "s", account_for(query, tmp_path), out, "--volume", "none") as watching:
            wait_until(lambda: ticks(out) >= 12 if out.exists() else False, watching)
            idle_until = ticks(out)
            sent_ms = _sleep_for(account, each_s=0.05, seconds=10.0)
            wait_until(lambda: ticks(out) >= idle_until + 22, watching)
            code, output = ended(watching, signal.SIGTERM)
            assert code == EXIT_OK, output
        with read_only(account, snapshot=False) as reader:
            captured = capture(reader, 3.0, masked=True, progress=lambda *_: None)
    assert captured.classes == (), "an idle server is asked by the capture alone"
    result = report_of(out)
    rate = result.case.at(PerformanceSchema.statements_per_s)
    p50, p95 = result.case.at(Client.latency_ms_p50), result.case.at(Client.latency_ms_p95)
    assert rate is not None
    assert p50 is not None
    assert p95 is not None
    assert rate[2 : idle_until - 2].max() == 0.0, "an idle server has no statements but ours"
    assert rate[rate > 0].sum() == pytest.approx(len(sent_ms), abs=8), "but for those that open a connection"
    busy = rate > 10
    # A busy machine makes some of them longer, none shorter, and the client waits for each at least as long as the
    # server works on it; a bucket is 4.7 % wide.
    assert p50[busy].min() > 47
    assert p95[busy].min() > 47
    assert median(p50[busy]) < 1.1 * np.quantile(sent_ms, 0.5)
    assert median(p95[busy]) < 1.1 * np.quantile(sent_ms, 0.98), "of some 19 a second"
    assert {statement.text.split()[0] for statement in result.statements if statement.time_s > 0.1} == {"SELECT"}
    (first, *_) = result.statements
    assert "SLEEP" in first.text.upper()
    assert first.statements == pytest.approx(len(sent_ms), abs=2)


def _sleep_for(account: Account, *, each_s: float, seconds: float) -> list[float]:
    """Return the client's own latencies, ms."""
    sent_ms = []
    with connection(account, timeout_s=30) as opened, opened.cursor() as cursor:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.monotonic()
            cursor.execute(f"SELECT SLEEP({each_s})")
            cursor.fetchall()
            sent_ms.append(1000 * (time.monotonic() - begun))
    return sent_ms


@pytest.mark.mysqld
def test_an_idle_server_is_seen_to_be_idle_where_no_history_is_kept(tmp_path: Path) -> None:
    """MariaDB counts our statements with all others: they are subtracted by their digests."""
    out = tmp_path / "observed"
    with (
        scratch_server(tmp_path) as server,
        observe(server.socket, account_for(server.query, tmp_path), out, "--volume", "none") as watching,
    ):
        wait_until(lambda: ticks(out) >= 22 if out.exists() else False, watching)
        code, output = ended(watching, signal.SIGINT)
        assert code == EXIT_OK, output
    result = report_of(out)
    rate = result.case.at(PerformanceSchema.statements_per_s)
    seconds = result.case.at(PerformanceSchema.statement_s_per_s)
    assert rate is not None
    assert seconds is not None
    assert np.nanmax(rate[2:]) == 0.0  # a sample that came late has no rate
    assert np.nanmax(seconds[2:]) == pytest.approx(0.0, abs=1e-6)
    assert result.statements == ()
