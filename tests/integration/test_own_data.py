"""Own data and own load, on a real server: dumps, scripts, a slow log; and what is wrong with them, said once."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import film_shop
import live_run
import mysql.connector
import pytest
from film_shop import SCHEMA
from live_run import DOCKER_IF_SLOW, FINISHED, LOCAL_IF_SLOW, Bench, Ended
from own_ca import local_tls_server
from scratch_server import PASSWORD, scratch_server

from volbench.errors import EXIT_INTERRUPTED

pytestmark = pytest.mark.mysqld
ROWS = 3000
TPCC_REPOSITORY = "https://github.com/Percona-Lab/sysbench-tpcc"
LIMITS = (
    "repeats: 1\nreplacements: 0%\nsampling: {interval: 500ms}\n"
    "limits: {foreign_iops: 1000000, foreign_cpu: 100%, missed_samples: 90%}\n"
)
ENGINE = "engine: {flavor: mariadb}\n" if shutil.which("mariadbd") else ""
OWN_LUA = """
sysbench.cmdline.options = {keys = {"Rows of the table", 100}}
function prepare()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE counters (id INT PRIMARY KEY, n INT NOT NULL)")
   for i = 1, sysbench.opt.keys do con:query(string.format("INSERT INTO counters VALUES (%d, 0)", i)) end
end
sysbench.cmdline.commands = {prepare = {prepare}}
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query(string.format("UPDATE counters SET n = n + 1 WHERE id = %d", own_key())) end
"""
OWN_MODULE = "function own_key() return sysbench.rand.uniform(1, sysbench.opt.keys) end\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with shop.sql, and slow.log and general.log of a load on exactly this data."""
    directory = tmp_path_factory.mktemp("g")
    film_shop.write_dump(directory / "shop.sql", ROWS)
    with scratch_server(tmp_path_factory.mktemp("s")) as server:
        server.query(f"CREATE DATABASE {SCHEMA}")
        _feed(server.socket, directory / "shop.sql")
        film_shop.record_load(server, ROWS, seconds=4, log=directory / "slow.log")
    directory.chmod(
        0o700
    )  # the containers' user may neither enter it nor read the logs, which are as MySQL makes them
    for log in ("slow.log", "general.log"):
        (directory / log).chmod(0o640)
    return directory


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def bench(request: pytest.FixtureRequest, tmp_path: Path, run_cache: Path) -> Iterator[Bench]:
    """MariaDB on this machine, MySQL in containers."""
    with live_run.bench(request.param, tmp_path, run_cache) as opened:
        yield opened


def run(bench: Bench, text: str) -> Ended:
    return bench.end(start(bench, text))


def start(bench: Bench, text: str) -> subprocess.Popen[bytes]:
    path = bench.root / "own.yaml"
    engine = ENGINE if bench.target == "local" else "engine: {flavor: mysql}\n"
    path.write_text(f"schema: 2\nname: own\n{engine}{LIMITS}{text}")
    volumes = [option for name, path in bench.volumes.items() for option in ("--volume", f"{name}=path:{path}")]
    arguments = ("run", str(path), "--target", bench.target, *volumes, "--out", str(bench.results), "--yes")
    return bench.volbench(*arguments)


def test_a_dump_and_its_log_give_latencies_of_each_class_of_statements(bench: Bench, shop: Path) -> None:
    """On two volumes, with rows in the report for the same classes; size, tables and hash are noted.

    In containers by the slow log, on this machine by the general log of the same load.
    """
    log = "slow.log" if bench.target == "docker" else "general.log"
    ended = run(
        bench,
        (
            f"dataset: {{kind: dump, path: {shop}/shop.sql, schema: {SCHEMA}, size: 50MiB}}\n"
            f"steps: [{{kind: replay, log: {shop}/{log}, late_max: 90%}}]\n"
        ),
    )
    assert ended.code in FINISHED, ended.output
    first, second = bench.directory.results()
    names = [[step.step for step in cell.steps] for cell in (first, second)]
    assert names[0] == names[1]
    assert any(name.startswith("replay/select-rental-") for name in names[0])
    total = first.steps[0]
    assert total.details["errors"] == 0, total.details
    assert total.details["statements"] > 200
    assert any("the log is a general log" in note for note in total.notes) == (log == "general.log")
    assert total.metrics["latency_ms_p95"].value > 0
    assert any("own data (dump): 4 tables, " in note for note in first.notes)
    assert total.parameters["log"] == f"{shop}/{log}"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (shop, shop / log)] == [0o700, 0o640]
    assert bench.leftovers() == []


@pytest.mark.parametrize("bench", LOCAL_IF_SLOW, indirect=True)
def test_an_own_script_with_its_module_prepares_and_runs(bench: Bench, tmp_path: Path) -> None:
    """Its own options reach both; the containers' user may not enter the directory, as of a clone in /root."""
    bench.volumes.pop("b")
    clone = tmp_path / "clone"
    clone.mkdir(mode=0o700)
    (clone / "counters.lua").write_text(f'require("own_module")\n{OWN_LUA}')
    (clone / "own_module.lua").write_text(OWN_MODULE)
    (clone / "own_module.lua").chmod(0o600)
    ended = run(
        bench,
        (
            f"dataset: {{kind: script, path: {clone}/counters.lua, schema: own, "
            "size: 50MiB, options: {keys: 50}}\n"
            f"steps: [{{kind: oltp, test: {clone}/counters.lua, threads: 2, warmup: 0s, duration: 2s}}]\n"
        ),
    )
    assert ended.code in FINISHED, ended.output
    (cell,) = bench.directory.results()
    assert cell.steps[0].metrics["tps"].value > 0
    assert "--keys=50" in cell.steps[0].details["command"]
    assert any("1 table, 50 rows" in note for note in cell.notes)
    assert cell.steps[0].parameters["test"] == f"{clone}/counters.lua"
    assert bench.leftovers() == []


def test_own_data_with_a_trigger_and_a_view_are_dumped_and_restored(bench: Bench, shop: Path) -> None:
    """With rights on the two schemas, as they were loaded; what was changed in the dump is a note of the cell."""
    bench.volumes.pop("b")
    text = (shop / "shop.sql").read_text()
    programs = (
        "DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`app`@`%`*/ /*!50003 TRIGGER paid BEFORE INSERT "
        "ON payment FOR EACH ROW SET NEW.amount = NEW.amount + 0 */;;\nDELIMITER ;\n"
        "CREATE DEFINER=root@localhost VIEW recent AS SELECT film_id FROM film;\n"
    )
    (bench.root / "own.sql").write_text("\n".join(("SET @@SESSION.SQL_LOG_BIN= 0;", text, programs)))
    ended = run(
        bench,
        (
            f"dataset: {{kind: dump, path: {bench.root}/own.sql, schema: {SCHEMA}, size: 50MiB}}\n"
            "steps: [{kind: dump, name: d, tool: mysqldump}, {kind: restore, name: r, tool: mysql},"
            " {kind: dump, name: e, tool: mydumper}, {kind: restore, name: s, tool: myloader}]\n"
        ),
    )
    assert ended.code in FINISHED, ended.output
    (cell,) = bench.directory.results()
    assert [step.details["equality"] for step in cell.steps if "equality" in step.details] == ["proven"] * 2
    assert any("which has rights on this schema only: 2" in note for note in cell.notes), cell.notes
    assert any("its binary log switched off (1 statement)" in note for note in cell.notes)
    assert bench.leftovers() == []


@pytest.fixture(scope="session")
def tpcc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sysbench-tpcc's own repository: $VOLBENCH_TPCC, or a clone."""
    if volbench_tpcc := os.environ.get("VOLBENCH_TPCC"):
        return Path(volbench_tpcc)
    directory = tmp_path_factory.mktemp("c") / "sysbench-tpcc"
    clone = ["git", "clone", "--quiet", "--depth", "1", TPCC_REPOSITORY, str(directory)]
    if subprocess.run(clone, capture_output=True, timeout=120, check=False).returncode:
        pytest.skip("no sysbench-tpcc here")
    return directory


@pytest.mark.slow
def test_the_suite_tpcc_runs_without_the_network(bench: Bench) -> None:
    run_tpcc(bench)


@pytest.mark.slow
def test_sysbench_tpcc_runs_unchanged(bench: Bench, tpcc: Path) -> None:
    """The suite with the scripts of that public repository."""
    script = tpcc / "tpcc.lua"
    run_tpcc(bench, f"dataset.path={script}", f"steps.tpcc.test={script}")


def run_tpcc(bench: Bench, *settings: str) -> None:
    """Run the suite at its smallest."""
    bench.volumes.pop("b")
    ((name, location),) = bench.volumes.items()
    settings = (*settings, "scale=ci", "repeats=1")
    flavor = "mariadb" if bench.target == "local" and ENGINE else "mysql"
    result = [argument for text in (*settings, f"engine.flavor={flavor}") for argument in ("--set", text)]
    arguments = (
        "run",
        "suites/tpcc.yaml",
        *result,
        "--target",
        bench.target,
        "--volume",
        f"{name}=path:{location}",
    )
    ended = bench.end(bench.volbench(*arguments, "--out", str(bench.results), "--yes"), bound_s=900.0)
    assert ended.code in FINISHED, ended.output
    (cell,) = bench.directory.results()
    (step,) = cell.steps
    assert step.metrics["tps"].value > 0
    assert any("own data (script): 9 tables, " in note for note in cell.notes), cell.notes
    assert bench.leftovers() == []


@pytest.mark.parametrize(
    ("dump", "message"),
    [
        ("CREATE TABLE t (id INT);\nINSERT INTO missing VALUES (1);\n", "missing' doesn't exist"),
        ("SELECT 1;\n", "the dataset made no table in the schema own"),
    ],
)
def test_a_dump_that_does_not_restore_is_one_message(bench: Bench, tmp_path: Path, dump: str, message: str) -> None:
    """Nothing is left on the volumes, and no template that a later run would take."""
    (tmp_path / "bad.sql").write_text(dump)
    ended = run(
        bench,
        (
            f"dataset: {{kind: dump, path: {tmp_path}/bad.sql, schema: own, size: 50MiB}}\n"
            f"steps: [{{kind: idle, duration: 1s}}]\n"
        ),
    )
    assert ended.code == 5, ended.output
    assert message in ended.output
    assert_one_message(ended)
    assert bench.leftovers() == []
    assert not list((bench.cache / "templates").glob("*.partial/data/own"))  # other tests share the cache


def test_an_interruption_while_own_data_loads_leaves_nothing_of_it(bench: Bench, tmp_path: Path) -> None:
    """What was loaded may be large: it does not stay in the cache."""
    (tmp_path / "long.sql").write_text("CREATE TABLE t (id INT);\nSELECT SLEEP(600);\n")
    running = start(
        bench,
        (
            f"dataset: {{kind: dump, path: {tmp_path}/long.sql, schema: own, size: 50MiB}}\n"
            f"steps: [{{kind: idle, duration: 1s}}]\n"
        ),
    )
    templates = bench.cache / "templates"
    bench.until(lambda: bool(list(templates.glob("*.partial/data/own/t.ibd"))), running)
    (own,) = (path.parents[2] for path in templates.glob("*.partial/data/own/t.ibd"))  # other tests share the cache
    live_run.send(running, signal.SIGINT)
    assert bench.end(running).code == EXIT_INTERRUPTED
    assert bench.leftovers() == []
    assert not own.exists()


@pytest.mark.parametrize("bench", DOCKER_IF_SLOW, indirect=True)
def test_an_error_of_a_lua_script_is_one_message(bench: Bench, tmp_path: Path) -> None:
    """sysbench itself ends with 0 when a thread of `prepare` fails."""
    (tmp_path / "broken.lua").write_text("function prepare() nothing.here() end\n")
    ended = run(
        bench,
        (
            f"dataset: {{kind: script, path: {tmp_path}/broken.lua, schema: own, size: 50MiB}}\n"
            f"steps: [{{kind: idle, duration: 1s}}]\n"
        ),
    )
    assert ended.code == 5, ended.output
    assert "broken.lua:1" in ended.output
    assert_one_message(ended)
    assert bench.leftovers() == []


@pytest.mark.parametrize("bench", DOCKER_IF_SLOW, indirect=True)
def test_an_error_of_a_lua_script_in_mid_run_is_one_message(bench: Bench, tmp_path: Path) -> None:
    """The script's file, its line and what LuaJIT says of it, after 200 good transactions."""
    bench.volumes.pop("b")
    event = "function event() made = (made or 0) + 1; if made > 200 then nothing.here() end;"
    (tmp_path / "later.lua").write_text(OWN_MODULE + OWN_LUA.replace("function event()", event))
    ended = run(
        bench,
        (
            f"dataset: {{kind: script, path: {tmp_path}/later.lua, schema: own, "
            "size: 50MiB, options: {keys: 50}}\n"
            f"steps: [{{kind: oltp, test: {tmp_path}/later.lua, threads: 2, warmup: 0s, duration: 60s}}]\n"
        ),
    )
    assert ended.code == 5, ended.output
    assert re.search(r"later\.lua:\d+: attempt to index global 'nothing'", ended.output)
    assert_one_message(ended)
    assert bench.leftovers() == []


def test_a_log_of_another_schema_is_refused_before_anything_is_begun(bench: Bench, shop: Path) -> None:
    ended = run(
        bench,
        (
            f"dataset: {{kind: dump, path: {shop}/shop.sql, schema: another, size: 50MiB}}\n"
            f"steps: [{{kind: replay, log: {shop}/slow.log}}]\n"
        ),
    )
    assert ended.code == 2, ended.output
    assert "the log has no statement to replay" in ended.output
    assert "of other schemas" in ended.output
    assert_one_message(ended)
    assert not bench.results.exists()
    assert bench.leftovers() == []


def test_a_user_without_rights_is_one_message_and_nothing_is_left(tmp_path: Path, run_cache: Path) -> None:
    (tmp_path / "s0").mkdir()
    with scratch_server(tmp_path / "s0") as server, live_run.bench("attach", tmp_path, run_cache, {}) as bench:
        server.query(f"CREATE USER poor@localhost IDENTIFIED BY '{PASSWORD}'")
        server.option_file.write_text(f'[client]\nuser=poor\npassword="{PASSWORD}"\nsocket={server.socket}\n')
        dsn = f"mysql://poor@localhost/vb_poor?socket={server.socket}"
        chosen = [argument for setting in live_run.SMALL for argument in ("--set", setting)]
        ended = bench.end(
            bench.volbench(
                "run",
                str(live_run.SUITE),
                "--server",
                dsn,
                "--option-file",
                str(server.option_file),
                *chosen,
                "--out",
                str(bench.results),
                "--yes",
            )
        )
        assert ended.code == 5, ended.output
        assert "Access denied for user 'poor'@'localhost' to database 'vb_poor'" in ended.output
        assert_one_message(ended)
        assert bench.leftovers() == []
        assert not server.query("SELECT 1 FROM information_schema.schemata WHERE schema_name = 'vb_poor'")


def test_a_server_that_loses_its_certificate_in_mid_run(tmp_path: Path, run_cache: Path) -> None:
    """The run fails with the cause; when the certificate is back, `resume` finishes and removes the tables."""
    directory = tmp_path / "s0"
    directory.mkdir()
    with (
        local_tls_server(directory) as (tls, server),
        live_run.bench("attach", tmp_path, run_cache, {}) as bench,
    ):
        chosen = [option for setting in (*live_run.SMALL, "steps.0.duration=6s") for option in ("--set", setting)]
        process = bench.volbench(
            "run",
            str(live_run.SUITE),
            "--server",
            tls.dsn("vb_lost", *tls.verified),
            "--option-file",
            str(tls.option_file),
            *chosen,
            "--out",
            str(bench.results),
            "--yes",
        )
        bench.until(bench.in_step, process)
        datas = {name: (tls.ca.directory / name).read_bytes() for name in ("server.pem", "server-key.pem")}
        shutil.copy(tls.ca.directory / "wrong.pem", tls.ca.directory / "server.pem")
        shutil.copy(tls.ca.directory / "wrong-key.pem", tls.ca.directory / "server-key.pem")
        server.query("FLUSH SSL")
        for (connection,) in server.query("SELECT id FROM information_schema.processlist WHERE user = 'bench'"):
            with contextlib.suppress(mysql.connector.Error):  # it ended by itself
                server.query(f"KILL {connection}")
        ended = bench.end(process)
        assert ended.code == 2, ended.output
        assert_one_message(ended)
        assert "not signed by the CA" in ended.output, ended.output
        assert (
            "the run's tables may still be in the schema vb_lost; `volbench resume RUN` removes them"
            in ended.output
        )
        assert bench.leftovers() == []
        for name, content in datas.items():
            (tls.ca.directory / name).write_bytes(content)
        server.query("FLUSH SSL")
        resumed = bench.end(bench.resume())
        assert resumed.code in FINISHED, resumed.output
        assert not server.query("SELECT 1 FROM information_schema.schemata WHERE schema_name = 'vb_lost'")


@pytest.mark.parametrize(
    ("change", "restore", "message"),
    [
        ("IDENTIFIED BY 'another'", f"IDENTIFIED BY '{PASSWORD}'", "denied access to 'bench' with this password"),
        ("ACCOUNT LOCK", "ACCOUNT UNLOCK", "refuses the account 'bench': it is locked"),
    ],
)
def test_an_account_that_ends_in_mid_run(
    tmp_path: Path, run_cache: Path, change: str, restore: str, message: str
) -> None:
    """As an expired token does: the message says so and what is left, and `resume` removes it later."""
    (tmp_path / "s0").mkdir()
    with scratch_server(tmp_path / "s0") as server, live_run.bench("attach", tmp_path, run_cache, {}) as bench:
        chosen = [option for setting in (*live_run.SMALL, "steps.0.duration=6s") for option in ("--set", setting)]
        process = bench.volbench(
            "run",
            str(live_run.SUITE),
            "--server",
            f"mysql://bench@localhost/vb_token?socket={server.socket}",
            "--option-file",
            str(server.option_file),
            *chosen,
            "--out",
            str(bench.results),
            "--yes",
        )
        bench.until(bench.in_step, process)
        server.query(f"ALTER USER bench@localhost {change}")
        for (connection,) in server.query("SELECT id FROM information_schema.processlist WHERE user = 'bench'"):
            with contextlib.suppress(mysql.connector.Error):  # it ended by itself
                server.query(f"KILL {connection}")
        ended = bench.end(process)
        assert ended.code == 2, ended.output
        assert message in ended.output
        assert "may still be in the schema vb_token; `volbench resume RUN` removes them" in ended.output
        assert_one_message(ended)
        assert bench.leftovers() == []
        server.query(f"ALTER USER bench@localhost {restore}")
        resumed = bench.end(bench.resume())
        assert resumed.code in FINISHED, resumed.output
        assert not server.query("SELECT 1 FROM information_schema.schemata WHERE schema_name = 'vb_token'")


def test_an_expired_password_is_refused_before_anything_is_begun(tmp_path: Path, run_cache: Path) -> None:
    (tmp_path / "s0").mkdir()
    with scratch_server(tmp_path / "s0") as server, live_run.bench("attach", tmp_path, run_cache, {}) as bench:
        server.query("ALTER USER bench@localhost PASSWORD EXPIRE")
        ended = bench.end(
            bench.volbench(
                "run",
                str(live_run.SUITE),
                "--server",
                f"mysql://bench@localhost/vb_late?socket={server.socket}",
                "--option-file",
                str(server.option_file),
                "--out",
                str(bench.results),
                "--yes",
            )
        )
        assert ended.code == 2, ended.output
        assert "refuses the account 'bench': its password has expired" in ended.output
        assert_one_message(ended)
        assert bench.leftovers() == []
        assert not server.query("SELECT 1 FROM information_schema.schemata WHERE schema_name = 'vb_late'")


def assert_one_message(ended: Ended) -> None:
    assert [line[:9] for line in ended.output.splitlines() if "volbench: " in line] == ["volbench:"], ended.output
    assert "Traceback" not in ended.output


def _feed(socket: Path, dump: Path) -> None:
    client = shutil.which("mariadb") or "mysql"
    with dump.open("rb") as source:
        argv = [client, "--no-defaults", f"--socket={socket}", "-uroot", SCHEMA]
        subprocess.run(argv, stdin=source, check=True, timeout=120)
