"""Faults as command-line options, and as requests to the emulator's daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from volbench.core.base.nearest import suggestion
from volbench.core.records.base import parse_duration_s, parse_fraction, parse_size_bytes
from volbench.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class _Option:
    """A fault's option: the field of the daemon's request, and the parser of its text."""

    field: str
    parse: Callable[[str], Any]


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A fault: the daemon's kind, its options, and the required ones."""

    daemon_kind: str
    options: Mapping[str, _Option] = field(default_factory=dict)
    required: tuple[str, ...] = ()


def _list_of_names(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


_FILL = _Option(field="fill", parse=parse_fraction)
FAULTS: Mapping[str, _Kind] = {
    "stall": _Kind(
        daemon_kind="stall",
        options={"--for": _Option(field="seconds", parse=parse_duration_s)},
        required=("--for",),
    ),
    "error": _Kind(
        daemon_kind="error",
        options={"--every": _Option(field="every", parse=int), "--ops": _Option(field="ops", parse=_list_of_names)},
        required=("--every",),
    ),
    "detach": _Kind(daemon_kind="detach"),
    "attach": _Kind(daemon_kind="attach"),
    "power-cut": _Kind(
        daemon_kind="power_cut", options={"--keep": _Option(field="keep_share", parse=parse_fraction)}
    ),
    "power-on": _Kind(daemon_kind="power_on"),
    "slow": _Kind(
        daemon_kind="slow_down",
        options={
            "--factor": _Option(field="factor", parse=float),
            "--ramp": _Option(field="ramp_s", parse=parse_duration_s),
        },
        required=("--factor",),
    ),
    "neighbour": _Kind(
        daemon_kind="noisy_neighbour",
        options={
            "--iops": _Option(field="iops", parse=float),
            "--rate": _Option(field="bytes_per_s", parse=parse_size_bytes),
            "--scope": _Option(field="scope", parse=str),
            "--factor": _Option(field="latency_factor", parse=float),
        },
    ),
    "first-touch": _Kind(daemon_kind="first_touch"),
    "credits": _Kind(daemon_kind="credits", options={"--fill": _FILL}, required=("--fill",)),
    "clear": _Kind(daemon_kind="clear"),
}
"""By the name on the command line."""


def parse_fault(kind: str, option_texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the daemon's request for a fault.

    Args:
        kind: one of FAULTS.
        option_texts: option, such as `--for`, to its text.

    Raises UsageError for an unknown kind, and for an option that is unknown, missing or cannot be parsed.
    """
    fault = FAULTS.get(kind)
    if fault is None:
        raise UsageError(f"there is no fault {kind!r}", where="volume fault", next_step=suggestion(kind, FAULTS))
    options = ", ".join(fault.options) or "no options"
    for option in option_texts:
        if option not in fault.options:
            raise UsageError(f"{kind} has no {option}", where="volume fault", next_step=f"it has {options}")
    for option in fault.required:
        if option not in option_texts:
            raise UsageError(f"{kind} needs {option}", where="volume fault", next_step=f"it has {options}")
    request: dict[str, Any] = {"kind": fault.daemon_kind}
    for option, text in option_texts.items():
        try:
            request[fault.options[option].field] = fault.options[option].parse(text)
        except ValueError as error:
            raise UsageError(f"{option} {text}: {error}", where=f"volume fault {kind}") from error
    return request
