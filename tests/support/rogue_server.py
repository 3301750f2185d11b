"""A server of MySQL's protocol that does what a stranger would: asks for the password itself, answers anything.

Protocol: https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_NONCE = b"0123456789abcdefghij"
_SSL, _PLUGIN_AUTH = 1 << 11, 1 << 19
_CAPABILITIES = (
    1 | 2 | 8 | (1 << 9) | (1 << 13) | (1 << 15) | (1 << 16) | (1 << 17) | _PLUGIN_AUTH | (1 << 20) | (1 << 21)
)
_OK = b"\x00\x00\x00\x02\x00\x00\x00"
_TEXT_TYPE = 0xFD
_QUERY, _QUIT, _INIT_DB, _PING = 3, 1, 2, 14
FULL_AUTHENTICATION = b"\x01\x04"

Row = Sequence[str | bytes | None]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A result set. `rows` may be endless; `columns` are names."""

    columns: Sequence[str] = ("value",)
    rows: Iterable[Row] = ()
    ends: bool = True


@dataclass(kw_only=True)
class RogueServer:
    """Listens on the loopback address; `received` are the bytes of all clients as they were before encryption.

    Args:
        plugin: authentication plugin that the server asks for after the client's first packet; "" for none.
        full: whether it asks caching_sha2_password for the password itself.
        refusal: the packet that ends the login.
        certificate: for TLS; None offers none.
        answer: what a query gets; bytes are sent as they are and end the connection; None leaves it waiting.
    """

    plugin: str = ""
    first_plugin: str = "mysql_native_password"
    full: bool = False
    refusal: bytes = b""
    certificate: Path | None = None
    host: str = "127.0.0.1"
    version: str = "8.0.36"
    answer: Callable[[str], Answer | bytes | None] = lambda _: Answer()
    received: bytearray = field(default_factory=bytearray)
    connections: int = 0
    queries: list[str] = field(default_factory=list)
    port: int = 0

    @contextlib.contextmanager
    def serving(self) -> Iterator[RogueServer]:
        """Serve during the block."""
        with socket.create_server((self.host, 0)) as listening:
            self.port = listening.getsockname()[1]
            threading.Thread(target=self._accept, args=(listening,), daemon=True).start()
            try:
                yield self
            finally:
                with contextlib.suppress(OSError):
                    listening.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            contextlib.suppress(OSError, ssl.SSLError, EOFError),
            contextlib.closing(_Session(self, client)) as session,
        ):
            session.authenticate()
            session.answer_queries()


class _Session:
    """One connection."""

    def __init__(self, server: RogueServer, client: socket.socket) -> None:
        self._server, self._client, self._number = server, client, 0
        client.settimeout(60)

    def close(self) -> None:
        self._client.close()

    def authenticate(self) -> None:
        server = self._server
        capabilities = _CAPABILITIES | (_SSL if server.certificate else 0)
        self._send(
            b"\x0a"
            + server.version.encode()
            + b"\0"
            + struct.pack("<I", 7)
            + _NONCE[:8]
            + b"\0"
            + struct.pack("<HBHHB", capabilities & 0xFFFF, 45, 2, capabilities >> 16, 21)
            + b"\0" * 10
            + _NONCE[8:]
            + b"\0"
            + server.first_plugin.encode()
            + b"\0"
        )
        first = self._receive()
        if server.certificate and len(first) == 32:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(server.certificate)
            self._client = context.wrap_socket(self._client, server_side=True)
            first = self._receive()
        if server.plugin:
            self._send(b"\xfe" + server.plugin.encode() + b"\0" + _NONCE + b"\0")
            self._receive()
        if server.full:
            self._send(FULL_AUTHENTICATION)
            self._receive()
        self._send(server.refusal or _OK)

    def answer_queries(self) -> None:
        while True:
            self._number = 0
            packet = self._receive()
            if not packet or packet[0] == _QUIT:
                return
            if packet[0] != _QUERY:
                self._send(_OK)
                continue
            sql = packet[1:].decode(errors="replace")
            self._server.queries.append(sql)
            if sql.upper().startswith(("SET ", "USE ", "START ", "ROLLBACK", "COMMIT")):
                self._send(_OK)
                continue
            answer = self._server.answer(sql)
            if answer is None:
                threading.Event().wait(60)
                return
            if isinstance(answer, bytes):
                self._client.sendall(answer)
                return
            self._send_result(answer)

    def _send_result(self, answer: Answer) -> None:
        self._send(_length(len(answer.columns)))
        for name in answer.columns:
            self._send(
                b"".join(map(_text, ("def", "", "", "", name, name)))
                + b"\x0c"
                + struct.pack("<HIBHB", 45, 1 << 20, _TEXT_TYPE, 0, 0)
                + b"\0\0"
            )
        self._send(b"\xfe\0\0\x02\0")
        for row in answer.rows:
            self._send(b"".join(b"\xfb" if value is None else _text(value) for value in row))
        if answer.ends:
            self._send(b"\xfe\0\0\x02\0")

    def _send(self, payload: bytes) -> None:
        while True:
            section, payload = payload[: (1 << 24) - 1], payload[(1 << 24) - 1 :]
            self._client.sendall(struct.pack("<I", len(section))[:3] + bytes([self._number % 256]) + section)
            self._number += 1
            if len(section) < (1 << 24) - 1:
                return

    def _receive(self) -> bytes:
        head = self._exactly(4)
        self._number = head[3] + 1
        payload = self._exactly(int.from_bytes(head[:3], "little"))
        self._server.received += payload
        return payload

    def _exactly(self, count: int) -> bytes:
        result = b""
        while len(result) < count:
            piece = self._client.recv(count - len(result))
            if not piece:
                raise EOFError
            result += piece
        return result


def _length(number: int) -> bytes:
    if number < 251:
        return bytes([number])
    return b"\xfc" + struct.pack("<H", number) if number < 1 << 16 else b"\xfd" + struct.pack("<I", number)[:3]


def _text(value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return _length(len(content)) + content


def any_certificate(directory: Path, name: str = "anybody") -> Path:
    """A certificate that nobody signed, with its key, in one file."""
    path = directory / f"{name}.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            str(path),
            "-out",
            f"{path}.crt",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path
