"""Percona Toolkit's programs of the tools image, on real servers, while this machine's own are hidden."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from featured_schema import ACCOUNTS, STATEMENTS
from own_ca import local_tls_server
from scratch_server import ScratchServer, scratch_server
from waiting import wait_for

import volbench
from volbench.core.records.validation.result import CheckRow
from volbench.machine.engine.connection import Account, account_from, connection, read_option_file
from volbench.validation import toolkit
from volbench.validation.queries.classes import QueryClass
from volbench.validation.queries.comparison import compare_queries
from volbench.validation.queries.pt_upgrade import NOT_INSTALLED, pt_upgrade_check
from volbench.validation.source.advisors import advice
from volbench.validation.source.server import read_only
from volbench.validation.toolkit import PROGRAMS as TOOLKIT

pytestmark = [
    pytest.mark.mysqld,
    pytest.mark.skipif(not toolkit.local_tools_image(), reason="needs docker: a tools image"),
]
PASSWORD = "read only"
QUERIES = (
    "SELECT COUNT(*) FROM orders WHERE state = 'paid'",
    "SELECT id, email, name, born, score FROM customers ORDER BY id",
    "SELECT vat(100.00)",
)
LABEL = "label=org.volbench.validation=1"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScratchServer, ScratchServer]]:
    """Two servers filled alike, with an account that only reads."""
    with (
        scratch_server(tmp_path_factory.mktemp("a")) as item,
        scratch_server(tmp_path_factory.mktemp("b")) as second,
    ):
        for server in (item, second):
            execute(server, *ACCOUNTS, *STATEMENTS)
        yield item, second


@pytest.fixture(scope="module")
def over_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """A server that requires TLS, by an account that checks its certificate."""
    with local_tls_server(tmp_path_factory.mktemp("t")) as (tls, server):
        execute(server, *ACCOUNTS, *STATEMENTS)
        options = read_option_file(tls.option_file) | {"host": "127.0.0.1", "port": str(tls.port), "socket": ""}
        yield account_from(options | {"ssl_mode": "VERIFY_CA", "ssl_ca": str(tls.ca.ca)})


@pytest.fixture(autouse=True)
def only_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH with no program but docker; the servers were started before."""
    docker = shutil.which("docker")
    assert docker
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").symlink_to(docker)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def execute(server: ScratchServer, *statements: str, schema: str = "") -> None:
    account = Account(user="root", socket=str(server.socket))
    with connection(account, schema or None, timeout_s=60) as opened, opened.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def reader(server: ScratchServer) -> Account:
    return Account(user="reader", password=PASSWORD, socket=str(server.socket))


def requested(own: Account, foreign: Account) -> CheckRow:
    classes = [
        QueryClass(fingerprint=query.lower(), schema="shop", samples=(query,), count=1, total_s=1.0)
        for query in QUERIES
    ]
    with read_only(own) as source, read_only(foreign) as candidate:
        compared = compare_queries(source, candidate, classes, lambda *_: None, pause=lambda _: None)
        return pt_upgrade_check((source, candidate), (own, foreign), compared, seconds=60)


def test_pt_upgrade_decides_in_a_container(pair: tuple[ScratchServer, ScratchServer]) -> None:
    """A clean twin is go; a deleted row and a missing function are no-go and named."""
    clean = requested(reader(pair[0]), reader(pair[1]))
    assert clean.decision == "go", clean
    assert any("in a container of volbench/tools" in text for text in clean.details)
    execute(pair[1], "DROP FUNCTION vat", "DELETE FROM orders WHERE state = 'paid' LIMIT 3", schema="shop")
    faulty = requested(reader(pair[0]), reader(pair[1]))
    assert faulty.decision == "no-go", faulty
    assert any("other rows: select count(*) from orders" in text for text in faulty.details)
    assert any("an error on one side: select vat(100.00)" in text for text in faulty.details)


def test_over_tcp_with_a_certificate_that_is_checked(over_tls: Account) -> None:
    """The container gets the network of this machine, and the file with the CA."""
    row = requested(over_tls, over_tls)
    assert row.decision == "go", row


def test_the_advisors_run_in_a_container_too() -> None:
    reports = advice(
        {"max_connections": "100", "version": "8.0.36"}, {"max_connections": "500", "version": "8.4.3"}
    )
    assert set(reports) == {"pt-config-diff", "pt-variable-advisor"}
    assert "max_connections" in reports["pt-config-diff"]
    assert "/run/volbench" not in "".join(reports.values())


ASKING = """
import sys
from volbench.machine.engine.connection import Account
from volbench.validation.queries.comparison import QueryClass, QueryComparison
from volbench.validation.queries.pt_upgrade import pt_upgrade_check
from volbench.validation.source.server import read_only
account = Account(user="reader", password=sys.stdin.readline().strip(), socket=sys.argv[1])
query = QueryClass(fingerprint="x", schema="shop", samples=("SELECT SLEEP(60)",), count=1, total_s=1.0)
with read_only(account) as server:
    asked = [QueryComparison(query=query, result="equal")]
    pt_upgrade_check((server, server), (account, account), asked, seconds=90)
"""


def test_no_password_is_visible_and_the_container_ends_with_a_killed_process(
    pair: tuple[ScratchServer, ScratchServer],
) -> None:
    """Neither in docker inspect, nor in any process's arguments or environment."""
    environment = {**os.environ, "PYTHONPATH": str(Path(volbench.__file__).parents[1])}
    running = subprocess.Popen(
        [sys.executable, "-c", ASKING, str(pair[0].socket)], env=environment, stdin=subprocess.PIPE, text=True
    )
    assert running.stdin
    print(PASSWORD, file=running.stdin, flush=True)
    asking = "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'SELECT SLEEP(60)'"
    try:
        wait_for(lambda: pair[0].query(asking) == [(1,)])
        (container,) = containers()
        inspected = subprocess.run(["docker", "inspect", container], capture_output=True, text=True, check=True)
        assert json.loads(inspected.stdout)[0]["HostConfig"]["NetworkMode"] == "none"
        assert PASSWORD not in inspected.stdout
        assert not [entry for entry in Path("/proc").glob("[0-9]*") if PASSWORD.encode() in visible(entry)]
    finally:
        running.kill()
        running.stdin.close()
        running.wait()
    wait_for(lambda: containers() == [])


def visible(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ") + (entry / "environ").read_bytes()
    except OSError:
        return b""


def containers() -> list[str]:
    argv = ["docker", "ps", "-q", "--filter", LABEL]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def test_without_an_engine_the_row_says_what_is_missing(
    pair: tuple[ScratchServer, ScratchServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    row = requested(reader(pair[0]), reader(pair[0]))
    assert (row.decision, row.text) == ("undecided", NOT_INSTALLED)


def test_doctor_names_exactly_the_programs_that_are_run() -> None:
    assert set(TOOLKIT) == set(toolkit.PROGRAMS)
