"""A server that runs already: measured in a schema of our own, nothing else of it touched, no password shown."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import live_run
import pytest
from live_run import FINISHED, SMALL, SUITE, Bench
from scratch_server import PASSWORD, ScratchServer, scratch_server

pytestmark = pytest.mark.mysqld


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    """A server with somebody else's schema."""
    with scratch_server(tmp_path_factory.mktemp("s")) as running:
        running.query("CREATE DATABASE theirs")
        running.query("CREATE TABLE theirs.precious (id INT)")
        running.query("INSERT INTO theirs.precious VALUES (1)")
        yield running


@pytest.fixture
def attached(tmp_path: Path, run_cache: Path) -> Iterator[Bench]:
    """A place for runs on an attached server: no volumes."""
    with live_run.bench("attach", tmp_path, run_cache, {}) as opened:
        yield opened


def start(
    bench: Bench, server: ScratchServer, schema: str, option_file: Path, *settings: str
) -> subprocess.Popen[bytes]:
    """`volbench run --target attach`."""
    dsn = f"mysql://bench@localhost/{schema}?socket={server.socket}"
    chosen = [argument for setting in (*SMALL, *settings) for argument in ("--set", setting)]
    return bench.volbench(
        "run",
        str(SUITE),
        "--server",
        dsn,
        "--option-file",
        str(option_file),
        *chosen,
        "--out",
        str(bench.results),
        "--yes",
    )


def schemas(server: ScratchServer) -> set[str]:
    """Schemas that are not the server's own."""
    rows = server.query("SELECT schema_name FROM information_schema.schemata")
    return {str(row[0]) for row in rows} - {"mysql", "information_schema", "performance_schema", "sys"}


def test_a_run_on_a_server_that_runs_already(
    attached: Bench, server: ScratchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It measures, finds the storage behind the data, removes its tables, and shows the password nowhere."""
    log = attached.root / "volbench.log"
    monkeypatch.setenv("VOLBENCH_LOG", str(log))
    process = start(attached, server, "bench_new", server.option_file)
    displayed: list[str] = []

    def looked() -> bool:
        displayed.extend(" ".join(arguments) for arguments in attached.processes().values())
        return attached.in_step()

    attached.until(looked, process)
    ended = attached.end(process)
    assert ended.code in FINISHED, ended.output
    attached.assert_all_done_once()
    assert schemas(server) == {"theirs"}
    assert server.query("SELECT id FROM theirs.precious") == [(1,)]
    (cell,) = attached.directory.results()
    assert cell.volume_facts.mount_point is not None
    assert cell.steps[0].metrics["tps"].value > 0
    assert any("sysbench" in line for line in displayed)
    logged = log.read_text()
    for text in (f"connect to {server.socket} as bench", "sysbench --", "cell_finished"):
        assert text in logged
    assert re.search(r"step \S+ is (valid|invalid: )", logged)
    files = [path.read_bytes() for path in attached.root.rglob("*") if path.is_file()]
    assert not [text for text in (*displayed, ended.output) if PASSWORD in text]
    assert not [text for text in files if PASSWORD.encode() in text]


def test_a_schema_of_somebody_else_is_refused(attached: Bench, server: ScratchServer) -> None:
    """Exit code 4, and its tables are as they were."""
    ended = attached.end(start(attached, server, "theirs", server.option_file))
    assert ended.code == 4, ended.output
    assert "tables that volbench did not make" in ended.output
    assert server.query("SELECT id FROM theirs.precious") == [(1,)]
    assert attached.leftovers() == []


def test_a_wrong_password_is_told_without_showing_it(attached: Bench, server: ScratchServer) -> None:
    """Exit code 2 before anything is begun."""
    wrong = attached.root / "wrong.cnf"
    wrong.touch(mode=0o600)
    wrong.write_text("[client]\nuser=bench\npassword=not-this-one\n")
    ended = attached.end(start(attached, server, "bench_new", wrong))
    assert ended.code == 2, ended.output
    assert "denied access to 'bench' with this password" in ended.output
    assert "not-this-one" not in ended.output
    assert attached.leftovers() == []


def test_a_killed_run_on_an_attached_server_is_resumed(attached: Bench, server: ScratchServer) -> None:
    """Runner and agent are killed in mid-step: `resume` makes the tables anew and removes them in the end."""
    process = start(attached, server, "bench_new", server.option_file, live_run.LONG_ENOUGH)
    attached.until(attached.in_step, process)
    live_run.send(process, signal.SIGKILL)
    process.wait()
    attached.kill_agents()
    assert "bench_new" in schemas(server)
    ended = attached.end(attached.resume())
    assert ended.code in FINISHED, ended.output
    attached.assert_all_done_once()
    assert schemas(server) == {"theirs"}


def test_two_servers_are_compared_like_volumes(
    attached: Bench, server: ScratchServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Cells in turn, each on its own server; b commits to no disk more than once a second, and differs by that."""
    with scratch_server(tmp_path_factory.mktemp("b"), "--innodb-flush-log-at-trx-commit=2") as second:
        files, dsns = [], []
        for name, running in (("a", server), ("b", second)):
            dsns += ["--server", f"{name}=mysql://bench@localhost/bench_two?socket={running.socket}"]
            files += ["--option-file", f"{name}={running.option_file}"]
        chosen = [argument for setting in (*SMALL, "repeats=2") for argument in ("--set", setting)]
        command = ("run", str(SUITE), *dsns, *files, *chosen, "--out", str(attached.results), "--yes")
        ended = attached.end(attached.volbench(*command))
        assert ended.code in FINISHED, ended.output
        cells = {cell.cell_id: cell.volume for cell in attached.directory.run.cells}
        assert [sorted(list(cells.values())[block : block + 2]) for block in (0, 2)] == [["a", "b"], ["a", "b"]]
        flushed = {
            cells[result.cell_id]: result.server.variables["innodb_flush_log_at_trx_commit"]
            for result in attached.directory.results()
            if result.server is not None
        }
        assert flushed == {"a": "1", "b": "2"}
        report = (attached.directory.path / "report.md").read_text()
        assert "The servers differ: innodb_flush_log_at_trx_commit (" in report.replace("\\", "")
        assert all(step.valid for result in attached.directory.results() for step in result.steps)
        assert all(PASSWORD not in text for text in (ended.output, report))
        assert schemas(server) == {"theirs"}
        assert schemas(second) == set()
