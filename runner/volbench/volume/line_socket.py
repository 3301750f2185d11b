"""One line to a Unix socket, one line back: how daemons of ours are asked."""

from __future__ import annotations

import os
import socket
from pathlib import Path

ANSWER_BYTES_MAX = 4 << 20


def exchange(path: Path, line: bytes, *, answer_s_max: float) -> bytes:
    """Send a line, return the answer's; empty when there was none. Raises OSError."""
    # A socket's path may have 107 bytes; by way of a descriptor the directory's may be longer.
    place = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(answer_s_max)
            stream.connect(f"/proc/self/fd/{place}/{path.name}")
            stream.sendall(line)
            with stream.makefile("rb") as reader:
                return reader.readline(ANSWER_BYTES_MAX)
    finally:
        os.close(place)
