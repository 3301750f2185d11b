"""The control socket of an emulated volume's daemon: one JSON line there, one back."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from volbench.errors import StepFailed

CONTROL_SOCKET = "control.sock"
ANSWER_S_MAX = 10.0
_ANSWER_BYTES_MAX = 4 << 20


def ask(directory: Path, request: Mapping[str, object]) -> dict[str, Any]:
    """Send one request to the daemon of a volume's directory and return its answer. Raises as ask_socket does."""
    return ask_socket(directory / CONTROL_SOCKET, request)


def ask_socket(control: Path, request: Mapping[str, object]) -> dict[str, Any]:
    """Send one request to a daemon's control socket, which may be seen elsewhere than in the volume's directory.

    Raises StepFailed when it refuses, does not answer in time, or is not there.
    """
    try:
        answer = json.loads(_exchange(control, json.dumps(request).encode() + b"\n"))
    except (OSError, ValueError) as error:
        raise StepFailed(
            "the emulated volume's daemon does not answer",
            where=str(control.parent),
            evidence=f"{type(error).__name__}: {error}",
            next_step=f"see {control.parent / 'daemon.log'}",
        ) from error
    if not answer.get("ok"):
        raise StepFailed(
            f"the emulated volume refuses {request.get('do')}",
            where=str(control.parent),
            evidence=str(answer.get("error")),
        )
    return dict(answer)


def phase(directory: Path) -> str | None:
    """The daemon's phase, such as `ready`; None while it does not answer."""
    try:
        return str(json.loads(_exchange(directory / CONTROL_SOCKET, b'{"do": "state"}\n'))["state"]["phase"])
    except (OSError, ValueError, KeyError):
        return None


def _exchange(control: Path, line: bytes) -> bytes:
    """One line to the control socket, one line back."""
    # A socket's path may have 107 bytes; by way of a descriptor the directory's may be longer.
    place = os.open(control.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(ANSWER_S_MAX)
            stream.connect(f"/proc/self/fd/{place}/{control.name}")
            stream.sendall(line)
            with stream.makefile("rb") as reader:
                return reader.readline(_ANSWER_BYTES_MAX)
    finally:
        os.close(place)
