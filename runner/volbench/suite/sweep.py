"""What a sweep may vary: the keys of its factors, checked against the suite, and put into it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from volbench.records.base import Scalar
from volbench.records.run import ResolvedSuite
from volbench.records.sweep import SweepSpec

ROOTS = ("volume", "engine.config", "steps", "dataset")
VOLUME = "volume."


def with_parameters(suite: ResolvedSuite, parameters: Mapping[str, Scalar]) -> ResolvedSuite:
    """The suite with a combination's values put in; those of the volume are the volume's own.

    Raises ValueError naming the key, with the nearest match, or the value that does not fit.
    """
    wanted = {key: value for key, value in parameters.items() if not key.startswith(VOLUME)}
    if not wanted:
        return suite
    data = suite.model_dump(by_alias=True)
    for key, value in wanted.items():
        for holder, name in _places(data, key):
            holder[name] = value
    try:
        return ResolvedSuite.model_validate(data)
    except ValidationError as error:
        raise ValueError(_without_noise(error)) from error


def sweep_faults(sweep: SweepSpec, suite: ResolvedSuite) -> Iterator[tuple[str, str]]:
    """(factor, what is wrong with it) for each that the suite does not have or whose value does not fit."""
    for name, factor in sweep.factors.items():
        values = (factor.base, *factor.levels)
        if len({repr(value) for value in values}) < len(values):
            yield name, "a value is given twice"
        try:
            for value in values:
                with_parameters(suite, {name: value})
                _check_key(name)
        except ValueError as error:
            yield name, str(error)


def _check_key(key: str) -> None:
    if key.startswith(VOLUME) and len(key) > len(VOLUME):
        return
    if not any(key.startswith(f"{root}.") for root in ROOTS):
        near = _near(key.split(".", maxsplit=1)[0], ("volume", "engine", "steps", "dataset"))
        raise ValueError(f"nothing is called {key!r}{near}")


def _places(data: dict[str, Any], key: str) -> list[tuple[dict[str, Any], str]]:
    """Where a key's value belongs; a step with several thread counts is several steps."""
    _check_key(key)
    root, _, rest = key.partition(".")
    if root == "engine":
        return [(data["server"]["config"], rest.removeprefix("config."))]
    if root == "dataset":
        return [_place(data["dataset"], rest, key)]
    name, _, rest = rest.partition(".")
    steps = [step for step in data["steps"] if step["name"] == name]
    if not steps:
        raise ValueError(f"no step is called {name!r}{_near(name, [step['name'] for step in data['steps']])}")
    return [_place(step, rest, key) for step in steps]


def _place(holder: dict[str, Any], path: str, key: str) -> tuple[dict[str, Any], str]:
    *parents, last = path.split(".")
    for parent in parents:
        inner = holder.get(parent)
        if not isinstance(inner, dict):
            raise ValueError(f"{key}: there is no {parent!r}{_near(parent, holder)}")
        holder = inner
    known = [name for name in holder if name not in ("kind", "name")]
    if not parents and last not in known:
        raise ValueError(f"{key}: there is no {last!r}{_near(last, known)}")
    return holder, last


def _near(word: str, known: Any) -> str:
    names = [str(name) for name in known]
    near = difflib.get_close_matches(word, names, n=1)
    return f"; perhaps you meant {near[0]!r}" if near else f" (known: {', '.join(names)})"


def _without_noise(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{first['input']!r} does not fit: {first['msg'].removeprefix('Value error, ')}"
