"""A password stays here unless the server is known: whatever plugin a stranger asks for, with TLS or without."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import mysql.connector
import pytest
from own_ca import OwnCa, make_ca
from rogue_server import RogueServer, any_certificate

from volbench.core.records.cell import AttachSpec
from volbench.core.records.tls import TlsOptions
from volbench.errors import UsageError
from volbench.machine.engine.attached import AttachedServer, account_of
from volbench.machine.engine.authentication import NO_PLUGINS, PasswordWithheldError, is_of_mysql
from volbench.machine.engine.connection import (
    Account,
    MemoryFile,
    account_from,
    check_client,
    read_option_file,
    rows,
    write_private,
)
from volbench.machine.placement.attach import parse_dsn, without_password

PASSWORD = "s3cret-of-production"
REQUESTS = [
    {"plugin": "mysql_clear_password"},
    {"plugin": "sha256_password"},
    {"plugin": "caching_sha2_password", "full": True},
    {"first_plugin": "caching_sha2_password", "full": True},
    {"first_plugin": "mysql_clear_password"},
    {"first_plugin": "sha256_password"},
    {"plugin": "authentication_openid_connect_client"},
    {"plugin": "authentication_ldap_sasl_client"},
    {"plugin": "dialog"},
    {"plugin": "..abstracts"},
]
MODES = ["", "DISABLED", "PREFERRED", "REQUIRED"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, OwnCa]:
    """One that nobody signed, and those of a CA."""
    directory = tmp_path_factory.mktemp("tls")
    (directory / "ca").mkdir()
    return any_certificate(directory), make_ca(directory / "ca")


@pytest.fixture
def rogue(request: pytest.FixtureRequest) -> Iterator[RogueServer]:
    with RogueServer(**request.param).serving() as server:
        yield server


def account(server: RogueServer, mode: str = "", **more: object) -> Account:
    values = {"user": "u", "password": PASSWORD, "host": "127.0.0.1", "port": server.port, **more}
    return Account(tls=TlsOptions.model_validate({"ssl_mode": mode}), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("demand", REQUESTS, ids=str)
def test_a_stranger_gets_no_password(
    certificates: tuple[Path, OwnCa], demand: dict[str, object], tls: bool, mode: str
) -> None:
    certificate = certificates[0] if tls else None
    with (
        RogueServer(certificate=certificate, **demand).serving() as server,  # type: ignore[arg-type]
        contextlib.suppress(mysql.connector.Error),  # a server that takes the answer to a challenge goes on
    ):
        rows(account(server, mode), "SELECT 1", timeout_s=10)
    assert server.connections == 1
    assert PASSWORD.encode() not in server.received


@pytest.mark.parametrize("demand", REQUESTS[:3], ids=str)
def test_the_user_is_told_once_what_to_do(certificates: tuple[Path, OwnCa], demand: dict[str, object]) -> None:
    with (
        RogueServer(certificate=certificates[0], **demand).serving() as server,  # type: ignore[arg-type]
        pytest.raises(UsageError, match="could be anybody") as refused,
    ):
        AttachedServer(AttachSpec(host="127.0.0.1", port=server.port, user="u"))
    assert "ssl-mode is PREFERRED" in refused.value.evidence
    assert "ssl-ca" in refused.value.next_step
    assert "password-unverified=yes" in refused.value.next_step


def verified(ca: OwnCa, server: RogueServer, **more: object) -> Account:
    tls = TlsOptions(ssl_mode="VERIFY_IDENTITY", ssl_ca=str(ca.ca))
    values = {"user": "u", "password": PASSWORD, "host": "localhost", "port": server.port, **more}
    return Account(tls=tls, **values)  # type: ignore[arg-type]


def own_certificate(directory: Path, ca: OwnCa) -> Path:
    both = directory / "both.pem"
    both.write_text((ca.directory / "server.pem").read_text() + (ca.directory / "server-key.pem").read_text())
    return both


def test_a_verified_server_gets_the_password_and_in_clear_only_where_that_is_asked_for(
    tmp_path: Path, certificates: tuple[Path, OwnCa]
) -> None:
    certificate = own_certificate(tmp_path, certificates[1])
    for request in REQUESTS[1:4]:
        with RogueServer(certificate=certificate, **request).serving() as server:  # type: ignore[arg-type]
            assert rows(verified(certificates[1], server), "SELECT 1") == []
        assert PASSWORD.encode() in server.received
    with RogueServer(certificate=certificate, plugin="mysql_clear_password").serving() as server:
        with pytest.raises(PasswordWithheldError):
            rows(verified(certificates[1], server), "SELECT 1")
        assert PASSWORD.encode() not in server.received
        assert rows(verified(certificates[1], server, sends_clear=True), "SELECT 1") == []
        assert PASSWORD.encode() in server.received


def test_a_verified_account_gives_nothing_to_another_certificate(certificates: tuple[Path, OwnCa]) -> None:
    with (
        RogueServer(certificate=certificates[0], plugin="sha256_password").serving() as server,
        pytest.raises(mysql.connector.Error),
    ):
        rows(verified(certificates[1], server), "SELECT 1")
    assert PASSWORD.encode() not in server.received
    assert len(server.received) == 32  # the request for TLS


def test_the_users_word_counts_with_tls_alone(certificates: tuple[Path, OwnCa]) -> None:
    for certificate, is_given in ((certificates[0], True), (None, False)):
        with RogueServer(certificate=certificate, plugin="caching_sha2_password", full=True).serving() as server:
            try:
                rows(account(server, password_unverified=True), "SELECT 1")
            except mysql.connector.Error:
                assert not is_given
        assert (PASSWORD.encode() in server.received) is is_given


def test_the_word_is_taken_from_a_dsn_a_plan_and_an_option_file(tmp_path: Path) -> None:
    dsn = "mysql://u@db1:3306/x?password-unverified=yes"
    assert account_of(parse_dsn(dsn), {}).password_unverified
    assert without_password(dsn) == dsn
    assert not account_of(parse_dsn("mysql://u@db1:3306/x"), {}).password_unverified
    with pytest.raises(UsageError, match="is yes or no"):
        parse_dsn("mysql://u@db1:3306/x?password-unverified=perhaps")
    file = tmp_path / "o.cnf"
    write_private(file, "[client]\nuser=u\n[volbench]\npassword-unverified\n")
    assert account_of(AttachSpec(host="db1", option_file=str(file)), {}).password_unverified
    written = Account(user="u", host="db1", password_unverified=True).option_file_text()
    write_private(file, written)
    assert account_from(read_option_file(file)).password_unverified


def test_mariadbs_library_finds_no_plugin_for_a_stranger() -> None:
    for guarded in (Account(user="u", host="db1"), Account(user="u", host="127.0.0.1")):
        assert f"plugin-dir={NO_PLUGINS}\n" in guarded.option_file_text()
    ca = TlsOptions(ssl_mode="VERIFY_CA", ssl_ca="/ca.pem")
    for free in (
        Account(user="u", socket="/s"),
        Account(user="u", host="db1", tls=ca),
        Account(user="u", host="db1", password_unverified=True),
    ):
        assert "plugin-dir" not in free.option_file_text()


def test_mysqls_programs_are_not_started_for_a_stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No option keeps them from giving the password to a server with TLS that asks for it."""
    program = tmp_path / "mysqldump"
    program.write_bytes(b"\x7fELF ... --get-server-public-key ...")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert is_of_mysql(program)
    for server, is_refused in (
        (Account(user="u", password=PASSWORD, host="db1"), True),
        (Account(user="u", password=PASSWORD, socket="/s"), False),
        (Account(user="u", host="db1"), False),
    ):
        options = MemoryFile(server.option_file_text())
        argv = ["mysqldump", f"--defaults-file={options.path}", "x"]
        if is_refused:
            with pytest.raises(UsageError, match="could be anybody"):
                check_client(argv)
        else:
            check_client(argv)
        options.close()
