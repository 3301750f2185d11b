"""Sources that a server or an emulated volume keeps: rates, restarts, and histograms of statements."""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from sampled_rates import FIXTURES, rates

from volbench.core.records.series import HistogramRow
from volbench.measure.sample.device.emulator import EmulatorSampler
from volbench.measure.sample.interface import Presence, Reading, Unavailable, Values
from volbench.measure.sample.parsers.emulator import parse_counters
from volbench.measure.sample.parsers.innodb import SESSIONS_QUERY, lock_waits, parse_status
from volbench.measure.sample.raw import RawWriter
from volbench.measure.sample.rows import SERVER_EDGE_DEDUCT, SERVER_EDGE_MULT, histogram_rows, series_rows
from volbench.measure.sample.server.innodb import InnoDb
from volbench.measure.sample.server.performance_schema import PerformanceSchemaSampler

COUNTERS = json.loads((FIXTURES / "emulator-counters.json").read_text())


def status(server: str, **changes: int) -> Values:
    recorded = json.loads((FIXTURES / f"{server}.json").read_text())["status"]
    values: Values = {(name, ""): value for name, value in parse_status(map(tuple, recorded)).items()}
    values["connection", ""] = 1
    for name, added in changes.items():
        values[name, ""] += added
    return values


def test_innodb_rates() -> None:
    after = status(
        "mysql-9.7",
        innodb_data_fsyncs=20,
        innodb_data_read=4 << 20,
        innodb_row_lock_time=500,
        innodb_buffer_pool_reads=5,
        innodb_buffer_pool_read_requests=100,
    )
    result = rates(InnoDb, status("mysql-9.7"), after, dt_s=2.0)
    assert result["data_fsyncs_per_s", ""] == 10
    assert result["data_read_mib_per_s", ""] == 2.0
    assert result["row_lock_wait_s_per_s", ""] == 0.25
    assert result["buffer_pool_miss_ratio", ""] == 0.05


class Answers:
    """A server that answers SHOW GLOBAL STATUS, and another question once or not at all."""

    generation = 1

    def __init__(self, history: str | None) -> None:
        self.history = history
        self.asked = 0

    def rows(self, sql: str) -> list[tuple[bytes, bytes]]:
        assert sql.startswith("SHOW")
        return [(b"Questions", b"5")]

    def text(self, sql: str) -> list[str]:
        assert "trx_rseg_history_len" in sql
        self.asked += 1
        if self.history is None:
            raise Unavailable("the server refused: PROCESS is needed")
        return [self.history]


def test_mysql_has_its_history_list_elsewhere() -> None:
    assert InnoDb(Answers("812")).read()["innodb_history_list_length", ""] == 812  # type: ignore[arg-type]


def test_a_server_that_refuses_the_history_list_is_asked_once() -> None:
    server = Answers(None)
    source = InnoDb(server)  # type: ignore[arg-type]
    assert [("innodb_history_list_length", "") in source.read() for _ in range(2)] == [False, False]
    assert server.asked == 1


class Sessions:
    """A server with status variables that the test sets, and a list of sessions in these states."""

    generation = 1

    def __init__(self, states: list[str]) -> None:
        self.status = {"Questions": 1000, "Threads_running": 5, "Innodb_history_list_length": 1}
        self.states = states
        self.lists = 0

    def rows(self, sql: str) -> list[tuple[bytes, ...]]:
        if sql.startswith("SHOW GLOBAL STATUS"):
            return [(name.encode(), str(value).encode()) for name, value in self.status.items()]
        assert sql == SESSIONS_QUERY
        self.lists += 1
        rows = [
            ("1", "u", "h", "d", "Sleep", "1", ""),
            *(("2", "u", "h", "d", "Query", "1", s) for s in self.states),
        ]
        return [tuple(column.encode() for column in row) for row in rows]


LOCK_STATES = [
    "Waiting for table metadata lock",
    "User lock",
    "Waiting for backup lock",
    "Sending data",
    "starting",
]


def test_sessions_that_make_no_progress_are_asked_what_they_wait_for() -> None:
    server = Sessions(LOCK_STATES)
    source = InnoDb(server)  # type: ignore[arg-type]
    assert ("metadata_lock_current_waits", "") not in source.read(), "nothing is known of progress yet"
    assert source.read()["metadata_lock_current_waits", ""] == 3


def test_threads_that_are_no_clients_are_counted_as_running_and_never_as_waiting() -> None:
    """MySQL's event scheduler is a Daemon, is listed, and is counted in Threads_running."""
    sessions = [
        ["5", "event_scheduler", "localhost", "", "Daemon", "9", "Waiting on empty queue"],
        ["6", "repl", "h", "", "Binlog Dump GTID", "9", "Source has sent all binlog to replica"],
        ["7", "u", "h", "d", "Sleep", "1", ""],
        ["8", "u", "h", "d", "Query", "0", "init"],
        *(["9", "u", "h", "d", "Query", "1", "Waiting for table metadata lock"] for _ in range(4)),
    ]
    assert lock_waits(sessions, running=7) == 4
    assert lock_waits(sessions[2:], running=7) is None
    assert lock_waits(sessions[:2], running=2) == 0


def test_sessions_that_make_progress_are_not_listed() -> None:
    server = Sessions(LOCK_STATES)
    source = InnoDb(server)  # type: ignore[arg-type]
    source.read()
    server.status["Questions"] += 1_000_000
    assert ("metadata_lock_current_waits", "") not in source.read()
    assert server.lists == 0


def test_a_list_without_the_sessions_of_others_says_nothing_of_locks() -> None:
    """Without the PROCESS privilege a server lists the account's own sessions."""
    source = InnoDb(Sessions(LOCK_STATES[:1]))  # type: ignore[arg-type]
    source.read()
    assert ("metadata_lock_current_waits", "") not in source.read()


def test_checkpoint_age_is_the_distance_of_two_positions_in_mysql() -> None:
    values = status("mysql-9.7")
    values["innodb_redo_log_checkpoint_lsn", ""] = 1 << 20
    values["innodb_redo_log_current_lsn", ""] = 11 << 20
    values["innodb_redo_log_capacity_resized", ""] = 100 << 20
    result = rates(InnoDb, values, values)
    assert (result["checkpoint_age_mib", ""], result["checkpoint_age_ratio", ""]) == (10.0, 0.1)


def test_checkpoint_age_is_a_variable_of_its_own_in_mariadb() -> None:
    values = status("mariadb-10.11")
    values["innodb_checkpoint_age", ""] = 3 << 20
    assert rates(InnoDb, values, values)["checkpoint_age_mib", ""] == 3.0


def test_a_server_without_redo_positions_has_no_checkpoint_age() -> None:
    values = {key: value for key, value in status("mysql-9.7").items() if "redo_log" not in key[0]}
    assert ("checkpoint_age_mib", "") not in rates(InnoDb, values, values)


def test_a_restart_gives_no_rates_even_when_counters_are_larger_than_before() -> None:
    after = status("mysql-9.7", innodb_data_reads=1_000_000, connection=1)
    result = rates(InnoDb, status("mysql-9.7"), after)
    assert ("data_reads_per_s", "") not in result
    assert ("pending_reads", "") in result


def test_file_times_become_seconds_by_class() -> None:
    before: Values = {("connection", ""): 1}
    for verb in ("read", "write", "sync"):
        before |= {(f"file_{verb}s", "redo"): 10, (f"file_{verb}_ps", "redo"): 0}
    before |= {("file_read_bytes", "redo"): 0, ("file_write_bytes", "redo"): 0, ("background_ps", "redo"): 0}
    after = dict(before)
    after["file_syncs", "redo"] = 60
    after["file_sync_ps", "redo"] = 10**12
    after["background_ps", "redo"] = 25 * 10**10
    result = rates(PerformanceSchemaSampler, before, after, dt_s=2.0)
    assert result["file_syncs_per_s", "redo"] == 25
    assert result["file_sync_s_per_s", "redo"] == 0.5
    assert result["file_sync_ms", "redo"] == 20
    assert ("file_write_ms", "redo") not in result
    assert result["wait_s_per_s", "file_redo"] == 0.375


def test_foreground_waits_are_never_negative() -> None:
    """Both sums are read a moment apart: the background's may be ahead."""
    before: Values = {("connection", ""): 1, ("file_reads", "data"): 0, ("background_ps", "data"): 0}
    before |= {(f"file_{verb}_ps", "data"): 0 for verb in ("read", "write", "sync")}
    after = {**before, ("file_read_ps", "data"): 100, ("background_ps", "data"): 120}
    assert rates(PerformanceSchemaSampler, before, after)["wait_s_per_s", "file_data"] == 0.0


def test_waits_of_background_threads_for_metadata_locks_are_no_statements() -> None:
    """InnoDB's statistics thread waits for the lock of each table that is made: of 0.9 s only 0.1 are sessions'."""
    before: Values = {("connection", ""): 1, ("wait_ps", "lock_metadata"): 0, ("wait_ps", "binlog_group"): 0}
    before |= {("background_wait_ps", "lock_metadata"): 5}
    after: Values = {
        ("connection", ""): 1,
        ("wait_ps", "lock_metadata"): 9 * 10**11,
        ("wait_ps", "binlog_group"): 10**11,
    }
    after |= {("background_wait_ps", "lock_metadata"): 5 + 8 * 10**11}
    result = rates(PerformanceSchemaSampler, before, after)
    assert result["wait_s_per_s", "lock_metadata"] == pytest.approx(0.1)
    assert result["wait_s_per_s", "binlog_group"] == pytest.approx(0.1)


def digests(**counted: tuple[int, int]) -> Values:
    values: Values = {("connection", ""): 1}
    for name, (count, ps) in counted.items():
        text = name.replace("_", " ")
        values |= {("digest_count", text): count, ("digest_ps", text): ps, ("digest_cpu_ps", text): ps // 4}
    return values


def test_like_digests_are_one_query_and_one_that_is_new_has_no_rate_yet() -> None:
    """What a digest counted before it came among the largest is not of this interval."""
    before = digests(aa_GET_t1=(10, 0), bb_GET_t2=(10, 0))
    after = digests(aa_GET_t1=(20, 4 * 10**12), bb_GET_t2=(40, 2 * 10**12), cc_GET_t3=(10**6, 10**15))
    result = rates(PerformanceSchemaSampler, before, after, dt_s=2.0)
    assert result["query_per_s", "GET tN"] == 20
    assert result["query_s_per_s", "GET tN"] == 3.0
    assert result["query_cpu_s_per_s", "GET tN"] == 0.75


def test_a_query_that_is_new_to_a_server_whose_digests_are_all_read_began_in_this_interval() -> None:
    """Eight tables make forty digests, and each lost the interval in which it came first."""
    before = digests(aa_GET_t1=(10, 0)) | {("all_digests", ""): 1}
    after = digests(aa_GET_t1=(20, 4 * 10**12), cc_GET_t3=(6, 10**12), dd_PUT=(2, 10**12))
    result = rates(PerformanceSchemaSampler, before, after, dt_s=2.0)
    assert result["query_per_s", "GET tN"] == 8
    assert result["query_s_per_s", "GET tN"] == 2.5
    assert result["query_per_s", "PUT"] == 1


def statements(buckets: dict[int, int], connection: int = 1, errors: int = 0) -> Values:
    values: Values = {("connection", ""): connection, ("statement_errors", ""): errors}
    return values | {("statement_bucket", str(number)): count for number, count in buckets.items()}


def histograms(path: Path, *readings: Values) -> list[HistogramRow]:
    raw = RawWriter(path)
    raw.header(interval_s=1.0, zero_monotonic_ns=0)
    raw.presence("performance_schema", Presence(present=True), remote=True, next_tick=1)
    for tick, values in enumerate(readings, start=1):
        read = {"performance_schema": Reading(t_s=float(tick), values=values)}
        raw.tick(tick, late_s=0, took_s=0, read=read, failed={})
    raw.close()
    return list(histogram_rows(path))


def test_an_intervals_statements_by_bin(tmp_path: Path) -> None:
    (row,) = histograms(
        tmp_path / "raw",
        statements({0: 5, 1: 7, 100: 3}),
        statements({0: 6, 1: 9, 100: 3, 101: 4, 449: 2}, errors=1),
    )
    assert (row.bin, row.count, row.below, row.above) == ((0, 100), (2, 4), 1, 2)
    assert (row.events, row.errors, row.t_s, row.interval_s) == (9, 1, 2.0, 1.0)
    assert (row.source, row.step) == ("server", "")


def with_lateness(**bins: Mapping[float, int]) -> Values:
    """The daemon's answer, with counts of lateness by kind and a bin's lower edge in microseconds."""
    answer = json.loads(json.dumps(COUNTERS))
    for kind, counts in bins.items():
        lateness = [{"lower_us": edge, "upper_us": None, "count": count} for edge, count in counts.items()]
        answer["counters"]["operations"][kind]["lateness"] = lateness
    return parse_counters(json.dumps(answer).encode())


def test_the_lateness_of_an_emulated_volume_is_counted_by_kind(tmp_path: Path) -> None:
    """Bin 40 begins at 2^10 us; what is late by less than a microsecond is below all bins."""
    readings = [
        with_lateness(read={0.0: 5, 2**10.0: 1}, write={2**3.25: 2}),
        with_lateness(read={0.0: 7, 2**3.25: 4, 2**10.0: 2}, write={2**3.25: 2}),
    ]
    path = tmp_path / "raw"
    raw = RawWriter(path)
    raw.header(interval_s=1.0, zero_monotonic_ns=0)
    raw.presence("emulator", Presence(present=True), remote=True, next_tick=1)
    for tick, values in enumerate(readings, start=1):
        read = {"emulator": Reading(t_s=float(tick), values=values | {("uptime_s", ""): float(tick)})}
        raw.tick(tick, late_s=0, took_s=0, read=read, failed={})
    raw.close()
    (row,) = histogram_rows(path)
    assert (row.source, row.events, row.below, row.bin, row.count) == ("lateness read", 7, 2, (13, 40), (4, 1))
    edges_us = [1e3 * math.exp(number / row.edge_mult + row.edge_deduct) for number in row.bin]
    assert edges_us == pytest.approx([2**3.25, 2**10])


def test_bin_edges_are_those_that_mysql_says() -> None:
    """Recorded from MySQL 9.7: BUCKET_TIMER_LOW of buckets 1, 2, 448 and 449 is in picoseconds."""
    said_ms = [ps / 1e9 for ps in (10000000, 10471285, 8709635899561102, 9120108393559408)]
    edges_ms = [math.exp(number / SERVER_EDGE_MULT + SERVER_EDGE_DEDUCT) for number in (0, 1, 447, 448)]
    assert edges_ms == pytest.approx(said_ms, rel=1e-6)


def test_a_second_without_statements_is_a_row_without_events(tmp_path: Path) -> None:
    (row,) = histograms(tmp_path / "raw", statements({5: 2}), statements({5: 2}))
    assert (row.events, row.bin) == (0, ())


def test_a_restart_or_reset_has_no_row(tmp_path: Path) -> None:
    assert histograms(tmp_path / "a", statements({5: 2}), statements({5: 9}, connection=2)) == []
    assert histograms(tmp_path / "b", statements({5: 2}), statements({5: 1})) == []
    assert histograms(tmp_path / "c", statements({5: 2}), statements({6: 1})) == []


def test_a_server_without_histograms_has_no_rows(tmp_path: Path) -> None:
    assert histograms(tmp_path / "raw", statements({}), statements({})) == []


def test_rows_over_a_gap_are_about_the_whole_gap(tmp_path: Path) -> None:
    raw = RawWriter(tmp_path / "raw")
    raw.header(interval_s=1.0, zero_monotonic_ns=0)
    raw.presence("vm", Presence(present=True), remote=False, next_tick=1)
    for tick, faults in ((1, 0), (5, 400)):
        read = {"vm": Reading(t_s=float(tick), values={("pgfault", ""): faults})}
        raw.tick(tick, late_s=0, took_s=0, read=read, failed={})
    raw.close()
    (row,) = series_rows(tmp_path / "raw")
    assert (row.t_s, row.metric, row.value) == (5.0, "page_faults_per_s", 100.0)


class ControlSocket:
    """Answers as an emulated volume does, one line for each line; `answer` may be changed."""

    def __init__(self, path: Path) -> None:
        self.answer = json.dumps(COUNTERS)
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rw") as lines:
                for line in lines:
                    assert json.loads(line) == {"do": "counters"}
                    lines.write(self.answer + "\n")
                    lines.flush()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlSocket]:
    server = ControlSocket(tmp_path / "control.sock")
    yield server
    server.close()


def test_an_emulated_volume_answers_with_its_counters(control: ControlSocket) -> None:
    sampler = EmulatorSampler(control.path)
    assert sampler.probe().present
    before = sampler.read()
    counters = json.loads(json.dumps(COUNTERS))
    counters["counters"]["uptime_s"] += 1
    counters["counters"]["nvme"]["total_read_ops"] += 100
    counters["counters"]["nvme"]["total_read_time"] += 250_000
    counters["counters"]["nvme"]["ebs_volume_performance_exceeded_iops"] += 500_000
    counters["counters"]["operations"]["flush"] |= {"count": 60, "time_us": 130_000}
    counters["counters"]["fidelity"] |= {"operations": 700, "late": 2}
    control.answer = json.dumps(counters)
    after = sampler.read()
    sampler.close()
    result = rates(EmulatorSampler, before, after)
    assert result["reads_per_s", ""] == 100
    assert result["r_await_ms", ""] == 2.5
    assert result["volume_exceeded_iops_ratio", ""] == 0.5
    assert result["f_await_ms", ""] == 3.0
    assert result["balance_percent", "burst"] == 98.5
    assert result["late_ratio", ""] == 0.005
    assert result["queue_length", ""] == 4
    assert ("w_await_ms", "") not in result


def test_each_disk_of_an_emulated_cluster_has_its_rates_and_its_limit(control: ControlSocket) -> None:
    """The second answer's disks did 300 and 150 writes in a second; credits of the second one are spent."""
    answers: list[str] = []
    for writes, limits in (((10, 20), (3000, 3000)), ((310, 170), (3000, 300))):
        answer = json.loads(json.dumps(COUNTERS))
        answer["counters"]["uptime_s"] += len(answers)
        answer["counters"]["disks"] = [
            {"disk": number, "reads": 0, "writes": count, "limit_per_s": limit}
            for number, (count, limit) in enumerate(zip(writes, limits, strict=True))
        ]
        answers.append(json.dumps(answer))
    readings = []
    sampler = EmulatorSampler(control.path)
    for control.answer in answers:
        readings.append(sampler.read())
    sampler.close()
    result = rates(EmulatorSampler, readings[0], readings[1])
    assert (result["disk_writes_per_s", "disk 0"], result["disk_writes_per_s", "disk 1"]) == (300, 150)
    assert (result["disk_reads_per_s", "disk 0"], result["disk_limit_per_s", "disk 1"]) == (0, 300)


def test_an_error_answer_is_unavailable(control: ControlSocket) -> None:
    control.answer = '{"ok": false, "error": "not so"}'
    sampler = EmulatorSampler(control.path)
    with pytest.raises(Unavailable, match="not so"):
        sampler.read()


def test_a_volume_that_was_mounted_anew_gives_only_its_balance(control: ControlSocket) -> None:
    sampler = EmulatorSampler(control.path)
    before = sampler.read()
    sampler.close()
    after = {**before, ("uptime_s", ""): 0.5}
    assert {name for name, _ in rates(EmulatorSampler, before, after)} == {"balance_percent"}


def test_no_socket_is_absent_with_a_reason(tmp_path: Path) -> None:
    assert EmulatorSampler(None).probe().reason == "the volume is not an emulated one"
    assert "does not answer" in EmulatorSampler(tmp_path / "none.sock").probe().reason
