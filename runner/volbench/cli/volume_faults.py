"""Troubles as they are typed, and as the emulator's daemon is told them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from volbench.errors import UsageError
from volbench.records.base import parse_duration_s, parse_fraction, parse_size_bytes


@dataclass(frozen=True, kw_only=True)
class _Option:
    """A fault's option: the daemon's word for it, and how its text becomes a value."""

    field: str
    parse: Callable[[str], Any]


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A fault: the daemon's word, its options, and those that it cannot do without."""

    word: str
    options: Mapping[str, _Option] = field(default_factory=dict)
    needed: tuple[str, ...] = ()


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


_FILL = _Option(field="fill", parse=parse_fraction)
FAULTS: Mapping[str, _Kind] = {
    "stall": _Kind(
        word="stall", options={"--for": _Option(field="seconds", parse=parse_duration_s)}, needed=("--for",)
    ),
    "error": _Kind(
        word="error",
        options={"--every": _Option(field="every", parse=int), "--ops": _Option(field="ops", parse=_words)},
        needed=("--every",),
    ),
    "detach": _Kind(word="detach"),
    "attach": _Kind(word="attach"),
    "power-cut": _Kind(word="power_cut", options={"--keep": _Option(field="keep_share", parse=parse_fraction)}),
    "power-on": _Kind(word="power_on"),
    "slow": _Kind(
        word="slow_down",
        options={
            "--factor": _Option(field="factor", parse=float),
            "--ramp": _Option(field="ramp_s", parse=parse_duration_s),
        },
        needed=("--factor",),
    ),
    "neighbour": _Kind(
        word="noisy_neighbour",
        options={
            "--iops": _Option(field="iops", parse=float),
            "--rate": _Option(field="bytes_per_s", parse=parse_size_bytes),
            "--scope": _Option(field="scope", parse=str),
            "--factor": _Option(field="latency_factor", parse=float),
        },
    ),
    "first-touch": _Kind(word="first_touch"),
    "credits": _Kind(word="credits", options={"--fill": _FILL}, needed=("--fill",)),
    "clear": _Kind(word="clear"),
}
"""By what is typed."""


def parse_fault(kind: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The daemon's request for a fault.

    Args:
        kind: one of FAULTS.
        given: option, such as `--for`, to its text.

    Raises UsageError for an unknown kind, an option that the kind does not have, lacks, or cannot read.
    """
    fault = FAULTS.get(kind)
    if fault is None:
        nearest = difflib.get_close_matches(kind, FAULTS, n=1)
        hint = f"perhaps you meant {nearest[0]}" if nearest else f"there are {', '.join(FAULTS)}"
        raise UsageError(f"there is no fault {kind!r}", where="volume fault", next_step=hint)
    wanted = ", ".join(fault.options) or "no options"
    for option in given:
        if option not in fault.options:
            raise UsageError(f"{kind} has no {option}", where="volume fault", next_step=f"it has {wanted}")
    for option in fault.needed:
        if option not in given:
            raise UsageError(f"{kind} needs {option}", where="volume fault", next_step=f"it has {wanted}")
    request: dict[str, Any] = {"kind": fault.word}
    for option, text in given.items():
        try:
            request[fault.options[option].field] = fault.options[option].parse(text)
        except ValueError as error:
            raise UsageError(f"{option} {text}: {error}", where=f"volume fault {kind}") from error
    return request
