"""Requests to volbench's daemons: one line to a Unix socket, one line back."""

from __future__ import annotations

import os
import socket
from pathlib import Path

ANSWER_BYTES_MAX = 4 << 20


def exchange(path: Path, line: bytes, *, answer_s_max: float) -> bytes:
    """Send a line and return the answer's line, empty without an answer. Raise OSError."""
    # A socket's path is limited to 107 bytes; a descriptor of the directory avoids the limit.
    directory_fd = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(answer_s_max)
            stream.connect(f"/proc/self/fd/{directory_fd}/{path.name}")
            stream.sendall(line)
            with stream.makefile("rb") as reader:
                return reader.readline(ANSWER_BYTES_MAX)
    finally:
        os.close(directory_fd)
