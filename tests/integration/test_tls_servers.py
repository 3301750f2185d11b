"""Servers that require TLS with a CA of their own: MariaDB here, MySQL in a container; every command connects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import live_run
import pytest
from live_run import SMALL, SUITE, Bench, Ended
from own_ca import MYSQL_IMAGE, TlsServer, container_tls_server, local_tls_server
from scratch_server import PASSWORD

from volbench.core.records.tls import TlsOptions
from volbench.machine.engine.connection import Account, rows
from volbench.machine.placement import capabilities

WRONG_CA = "the server's certificate is not signed by the CA in"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("local", marks=pytest.mark.mysqld),
        pytest.param("mysql-9.7", marks=pytest.mark.servers),
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    directory = tmp_path_factory.mktemp("t")
    if request.param == "local":
        with local_tls_server(directory) as (running, _):
            yield running
    elif not capabilities.docker_image(MYSQL_IMAGE).present:
        pytest.skip(f"needs the image {MYSQL_IMAGE} (mend: make images)")
    else:
        with container_tls_server(directory) as running:
            yield running


@pytest.fixture
def bench(tmp_path: Path, run_cache: Path) -> Iterator[Bench]:
    with live_run.bench("attach", tmp_path, run_cache, {}) as opened:
        yield opened


def run(bench: Bench, server: TlsServer, dsn: str) -> Ended:
    chosen = [argument for setting in SMALL for argument in ("--set", setting)]
    arguments = ("--option-file", str(server.option_file), *chosen, "--out", str(bench.results), "--yes")
    return bench.end(bench.volbench("run", str(SUITE), "--server", dsn, *arguments))


def end(bench: Bench, *arguments: str) -> Ended:
    return bench.end(bench.volbench(*arguments))


def schemas(server: TlsServer) -> set[str]:
    result = rows(server.account, "SELECT schema_name FROM information_schema.schemata")
    return {str(row[0]) for row in result} - {"mysql", "information_schema", "performance_schema", "sys"}


def test_a_run_verifies_the_servers_identity_and_its_load_is_encrypted(bench: Bench, server: TlsServer) -> None:
    """sysbench 1.0 too, without a certificate of the client."""
    ended = run(bench, server, server.dsn("vb_tls", *server.verified))
    assert ended.code == 0, ended.output
    (cell,) = bench.directory.results()
    assert cell.steps[0].metrics["tps"].value > 0
    assert any("sysbench's connections use TLS" in note for note in cell.steps[0].notes)
    assert "vb_tls" not in schemas(server)
    assert PASSWORD not in ended.output


def test_a_wrong_ca_is_refused_by_every_command_before_anything_is_begun(
    bench: Bench, server: TlsServer, tmp_path: Path
) -> None:
    """One message, exit code 2, nothing is left."""
    dsn = server.dsn("vb_tls", "ssl-mode=VERIFY_IDENTITY", f"ssl-ca={server.ca.wrong_ca}")
    file = ("--option-file", str(server.option_file))
    plan = _validation_plan(tmp_path, server, server.ca.wrong_ca)
    for ended in (
        run(bench, server, dsn),
        end(bench, "capture", str(tmp_path / "capture.json"), "--server", dsn, *file, "--for", "1s"),
        end(bench, "observe", "--server", dsn, *file, "--for", "1s", "--out", str(tmp_path / "observed")),
        end(bench, "validate", str(plan), "--out", str(tmp_path / "validated")),
    ):
        assert ended.code == 2, ended.output
    assert ended.output.count(WRONG_CA) == 4
    assert "Traceback" not in ended.output
    assert not [name for name in ("capture.json", "observed", "validated") if (tmp_path / name).exists()]
    assert "vb_tls" not in schemas(server)
    assert bench.leftovers() == []


def test_another_host_name_is_refused_with_verify_identity_alone(bench: Bench, server: TlsServer) -> None:
    """The certificate is for localhost; its address is not in it."""
    dsn = server.dsn("vb_tls", *server.verified, host="127.0.0.1")
    ended = run(bench, server, dsn)
    assert ended.code == 2
    assert "the server's certificate is for another host" in ended.output
    tls = TlsOptions(ssl_mode="VERIFY_CA", ssl_ca=str(server.ca.ca))
    account = Account(user="bench", password=PASSWORD, host="127.0.0.1", port=server.port, tls=tls)
    assert rows(account, "SELECT 1") == [(1,)]


def test_without_tls_options_the_cause_is_named(bench: Bench, server: TlsServer) -> None:
    """sysbench's prepare ends with 0 there, and MariaDB says that access is denied."""
    ended = run(bench, server, server.dsn("vb_tls"))
    assert ended.code != 0
    assert "sysbench cannot connect: the server requires TLS" in ended.output
    assert "doesn't exist" not in ended.output
    assert "vb_tls" not in schemas(server)


def test_capture_observe_and_validate_verify_the_servers_identity(
    bench: Bench, server: TlsServer, tmp_path: Path
) -> None:
    dsn, file = server.dsn("vb_tls", *server.verified), ("--option-file", str(server.option_file))
    plan = _validation_plan(tmp_path, server, server.ca.ca)
    privileged = ("--allow-privileged",)
    rows(server.account, "CREATE DATABASE IF NOT EXISTS theirs")
    try:
        for arguments in (
            ("capture", str(tmp_path / "capture.json"), "--server", dsn, *file, "--for", "1s", *privileged),
            ("observe", "--server", dsn, *file, "--for", "2s", "--out", str(tmp_path / "observed"), *privileged),
            (
                "validate",
                str(plan),
                "--out",
                str(tmp_path / "validated"),
            ),
        ):
            ended = end(bench, *arguments)
            is_validation = arguments[0] == "validate"  # it gets as far as to see that both are one server
            assert ended.code == (4 if is_validation else 0), ended.output
            assert ("the same server" in ended.output) is is_validation
    finally:
        rows(server.account, "DROP DATABASE theirs")


def test_a_client_certificate_is_used_where_the_account_needs_one(bench: Bench, server: TlsServer) -> None:
    """REQUIRE X509: without one the server denies access, with it sysbench gets in too."""
    certificate = (f"ssl-cert={server.ca.directory}/client.pem", f"ssl-key={server.ca.directory}/client-key.pem")
    rows(server.account, f"CREATE USER x509@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE X509")
    try:
        rows(server.account, "GRANT ALL ON vb_x509.* TO x509@'%'")
        server.option_file.write_text(f'[client]\nuser=x509\npassword="{PASSWORD}"\n')
        assert run(bench, server, server.dsn("vb_x509", *server.verified)).code == 2
        ended = run(bench, server, server.dsn("vb_x509", *server.verified, *certificate))
        assert ended.code == 0, ended.output
    finally:
        server.option_file.write_text(f'[client]\nuser=bench\npassword="{PASSWORD}"\n')
        rows(server.account, "DROP USER x509@'%'")


def _validation_plan(directory: Path, server: TlsServer, ca: Path) -> Path:
    location = (
        f"{{host: localhost, port: {server.port}, user: bench, option_file: {server.option_file}, "
        f"ssl_mode: verify_identity, ssl_ca: {ca}}}"
    )
    source = location.replace("}", ", allow_privileged: true}")
    path = directory / "plan.yaml"
    path.write_text(f"schema: 2\nname: tls\nsource: {source}\ncandidate: {location}\nschemas: [theirs]\n")
    return path
