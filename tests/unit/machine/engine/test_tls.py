"""TLS options: of option files in both spellings, for client programs, and for the builds of sysbench."""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path

import pytest

from volbench.core.records.tls import SslMode, TlsOptions
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.engine.connection import Account, account_from, read_option_file, write_private
from volbench.machine.engine.sysbench.tls import SysbenchTls, place_files, tls_notes, tls_of_help, tls_options
from volbench.machine.engine.tls import Connection, connector_arguments, tls_of

HELP_1_0_20 = """mysql options:
  --mysql-ssl[=on|off]             use SSL connections, if available in the client library [off]
  --mysql-ssl-cipher=STRING        use specific cipher for SSL connections []
"""
"""Printed by sysbench 1.0.20 of Debian 12."""
HELP_1_1 = """  mysql options:
    --mysql-ssl=STRING                    SSL mode. This accepts the same values as the --ssl-mode option [disabled]
    --mysql-ssl-key=STRING                path name of the client private key file
    --mysql-ssl-ca=STRING                 path name of the CA file
    --mysql-ssl-cert=STRING               path name of the client public key certificate file
"""
"""As tests/t/help_drv_mysql.t and src/drivers/mysql/drv_mysql.c of sysbench's development version have it."""


@pytest.fixture
def ca(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    path.write_text("a certificate")
    return str(path)


def test_ssl_ca_alone_means_that_the_certificate_is_checked(ca: str) -> None:
    assert tls_of({"ssl_ca": ca}).mode == "VERIFY_CA"
    assert tls_of({}).mode == "PREFERRED"
    assert not tls_of({"ssl_mode": "preferred"}).encrypts


@pytest.mark.parametrize(
    ("section", "mode"),
    [
        ({"ssl_verify_server_cert": ""}, "VERIFY_IDENTITY"),
        ({"ssl": ""}, "VERIFY_CA"),
        ({"skip_ssl": ""}, "DISABLED"),
        ({"loose_ssl_mode": "required"}, "REQUIRED"),
        ({"ssl_verify_server_cert": "0"}, "VERIFY_CA"),
    ],
)
def test_mariadbs_spelling_counts_too(section: dict[str, str], mode: str, ca: str) -> None:
    assert tls_of({**section, "ssl_ca": ca}).mode == mode


def test_the_command_line_wins_over_the_option_file_key_by_key(ca: str) -> None:
    tls = tls_of({"ssl_ca": ca, "ssl_mode": "REQUIRED"}, over=TlsOptions(ssl_mode="VERIFY_IDENTITY"))
    assert (tls.mode, tls.ssl_ca) == ("VERIFY_IDENTITY", ca)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"ssl_mode": "VERIFY_IDENTITY"}, "needs ssl-ca"),
        ({"ssl_mode": "SOMETIMES"}, "there is no ssl-mode"),
        ({"ssl_cert": "/c.pem"}, "belong together"),
        ({"ssl_ca": "/none/ca.pem"}, "the file of ssl-ca cannot be read"),
    ],
)
def test_options_that_cannot_be_used_are_refused(section: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tls_of(section)


@pytest.mark.parametrize("mode", ["DISABLED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"])
def test_what_is_written_for_programs_is_read_back(tmp_path: Path, ca: str, mode: str) -> None:
    tls = tls_of({"ssl_mode": mode, "ssl_ca": ca})
    account = Account(user="u", host="h", port=1, tls=tls)
    write_private(tmp_path / "client.cnf", account.option_file_text())
    assert account_from(read_option_file(tmp_path / "client.cnf")) == account


def test_the_connector_checks_what_the_mode_says(ca: str) -> None:
    assert connector_arguments(TlsOptions(ssl_mode="DISABLED")) == {"ssl_disabled": True}
    verified = connector_arguments(TlsOptions(ssl_mode="VERIFY_IDENTITY", ssl_ca=ca))
    assert verified == {"ssl_verify_cert": True, "ssl_verify_identity": True, "ssl_ca": ca}
    assert not connector_arguments(TlsOptions(ssl_mode="REQUIRED", ssl_ca=ca))["ssl_verify_cert"]


def test_each_build_of_sysbench_gets_the_options_that_it_has(ca: str) -> None:
    old, new = tls_of_help(HELP_1_0_20), tls_of_help(HELP_1_1)
    tls = TlsOptions(ssl_mode="VERIFY_IDENTITY", ssl_ca=ca)
    assert tls_options(tls, old) == {"mysql-ssl": "on"}
    assert tls_options(tls, new) == {"mysql-ssl": "VERIFY_IDENTITY", "mysql-ssl-ca": ca}
    assert tls_options(TlsOptions(), old) == tls_options(TlsOptions(), new) == {}
    assert "not with the host's name" in tls_notes(tls, old)[0]
    assert tls_notes(tls, new) == ("sysbench's connections use TLS",)


def test_sysbench_1_0_always_needs_a_ca(tmp_path: Path) -> None:
    with pytest.raises(MissingPrerequisite, match="only if it can check"):
        place_files(TlsOptions(ssl_mode="REQUIRED"), SysbenchTls(modes=False, named_files=False), tmp_path)


def test_a_ca_without_key_usage_is_accepted_as_mysqls_clients_accept_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13's default context is strict; the servers' own CAs would be refused."""
    strict = ssl.create_default_context()
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    monkeypatch.setattr(ssl, "create_default_context", lambda: strict)
    connection = Connection()
    transport = connection._get_connection()
    with socket.socket() as transport.sock:
        context = transport.build_ssl_context(ssl_verify_cert=True, ssl_verify_identity=True)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


def sections(account: Account) -> dict[str, list[str]]:
    """The lines of each section of an account's option file."""
    fields = re.split(r"^\[(.*)\]\n", account.option_file_text(), flags=re.MULTILINE)
    return {name: text.split() for name, text in zip(fields[1::2], fields[2::2], strict=True)}


@pytest.mark.parametrize(
    ("mode", "lines"),
    [
        ("", ["skip-ssl-verify-server-cert"]),
        ("DISABLED", ["skip-ssl"]),
        ("REQUIRED", ["ssl", "skip-ssl-verify-server-cert"]),
        ("VERIFY_CA", ["ssl"]),
        ("VERIFY_IDENTITY", ["ssl", "ssl-verify-server-cert"]),
    ],
)
def test_mariadbs_programs_check_no_more_and_no_less_than_the_mode_says(
    ca: str, mode: SslMode, lines: list[str]
) -> None:
    """Since 11.4 they require TLS and check the server's certificate by default."""
    tls = TlsOptions(ssl_mode=mode, ssl_ca=ca if mode.startswith("VERIFY") else "")
    assert sections(Account(user="u", host="h", tls=tls))["client-mariadb"] == lines
    assert sections(Account(user="u", socket="/s"))["client-mariadb"] == ["skip-ssl-verify-server-cert"]
