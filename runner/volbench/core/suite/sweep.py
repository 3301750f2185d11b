"""The keys that a sweep may vary: checked against the suite, and set in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from volbench.core.base.nearest import suggestion
from volbench.core.records.base import Scalar
from volbench.core.records.run import ResolvedSuite
from volbench.core.records.sweep import SweepSpec

ROOTS = ("volume", "engine.config", "steps", "dataset")
ENCRYPTION = "engine.encryption"
VOLUME = "volume."


def with_parameters(suite: ResolvedSuite, parameters: Mapping[str, Scalar]) -> ResolvedSuite:
    """Return the suite with a combination's values, without those of the volume.

    Raises ValueError for an unknown key, with the nearest match, or an invalid value.
    """
    values = {key: value for key, value in parameters.items() if not key.startswith(VOLUME)}
    if not values:
        return suite
    data = suite.model_dump(by_alias=True)
    for key, value in values.items():
        for holder, name in _targets_of(data, key):
            holder[name] = value
    try:
        return ResolvedSuite.model_validate(data)
    except ValidationError as error:
        raise ValueError(_short_message(error)) from error


def sweep_faults(sweep: SweepSpec, suite: ResolvedSuite) -> Iterator[tuple[str, str]]:
    """Yield (factor, fault) for unknown factors and invalid values."""
    for name, factor in sweep.factors.items():
        values = (factor.base, *factor.levels)
        if len({repr(value) for value in values}) < len(values):
            yield name, "a value occurs twice"
        try:
            for value in values:
                with_parameters(suite, {name: value})
                _check_key(name)
        except ValueError as error:
            yield name, str(error)


def _check_key(key: str) -> None:
    if key.startswith(VOLUME) and len(key) > len(VOLUME):
        return
    if key != ENCRYPTION and not any(key.startswith(f"{root}.") for root in ROOTS):
        near = _near(key.split(".", maxsplit=1)[0], ("volume", "engine", "steps", "dataset"))
        raise ValueError(f"unknown key {key!r}{near}")


def _targets_of(data: dict[str, Any], key: str) -> list[tuple[dict[str, Any], str]]:
    """Return where to set a key's value; a step with several thread counts is several steps."""
    _check_key(key)
    root, _, suffix = key.partition(".")
    if key == ENCRYPTION:
        return [(data["server"], suffix)]
    if root == "engine":
        return [(data["server"]["config"], suffix.removeprefix("config."))]
    if root == "dataset":
        return [_target_of(data["dataset"], suffix, key)]
    name, _, suffix = suffix.partition(".")
    steps = [step for step in data["steps"] if step["name"] == name]
    if not steps:
        raise ValueError(f"unknown step {name!r}{_near(name, [step['name'] for step in data['steps']])}")
    return [_target_of(step, suffix, key) for step in steps]


def _target_of(holder: dict[str, Any], path: str, key: str) -> tuple[dict[str, Any], str]:
    *parents, last = path.split(".")
    for parent in parents:
        inner = holder.get(parent)
        if not isinstance(inner, dict):
            raise ValueError(f"{key}: there is no {parent!r}{_near(parent, holder)}")
        holder = inner
    names = [name for name in holder if name not in ("kind", "name")]
    if not parents and last not in names:
        raise ValueError(f"{key}: there is no {last!r}{_near(last, names)}")
    return holder, last


def _near(name: str, candidates: Any) -> str:
    names = [str(candidate) for candidate in candidates]
    return f"; {suggestion(name, names)}"


def _short_message(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    message: str = first["msg"].removeprefix("Value error, ")
    if isinstance(first["input"], dict):  # of a whole record, which may have a password
        return message
    return f"{first['input']!r} does not fit: {message}"
