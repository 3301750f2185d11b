"""Real servers under the supervisor: MySQL in a container, mysqld or mariadbd as a child process."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import mysql.connector
import pytest

from volbench.engine.attached import PASSWORD_VARIABLE, AttachedServer
from volbench.engine.config import durability
from volbench.engine.dataset import table_record
from volbench.engine.server import ACCOUNT_FILE, Server
from volbench.engine.supervisor import SUPERVISOR_PID_FILE, Supervisor, launch_supervisor, supervisor_script
from volbench.engine.template import (
    COMPLETE_FILE,
    Template,
    prepare_template,
    seed,
    template_path,
    verify_template,
)
from volbench.errors import EnvironmentLacks, Refused, StepFailed, UsageError
from volbench.records.base import Scalar
from volbench.records.cell import AttachSpec, CellPlaces, DatasetSpec, ServerSpec
from volbench.target.images import server_image
from volbench.target.means import SEARCH_PATH
from volbench.target.processes import KnownProcess
from volbench.volume import ownership

DATASET = DatasetSpec(tables=2, rows=2000)
TINY = DatasetSpec(tables=1, rows=10)
CONFIG: dict[str, Scalar] = {"innodb_buffer_pool_size": "32MiB", "innodb_redo_log_capacity": "16MiB"}
LOCAL_FLAVOR = "mariadb" if shutil.which("mariadbd", path=SEARCH_PATH) else "mysql"


@dataclass(kw_only=True)
class Bench:
    """A control directory with its supervisor, and a place for data."""

    places: CellPlaces
    supervisor: Supervisor
    flavor: str
    container: str = ""

    def server(self, **changes: object) -> Server:
        spec = ServerSpec.model_validate({"flavor": self.flavor, "config": CONFIG, **changes})
        return Server(spec=spec, places=self.places, supervisor=self.supervisor)

    def kill_from_outside(self, pid: int) -> None:
        if self.container:
            subprocess.run(["docker", "exec", self.container, "sh", "-c", f"kill -9 {pid}"], check=True)
        else:
            os.kill(pid, signal.SIGKILL)


@dataclass(kw_only=True)
class Engine:
    """A way of running servers, with the template of DATASET."""

    in_docker: bool
    base: Path
    flavor: str

    @contextlib.contextmanager
    def bench(self, data_dir: Path | None = None, *, options: tuple[str, ...] = ()) -> Iterator[Bench]:
        """Everything below one short directory: a socket's path must be."""
        directory = Path(tempfile.mkdtemp(prefix="b", dir=self.base))
        control = directory / "c"
        control.mkdir()
        data_dir = data_dir or directory / "v" / "data"
        data_dir.parent.mkdir(exist_ok=True)
        places = CellPlaces(
            data_dir=str(data_dir),
            volume_dir=str(data_dir.parent),
            control_dir=str(control),
            template_dir=str(self.base / "t"),
            scratch_dir=str(directory),
        )
        container = self._container(control, options) if self.in_docker else ""
        supervisor = Supervisor(control) if self.in_docker else launch_supervisor(control)
        supervisor.wait_ready_for_commands(30.0)
        try:
            yield Bench(places=places, supervisor=supervisor, flavor=self.flavor, container=container)
        finally:
            supervisor.kill()
            supervisor.quit(10.0)
            if container:
                subprocess.run(["docker", "rm", "--force", container], check=True, capture_output=True)

    def _container(self, control: Path, options: tuple[str, ...]) -> str:
        client = docker.from_env()
        try:
            image = server_image(client, ServerSpec())
        finally:
            client.close()
        script = control / "supervisor.sh"
        script.write_bytes(supervisor_script())
        command = [
            "docker", "run", "--detach", "--network=none", "--cap-drop=ALL", "--read-only", "--tmpfs=/tmp",
            f"--user={os.geteuid()}:{os.getegid()}", f"--volume={self.base}:{self.base}", *options, image,
            "sh", str(script), str(control),
        ]  # fmt: skip
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    @contextlib.contextmanager
    def seeded(
        self, template: Template, data_dir: Path | None = None, *, options: tuple[str, ...] = ()
    ) -> Iterator[Bench]:
        """A bench whose data directory is a copy of the template; options are `docker run`'s."""
        with self.bench(data_dir, options=options) as bench:
            seed(template.path, Path(bench.places.data_dir))
            yield bench


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, marks=pytest.mark.mysqld), pytest.param(True, marks=pytest.mark.docker)],
    ids=["local", "docker"],
)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    base = Path(tempfile.mkdtemp(prefix="vb"))
    (base / "t").mkdir()
    yield Engine(in_docker=request.param, base=base, flavor="mysql" if request.param else LOCAL_FLAVOR)
    shutil.rmtree(base)


@pytest.fixture
def local(engine: Engine) -> Engine:
    """What does not depend on where the server is, once."""
    if engine.in_docker:
        pytest.skip("tried with a local server")
    return engine


def prepare(
    bench: Bench, dataset: DatasetSpec, *, cancelled: threading.Event | None = None
) -> tuple[Template, list[str]]:
    said: list[str] = []
    template = prepare_template(
        spec=bench.server().spec,
        dataset=dataset,
        places=bench.places,
        supervisor=bench.supervisor,
        progress=lambda text, _: said.append(text),
        cancelled=cancelled,
        timeout_s=120.0,
    )
    return template, said


@pytest.fixture(scope="module")
def template(engine: Engine) -> Template:
    with engine.bench() as bench:
        return prepare(bench, DATASET)[0]


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
            assert (failure.cause, "by us" in failure.what) == ("server_killed", True)
            server.start()
            assert server.query("SELECT COUNT(*) FROM sbtest.sbtest1") == [(DATASET.rows - 100,)]

    def test_a_kill_from_outside_is_named_as_the_cause_of_a_failed_query(
        self, engine: Engine, template: Template
    ) -> None:
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            pid = bench.supervisor.state().pid
            assert pid is not None

            def query_a_dying_server() -> None:
                with server.connect() as connection, connection.cursor() as cursor:
                    bench.kill_from_outside(pid)
                    bench.supervisor.wait_stopped(10.0, "dying")
                    cursor.execute("SELECT 1")

            with pytest.raises(StepFailed) as caught:
                query_a_dying_server()
            assert caught.value.cause == "server_killed"
            assert "from outside" in caught.value.what
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
            pinned = durability(facts)
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
        with engine.seeded(template) as one, engine.seeded(template) as other:
            first, second = one.server(), other.server()
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

    def test_a_supervisor_that_is_gone_is_named(self, local: Engine, template: Template) -> None:
        """Its last state says that the server runs, but nobody is there who would know."""
        with local.seeded(template) as bench:
            server = bench.server()
            server.start()
            supervisor = KnownProcess.from_file(server.control_dir / SUPERVISOR_PID_FILE)
            assert supervisor is not None
            supervisor.signal(signal.SIGKILL, group=True)
            assert supervisor.wait(10.0)
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
            server = bench.server(config={**CONFIG, "innodb_bufer_pool_size": "1G"})
            with pytest.raises(UsageError, match="does not accept its configuration") as caught:
                server.start()
            assert caught.value.cause == "bad_config"
            assert "innodb_bufer_pool_size" in caught.value.evidence
            assert bench.server().start() > 0

    def test_a_server_too_slow_to_start_is_killed_and_reported(self, engine: Engine, template: Template) -> None:
        with engine.seeded(template) as bench:
            server = bench.server(start_timeout=0.01)
            with pytest.raises(StepFailed, match=re.escape("answered no query within 0.01 s")) as caught:
                server.start()
            assert "last log lines" in caught.value.evidence
            assert not server.alive()

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

    def test_client_tools_read_the_option_file(self, engine: Engine, template: Template) -> None:
        client = shutil.which("mariadb") or shutil.which("mysql")
        if client is None:
            pytest.skip("no client here")
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            command = [client, f"--defaults-file={server.option_file}", "--skip-column-names", "-e", "SELECT 6 * 7"]
            assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "42"

    def test_a_server_that_outgrows_its_container_was_killed_for_want_of_memory(
        self, engine: Engine, template: Template
    ) -> None:
        if not engine.in_docker:
            pytest.skip("a local server has no memory limit")
        limits = ("--memory=160m", "--memory-swap=160m")
        with engine.seeded(template, options=limits) as bench:
            with pytest.raises(StepFailed) as caught:
                bench.server().start()
            assert caught.value.cause == "oom"
            assert bench.supervisor.state().exit_code == 137

    def test_a_new_data_directory_wants_an_empty_place(self, local: Engine) -> None:
        with local.bench() as bench:
            data_dir = Path(bench.places.data_dir)
            data_dir.mkdir()
            (data_dir / "precious").write_text("x")
            with pytest.raises(Refused, match="not empty"):
                bench.server().initialise()

    def test_another_server_than_wanted_is_named(self, local: Engine) -> None:
        with local.bench() as bench:
            with pytest.raises(EnvironmentLacks, match=re.escape(f"the suite wants {local.flavor} 5.1")) as caught:
                _ = bench.server(version="5.1").identity
            assert bench.server().identity.version in caught.value.evidence
            if local.flavor == "mariadb":
                bench.flavor = "mysql"
                (Path(bench.places.control_dir) / "identity.json").unlink()
                with pytest.raises(EnvironmentLacks, match="the suite wants mysql"):
                    _ = bench.server().identity

    def test_a_data_directory_that_is_not_ours_is_not_started(self, local: Engine) -> None:
        with local.bench() as bench, pytest.raises(StepFailed, match="no account of ours"):
            bench.server().start()


def test_a_socket_path_that_no_kernel_takes_is_refused_before_anything_starts(tmp_path: Path) -> None:
    places = CellPlaces(
        data_dir="/v/data",
        volume_dir="/v",
        control_dir=str(tmp_path / ("x" * 100)),
        template_dir="/t",
        scratch_dir="/s",
    )
    with pytest.raises(EnvironmentLacks, match="a kernel takes 107"):
        Server(spec=ServerSpec(), places=places, supervisor=Supervisor(tmp_path))


class TestTemplate:
    def test_is_made_once(self, engine: Engine, template: Template) -> None:
        """A second run with the same dataset and options finds it without starting anything."""
        with engine.bench() as bench:
            found, said = prepare(bench, DATASET)
            assert (found.path, said) == (template.path, [])
            assert template_path(template.path.parent, DATASET, bench.server()) == template.path
            other = bench.server(config={**CONFIG, "innodb_redo_log_capacity": "32MiB"})
            assert template_path(template.path.parent, DATASET, other) != template.path
            same = bench.server(config={**CONFIG, "innodb_redo_log_capacity": "16M", "max_connections": 7})
            assert template_path(template.path.parent, DATASET, same) == template.path
        assert {table.rows for table in template.record.tables.values()} == {DATASET.rows}
        assert not (template.data_dir / "auto.cnf").exists()
        assert not list(template.data_dir.glob("binlog.*"))
        assert not (template.path / "tmp").exists()

    def test_a_damaged_one_is_seen_and_made_anew(self, local: Engine) -> None:
        with local.bench() as bench:
            made, _ = prepare(bench, TINY)
            (made.data_dir / "ibdata1").write_bytes(b"")
            with pytest.raises(StepFailed, match="damaged") as caught:
                verify_template(made.path)
            assert caught.value.cause == "template_damaged"
            with pytest.raises(StepFailed, match="damaged"):
                seed(made.path, Path(bench.places.data_dir))
            again, _ = prepare(bench, TINY)
            assert again.path == made.path
            assert verify_template(again.path).record == again.record

    def test_what_a_killed_preparation_left_is_cleared_away(self, local: Engine) -> None:
        dataset = DatasetSpec(tables=1, rows=11)
        with local.bench() as bench:
            path = template_path(local.base / "t", dataset, bench.server())
            partial = path.with_name(f"{path.name}.partial")
            ownership.claim(partial, purpose="template")
            (partial / "data").mkdir()
            (partial / "data" / "ibdata1").write_text("half")
            assert prepare(bench, dataset)[0].path == path
            assert not partial.exists()

    def test_a_foreign_directory_in_the_way_is_refused(self, local: Engine) -> None:
        dataset = DatasetSpec(tables=1, rows=12)
        with local.bench() as bench:
            path = template_path(local.base / "t", dataset, bench.server())
            path.mkdir()
            (path / "precious").write_text("x")
            with pytest.raises(Refused):
                prepare(bench, dataset)
            assert (path / "precious").read_text() == "x"

    def test_two_that_prepare_the_same_wait_for_each_other(self, local: Engine) -> None:
        dataset = DatasetSpec(tables=1, rows=13)
        results: list[tuple[Template, list[str]]] = []
        with local.bench() as one, local.bench() as other:
            threads = [
                threading.Thread(target=lambda bench=bench: results.append(prepare(bench, dataset)))
                for bench in (one, other)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
        (first, first_said), (second, second_said) = results
        assert first == second
        assert sum("initialising a data directory" in said for said in (first_said, second_said)) == 1

    def test_a_cancelled_one_leaves_no_server_and_no_template(self, local: Engine) -> None:
        cancelled = threading.Event()
        cancelled.set()
        dataset = DatasetSpec(tables=1, rows=14)
        with local.bench() as bench:
            with pytest.raises(StepFailed) as caught:
                prepare(bench, dataset, cancelled=cancelled)
            assert caught.value.cause == "cancelled"
            assert not bench.supervisor.state().running
            assert not (template_path(local.base / "t", dataset, bench.server()) / COMPLETE_FILE).exists()

    def test_a_missing_one_is_said_to_be_missing(self, tmp_path: Path) -> None:
        with pytest.raises(StepFailed) as caught:
            seed(tmp_path / "none", tmp_path / "data")
        assert caught.value.cause == "template_missing"


@pytest.fixture
def small_volume(engine: Engine, template: Template) -> Iterator[Path]:
    """A filesystem of its own, 24 MiB larger than the template."""
    if os.geteuid() != 0 or engine.in_docker:
        pytest.skip("mounting needs root; tried with a local server")
    directory = Path(tempfile.mkdtemp(prefix="vol", dir=engine.base))
    size = template.record.data_bytes + (24 << 20)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no right to mount: {mounted.stderr.decode().strip()}")
    yield directory
    if directory.is_mount():
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill_up(filler: Path) -> None:
    """Write until the filesystem is full."""
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


class TestVolumeFaults:
    def test_a_volume_that_fills_up_is_named(self, engine: Engine, template: Template, small_volume: Path) -> None:
        with engine.seeded(template, small_volume / "data") as bench:
            server = bench.server(start_timeout=10)
            server.start()
            fill_up(small_volume / "filler")
            failure = server.failure()
            assert failure is not None
            assert failure.cause == "volume_full"
            server.kill()
            with pytest.raises(StepFailed) as caught:
                server.start()
            assert caught.value.cause == "volume_full"

    def test_a_volume_that_becomes_read_only_is_named(
        self, engine: Engine, template: Template, small_volume: Path
    ) -> None:
        with engine.seeded(template, small_volume / "data") as bench:
            server = bench.server()
            server.start()
            server.stop()
            subprocess.run(["mount", "-o", "remount,ro", str(small_volume)], check=True)
            with pytest.raises(StepFailed) as caught:
                server.start()
            assert caught.value.cause == "volume_read_only"

    def test_a_volume_that_disappears_is_named(
        self, engine: Engine, template: Template, small_volume: Path
    ) -> None:
        with engine.seeded(template, small_volume / "data") as bench:
            server = bench.server()
            server.start()
            subprocess.run(["umount", "--lazy", str(small_volume)], check=True)
            failure = server.failure()
            assert failure is not None
            assert failure.cause == "volume_gone"


class TestAttached:
    @pytest.fixture
    def running(self, engine: Engine, template: Template) -> Iterator[Server]:
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            yield server

    def test_answers_with_the_password_of_an_option_file(self, running: Server) -> None:
        with AttachedServer(AttachSpec(option_file=str(running.option_file))) as attached:
            assert attached.query("SELECT COUNT(*) FROM sbtest.sbtest1") == [(DATASET.rows,)]
            assert attached.facts().version == running.facts().version
            assert attached.data_dir == running.data_dir
            assert attached.alive()
            assert attached.option_file.stat().st_mode & 0o777 == 0o600
            private = attached.option_file
            for refused in (attached.start, attached.stop, attached.kill, attached.initialise):
                with pytest.raises(EnvironmentLacks, match="did not start"):
                    refused()
            assert running.alive()
        assert not private.exists()

    def test_a_wrong_password_is_a_usage_error_that_does_not_show_it(
        self, running: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(PASSWORD_VARIABLE, "wrong-one")
        with pytest.raises(UsageError, match="does not let 'root' in") as caught:
            AttachedServer(AttachSpec(socket=str(running.socket)))
        assert "wrong-one" not in str(caught.value)
        monkeypatch.setenv(PASSWORD_VARIABLE, (running.data_dir / ACCOUNT_FILE).read_text())
        AttachedServer(AttachSpec(socket=str(running.socket))).close()

    def test_nobody_at_the_place_is_lacking(self, tmp_path: Path) -> None:
        with pytest.raises(EnvironmentLacks, match="does not answer"):
            AttachedServer(AttachSpec(socket=str(tmp_path / "none.sock")))
        with pytest.raises(EnvironmentLacks, match="does not answer"):
            AttachedServer(AttachSpec(host="127.0.0.1", port=1))
