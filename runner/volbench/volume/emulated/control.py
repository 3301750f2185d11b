"""The control socket of an emulated volume's daemon: one JSON line there, one back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from volbench.errors import StepFailed
from volbench.records.parse import parse_json
from volbench.volume.line_socket import exchange

CONTROL_SOCKET = "control.sock"
ANSWER_S_MAX = 10.0


def ask(directory: Path, request: Mapping[str, object]) -> dict[str, Any]:
    """Send one request to the daemon of a volume's directory and return its answer. Raise as ask_socket does."""
    return ask_socket(directory / CONTROL_SOCKET, request)


def ask_socket(control: Path, request: Mapping[str, object]) -> dict[str, Any]:
    """Send one request to a daemon's control socket, which may also be mounted outside the volume's directory.

    Raises StepFailed if the daemon refuses, does not answer in time, or does not run.
    """
    try:
        answer = parse_json(exchange(control, json.dumps(request).encode() + b"\n", answer_s_max=ANSWER_S_MAX))
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
    """Return the daemon's phase, such as `ready`; None while it does not answer."""
    try:
        answer = exchange(directory / CONTROL_SOCKET, b'{"do": "state"}\n', answer_s_max=ANSWER_S_MAX)
        return str(parse_json(answer)["state"]["phase"])
    except (OSError, ValueError, KeyError):
        return None
