"""How a volume was made slower and faster on purpose while a step ran, as the step's details keep it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from volbench.core.records.base import Record

DETAIL = "modulation"
"""Key of a step's details."""
SignalKind = Literal["read", "write"]
"""Reads, and writes with flushes."""


class Slot(Record):
    """A stretch of time in which the volume was in one state."""

    t0_s: float = Field(description="Since the cell's zero: when the change was in force.")
    t1_s: float = Field(description="When the next change was asked for.")
    slow: tuple[SignalKind, ...] = Field(description="What was slow; empty: nothing.")


class Modulation(Record):
    """The slots of one step, in order. `factor` is by how much latencies of what was slow were longer."""

    means: str = Field(description="What changed the volume: emulator.")
    factor: float
    slots: tuple[Slot, ...]


def modulation_of(details: Mapping[str, Any]) -> Modulation | None:
    """Return the modulation of a step's details; None where it had none, or what is there is none."""
    try:
        modulation = Modulation.model_validate(details[DETAIL])
    except (KeyError, ValidationError):
        return None
    return modulation if modulation.slots else None
