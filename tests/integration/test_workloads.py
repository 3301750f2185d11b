"""Steps on a real server: sysbench, dump and restore, cold reads; and what happens when things go wrong."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import mysql.connector
import pytest

from volbench.engine.connection import Account, connection, read_option_file
from volbench.errors import EnvironmentLacks, StepFailed, UsageError
from volbench.records.base import Scalar
from volbench.records.cell import DatasetSpec, Failure
from volbench.records.facts import ServerFacts, VolumeFacts
from volbench.records.series import HistogramRow, SeriesRow
from volbench.records.steps import ColdReadStep, DdlStep, DumpStep, IdleStep, OltpStep, RestoreStep, Step
from volbench.volume.blockstats import device_read_bytes
from volbench.volume.facts import discover
from volbench.workload.client_options import sysbench_config
from volbench.workload.files import tree_bytes
from volbench.workload.interface import Clock, StepContext, StepOutcome
from volbench.workload.registry import workload_for
from volbench.workload.schema_data import data_bytes, table_names
from volbench.workload.state import LAST_DUMP

pytestmark = pytest.mark.mysqld

DATASET = DatasetSpec(tables=2, rows=20_000)
PASSWORD = "se cret,#1"  # noqa: S105 - of a throw-away server; spaces and commas must survive
START_BOUND_S = 60.0
MARIADBD = "mariadbd"
EXTRA = [] if shutil.which(MARIADBD) else ["--mysqlx=OFF"]


class PlainServer:
    """A mariadbd of the test's own: no supervisor, a socket only."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.option_file = directory / "client.cnf"
        self.socket = directory / "s"
        self.process: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """An empty server with one user, and the dataset in it."""
        if shutil.which(MARIADBD):
            create = ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal"]
        else:
            create = ["mysqld", "--no-defaults", "--initialize-insecure", "--user=root"]
        create.append(f"--datadir={self.data_dir}")
        subprocess.run(create, check=True, capture_output=True, timeout=120)
        self._write_options("root", "")
        self.start()
        with self.connect() as opened:
            cursor = opened.cursor()
            cursor.execute(f"CREATE DATABASE {DATASET.schema_name}")
            cursor.execute(f"CREATE USER bench@localhost IDENTIFIED BY '{PASSWORD}'")
            cursor.execute("GRANT ALL ON *.* TO bench@localhost")
        self._write_options("bench", PASSWORD)
        config = self.directory / "prepare.conf"
        config.write_text(sysbench_config(read_option_file(self.option_file), DATASET.schema_name))
        subprocess.run(
            ["sysbench", f"--config-file={config}", "oltp_read_write", f"--tables={DATASET.tables}",
             f"--table-size={DATASET.rows}", "--threads=2", "prepare"],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip

    def _write_options(self, user: str, password: str) -> None:
        self.option_file.touch(mode=0o600)
        self.option_file.write_text(f'[client]\nuser={user}\npassword="{password}"\nsocket={self.socket}\n')

    @contextlib.contextmanager
    def connect(self, database: str | None = None, *, timeout_s: float = 60.0) -> Iterator[Any]:
        options = read_option_file(self.option_file)
        account = Account(user=options["user"], password=options["password"], socket=options["socket"])
        with connection(account, database, timeout_s=timeout_s) as opened:
            yield opened

    def query(self, sql: str) -> list[Any]:
        with self.connect() as opened:
            cursor = opened.cursor()
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    def start(self, config_overrides: Mapping[str, Scalar] | None = None) -> float:
        begun = time.monotonic()
        overrides = [f"--{name}={value}" for name, value in (config_overrides or {}).items()]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [shutil.which(MARIADBD) or "mysqld", "--no-defaults", f"--datadir={self.data_dir}",
                 f"--socket={self.socket}", *EXTRA, "--skip-networking",
                 "--user=root", "--innodb-buffer-pool-size=64M", *overrides],
                stdout=log, stderr=log,
            )  # fmt: skip
        while time.monotonic() - begun < START_BOUND_S:
            with contextlib.suppress(mysql.connector.Error):
                self.query("SELECT 1")
                return time.monotonic() - begun
            assert self.alive(), self.log_tail(20)
            time.sleep(0.05)
        raise AssertionError(f"no answer in {START_BOUND_S} s: {self.log_tail(20)}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log_tail(self, lines: int) -> str:
        return "\n".join((self.directory / "log").read_text(errors="replace").splitlines()[-lines:])

    def facts(self) -> ServerFacts:
        version = self.query("SELECT version()")[0][0]
        return ServerFacts(flavor="mariadb" if "MariaDB" in version else "mysql", version=version)

    def failure(self, where: str = "server") -> Failure | None:
        if self.alive():
            return None
        code = self.process.returncode if self.process is not None else None
        return Failure(cause="server_killed", what=f"the server ended with {code}", where=where)


class Kept:
    """A recorder that keeps everything."""

    def __init__(self) -> None:
        self.rows: list[SeriesRow] = []
        self.histograms: list[HistogramRow] = []

    def series(self, rows: Iterable[SeriesRow]) -> None:
        self.rows.extend(rows)

    def histogram(self, row: HistogramRow) -> None:
        self.histograms.append(row)

    def of(self, metric: str) -> dict[float, float]:
        return {row.t_s: row.value for row in self.rows if row.metric == metric}


@pytest.fixture(scope="module")
def server() -> Iterator[PlainServer]:
    # A short path: a Unix socket's name has at most 107 bytes.
    directory = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    server = PlainServer(directory)
    try:
        server.create()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


@pytest.fixture
def make_context(server: PlainServer, tmp_path: Path) -> Callable[..., StepContext]:
    if not server.alive():
        server.start()
    (tmp_path / "volume").mkdir()
    (tmp_path / "scratch").mkdir()

    def make(**changes: Any) -> StepContext:
        return StepContext(**{
            "server": server,
            "dataset": DATASET,
            "volume_facts": VolumeFacts(path=str(tmp_path)),
            "volume_dir": tmp_path / "volume",
            "scratch_dir": tmp_path / "scratch",
            "seed": 42,
            "clock": Clock(zero_monotonic_ns=time.clock_gettime_ns(time.CLOCK_MONOTONIC)),
            "record": Kept(),
            **changes,
        })  # fmt: skip

    return make


def run(step: Step, ctx: StepContext) -> StepOutcome:
    workload = workload_for(step)
    workload.check(step, ctx)
    return workload.run(step, ctx)


def values(outcome: StepOutcome) -> dict[str, float]:
    return {name: metric.value for name, metric in outcome.metrics.items()}


def after(delay_s: float, action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(delay_s, action)
    timer.start()
    return timer


class TestOltp:
    @pytest.mark.parametrize("test", ["oltp_read_write", "select_random_ranges"])
    def test_one_row_of_every_second_and_metrics_of_the_window(
        self, make_context: Callable[..., StepContext], test: Any
    ) -> None:
        """Warm-up and measured seconds come from one run; only measured ones are in the metrics."""
        kept = Kept()
        ctx = make_context(record=kept)
        outcome = run(OltpStep(name="o", test=test, threads=(4,), warmup_s=1, duration_s=2), ctx)
        measured = [row for row in kept.histograms if row.measured]
        assert len(measured) == 2
        assert not kept.histograms[0].measured
        assert outcome.window_s == pytest.approx((measured[0].t_s - measured[0].interval_s, measured[-1].t_s))
        assert outcome.window_s[1] - outcome.window_s[0] == pytest.approx(2, abs=0.2)
        assert outcome.warmup_s == pytest.approx(1, abs=0.2)
        metrics = values(outcome)
        events = sum(row.events for row in measured)
        assert metrics["tps"] == pytest.approx(events / (outcome.window_s[1] - outcome.window_s[0]))
        assert metrics["qps"] > 0.99 * metrics["tps"]
        quantiles = [metrics[f"latency_ms_{name}"] for name in ("p50", "p95", "p99", "p999", "max")]
        assert quantiles == sorted(quantiles)
        assert metrics["stalled_s"] == 0
        assert outcome.invalid_reasons == ()
        for row in kept.histograms:
            assert sum(row.count) + row.below + row.above == row.events > 0
        assert set(kept.of("tps")) == set(kept.of("latency_ms_p99")) == {row.t_s for row in kept.histograms}

    def test_transactions_agree_with_the_server(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """As many as the server counted commits in the whole run; the rows hold those of their intervals."""

        def commits() -> int:
            return int(server.query("SHOW GLOBAL STATUS LIKE 'Com_commit'")[0][1])

        kept, before = Kept(), commits()
        step = OltpStep(name="o", test="oltp_read_only", threads=(2,), warmup_s=1, duration_s=1)
        outcome = run(step, make_context(record=kept))
        assert commits() - before == outcome.details["transactions_whole_run"]
        in_rows = sum(row.events for row in kept.histograms)
        assert in_rows == outcome.details["events_in_bins"] <= outcome.details["transactions_whole_run"]

    def test_the_password_is_on_no_command_line(self, make_context: Callable[..., StepContext]) -> None:
        """Neither in sysbench's argv while it runs nor in what is kept of it."""
        seen: list[bytes] = []

        def look(text: str, fraction: float | None) -> None:
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    seen.append(entry.read_bytes())

        ctx = make_context(progress=look)
        outcome = run(OltpStep(name="o", test="oltp_point_select", threads=(1,), warmup_s=0, duration_s=1), ctx)
        assert any(b"volbench_hooks.lua" in line for line in seen)
        assert not any(PASSWORD.encode() in line for line in seen)
        assert PASSWORD not in repr(outcome)
        assert list(ctx.scratch_dir.iterdir()) == []

    def test_a_frozen_server_is_a_stall_and_not_a_zero(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """Closed loop: seconds without a finished transaction have no latency rows, and count as stalled."""
        kept = Kept()
        freeze, thaw = after(2.5, lambda: freeze_(server)), after(5.5, lambda: thaw_(server))
        outcome = run(
            OltpStep(name="o", test="oltp_point_select", threads=(2,), warmup_s=0, duration_s=8),
            make_context(record=kept),
        )
        freeze.join()
        thaw.join()
        stalled = [row for row in kept.histograms if row.events == 0]
        assert 2 <= len(stalled) <= 3
        assert values(outcome)["stalled_s"] == pytest.approx(len(stalled), abs=0.2)
        for row in stalled:
            assert row.t_s not in kept.of("latency_ms_p99")
            assert kept.of("tps")[row.t_s] == 0
        assert min(kept.of("latency_ms_p50").values()) > 0
        assert values(outcome)["latency_ms_max"] > 2000
        assert values(outcome)["latency_ms_p99"] < 1000  # the closed loop hides it: two transactions were slow

    def test_an_open_loop_shows_a_stall_as_seconds_of_latency(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """With a rate, transactions that could not start have waited, and their latency says so."""
        freeze, thaw = after(2.5, lambda: freeze_(server)), after(5.5, lambda: thaw_(server))
        outcome = run(
            OltpStep(name="o", test="oltp_point_select", threads=(2,), rate=200, warmup_s=0, duration_s=8),
            make_context(),
        )
        freeze.join()
        thaw.join()
        metrics = values(outcome)
        assert metrics["latency_ms_p95"] > 1000
        assert metrics["latency_ms_p50"] < 1000
        assert metrics["rate_achieved_ratio"] == pytest.approx(1, abs=0.15)
        assert outcome.details["offered_ratio"] == pytest.approx(1, abs=0.15)
        assert outcome.details["client_cpu_ratio"] < 0.5

    def test_a_killed_server_is_named_as_the_cause(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """sysbench only lost its connection; the failure says that the server died, and of what."""
        ctx = make_context()
        kill = after(2, server.kill)
        with pytest.raises(StepFailed, match="the server ended with -9") as caught:
            run(OltpStep(name="o", test="oltp_read_write", threads=(2,), warmup_s=0, duration_s=20), ctx)
        assert caught.value.cause == "server_killed"
        assert "FATAL: mysql" in caught.value.evidence
        assert "volbench {" not in caught.value.evidence
        kill.join()
        server.start()

    def test_a_killed_sysbench_is_named(self, make_context: Callable[..., StepContext]) -> None:
        """The failure says which signal ended it."""

        def kill_it(text: str, fraction: float | None) -> None:
            for entry in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if b"volbench_hooks.lua" in (entry / "cmdline").read_bytes():
                        os.kill(int(entry.name), signal.SIGKILL)

        with pytest.raises(StepFailed, match="sysbench was ended by SIGKILL"):
            run(OltpStep(name="o", threads=(2,), warmup_s=0, duration_s=20), make_context(progress=kill_it))

    def test_cancelling_ends_sysbench_at_once(self, make_context: Callable[..., StepContext]) -> None:
        """No process is left, and it does not take the step's duration."""
        ctx = make_context()
        cancel = after(1.5, ctx.cancelled.set)
        begun = time.monotonic()
        with pytest.raises(StepFailed, match="cancelled"):
            run(OltpStep(name="o", threads=(2,), warmup_s=0, duration_s=60), ctx)
        cancel.join()
        assert time.monotonic() - begun < 15
        assert children() == set()

    def test_a_wrong_option_is_told_by_sysbench(self, make_context: Callable[..., StepContext]) -> None:
        """An option that sysbench does not know fails the step with sysbench's words."""
        step = OltpStep(name="o", threads=(1,), warmup_s=0, duration_s=1, options={"no-such": 1})
        with pytest.raises(StepFailed) as caught:
            run(step, make_context())
        assert "invalid option: --no-such=1" in caught.value.evidence

    @pytest.mark.parametrize(
        ("changes", "error", "match"),
        [
            ({"options": {"threads": 3}}, UsageError, "threads is set by volbench"),
            ({"options": {"mysql_password": "x"}}, UsageError, "mysql-password is set by volbench"),
            ({"rate": 0.5}, UsageError, "whole transactions"),
            ({"rand_type": "zipfian"}, EnvironmentLacks, "no rand_type zipfian"),
            ({"threads": (4096,)}, EnvironmentLacks, "prepare 81920 statements"),
        ],
    )
    def test_what_cannot_run_is_refused_before(
        self, make_context: Callable[..., StepContext], changes: dict[str, Any], error: type[Exception], match: str
    ) -> None:
        """The check names what does not go, so that nothing is seeded in vain."""
        step = OltpStep(name="o", **{"threads": (1,), **changes})
        with pytest.raises(error, match=match):
            workload_for(step).check(step, make_context())

    def test_a_dump_beside_gives_the_load_with_and_without_it(
        self, make_context: Callable[..., StepContext]
    ) -> None:
        """The window is told apart by when the dump ran, and the dump has its own outcome."""
        step = OltpStep(
            name="o",
            test="oltp_read_only",
            threads=(2,),
            warmup_s=1,
            duration_s=6,
            beside=(DumpStep(name="d", tool="mysqldump", to="nowhere", start_after_s=1.5),),
        )
        slow = make_context()
        outcome = run(step, slow)
        parts = {part.suffix: part.outcome for part in outcome.parts}
        dump = parts["beside-mysqldump"]
        assert dump.metrics["dump_bytes"].value > 1_000_000
        assert dump.window_s[0] == pytest.approx(outcome.window_s[0] + 1.5, abs=0.7)
        assert parts["alone"].details["seconds"] == pytest.approx(5, abs=1.2)
        assert "latency_ms_p95" in parts["alone"].metrics


def child_processes() -> dict[str, str]:
    """Process id -> name of this process's children, the server left out."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = entry.read_text().partition("(")[2].rpartition(")")
            if int(rest.split()[1]) == os.getpid() and name not in {"mariadbd", "mysqld"}:
                found[entry.parent.name] = name
    return found


_BEFORE: set[str] = set()


@pytest.fixture(autouse=True)
def _remember_children() -> None:
    """Children of tests that ran before this one are not its own."""
    _BEFORE.clear()
    _BEFORE.update(child_processes())


def children() -> set[str]:
    """Names of the children that this test has left."""
    return {name for pid, name in child_processes().items() if pid not in _BEFORE}


def freeze_(server: PlainServer) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)


def thaw_(server: PlainServer) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGCONT)


class TestDumpAndRestore:
    @pytest.mark.parametrize(("dump_tool", "load_tool"), [("mysqldump", "mysql"), ("mydumper", "myloader")])
    @pytest.mark.parametrize("to", ["volume", "scratch"])
    def test_restored_data_is_proven_equal(
        self, server: PlainServer, make_context: Callable[..., StepContext], dump_tool: Any, load_tool: Any, to: Any
    ) -> None:
        """Dump, load into a fresh schema, compare all rows; the schema is gone afterwards."""
        if shutil.which(dump_tool) is None:
            pytest.skip(f"needs {dump_tool}")
        ctx = make_context()
        dumped = run(DumpStep(name="d", tool=dump_tool, to=to), ctx)
        kept = ctx.state[LAST_DUMP]
        assert kept.directory.parent == {"volume": ctx.volume_dir, "scratch": ctx.scratch_dir}[to]
        assert values(dumped)["dump_bytes"] == sum(path.stat().st_size for path in kept.directory.iterdir())
        assert values(dumped)["dump_bytes"] > DATASET.rows * DATASET.tables * 180
        restored = run(RestoreStep(name="r", tool=load_tool), ctx)
        assert restored.details["equality"] == "proven"
        assert len(restored.details["source"]) == DATASET.tables
        assert values(restored)["restore_s"] > 0
        assert table_names(server, "sbtest_restored") == []

    def test_a_damaged_dump_is_found_out(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """One changed digit in one row fails the restore with the table's name, and leaves no schema behind."""
        ctx = make_context()
        run(DumpStep(name="d", tool="mysqldump"), ctx)
        sql = ctx.state[LAST_DUMP].directory / "dump.sql"
        head, separator, rest = sql.read_text().rpartition("-")
        for digit in "0123456789":
            place = head.rfind(f"-{digit}")
            if place > 0:
                break
        changed = "1" if head[place + 1] == "0" else "0"
        sql.write_text(head[: place + 1] + changed + head[place + 2 :] + separator + rest)
        with pytest.raises(StepFailed, match="not what was dumped") as caught:
            run(RestoreStep(name="r"), ctx)
        assert "sbtest2 has checksum" in caught.value.evidence
        assert table_names(server, "sbtest_restored") == []

    def test_a_dump_to_nowhere_counts_its_bytes(self, make_context: Callable[..., StepContext]) -> None:
        """As many as a kept dump has, to the byte but for its time stamp's length."""
        ctx = make_context()
        kept = values(run(DumpStep(name="d", tool="mysqldump"), ctx))["dump_bytes"]
        dropped = values(run(DumpStep(name="n", tool="mysqldump", to="nowhere"), ctx))["dump_bytes"]
        assert dropped == pytest.approx(kept, abs=10)

    def test_a_restore_without_a_dump_says_what_to_do(self, make_context: Callable[..., StepContext]) -> None:
        """Nothing is loaded, and the message names the step that is missing."""
        with pytest.raises(StepFailed, match="no dump of mysqldump's") as caught:
            run(RestoreStep(name="r"), make_context())
        assert "dump step" in caught.value.next_step

    def test_a_full_disk_is_foreseen(self, make_context: Callable[..., StepContext], monkeypatch: Any) -> None:
        """The check compares free space with the data's size."""
        real = os.statvfs

        def nearly_full(path: Any) -> os.statvfs_result:
            stat = list(real(path))
            stat[4] = 1000  # f_bavail
            return os.statvfs_result(stat)

        monkeypatch.setattr(os, "statvfs", nearly_full)
        step = DumpStep(name="d")
        with pytest.raises(EnvironmentLacks, match="no room for the dump of step d"):
            workload_for(step).check(step, make_context())

    @pytest.mark.parametrize("tool", ["mysqldump", "mydumper"])
    def test_a_volume_that_fills_up_is_named(self, make_context: Callable[..., StepContext], tool: Any) -> None:
        """The free space looked enough and was not: the cause is the volume, not the tool."""
        ctx = make_context()
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(ctx.volume_dir)]
        if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            pytest.skip("needs the right to mount a tmpfs")
        try:
            step = DumpStep(name="d", tool=tool)
            with pytest.raises(StepFailed) as caught:
                workload_for(step).run(step, ctx)
            assert caught.value.cause == "volume_full"
            assert tool in str(caught.value)
            assert children() == set()
        finally:
            subprocess.run(["umount", str(ctx.volume_dir)], check=True)

    def test_a_dump_that_takes_too_long_is_ended(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """A table that somebody keeps locked: the step fails at its timeout, and the tool is gone."""
        with server.connect(DATASET.schema_name) as opened:
            opened.cursor().execute("LOCK TABLES sbtest1 WRITE")
            with pytest.raises(StepFailed, match="mysqldump did not finish within 1 s"):
                run(DumpStep(name="d", tool="mysqldump", timeout_s=1), make_context())
            assert children() == set()


class TestColdRead:
    def test_a_cold_read_is_proven_by_pages_and_by_the_device(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """No page was resident, the device delivered the bytes: true-cold."""
        facts = discover(server.data_dir)
        if device_read_bytes(facts) is None:
            pytest.skip("no device counter for the temporary directory")
        ctx = make_context(volume_facts=facts, device_read_bytes=partial(device_read_bytes, facts))
        outcome = run(ColdReadStep(name="c", readers=2), ctx)
        assert outcome.invalid_reasons == ()
        assert [note.split(" (")[0] for note in outcome.notes] == [
            "reading files: true-cold",
            "table scan: true-cold",
        ]
        files, scan = outcome.details["files"], outcome.details["table_scan"]
        assert files["resident_pages_before"] == 0
        assert files["size_bytes"] == tree_bytes(server.data_dir / "sbtest")
        assert files["size_bytes"] >= files["read_bytes"] > DATASET.rows * DATASET.tables * 180
        assert files["device_bytes"] >= 0.95 * files["read_bytes"]
        assert {one["file"] for one in files["by_file"]} >= {"sbtest/sbtest1.ibd", "sbtest/sbtest2.ibd"}
        assert scan["device_bytes"] > 0.9 * scan["read_bytes"] > 5_000_000
        metrics = values(outcome)
        assert metrics["cold_read_mib_per_s"] == pytest.approx(files["read_bytes"] / 2**20 / metrics["cold_read_s"])
        for name in (
            "warm_read_mib_per_s",
            "first_query_ms",
            "server_start_s",
            "table_scan_s",
            "table_scan_mib_per_s",
        ):
            assert metrics[name] > 0
        assert server.alive()

    def test_cat_reads_the_same_files_through_a_pipe(self, make_context: Callable[..., StepContext]) -> None:
        """As people type it: the same metrics, and no time of single files."""
        outcome = run(ColdReadStep(name="c", reader="cat", table_scan=False), make_context())
        assert {"cold_read_mib_per_s", "warm_read_mib_per_s", "cold_read_files_per_s"} <= set(outcome.metrics)
        assert outcome.details["files"]["slowest_file_s"] is None

    def test_without_a_device_counter_cold_is_not_claimed(self, make_context: Callable[..., StepContext]) -> None:
        """The numbers are kept, labelled lukewarm, and invalid."""
        outcome = run(ColdReadStep(name="c", table_scan=False, warm_too=False), make_context())
        assert set(outcome.metrics) == {"cold_read_s", "cold_read_mib_per_s", "cold_read_files_per_s"}
        assert "reading files was not cold but lukewarm" in outcome.invalid_reasons[0]

    def test_pages_in_memory_are_found_out(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """Files that stay mapped in memory cannot be evicted: not cold, and invalid."""
        facts = discover(server.data_dir)
        with contextlib.ExitStack() as stack:
            for path in (server.data_dir / "sbtest").glob("*.ibd"):
                file = stack.enter_context(path.open("rb"))
                mapped = stack.enter_context(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
                sum(mapped[:: mmap.PAGESIZE])
                step = ColdReadStep(name="c", table_scan=False)
                ctx = make_context(volume_facts=facts, device_read_bytes=partial(device_read_bytes, facts))
            outcome = run(step, ctx)
        assert outcome.invalid_reasons
        assert outcome.details["files"]["resident_pages_before"] > 1000
        assert server.alive()

    def test_the_server_runs_again_after_a_failure(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """A cold read that fails in the middle leaves a running server behind."""
        ctx = make_context()
        ctx.cancelled.set()
        with pytest.raises(StepFailed, match="cancelled"):
            run(ColdReadStep(name="c"), ctx)
        assert server.alive()


class TestDdl:
    def test_every_phase_is_a_row_and_the_schema_is_gone_afterwards(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """Tables are opened on a server with small caches that has just started, and its caches are as before."""
        caches = "SELECT @@table_open_cache, @@innodb_open_files"
        before, kept = server.query(caches), Kept()
        step = DdlStep(
            name="d", tables=12, altered=3, temporary=4, threads=2, table_open_cache=20,
            phases=("create", "open", "alter_inplace", "alter_copy", "temporary", "drop"),
        )  # fmt: skip
        outcome = run(step, make_context(record=kept))
        done = {"create": 12, "open": 12, "alter_inplace": 3, "alter_copy": 3, "temporary": 4, "drop": 12}
        assert [part.suffix for part in outcome.parts] == list(done)
        for part in outcome.parts:
            metrics = values(part.outcome)
            count = done[part.suffix]
            assert metrics["ddl_per_s"] == pytest.approx(count / metrics["ddl_s"])
            assert sum(row.events for row in kept.histograms if row.step == f"d/{part.suffix}") == count
        assert outcome.parts[1].outcome.metrics["server_start_s"].value > 0
        assert server.query(caches) == before
        assert server.query("SHOW DATABASES LIKE 'volbench_ddl'") == []

    def test_binary_logs_are_rotated_and_a_server_without_one_is_refused(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """Each rotation makes a file."""
        step = DdlStep(name="d", tables=1, rotations=5, phases=("create", "binlog_rotation"))
        server.stop()
        server.start({"skip-log-bin": 1})
        with pytest.raises(EnvironmentLacks, match="no binary log to rotate"):
            run(step, make_context())
        server.stop()
        server.start({"log-bin": "binlog", "server-id": 1})
        before = len(server.query("SHOW BINARY LOGS"))
        run(step, make_context())
        assert len(server.query("SHOW BINARY LOGS")) == before + 5


class TestIdle:
    def test_idle_lasts_as_long_as_it_says(self, make_context: Callable[..., StepContext]) -> None:
        """Its window is its duration, and it has no metrics of its own."""
        outcome = run(IdleStep(name="i", duration_s=1), make_context())
        assert math.isclose(outcome.window_s[1] - outcome.window_s[0], 1, abs_tol=0.2)
        assert outcome.metrics == {}

    def test_data_size_is_the_servers_estimate(self, server: PlainServer) -> None:
        """Within a factor of two of 190 bytes a row."""
        assert data_bytes(server, "sbtest") == pytest.approx(DATASET.rows * DATASET.tables * 230, rel=0.5)
