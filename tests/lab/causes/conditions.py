"""The lab's conditions as data, and the values that a seeded generator draws for one run of one of them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from explain.conditions import with_values

FILE = Path(__file__).with_name("conditions.yaml")
SHAPES_FILE = Path(__file__).with_name("shapes.yaml")
"""Further conditions, whose shapes are drawn at random within classes; loads are those of FILE."""
UNSEEN_FILE = Path(__file__).with_name("unseen.yaml")
"""Further conditions, of mechanisms that no rule was written for."""
SHAPES = ("steady", "step", "ramp", "episode", "periodic")
FOREVER_S = 1e6
BEFORE_S = -1.0
"""A steady cause begins this long before the measured window, within the warm-up."""
_NAME = re.compile(r"\$\{?([a-z_]+)\}?")
_KEYS = {"family", "text", "shape", "truth", "accepted", "draw", "volume", "load", "inject", "proof", "measured_s"}


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What is done to one kind of run.

    Args:
        shape: when the cause acts, see `phases_of`.
        truth: the causes to be named; one with alternatives is written `a|b`. Several: a compound.
        accepted: may be named beside them, and never saves a run.
        draw: by name, a range [low, high] (evenly on a logarithmic scale) or `of:` values.
        volume, load, inject: see `volume`, `runner` and `injectors`.
        proof: what the counters must show, see `proof`.
    """

    name: str
    family: str
    text: str
    shape: str
    truth: tuple[str, ...]
    accepted: tuple[str, ...]
    measured_s: float
    draw: Mapping[str, Any]
    volume: Mapping[str, Any]
    load: Mapping[str, Any]
    inject: tuple[Mapping[str, Any], ...]
    proof: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One run of a condition with its values in their places."""

    condition: str
    family: str
    shape: str
    number: int
    lab_seed: int
    seed: int
    truth: tuple[str, ...]
    accepted: tuple[str, ...]
    measured_s: float
    drawn: Mapping[str, Any]
    phases: tuple[tuple[float, float], ...]
    volume: Mapping[str, Any]
    load: Mapping[str, Any]
    inject: tuple[Mapping[str, Any], ...]
    proof: tuple[Mapping[str, Any], ...]

    @property
    def name(self) -> str:
        """The run's directory below the seed's."""
        return f"{self.condition}/{self.number}"


def load_conditions(path: Path = FILE) -> dict[str, Condition]:
    """All conditions by name, in the file's order. Raises ValueError for a key or a name that is unknown."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    conditions = dict(content["conditions"])
    if path == FILE:
        for file in (SHAPES_FILE, UNSEEN_FILE):
            conditions |= yaml.safe_load(file.read_text(encoding="utf-8"))["conditions"]
    return {name: _condition(name, values, content) for name, values in conditions.items()}


def setup_of(condition: Condition, *, number: int, lab_seed: int) -> Setup:
    """Run `number` of a condition: the same seed draws the same values."""
    generator = np.random.default_rng([lab_seed, number, zlib.crc32(condition.name.encode())])
    drawn = {name: _drawn(ranges, generator) for name, ranges in condition.draw.items()}
    filled = {
        piece: with_values(getattr(condition, piece), drawn) for piece in ("volume", "load", "inject", "proof")
    }
    return Setup(
        condition=condition.name,
        family=condition.family,
        shape=condition.shape,
        number=number,
        lab_seed=lab_seed,
        seed=int(generator.integers(1, 2**31 - 1)),
        truth=condition.truth,
        accepted=condition.accepted,
        measured_s=condition.measured_s,
        drawn=drawn,
        phases=phases_of(condition.shape, condition.measured_s, generator),
        **{**filled, "inject": tuple(filled["inject"]), "proof": tuple(filled["proof"])},
    )


def phases_of(shape: str, measured_s: float, generator: np.random.Generator) -> tuple[tuple[float, float], ...]:
    """When the cause acts: (on, off) in seconds from the begin of the measured window, drawn at random."""
    share = generator.uniform(0.35, 0.6)
    if shape == "steady":
        return ((BEFORE_S, FOREVER_S),)
    if shape in ("step", "ramp"):  # how long a ramp rises is its injector's
        return ((round(share * measured_s, 2), FOREVER_S),)
    if shape == "episode":
        length_s = generator.uniform(0.25, 0.35) * measured_s
        return ((round(share * measured_s, 2), round(share * measured_s + length_s, 2)),)
    on_s, off_s = generator.uniform(2.0, 3.0), generator.uniform(2.0, 3.0)
    begins = np.arange(generator.uniform(1.0, 3.0), measured_s, on_s + off_s)
    return tuple((round(float(begin), 2), round(float(begin + on_s), 2)) for begin in begins)


def _condition(name: str, value: Mapping[str, Any], content: Mapping[str, Any]) -> Condition:
    unknown = sorted(set(value) - _KEYS)
    if unknown:
        raise ValueError(f"condition {name}: unknown {', '.join(unknown)}; known: {', '.join(sorted(_KEYS))}")
    shape = str(value.get("shape", "steady"))
    if shape not in SHAPES:
        raise ValueError(f"condition {name}: shape {shape} is none of {', '.join(SHAPES)}")
    load, volume = _with_base(value.get("load", {}), content["loads"]), value.get("volume", {"kind": "loop"})
    condition = Condition(
        name=name,
        family=value["family"],
        text=value["text"],
        shape=shape,
        truth=tuple(value["truth"]),
        accepted=tuple(value.get("accepted", ())),
        measured_s=float(value.get("measured_s", content["measured_s"][shape])),
        draw={**load.pop("draw", {}), **value.get("draw", {})},
        volume=volume,
        load=load,
        inject=tuple(value.get("inject", ())),
        proof=tuple(value.get("proof", ())),
    )
    names = set(_NAME.findall(str([volume, load, condition.inject, condition.proof])))
    if names - condition.draw.keys():
        missing = ", ".join(sorted(names - condition.draw.keys()))
        raise ValueError(f"condition {name}: nothing is drawn for {missing}")
    return condition


def _with_base(load: Mapping[str, Any] | str, bases: Mapping[str, Any]) -> dict[str, Any]:
    """A load is the name of one, or `base:` and what differs."""
    input_value: dict[str, Any] = {"base": load} if isinstance(load, str) else dict(load)
    base = dict(bases[input_value.pop("base")])
    merged = {
        piece: {**base.get(piece, {}), **input_value.get(piece, {})}
        for piece in ("step", "config", "dataset", "draw")
    }
    return {**base, **input_value, **merged}


def _drawn(ranges: Any, generator: np.random.Generator) -> Any:
    if isinstance(ranges, Mapping):
        return ranges["of"][int(generator.integers(len(ranges["of"])))]
    low, high = ranges
    value = float(np.exp(generator.uniform(np.log(low), np.log(high))))
    return round(value) if isinstance(low, int) and isinstance(high, int) else round(value, 3)
