"""Bounds on what a server may send: seconds and bytes of one answer, and nothing that the protocol does not have.

MySQL Connector/Python bounds the wait for each part of a packet, so that a server which sends a byte now and then,
or rows without an end, is listened to for ever; and what it cannot parse leaves it as whatever error that makes.
"""

from __future__ import annotations

import functools
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import mysql.connector
from mysql.connector.errors import ReadTimeoutError
from mysql.connector.network import NetworkBrokerPlain

CONNECT_S = 30.0
"""For the whole of a handshake, whose single waits are shorter."""
CONNECT_BYTES = 1 << 20
ANSWER_BYTES = 64 << 20
"""Of one answer to a statement of ours: the largest are tables of digests and catalogs of 100,000 columns."""
_MALFORMED = 2027
"""CR_MALFORMED_PACKET."""
_TOO_LARGE = 2020
"""CR_NET_PACKET_TOO_LARGE."""
_NOT_OF_THE_PROTOCOL = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
    struct.error,
)

_Result = TypeVar("_Result")


class BoundedBroker(NetworkBrokerPlain):
    """Reads packets as the connector does, until an answer takes too long or has too many bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.begin(CONNECT_S, CONNECT_BYTES)

    def begin(self, seconds: float, bytes_max: int | None) -> None:
        """Begin to count anew, for the next answer. `bytes_max` None: any number."""
        self._ends_s = time.monotonic() + seconds
        self._bytes_max = self._bytes_left = bytes_max

    def _recv_chunk(self, sock: socket.socket, size: int = 0) -> bytearray:
        if self._bytes_left is not None and self._bytes_max is not None:
            self._bytes_left -= size
            if self._bytes_left < 0:
                raise mysql.connector.InterfaceError(
                    f"the server's answer is larger than {self._bytes_max >> 20} MiB", errno=_TOO_LARGE
                )
        packet = bytearray(size)
        view = memoryview(packet)
        while view:
            left_s = self._ends_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            timeout_s = sock.gettimeout()
            if timeout_s is None or timeout_s > left_s:
                sock.settimeout(left_s)
            received = sock.recv_into(view, len(view))
            if not received:
                raise mysql.connector.InterfaceError(errno=2013)
            view = view[received:]
        return packet


def of_the_protocol(method: Callable[..., _Result]) -> Callable[..., _Result]:
    """Wrap a method of a connection: raise InterfaceError for an answer that cannot be parsed.

    The connection is closed then, and after an answer that was too long: the rest of it may still come.
    """

    @functools.wraps(method)
    def wrapped(connection: Any, *arguments: Any, **options: Any) -> _Result:
        try:
            return method(connection, *arguments, **options)
        except mysql.connector.Error as error:
            if error.errno == _TOO_LARGE or isinstance(error, ReadTimeoutError):
                _close(connection, error)
            raise
        except _NOT_OF_THE_PROTOCOL as error:
            fault = mysql.connector.InterfaceError(
                f"the server's answer is not of MySQL's protocol ({type(error).__name__})", errno=_MALFORMED
            )
            _close(connection, fault)
            raise fault from error

    return wrapped


def _close(connection: Any, fault: mysql.connector.Error) -> None:
    connection.fault = fault  # what is asked later fails for the same reason
    with suppress(mysql.connector.Error, OSError, AttributeError):
        connection.unread_result = False
        connection.shutdown()
