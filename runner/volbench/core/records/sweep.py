"""Sweeps: which factors a run varies, and by which design."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from volbench.core.records.base import Record, Scalar

Design = Literal["one_factor", "full"]


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, bool | int | float | str) else value


_KINDS: list[dict[str, Any]] = [{"type": kind} for kind in ("boolean", "number", "string")]
Levels = Annotated[
    tuple[Scalar, ...],
    Field(min_length=1),
    BeforeValidator(_as_tuple),
    WithJsonSchema({"anyOf": [*_KINDS, {"type": "array", "items": {"anyOf": _KINDS}, "minItems": 1}]}),
]


class Factor(Record):
    """What is varied: its value where nothing is changed, and the values that it is changed to."""

    base: Scalar = Field(description="The value in the base combination, to which all others are compared.")
    levels: Levels = Field(description="Other values.")


class SweepSpec(Record):
    """Varies volume options, my.cnf settings, and step parameters, and says what each does."""

    design: Design = Field(
        default="one_factor",
        description="one_factor: the base, and each level alone; full: every combination.",
    )
    factors: dict[str, Factor] = Field(
        min_length=1,
        description="By key: `volume.OPTION`, `engine.config.OPTION`, `engine.encryption`, `steps.NAME.KEY` or"
        " `dataset.KEY`.",
    )
