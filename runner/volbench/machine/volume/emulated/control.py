"""The control socket of an emulated volume's daemon: one JSON line there, one back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from volbench.core.base.parse import parse_json
from volbench.errors import StepFailed
from volbench.machine.volume.line_socket import exchange

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


@contextmanager
def without_delays(control: Path) -> Iterator[None]:
    """Let the volume complete everything at once within the block.

    For clean-up between measurements, which would take as long as what is cleaned up took to write.
    Where the daemon does not answer, the block takes its time. Raises StepFailed when the volume does not go back
    to its model.
    """
    try:
        ask_socket(control, {"do": "hurry", "on": True})
        is_sure = True
    except StepFailed:  # it may come late and be obeyed all the same
        is_sure = False
    try:
        yield
    except BaseException:
        with suppress(StepFailed):  # the block's error matters more; the next cell resets the volume
            ask_socket(control, {"do": "hurry", "on": False})
        raise
    try:
        ask_socket(control, {"do": "hurry", "on": False})
    except StepFailed:
        if is_sure:
            raise


def keeps_no_state(control: Path) -> bool:
    """Return whether the model is the same after any load: it has no credits, and no blocks of a snapshot to fetch.

    False where the daemon does not answer.
    """
    try:
        parameters = ask_socket(control, {"do": "parameters"})["parameters"]
    except StepFailed:
        return False
    return not parameters.get("first_touch") and not any(limit.get("credits") for limit in parameters["limits"])


def reset(control: Path, *, credits_share: float | None) -> None:
    """Let the volume follow its model, with that share of its credits where given: all cells start alike.

    An agent that was killed during its clean-up may have left it without delays. Raises StepFailed where there are
    credits to set; an agent that does not reach the socket could not have left the volume without delays either.
    """
    try:
        ask_socket(control, {"do": "hurry", "on": False})
    except StepFailed:
        if credits_share is not None:
            raise
    if credits_share is not None:
        ask_socket(control, {"do": "fault", "fault": {"kind": "credits", "fill": credits_share}})


def phase(directory: Path) -> str | None:
    """Return the daemon's phase, such as `ready`; None while it does not answer."""
    try:
        answer = exchange(directory / CONTROL_SOCKET, b'{"do": "state"}\n', answer_s_max=ANSWER_S_MAX)
        return str(parse_json(answer)["state"]["phase"])
    except (OSError, ValueError, KeyError):
        return None
