"""A server that lets everybody in, and answers each query by asking the client for a file (LOCAL INFILE request).

Protocol: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_local_infile_request.html
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_CAPABILITIES = 0x0081_F7FF & ~0x0800  # no TLS; with LOCAL_FILES, PLUGIN_AUTH, PROTOCOL_41, SECURE_CONNECTION
_OK = b"\x00\x00\x00\x02\x00\x00\x00"
_COM_QUIT, _COM_QUERY = 1, 3


@dataclass
class Rogue:
    """What it got.

    Args:
        skipped: queries that it answers with OK first, since some clients begin with settings.
    """

    port: int
    wanted: Path
    skipped: int = 0
    queries: list[bytes] = field(default_factory=list)
    files: list[bytes] = field(default_factory=list)


@contextmanager
def file_asking_server(expected: Path, *, skipped: int = 0) -> Iterator[Rogue]:
    """Listen on a port of the loopback for the time of the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    rogue = Rogue(listener.getsockname()[1], expected, skipped)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=_serve, args=(connection, rogue), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield rogue
    finally:
        listener.close()


def _serve(connection: socket.socket, rogue: Rogue) -> None:
    with suppress(OSError, ConnectionError), connection, connection.makefile("rb") as stream:
        low, high = struct.pack("<H", _CAPABILITIES & 0xFFFF), struct.pack("<H", _CAPABILITIES >> 16 | 0x8)
        greeting = (
            b"\x0a8.0.36\x00"
            + struct.pack("<I", 7)
            + b"abcdefgh\x00"
            + low
            + b"\x21\x02\x00"
            + high
            + b"\x15"
            + bytes(10)
            + b"ijklmnopqrst\x00mysql_native_password\x00"
        )
        _send(connection, 0, greeting)
        _read(stream)
        _send(connection, 2, _OK)
        count = 0
        while True:
            _, packet = _read(stream)
            if packet[:1] == bytes([_COM_QUIT]):
                return
            if packet[:1] != bytes([_COM_QUERY]):
                _send(connection, 1, _OK)
                continue
            rogue.queries.append(packet[1:])
            count += 1
            if count <= rogue.skipped:
                _send(connection, 1, _OK)
                continue
            _send(connection, 1, b"\xfb" + str(rogue.wanted).encode())
            content = b""
            number, packet = _read(stream)
            while packet:
                content += packet
                number, packet = _read(stream)
            rogue.files.append(content)
            _send(connection, number + 1, _OK)


def _send(connection: socket.socket, number: int, payload: bytes) -> None:
    connection.sendall(struct.pack("<I", len(payload))[:3] + bytes([number & 255]) + payload)


def _read(stream: object) -> tuple[int, bytes]:
    header = stream.read(4)  # type: ignore[attr-defined]
    if len(header) < 4:
        raise ConnectionError
    return header[3], stream.read(struct.unpack("<I", header[:3] + b"\0")[0])  # type: ignore[attr-defined]
