"""What every step has, its estimated cost, and the types that several kinds use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from volbench.core.records.base import Bytes, Record, Scalar

ASSUMED_READ_MIB_PER_S = 100.0
ASSUMED_WRITE_MIB_PER_S = 100.0
SERVER_RESTART_S = 10.0
"""Stopping and starting the server."""


_SHAPES_NOTHING = {"kind", "name", "timeout_s", "start_after_s", "stop_after_s", "window_s", "size_contrast_s"}
"""Fields that change no figure of a step, and are not among its parameters."""


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """An estimate of one step in one cell.

    Args:
        measured_s: inside the step's window.
        unmeasured_s: warm-up and preparation.
        kept_bytes: written to the volume and kept until the end of the cell.
        binlog_bytes: as these, of a binary log that the suite may switch off.
    """

    measured_s: float
    unmeasured_s: float = 0.0
    kept_bytes: int = 0
    binlog_bytes: int = 0


class StepBase(Record):
    """What every step has: a name, unique within its suite, that reports and comparisons use."""

    if TYPE_CHECKING:
        kind: str

    name: str = Field(default="", description="Unique name of the step; the kind and its number if left out.")

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate for a dataset of that size on disk."""
        raise NotImplementedError

    def cost_at(self, data_bytes: int, speeds: Mapping[str, float]) -> StepCost:  # noqa: ARG002 - see subclasses
        """Return the estimate with a forecast's figures of the kind's `speed`, by the suffix of their row."""
        return self.cost(data_bytes)

    def temporary_bytes(self) -> int:
        """Return the step's largest temporary use of the volume in bytes, without the data and dumps."""
        return 0

    def parameters(self) -> dict[str, Scalar]:
        """Return the parameters as shown in results: what tells two rows of one step apart, and what shapes it."""
        values = self.model_dump(exclude=_SHAPES_NOTHING)
        lists = {
            name: ",".join(map(str, value)) for name, value in values.items() if isinstance(value, tuple) and value
        }
        return {name: value for name, value in (values | lists).items() if isinstance(value, Scalar)}


def as_tuple(value: Any) -> Any:
    """Return a single value as a tuple of one."""
    return (value,) if isinstance(value, int | float | str) else value


_ONE_COUNT = {"type": "integer", "minimum": 1, "maximum": 4096}
Threads = Annotated[
    tuple[Annotated[int, Field(ge=1, le=4096)], ...],
    Field(min_length=1),
    BeforeValidator(as_tuple),
    WithJsonSchema({"anyOf": [_ONE_COUNT, {"type": "array", "items": _ONE_COUNT, "minItems": 1}]}),
]
_SIZE = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*([KMGT]i?B?|kB|B)?\s*$", "examples": ["64MiB"]}
Sizes = Annotated[
    tuple[Bytes, ...],
    Field(min_length=1),
    BeforeValidator(as_tuple),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                _SIZE,
                {"type": "array", "items": {"anyOf": [{"type": "number", "minimum": 0}, _SIZE]}, "minItems": 1},
            ]
        }
    ),
]
