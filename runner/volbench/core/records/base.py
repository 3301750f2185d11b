"""The base of all records, and the field types that suites and records share."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from volbench.core.base.parse import (
    EPOCH_MAX_S,
    NUMBER_MAX,
    SPAN_MAX_S,
    checked_plain,
    parse_moment,
    parse_record_json,
)

_DURATION_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE_UNITS_BYTES = {
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_QUANTITY = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z%]*)\s*")


class Record(BaseModel):
    """A frozen value; an unknown key is an error, and so are a number that is not finite and half a character."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        allow_inf_nan=False,
        str_min_length=0,  # with any constraint pydantic reads the characters, and refuses lone surrogates
    )

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Return the record of JSON as parse_record_json reads it. Raises pydantic's ValidationError."""
        try:
            raw = parse_record_json(json_data if isinstance(json_data, str) else bytes(json_data))
        except ValueError as error:
            fault = PydanticCustomError("json_invalid", "{reason}", {"reason": f"Invalid JSON: {error}"})
            details = InitErrorDetails(type=fault, loc=(), input=json_data[:100])
            raise ValidationError.from_exception_data(cls.__name__, [details]) from error
        return cls.model_validate(raw, **options)


class WrittenFloat(float):
    """A number of a YAML file with its text: as a version, 8.10 is not 8.1."""

    text: str

    def __new__(cls, value: float, *, text: str) -> Self:
        """Return the number with the text that it was written as."""
        number = super().__new__(cls, value)
        number.text = text
        return number


def version_text(value: Any) -> Any:
    """Return a version that YAML takes for a number as it was written; any other value as it is."""
    if isinstance(value, WrittenFloat):
        return value.text
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def parse_duration_s(value: Any) -> float:
    """Return seconds of "90s", "1.5m", "250 ms", "2h"; a bare number is taken as seconds already.

    Raises ValueError naming the accepted units.
    """
    return _parse_quantity(value, _DURATION_UNITS_S, "a duration such as 30s, 5m or 250ms")


def parse_size_bytes(value: Any) -> int:
    """Return bytes of "64MiB", "50 GiB", "3.6GB" (K, M, G, T are binary, as in my.cnf); a bare number is bytes.

    Raises ValueError naming the accepted units.
    """
    return round(_parse_quantity(value, _SIZE_UNITS_BYTES, "a size such as 64MiB, 50GiB or 3.6GB"))


def parse_server_size_bytes(value: Any) -> int:
    """Return bytes of a server option: as parse_size_bytes, and in lower case too, as a server reads `1g`.

    Raises ValueError naming the accepted units.
    """
    text = str(value).strip()
    return parse_size_bytes(text.upper() if text[-1:] in ("k", "m", "g", "t") else value)


def parse_fraction(value: Any) -> float:
    """Return the fraction of "5%" or 0.05. Raises ValueError."""
    return _parse_quantity(value, {"%": 0.01}, "a share such as 5% or 0.05")


def _parse_quantity(value: Any, units: dict[str, float] | dict[str, int], noun: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _bounded(value)
    match = _QUANTITY.fullmatch(str(value))
    if match is None or (match["unit"] and match["unit"] not in units):
        raise ValueError(f"{value!r} is not {noun} (units: {', '.join(units)})")
    return _bounded(float(match["number"]) * (units[match["unit"]] if match["unit"] else 1.0))


def _bounded(value: float) -> float:
    if not abs(value) <= NUMBER_MAX:
        raise ValueError("the number is too large, or none")
    return float(value)


def _schema_of(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": pattern, "examples": [example]},
            ]
        }
    )


Seconds = Annotated[
    float, BeforeValidator(parse_duration_s), _schema_of(r"^\s*\d+(\.\d+)?\s*(ms|s|m|min|h|d)?\s*$", "30s")
]
Bytes = Annotated[
    int, BeforeValidator(parse_size_bytes), _schema_of(r"^\s*\d+(\.\d+)?\s*([KMGT]i?B?|kB|B)?\s*$", "64MiB")
]
Fraction = Annotated[float, BeforeValidator(parse_fraction), _schema_of(r"^\s*\d+(\.\d+)?\s*%?\s*$", "5%")]
VersionText = Annotated[str, BeforeValidator(version_text)]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$")]
"""A name in a record that becomes a file or directory: one component, never `..`."""
Scalar = bool | int | float | str
Plain = Annotated[Any, AfterValidator(checked_plain)]
"""A value of JSON without a model: finite numbers, whole characters, nested at most DEPTH_MAX deep."""


def _checked_moment(text: str) -> str:
    parse_moment(text)
    return text


Moment = Annotated[str, AfterValidator(_checked_moment)]
"""A time in ISO 8601."""
Epoch = Annotated[float, Field(ge=0, le=EPOCH_MAX_S)]
"""Seconds since 1970."""
Offset = Annotated[float, Field(ge=-SPAN_MAX_S, le=SPAN_MAX_S)]
"""Seconds since the begin of a run or an observation; negative before it."""
