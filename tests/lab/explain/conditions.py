"""The lab's conditions as data, and the values that a seeded generator draws for one run of one of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import yaml

Split = Literal["development", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
FILE = Path(__file__).with_name("conditions.yaml")
NONE = "none"
_NAME = re.compile(r"\$\{?([a-z_]+)\}?")


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What is done to one kind of run, and what its cause is. `draw` is by name of a value, then by split."""

    name: str
    text: str
    truth: tuple[str, ...]
    accepted: tuple[str, ...]
    warmup_s: float
    measured_s: float
    draw: Mapping[str, Mapping[str, Any]]
    volume: Mapping[str, Any]
    config: Mapping[str, Any]
    dataset: Mapping[str, Any]
    load: Mapping[str, Any]
    actions: tuple[Mapping[str, Any], ...]
    twin: Mapping[str, Any] | None
    """What differs, beside its actions, in a run without the cause, by part; None: there is no such run."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One run of a condition with its values in their places; what is not drawn is the condition's."""

    condition: str
    split: Split
    number: int
    lab_seed: int
    seed: int
    truth: tuple[str, ...]
    accepted: tuple[str, ...]
    warmup_s: float
    measured_s: float
    drawn: Mapping[str, Any]
    volume: Mapping[str, Any]
    config: Mapping[str, Any]
    dataset: Mapping[str, Any]
    load: Mapping[str, Any]
    actions: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def name(self) -> str:
        """The run's directory below the split's."""
        return f"{self.condition}/{self.number}"


def load_conditions(path: Path = FILE) -> dict[str, Condition]:
    """All conditions by name, in the file's order. Raises ValueError for a key or a name that is unknown."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    defaults = content["defaults"]
    return {name: _condition(name, input_value, defaults) for name, input_value in content["conditions"].items()}


def setup_of(condition: Condition, *, split: Split, number: int, lab_seed: int) -> Setup:
    """The values of one run; the same seed gives the same values, whatever other conditions there are.

    Args:
        number: of the run, from 1.
        lab_seed: of the lab.
    """
    arguments = f"{condition.name}/{split}/{number}/{lab_seed}"
    generator = np.random.default_rng(list(arguments.encode()))
    drawn = {name: _drawn(ranges[split], generator) for name, ranges in condition.draw.items()}
    pieces = ("volume", "config", "dataset", "load", "actions")
    filled = {piece: with_values(getattr(condition, piece), drawn) for piece in pieces}
    return Setup(
        condition=condition.name,
        split=split,
        number=number,
        lab_seed=lab_seed,
        seed=int(generator.integers(1, 2**31 - 1)),
        truth=condition.truth,
        accepted=condition.accepted,
        warmup_s=condition.warmup_s,
        measured_s=condition.measured_s,
        drawn=drawn,
        **{**filled, "actions": tuple(filled["actions"])},
    )


def twin_of(setup: Setup, condition: Condition) -> Setup | None:
    """The same run without its cause: the same seed, data and load; None where the condition has no such run.

    Args:
        setup: the run with the cause.
        condition: of the same name. A part of `twin` is merged with the run's, and a value of null removes a key.
    """
    if condition.twin is None:
        return None
    changed: dict[str, Any] = {
        piece: {key: value for key, value in {**getattr(setup, piece), **input_value}.items() if value is not None}
        for piece, input_value in with_values(condition.twin, setup.drawn).items()
    }
    return replace(setup, truth=(NONE,), accepted=(), actions=(), **changed)


def _condition(name: str, value: Mapping[str, Any], defaults: Mapping[str, Any]) -> Condition:
    keys = {"text", "truth", "accepted", "draw", "actions", "twin", *defaults}
    unknown = sorted(set(value) - keys)
    if unknown:
        raise ValueError(f"condition {name}: unknown {', '.join(unknown)}; known: {', '.join(sorted(keys))}")
    merged = {piece: {**defaults[piece], **value.get(piece, {})} for piece in ("config", "dataset", "load")}
    condition = Condition(
        name=name,
        text=value["text"],
        truth=tuple(value["truth"]),
        accepted=tuple(value.get("accepted", ())),
        warmup_s=float(value.get("warmup_s", defaults["warmup_s"])),
        measured_s=float(value.get("measured_s", defaults["measured_s"])),
        draw=value["draw"],
        volume=value.get("volume", defaults["volume"]),
        actions=tuple(value.get("actions", ())),
        twin=value.get("twin"),
        **merged,
    )
    missing = _names(condition) - condition.draw.keys()
    if missing:
        raise ValueError(f"condition {name}: nothing is drawn for {', '.join(sorted(missing))}")
    return condition


def _drawn(ranges: Mapping[str, Any] | Sequence[Any], generator: np.random.Generator) -> Any:
    if isinstance(ranges, Mapping):
        values = ranges["of"]
        return values[int(generator.integers(len(values)))]
    several = [ranges] if not isinstance(ranges[0], list) else ranges
    low, high = several[int(generator.integers(len(several)))]
    value = math.exp(generator.uniform(math.log(low), math.log(high)))
    return round(value) if isinstance(low, int) and isinstance(high, int) else round(value, 3)


def with_values(piece: Any, drawn: Mapping[str, Any]) -> Any:
    """The same structure, with drawn values for their names; a name alone becomes the value itself."""
    if isinstance(piece, Mapping):
        return {key: with_values(value, drawn) for key, value in piece.items()}
    if isinstance(piece, list | tuple):
        return [with_values(value, drawn) for value in piece]
    if not isinstance(piece, str):
        return piece
    match = _NAME.fullmatch(piece)
    return drawn[match[1]] if match else _NAME.sub(lambda result: str(drawn[result[1]]), piece)


def _names(condition: Condition) -> set[str]:
    text = str([condition.volume, condition.config, condition.dataset, condition.load, condition.actions])
    return set(_NAME.findall(text))
