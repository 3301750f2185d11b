"""TLS of a connection: from option files, for the connector, for client programs, and its failures explained."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, get_args

import mysql.connector
from mysql.connector.connection import MySQLConnection
from mysql.connector.constants import ClientFlag
from mysql.connector.network import MySQLSocket
from pydantic import ValidationError

from volbench.core.base import safe_files
from volbench.core.records.tls import TLS_KEYS, VERIFYING, SslMode, TlsOptions
from volbench.errors import UsageError
from volbench.machine.engine.authentication import Authenticator, PasswordWithheldError
from volbench.machine.engine.bounded import CONNECT_BYTES, CONNECT_S, BoundedBroker, of_the_protocol

_NAME_CODES = (62, 63, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_MISMATCH, _IP_ADDRESS_MISMATCH (openssl/x509_vfy.h)."""
_TIME_CODES = (9, 10)
"""X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED."""
_ISSUER_CODES = (2, 18, 19, 20, 21)
"""X509_V_ERR_: no issuer, a self-signed certificate, one in the chain, no local issuer, an unverified leaf."""
_INSECURE_TRANSPORT = 3159
"""ER_SECURE_TRANSPORT_REQUIRED."""
_TLS_LACKING = 2026
"""CR_SSL_CONNECTION_ERROR."""


class Connection(MySQLConnection):
    """A connection that sends the server no file, and no credentials without TLS where TLS is required.

    The connector itself continues without TLS when the server offers none and no certificate is checked.

    Certificates are checked as MySQL's own clients do it, by OpenSSL's defaults. Python 3.13 adds
    VERIFY_X509_STRICT, which refuses a CA without the extension keyUsage. Such are the CAs that MySQL and MariaDB
    make by themselves, and those of `openssl req -x509`.
    """

    requires_tls = False
    fault: mysql.connector.Error | None = None
    """Why the connection was closed before its time."""
    _broker: BoundedBroker | None = None
    _answer_bounds: tuple[float, int | None] = (CONNECT_S, CONNECT_BYTES)

    @classmethod
    def opened(cls, authenticator: Authenticator, **options: Any) -> Self:
        """Return a connection that authenticates so. Raises mysql.connector.Error."""
        connection = cls()
        connection._authenticator = authenticator
        try:
            connection.connect(**options)
        except BaseException:
            connection.close()
            raise
        return connection

    def config(self, **kwargs: Any) -> None:
        """Take the arguments of `connect`. Send no file: by default, a server gets any that it asks for."""
        super().config(**{**kwargs, "allow_local_infile": False})

    def bound_answers(self, *, seconds: float, bytes_max: int | None) -> None:
        """Bound each answer from now on."""
        self._answer_bounds = (seconds, bytes_max)

    def cursor(self, *arguments: Any, **options: Any) -> Any:
        """Return a cursor. Raises mysql.connector.Error, also the one that has closed the connection."""
        if self.fault is not None:
            raise mysql.connector.InterfaceError(self.fault.msg, errno=self.fault.errno)
        return super().cursor(*arguments, **options)

    @of_the_protocol
    def _open_connection(self) -> None:
        super()._open_connection()

    @of_the_protocol
    def cmd_query(self, *arguments: Any, **options: Any) -> Any:
        """Send a statement, and read the head of its answer."""
        if self._broker is not None:
            self._broker.begin(*self._answer_bounds)
        return super().cmd_query(*arguments, **options)

    @of_the_protocol
    def cmd_statistics(self) -> Any:
        """Ask for the server's few counters that take no statement."""
        if self._broker is not None:
            self._broker.begin(*self._answer_bounds)
        return super().cmd_statistics()

    @of_the_protocol
    def get_rows(self, *arguments: Any, **options: Any) -> Any:
        """Read rows of an answer."""
        return super().get_rows(*arguments, **options)

    def _get_connection(self) -> MySQLSocket:
        transport = super()._get_connection()
        self._broker = transport._netbroker = BoundedBroker()
        build = transport.build_ssl_context

        def build_as_clients_do(**options: Any) -> ssl.SSLContext:
            context: ssl.SSLContext = build(**options)
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            return context

        transport.build_ssl_context = build_as_clients_do  # type: ignore[assignment,method-assign]
        return transport

    def _do_handshake(self) -> None:
        super()._do_handshake()
        if isinstance(self._authenticator, Authenticator) and self._handshake is not None:
            self._auth_plugin = self._authenticator.first_plugin(str(self._handshake.get("auth_plugin")))
        if self.requires_tls and not self._client_flags & ClientFlag.SSL:
            raise mysql.connector.InterfaceError("the server offers no TLS", errno=_TLS_LACKING)

    def handle_unread_result(self) -> None:
        """Raise InternalError for an unread result, unless an exception ends the block of its cursor.

        The connector's cursor would replace that exception, such as KeyboardInterrupt, by its own. The connection
        ends with it: nobody reads the rest of the result.
        """
        if self.unread_result and sys.exc_info()[0] is not None:
            self.unread_result = False
            self.shutdown()
        super().handle_unread_result()


class TlsConnection(Connection):
    """A connection with TLS or none."""

    requires_tls = True


def tls_of(options: Mapping[str, str], *, over: TlsOptions | None = None, where: str = "option file") -> TlsOptions:
    """Return the TLS options of a [client] section (`read_option_file`); those of `over`, if given, win.

    MariaDB's own spelling counts too: ssl, skip_ssl, ssl_verify_server_cert. Raises UsageError.
    """
    plain = {name.removeprefix("loose_"): value for name, value in options.items()}
    values = {name: plain.get(name, "") for name in TLS_KEYS}
    if not values["ssl_mode"]:
        values["ssl_mode"] = _mariadb_mode(plain)
    values |= {name: value for name in TLS_KEYS if over is not None and (value := getattr(over, name))}
    return _checked(values, where)


def _checked(values: Mapping[str, str], where: str) -> TlsOptions:
    """Return TLS options with absolute paths. Raise UsageError for a wrong mode, or a file that cannot be read."""
    paths = {name: str(Path(values[name]).absolute()) for name in TLS_KEYS[1:] if values[name]}
    try:
        tls = TlsOptions.model_validate({"ssl_mode": values["ssl_mode"], **paths})
    except ValidationError as error:
        raise UsageError(
            f"there is no ssl-mode {values['ssl_mode']!r}",
            where=where,
            next_step=f"the modes are {', '.join(filter(None, get_args(SslMode)))}",
        ) from error
    if tls.mode in VERIFYING and not tls.ssl_ca:
        raise UsageError(
            f"ssl-mode {tls.mode} needs ssl-ca",
            where=where,
            next_step="name the file with the CA's certificates in ssl-ca",
        )
    if bool(tls.ssl_cert) != bool(tls.ssl_key):
        raise UsageError("ssl-cert and ssl-key belong together", where=where, next_step="give both or neither")
    for name, path in paths.items():
        try:
            with safe_files.open_given(Path(path)) as file:
                file.read(1)
        except OSError as error:
            option = name.replace("_", "-")
            raise UsageError(f"the file of {option} cannot be read", where=where, evidence=str(error)) from error
    return tls


def connector_arguments(tls: TlsOptions) -> dict[str, Any]:
    """Return the arguments of a TCP connection for MySQL Connector/Python."""
    if tls.mode == "DISABLED":
        return {"ssl_disabled": True}
    arguments: dict[str, Any] = {
        "ssl_verify_cert": tls.mode in VERIFYING,
        "ssl_verify_identity": tls.mode == "VERIFY_IDENTITY",
    }
    if tls.ssl_ca:
        arguments["ssl_ca"] = tls.ssl_ca
    if tls.ssl_cert:
        arguments |= {"ssl_cert": tls.ssl_cert, "ssl_key": tls.ssl_key}
    return arguments


def client_options(tls: TlsOptions) -> dict[str, str]:
    """Return options of a [client] section; MariaDB's programs only warn about a name with `loose`."""
    files = {name.replace("_", "-"): getattr(tls, name) for name in TLS_KEYS[1:] if getattr(tls, name)}
    return {**({"loose-ssl-mode": tls.mode} if tls.ssl_mode or files else {}), **files}


def mariadb_client_options(tls: TlsOptions) -> dict[str, str]:
    """Return options of a [client-mariadb] section, which MySQL's programs do not read.

    Since 11.4 MariaDB's programs require TLS and check the certificate unless they are told otherwise, also at a
    socket (MariaDB's documentation of --ssl-verify-server-cert).
    """
    if tls.mode == "DISABLED":
        return {"skip-ssl": ""}
    encrypted = {"ssl": ""} if tls.encrypts else {}
    if tls.mode in VERIFYING:
        return encrypted | ({"ssl-verify-server-cert": ""} if tls.mode == "VERIFY_IDENTITY" else {})
    return encrypted | {"skip-ssl-verify-server-cert": ""}


def tls_failure(error: mysql.connector.Error, tls: TlsOptions, *, address: str, where: str) -> UsageError | None:
    """Return what is wrong with the TLS of a connection that failed, or that it gives no password; else None."""
    withheld = next((link for link in _causes(error) if isinstance(link, PasswordWithheldError)), None)
    if withheld is not None:
        return _withheld(withheld, tls, address=address, where=where)
    cause = next((link for link in _causes(error) if isinstance(link, ssl.SSLError)), None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return UsageError(
            _certificate_fault(cause, tls),
            where=where,
            evidence=f"{address}: {cause.verify_message}",
            next_step="name the CA that signed the server's certificate in ssl-ca, and the host as it is in that "
            "certificate; nothing was sent to the server",
        )
    if cause is not None or error.errno == _TLS_LACKING:
        return UsageError(
            "no TLS connection to the server is possible",
            where=where,
            evidence=f"{address}: {cause.reason if cause is not None and cause.reason else error.msg}",
            next_step=f"check ssl-cert and ssl-key, and that the server has TLS; ssl-mode is {tls.mode}",
        )
    if error.errno == _INSECURE_TRANSPORT:
        return UsageError(
            "the server requires TLS",
            where=where,
            evidence=f"{address}: {error.msg}",
            next_step="set ssl-mode to REQUIRED or VERIFY_IDENTITY",
        )
    return None


def password_withheld(*, evidence: str, where: str) -> UsageError:
    """Return the refusal to give a password to a server that nobody vouches for."""
    return UsageError(
        "the server could be anybody, and would be given the password itself",
        where=where,
        evidence=evidence,
        next_step="name the CA that signed the server's certificate (ssl-mode=VERIFY_IDENTITY, ssl-ca), or use the "
        "server's Unix socket; password-unverified=yes gives the password to whoever answers there",
    )


def _withheld(error: PasswordWithheldError, tls: TlsOptions, *, address: str, where: str) -> UsageError:
    if error.clear:
        return UsageError(
            "the server asks for the password in clear",
            where=where,
            evidence=f"{address}: {error.msg}",
            next_step="if its account needs that (PAM, LDAP), put enable-cleartext-plugin into the option file",
        )
    return password_withheld(evidence=f"{address}: {error.msg}; ssl-mode is {tls.mode}", where=where)


def _certificate_fault(cause: ssl.SSLCertVerificationError, tls: TlsOptions) -> str:
    if cause.verify_code in _NAME_CODES:
        return "the server's certificate is for another host"
    if cause.verify_code in _TIME_CODES:
        return "the server's certificate is not valid now"
    if cause.verify_code in _ISSUER_CODES:
        return f"the server's certificate is not signed by the CA in {tls.ssl_ca}"
    return "the server's certificate, or that of its CA, is refused"


def _mariadb_mode(options: Mapping[str, str]) -> str:
    if is_on(options, "ssl_verify_server_cert"):
        return "VERIFY_IDENTITY"
    if is_on(options, "skip_ssl") or options.get("ssl", "").lower() in {"0", "off", "false"}:
        return "DISABLED"
    return "REQUIRED" if is_on(options, "ssl") and not options.get("ssl_ca") else ""


def is_on(options: Mapping[str, str], name: str) -> bool:
    """Return whether an option of a [client] section is set, as client programs understand it."""
    return name in options and options[name].lower() not in {"0", "off", "false"}


def _causes(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__
