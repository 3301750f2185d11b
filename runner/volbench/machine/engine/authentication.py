"""Which servers are given a password, and by which plugins; whoever answers at an address may ask for anything.

With a challenge (mysql_native_password, the first step of caching_sha2_password) the server sees a hash of the
password and of its own number. Every other plugin hands it the password, or what is as good: over TCP that takes
TLS with a certificate that was verified, or the user's word. MySQL Connector/Python itself asks neither, and sends
the password of caching_sha2_password without TLS too. A loopback address is no exception: a tunnel or another user
may listen there.
"""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Any

import mysql.connector
import mysql.connector.plugins
from mysql.connector.authentication import MySQLAuthenticator
from mysql.connector.plugins.caching_sha2_password import MySQLCachingSHA2PasswordAuthPlugin

_CHALLENGE = "mysql_native_password"
_SHA2 = "caching_sha2_password"
_CHALLENGES = frozenset((_CHALLENGE, _SHA2))
_CLEAR = "mysql_clear_password"
_PLUGINS = frozenset(module.name for module in pkgutil.iter_modules(mysql.connector.plugins.__path__))
_PLUGIN_ERROR = 2061
"""CR_AUTH_PLUGIN_ERR."""
NO_PLUGINS = "/nonexistent"
"""Where MariaDB's client library then looks for plugins: it has mysql_native_password built in, and no other.

With its plugins it gives the password to any server that asks for it, without TLS too.
"""
_BINARY_BYTES_MAX = 256 << 20


class PasswordWithheldError(mysql.connector.InterfaceError):
    """The server asked for the password itself and was not given it: `plugin` is what it asked for."""

    def __init__(self, plugin: str, *, clear: bool = False) -> None:
        super().__init__(f"the server asked for {plugin}, which gives it the password itself", errno=_PLUGIN_ERROR)
        self.plugin = plugin
        self.clear = clear


class Authenticator(MySQLAuthenticator):
    """Authenticates by a challenge alone unless the server is trusted.

    Args:
        is_trusted: whether the server may have the password itself: it is at a Unix socket, or its certificate is
            to be verified, or the user trusts it.
        over_tcp: whether it takes TLS too.
        sends_clear: whether mysql_clear_password may be used with a trusted server.
    """

    def __init__(self, *, is_trusted: bool, over_tcp: bool, sends_clear: bool) -> None:
        super().__init__()
        self._is_trusted, self._over_tcp, self._sends_clear = is_trusted, over_tcp, sends_clear

    @property
    def _gives_password(self) -> bool:
        return self._is_trusted and (self.ssl_enabled or not self._over_tcp)

    def first_plugin(self, offered: str) -> str:
        """Return the plugin to begin with; the server may switch from it to the account's."""
        return offered if offered in _CHALLENGES else _CHALLENGE

    def check(self, plugin: str) -> None:
        """Raise PasswordWithheldError for a plugin that gives the password to this server."""
        if plugin in _CHALLENGES:
            return
        if plugin not in _PLUGINS:  # the connector would import a module of the name that the server gives
            raise mysql.connector.NotSupportedError(f"the authentication plugin {plugin[:80]!r} is not supported")
        if not self._gives_password or (plugin == _CLEAR and not self._sends_clear):
            raise PasswordWithheldError(plugin[:80], clear=self._gives_password)

    def _switch_auth_strategy(self, new_strategy_name: str, *args: Any, **options: Any) -> None:
        self.check(new_strategy_name)
        super()._switch_auth_strategy(new_strategy_name, *args, **options)
        self._refuse_full_authentication()

    def _handle_server_response(self, sock: Any, pkt: bytes) -> bytes | None:
        self._refuse_full_authentication()
        response: bytes | None = super()._handle_server_response(sock, pkt)
        return response

    def _refuse_full_authentication(self) -> None:
        """Let caching_sha2_password answer a challenge alone."""
        strategy = self._auth_strategy
        if self._gives_password or not isinstance(strategy, MySQLCachingSHA2PasswordAuthPlugin):
            return
        answer_challenge = strategy.auth_response

        def auth_response(auth_data: bytes, **options: Any) -> bytes | None:
            if len(auth_data) == 1 and auth_data[0] == strategy.perform_full_authentication:
                raise PasswordWithheldError(f"the full authentication of {_SHA2}")
            return answer_challenge(auth_data, **options)

        strategy.auth_response = auth_response  # type: ignore[method-assign]


def is_of_mysql(program: Path) -> bool:
    """Return whether a client program has MySQL's client library, which no option keeps from giving a password.

    MariaDB's finds its plugins as files. Raises OSError.
    """
    with program.open("rb") as file:
        content = file.read(_BINARY_BYTES_MAX)
    return b"libmariadb.so" not in content and (
        b"get-server-public-key" in content or b"libmysqlclient.so" in content
    )
