"""Servers start, answer, fail and end: their causes are named."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import mysql.connector
import pytest
from kernel_kills import killing_for_memory, none_killed_for_memory
from supervised_engine import CONFIG, DATASET, DOCKER_IF_SLOW, IN_DOCKER, ON_LOCAL, Engine

from volbench.core.base.confinement import USERS
from volbench.core.records.cell import CellPlaces, ServerSpec
from volbench.errors import MissingPrerequisite, Refused, StepFailed, UsageError
from volbench.machine.engine.dataset import table_record
from volbench.machine.engine.server import ACCOUNT_FILE, Server
from volbench.machine.engine.supervisor import SUPERVISOR_PID_FILE, Supervisor, launch_supervisor
from volbench.machine.engine.template import (
    Template,
)
from volbench.machine.placement.processes import KnownProcess


class TestServer:
    def test_starts_answers_and_stops_cleanly(self, engine: Engine, template: Template) -> None:
        """The copy holds the template's rows, and start's seconds end with the first answer."""
        with engine.seeded(template) as bench:
            server = bench.server()
            not_yet = server.failure()
            assert not_yet is not None
            assert not_yet.cause == "server_not_started"
            assert 0 < server.start() < server.spec.start_timeout_s
            assert server.alive()
            assert server.failure() is None
            assert table_record(server, "sbtest", "sbtest1") == template.record.tables["sbtest1"]
            server.stop()
            assert bench.supervisor.state().exit_code == 0
            assert not server.alive()
            server.stop()

    def test_a_crash_loses_nothing_that_was_committed(self, engine: Engine, template: Template) -> None:
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            server.query("DELETE FROM sbtest.sbtest1 WHERE id <= 100")
            server.kill()
            failure = server.failure()
            assert failure is not None
            assert (failure.cause, "by volbench" in failure.message) == ("server_killed", True)
            server.start()
            assert server.query("SELECT COUNT(*) FROM sbtest.sbtest1") == [(DATASET.rows - 100,)]

    def test_a_kill_from_outside_is_named_as_the_cause_of_a_failed_query(
        self, engine: Engine, template: Template
    ) -> None:
        with none_killed_for_memory(), engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            pid = bench.supervisor.state().pid
            assert pid is not None

            def query_a_dying_server() -> None:
                with server.connect() as connection, connection.cursor() as cursor:
                    bench.kill_from_outside(pid)
                    bench.supervisor.wait_stopped(60.0, "dying")
                    cursor.execute("SELECT 1")

            with pytest.raises(StepFailed) as caught:
                query_a_dying_server()
            assert caught.value.cause == "server_killed"
            assert "by another process" in caught.value.what
            with pytest.raises(StepFailed, match="killed with SIGKILL"):
                server.query("SELECT 1")

    def test_settings_are_pinned_and_what_is_absent_has_a_reason(self, engine: Engine, template: Template) -> None:
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            facts = server.facts()
            assert facts.flavor == engine.flavor
            assert facts.version.startswith(server.identity.version)
            assert facts.variables["innodb_buffer_pool_size"] == str(32 << 20)
            pinned = facts.variables
            assert pinned["innodb_flush_log_at_trx_commit"] == pinned["sync_binlog"] == "1"
            assert (pinned["log_bin"], pinned["innodb_doublewrite"]) == ("ON", "ON")
            assert not any(
                "datadir" in name or str(engine.base) in value for name, value in facts.variables.items()
            )
            if facts.flavor == "mariadb":
                assert "events_statements_histogram_global" in facts.absent["statement_histograms"]
            else:
                assert facts.absent == {}
            assert "file_io_by_class" not in facts.absent
            assert "data_file_io" not in facts.absent

    def test_no_statement_reads_or_writes_a_file_outside(self, engine: Engine, template: Template) -> None:
        """Not of root either: what may be read is empty, and what may be written is nothing."""
        with engine.seeded(template) as bench, tempfile.TemporaryDirectory(dir=engine.base) as elsewhere:
            server, outside = bench.server(), Path(elsewhere)
            outside.chmod(0o777)
            (outside / "secret").write_text("secret\n")
            (outside / "secret").chmod(0o644)
            server.start()
            closed = server.query("SELECT @@GLOBAL.secure_file_priv")[0][0]
            locations = [str(outside), str(server.control_dir), str(closed or "/dev/null")]
            for statement in (
                "SELECT 1 INTO OUTFILE '{}/made'",
                "SELECT 1 INTO DUMPFILE '{}/made'",
                "LOAD DATA INFILE '{}/secret' INTO TABLE sbtest.sbtest1 (pad)",
                "LOAD DATA LOCAL INFILE '{}/secret' INTO TABLE sbtest.sbtest1 (pad)",
                "SELECT 1 INTO OUTFILE '{}/../made'",
                "SELECT 1 INTO DUMPFILE '{}'",
                "SELECT 1 INTO DUMPFILE '{}/'",
            ):
                for location in locations:
                    with pytest.raises(StepFailed):
                        server.query(statement.format(location))
            for location in locations:
                assert server.query(f"SELECT LOAD_FILE('{location}/secret')") == [(None,)]
            with contextlib.suppress(StepFailed):  # MariaDB warns, and makes the table where all are
                server.query(f"CREATE TABLE sbtest.apart (id INT) DATA DIRECTORY='{outside}'")
            with contextlib.suppress(StepFailed):
                server.query(
                    "CREATE TABLE sbtest.parts (id INT) PARTITION BY HASH(id) "
                    f"(PARTITION p DATA DIRECTORY='{outside}')"
                )
            with contextlib.suppress(StepFailed):
                server.query(f"CREATE TABLESPACE apart ADD DATAFILE '{outside}/apart.ibd'")
            assert [path.name for path in outside.iterdir()] == ["secret"]

    @ON_LOCAL
    @pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
    def test_no_server_runs_as_root(self, engine: Engine, template: Template) -> None:
        """Its user owns nothing else, and all but its own directories is read-only, for its root account too."""
        with engine.seeded(template) as bench, tempfile.TemporaryDirectory(dir="/tmp") as everybodys:
            Path(everybodys).chmod(0o1777)
            server = bench.server()
            server.start()
            pid = bench.supervisor.state().pid
            status = Path(f"/proc/{pid}/status").read_text()
            (user,) = set(re.findall(r"^Uid:(.*)$", status, re.MULTILINE)[0].split())
            assert int(user) == server.data_dir.stat().st_uid == server.user
            assert int(user) in USERS
            assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
            assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
            assert re.search(r"^Groups:\s*$", status, re.MULTILINE)
            for name in ("general_log", "slow_query_log"):
                for statement in (f"{name}_file = '{everybodys}/made'", f"{name} = 1"):
                    with contextlib.suppress(StepFailed):
                        server.query(f"SET GLOBAL {statement}")
            assert list(Path(everybodys).iterdir()) == []
            bench.kill_from_outside(pid or 0)
            bench.supervisor.wait_stopped(60.0, "dying")
            server.start()
            assert server.data_dir.stat().st_uid == int(user)
            assert str(engine.base) not in Path("/proc/self/mountinfo").read_text()
        assert all(path.stat().st_uid == 0 for path in template.data_dir.rglob("*"))

    @DOCKER_IF_SLOW
    def test_overrides_are_for_one_start(self, engine: Engine, template: Template) -> None:
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start({"performance_schema": False, "max_connections": 33})
            facts = server.facts()
            assert facts.variables["max_connections"] == "33"
            assert facts.absent["statement_histograms"] == "performance_schema is off"
            server.stop()
            server.start()
            assert server.facts().variables["max_connections"] != "33"

    def test_two_servers_run_at_once_as_two_servers(self, engine: Engine, template: Template) -> None:
        with engine.seeded(template) as item, engine.seeded(template) as result:
            first, second = item.server(), result.server()
            first.start()
            second.start()
            first.query("DROP TABLE sbtest.sbtest2")
            assert second.query("SELECT COUNT(*) FROM sbtest.sbtest2") == [(DATASET.rows,)]
            if engine.flavor == "mysql":
                assert first.query("SELECT @@server_uuid") != second.query("SELECT @@server_uuid")

    def test_the_next_agent_takes_over_a_running_server(self, engine: Engine, template: Template) -> None:
        """Nothing but the directories is handed on."""
        with engine.seeded(template) as bench:
            bench.server().start()
            bench.supervisor = Supervisor(bench.supervisor.control_dir)
            second = bench.server()
            assert second.alive()
            assert second.query("SELECT 1") == [(1,)]
            second.stop()
            second.start()

    @ON_LOCAL
    def test_a_supervisor_that_is_gone_is_named(self, engine: Engine, template: Template) -> None:
        """Its last state says that the server runs, but nobody is there who would know."""
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            supervisor = KnownProcess.from_file(server.control_dir / SUPERVISOR_PID_FILE)
            assert supervisor is not None
            supervisor.signal(signal.SIGKILL, group=True)
            assert supervisor.wait(60.0)
            assert not server.alive()
            failure = server.failure()
            assert failure is not None
            assert failure.cause == "supervisor_gone"
            launch_supervisor(server.control_dir)
            assert server.start() > 0

    def test_a_wrong_option_is_a_usage_error_with_the_servers_words(
        self, engine: Engine, template: Template
    ) -> None:
        with engine.seeded(template) as bench:
            server = bench.server(config={**CONFIG, "internal_tmp_disk_storage_engine": "InnoDB"})
            with pytest.raises(UsageError, match="does not accept its configuration") as caught:
                server.start()
            assert caught.value.cause == "bad_config"
            assert "internal_tmp_disk_storage_engine" in caught.value.evidence
            assert bench.server().start() > 0

    @DOCKER_IF_SLOW
    def test_a_server_too_slow_to_start_is_killed_and_reported(self, engine: Engine, template: Template) -> None:
        with engine.seeded(template) as bench:
            server = bench.server(start_timeout=0.01)
            with pytest.raises(StepFailed, match=re.escape("answered no query within 0.01 s")) as caught:
                server.start()
            assert "last log lines" in caught.value.evidence
            assert not server.alive()

    @DOCKER_IF_SLOW
    def test_the_password_is_in_private_files_only(self, engine: Engine, template: Template) -> None:
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            password = (server.data_dir / ACCOUNT_FILE).read_text()
            assert len(password) == 32
            holders = [
                path
                for path in server.control_dir.iterdir()
                if path.is_file() and password.encode() in path.read_bytes()
            ]
            assert holders == [server.option_file]
            for path in (server.option_file, server.data_dir / ACCOUNT_FILE):
                assert path.stat().st_mode & 0o777 == 0o600
            with pytest.raises(mysql.connector.Error, match="Access denied"):
                mysql.connector.connect(unix_socket=str(server.socket), user="root", use_pure=True)

    @DOCKER_IF_SLOW
    def test_client_tools_read_the_option_file(self, engine: Engine, template: Template) -> None:
        client = shutil.which("mariadb") or shutil.which("mysql")
        if client is None:
            pytest.skip("no client here")
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            command = [client, f"--defaults-file={server.option_file}", "--skip-column-names", "-e", "SELECT 6 * 7"]
            answer = subprocess.run(command, check=False, capture_output=True, text=True)
            assert answer.stdout.strip() == "42", answer.stderr

    @IN_DOCKER
    def test_a_server_that_outgrows_its_container_was_killed_for_want_of_memory(
        self, engine: Engine, template: Template
    ) -> None:
        with engine.seeded(template, mem_limit="160m", memswap_limit="160m") as bench:
            with killing_for_memory(), pytest.raises(StepFailed) as caught:
                bench.server().start()
            assert caught.value.cause == "oom"
            assert bench.supervisor.state().exit_code == 137

    @ON_LOCAL
    def test_a_new_data_directory_wants_an_empty_place(self, engine: Engine) -> None:
        with engine.bench() as bench:
            data_dir = Path(bench.places.data_dir)
            data_dir.mkdir()
            (data_dir / "precious").write_text("x")
            with pytest.raises(Refused, match="not empty"):
                bench.server().initialise()

    @ON_LOCAL
    def test_another_server_than_wanted_is_named(self, engine: Engine) -> None:
        with engine.bench() as bench:
            with pytest.raises(
                MissingPrerequisite, match=re.escape(f"the suite requires {engine.flavor} 5.1")
            ) as caught:
                _ = bench.server(version="5.1").identity
            assert bench.server().identity.version in caught.value.evidence
            if engine.flavor == "mariadb":
                bench.flavor = "mysql"
                (Path(bench.places.control_dir) / "identity.json").unlink()
                with pytest.raises(MissingPrerequisite, match="the suite requires mysql"):
                    _ = bench.server().identity

    @ON_LOCAL
    def test_a_data_directory_that_is_not_ours_is_not_started(self, engine: Engine) -> None:
        with engine.bench() as bench, pytest.raises(StepFailed, match="no account of volbench"):
            bench.server().start()


def test_a_socket_path_that_no_kernel_takes_is_refused_before_anything_starts(tmp_path: Path) -> None:
    locations = CellPlaces(
        data_dir="/v/data",
        volume_dir="/v",
        control_dir=str(tmp_path / ("x" * 100)),
        template_dir="/t",
        scratch_dir="/s",
    )
    with pytest.raises(MissingPrerequisite, match="the kernel's limit is 107"):
        Server(spec=ServerSpec(), paths=locations, supervisor=Supervisor(tmp_path))
