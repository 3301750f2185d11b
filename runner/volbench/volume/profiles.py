"""Volume profiles: from suites/volumes/NAME.yaml and a SPEC's options to what the emulator's daemon is told.

A profile is data. Its *figures* are numbers, each with its source and whether it is assumed; its *parameters* are
what a SPEC may set; its *formulas* give names to arithmetic on both (volume/formula.py); its limits and latencies
hold formulas. The resolver takes, in this order: units (KiB .. TiB), figures, parameters, the row of the instance
table, formulas from top to bottom; then it keeps the limits whose `when` is true and evaluates what is in them.
`common.yaml` stands below every profile, and a profile below its `base`; the upper one wins, name by name.
A profile of one's own is named by its path, which ends in .yaml; what it stands on is still in suites/volumes.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from volbench.errors import UsageError
from volbench.records.base import Record, parse_fraction, parse_size_bytes
from volbench.suite.document import parse_document
from volbench.volume.formula import Value, evaluate

PROFILE_SCHEMA = 1
DAEMON_SCHEMA = 1
COMMON = "common"
INSTANCES = "ec2-instances"
_FRAGMENTS = (COMMON, INSTANCES)
_NORMAL_QUANTILE_99 = 2.3263478740408408
_UNITS: dict[str, Value] = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "MB": 1e6}
_DURABILITIES = ("write_through", "write_back", "async")
_DATA_OPERATIONS = ("read", "write", "flush")
_METADATA_OPERATIONS = (
    "lookup", "getattr", "setattr", "open", "close", "create", "unlink", "rename", "readdir", "other",
)  # fmt: skip

Formula = str | float
Model = TypeVar("Model", bound=Record)


class Figure(Record):
    """One number of a volume. A text is a size such as 250MiB."""

    value: float | str
    unit: str
    source: str
    assumed: bool

    @property
    def number(self) -> float:
        """The value; sizes in bytes."""
        return float(parse_size_bytes(self.value)) if isinstance(self.value, str) else self.value


class Parameter(Record):
    """What a SPEC may set. A default that is a formula follows from figures and earlier parameters."""

    kind: Literal["size", "number", "share", "choice", "instance", "profile"]
    default: Formula
    choices: tuple[str, ...] = ()
    text: str


class Check(Record):
    """What must hold of the parameters."""

    require: Formula
    text: str


class Spread(Record):
    """A limit that exists once per disk of a cluster."""

    over: Formula
    object_bytes: Formula
    read_copies: Formula
    write_copies: Formula


class Published(Record):
    """The vendor's metric for a credit bucket."""

    metric: str
    percent: bool


class Limit(Record):
    """A limit, as the daemon's model knows it; numbers are formulas."""

    name: str
    when: Formula = 1.0
    scope: Literal["volume", "cluster", "instance"] = "volume"
    resource: Literal["iops", "throughput"]
    unit: Literal["io", "byte"]
    rate_per_s: Formula
    burst: Formula
    credits: bool = False
    fill: Formula = 1.0
    max_io_bytes: Formula | None = None
    merge_from_bytes: Formula | None = None
    min_bytes: Formula = 0.0
    weights: dict[Literal["read", "write", "flush", "metadata", "change"], Formula] | None = None
    spread: Spread | None = None
    published: Published | None = None


class Leg(Record):
    """One leg of an operation's latency: a lognormal by its median and 99th percentile."""

    median_us: Formula
    p99_us: Formula
    max_of: Formula = 1.0
    random_only: bool = False


class Latency(Record):
    """Legs one after the other, then the bytes at the speed of one stream."""

    parts: tuple[Leg, ...]
    stream_bytes_per_s: Formula | None = None


class FirstTouch(Record):
    """What the first access to a block of a volume from a snapshot costs."""

    chunk_bytes: Formula
    latency: Latency
    bytes_per_s: Formula | None = None


class Profile(Record):
    """A file of suites/volumes. A fragment (common, the instance table) lacks what it does not set."""

    schema_: Literal[1] = Field(alias="schema")
    name: str
    title: str = ""
    text: str = ""
    base: str | None = None
    mode: Literal["block", "files"] | None = None
    durability: Formula | None = None
    size_bytes: Formula | None = None
    async_window_s: Formula | None = None
    attribute_ttl_s: Formula | None = None
    overhead_us: Formula | None = None
    late_tolerance_us: Formula | None = None
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    figures: dict[str, Figure] = Field(default_factory=dict)
    table: dict[str, dict[str, Figure]] = Field(default_factory=dict)
    formulas: dict[str, Formula] = Field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    limits: tuple[Limit, ...] = ()
    latency: dict[str, Latency] = Field(default_factory=dict)
    first_touch: FirstTouch | None = None


@dataclass(frozen=True, kw_only=True)
class ResolvedVolume:
    """A profile with every parameter set: all that the daemon needs to know but paths.

    Args:
        parameters: given ones and defaults, as numbers (sizes in bytes, shares 0..1) and texts.
        assumed: names of the figures in use that no vendor publishes.
        model: the daemon's model parameters, as JSON data.
    """

    profile: str
    title: str
    mode: Literal["block", "files"]
    durability: str
    size_bytes: int
    filesystem: str | None
    async_window_s: float
    attribute_ttl_s: float
    late_tolerance_us: float
    parameters: Mapping[str, Value]
    assumed: tuple[str, ...]
    model: Mapping[str, Any]

    def daemon_config(self, *, directory: Path, mount: Path, backing: Path) -> dict[str, Any]:
        """The JSON file of `volbench-volume run`: where control socket, mount point and bytes are."""
        return {
            "schema": DAEMON_SCHEMA,
            "profile": self.profile,
            "mode": self.mode,
            "directory": str(directory),
            "mount": str(mount),
            "backing": str(backing),
            "durability": self.durability,
            "async_window_s": self.async_window_s,
            "attribute_ttl_s": self.attribute_ttl_s,
            "late_tolerance_us": self.late_tolerance_us,
            "model": dict(self.model),
        }


def profiles_directory() -> Path:
    """suites/volumes of the working directory, else of the checkout that this file is in."""
    here = Path.cwd() / "suites" / "volumes"
    return here if here.is_dir() else Path(__file__).resolve().parents[3] / "suites" / "volumes"


def profile_names(directory: Path | None = None) -> tuple[str, ...]:
    """The profiles that a SPEC may name."""
    found = sorted(path.stem for path in (directory or profiles_directory()).glob("*.yaml"))
    return tuple(name for name in found if name not in _FRAGMENTS)


def load_profile(name: str, directory: Path | None = None) -> Profile:
    """One file of suites/volumes, or the one at a path, checked.

    Raises UsageError with file and line, and for an unknown name with the nearest.
    """
    if is_profile_path(name):
        return _load(Path(name).resolve().parent, Path(name).stem)
    return _load((directory or profiles_directory()).resolve(), name)


def is_profile_path(name: str) -> bool:
    """Whether a profile is named by the path of its file, such as ./mine.yaml, and not by a name."""
    return name.endswith(".yaml")


@cache
def _load(directory: Path, name: str) -> Profile:
    path = directory / f"{name}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        names = profile_names(directory)
        nearest = difflib.get_close_matches(name, names, n=1)
        hint = f"perhaps you meant {nearest[0]}" if nearest else f"profiles there: {', '.join(names)}"
        raise UsageError(
            f"there is no volume profile {name!r}", where=str(directory), evidence=str(error), next_step=hint
        ) from error
    document = parse_document(text, name=str(path))
    try:
        profile = Profile.model_validate(document.data)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}", where=document.origin(first["loc"])
        ) from error
    if profile.name != name:
        raise UsageError(f"the profile in {name}.yaml is called {profile.name!r}", where=document.origin(("name",)))
    return profile


def whole_profile(name: str, directory: Path | None = None) -> Profile:
    """A profile with everything it stands on, as `resolve` sees it. Raises UsageError."""
    try:
        return _merged(name, {}, (directory or profiles_directory()).resolve())
    except ValueError as error:
        raise UsageError(str(error), where=f"profile {name}") from error


def resolve(name: str, options: Mapping[str, str] | None = None, directory: Path | None = None) -> ResolvedVolume:
    """A profile with its parameters set by a SPEC's options.

    Args:
        name: a profile such as ebs-gp2, or the path of one, such as ./mine.yaml.
        options: parameter to text, for instance {"size": "50GiB", "credits": "10%"}.
        directory: where the profiles are; default suites/volumes.

    Raises UsageError for an unknown profile or parameter (with the nearest), a value out of range, or parameters
    that contradict each other.
    """
    directory = (directory or profiles_directory()).resolve()
    try:
        return _resolve(name, dict(options or {}), directory)
    except ValueError as error:
        file = name if is_profile_path(name) else directory / f"{name}.yaml"
        raise UsageError(
            str(error), where=f"emulated:{name}", next_step=f"parameters are described in {file}"
        ) from error


def _resolve(name: str, options: dict[str, str], directory: Path) -> ResolvedVolume:
    profile = _merged(name, options, directory)
    names: dict[str, Value] = {**_UNITS, **{key: figure.number for key, figure in profile.figures.items()}}
    unknown = [option for option in options if option not in profile.parameters]
    if unknown:
        nearest = difflib.get_close_matches(unknown[0], profile.parameters, n=1)
        hint = f"perhaps you meant {nearest[0]}" if nearest else f"there are {', '.join(profile.parameters)}"
        raise ValueError(f"{name} has no parameter {unknown[0]!r}: {hint}")
    parameters: dict[str, Value] = {}
    limits, checks, assumed = list(profile.limits), list(profile.checks), set(profile.figures)
    for key, parameter in profile.parameters.items():
        parameters[key] = names[key] = _parameter(key, parameter, options.get(key), names)
        if parameter.kind == "instance" and parameters[key] != "none":
            instances = load_profile(INSTANCES, directory)
            row = _row(instances, str(parameters[key]))
            names |= {column: figure.number for column, figure in row.items()}
            limits += instances.limits
    for key, formula in profile.formulas.items():
        names[key] = evaluate(formula, names)
    for check in checks:
        if not evaluate(check.require, names):
            raise ValueError(check.text)
    if profile.mode is None or profile.durability is None or profile.size_bytes is None:
        raise ValueError(f"{name} is no volume of its own: it has no mode, durability and size_bytes")
    size_bytes = int(_number(profile.size_bytes, names))
    return ResolvedVolume(
        profile=profile.name,
        title=profile.title,
        mode=profile.mode,
        durability=_durability(profile.durability, names),
        size_bytes=size_bytes,
        filesystem=str(names["filesystem"]) if profile.mode == "block" else None,
        async_window_s=_number(profile.async_window_s or 0.0, names),
        attribute_ttl_s=_number(profile.attribute_ttl_s or 0.0, names),
        late_tolerance_us=_number(profile.late_tolerance_us or 0.0, names),
        parameters=parameters,
        assumed=tuple(sorted(key for key in assumed if profile.figures[key].assumed)),
        model=_model(profile, limits, names, size_bytes),
    )


def _merged(name: str, options: Mapping[str, str], directory: Path) -> Profile:
    """The profile on top of its base, on top of common.yaml."""
    if name in _FRAGMENTS:
        raise ValueError(f"{name} is a part of other profiles: there are {', '.join(profile_names(directory))}")
    chain = [load_profile(name, directory)]
    while (base := _base_of(chain[-1], options)) is not None:
        if len(chain) > 3 or base in (profile.name for profile in chain) or base in _FRAGMENTS:
            raise ValueError(f"{chain[-1].name} cannot stand on {base!r}")
        chain.append(load_profile(base, directory))
    merged: dict[str, Any] = {}
    for profile in (load_profile(COMMON, directory), *reversed(chain)):
        for key, value in profile.model_dump(by_alias=True, exclude_unset=True).items():
            below = merged.get(key)
            if isinstance(below, dict) and isinstance(value, dict) and key != "first_touch":
                merged[key] = below | value
            elif key == "limits":
                replaced = {limit["name"] for limit in value}
                merged[key] = [limit for limit in below or () if limit["name"] not in replaced] + list(value)
            elif key == "checks":
                merged[key] = [*(below or ()), *value]
            else:
                merged[key] = value
    return Profile.model_validate(merged)


def _base_of(profile: Profile, options: Mapping[str, str]) -> str | None:
    chosen = next((key for key, parameter in profile.parameters.items() if parameter.kind == "profile"), None)
    return options.get(chosen, str(profile.parameters[chosen].default)) if chosen else profile.base


def _parameter(key: str, parameter: Parameter, given: str | None, names: Mapping[str, Value]) -> Value:
    text_kinds = ("choice", "instance", "profile")
    if given is None:
        if parameter.kind in text_kinds or not isinstance(parameter.default, str):
            return str(parameter.default) if parameter.kind in text_kinds else parameter.default
        try:
            return _number(parameter.default, names)
        except ValueError:
            given = parameter.default  # a quantity such as 100GiB, not a formula
    try:
        if parameter.kind == "size":
            return float(parse_size_bytes(given))
        if parameter.kind == "share":
            return _between(parse_fraction(given), 0.0, 1.0)
        if parameter.kind == "number":
            return _between(float(given), 0.0, math.inf)
    except ValueError as error:
        raise ValueError(f"{key}={given}: {error}") from error
    if parameter.kind == "choice" and given not in parameter.choices:
        raise ValueError(f"{key}={given}: it is one of {', '.join(parameter.choices)}")
    return given


def _between(value: float, low: float, high: float) -> float:
    if not low <= value <= high or math.isinf(value):
        raise ValueError(f"it is not between {low:g} and {high:g}")
    return value


def _row(instances: Profile, instance: str) -> Mapping[str, Figure]:
    if instance in instances.table:
        return instances.table[instance]
    nearest = difflib.get_close_matches(instance, instances.table, n=1)
    hint = f"perhaps you meant {nearest[0]}" if nearest else f"there are {', '.join(instances.table)}"
    raise ValueError(f"instance={instance}: it is not in {INSTANCES}.yaml; {hint}")


def _model(profile: Profile, limits: list[Limit], names: Mapping[str, Value], size_bytes: int) -> dict[str, Any]:
    model: dict[str, Any] = {
        "seed": int(_number("seed", names)),
        "time_scale": _number("time_scale", names),
        "overhead_us": _number(profile.overhead_us or 0.0, names),
        "limits": [_limit(limit, names) for limit in limits if evaluate(limit.when, names)],
        "latency": _latencies(profile, names),
    }
    if profile.first_touch is not None:
        if profile.mode != "block":
            raise ValueError("only a block volume is made from a snapshot: choose such a base")
        model["first_touch"] = _first_touch(profile.first_touch, names, size_bytes)
    return model


def _limit(limit: Limit, names: Mapping[str, Value]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": limit.name,
        "scope": limit.scope,
        "resource": limit.resource,
        "unit": limit.unit,
        "rate_per_s": _number(limit.rate_per_s, names),
        "burst": _number(limit.burst, names),
        "credits": limit.credits,
        "fill": _number(limit.fill, names),
        "min_bytes": int(_number(limit.min_bytes, names)),
    }
    for key in ("max_io_bytes", "merge_from_bytes"):
        formula = getattr(limit, key)
        if formula is not None:
            result[key] = int(_number(formula, names))
    if limit.weights is not None:
        result["weights"] = {key: _number(formula, names) for key, formula in limit.weights.items()}
    if limit.spread is not None:
        spread = limit.spread.model_dump()
        result["spread"] = {key: int(_number(formula, names)) for key, formula in spread.items()}
    if limit.published is not None:
        result["published"] = limit.published.model_dump()
    return result


def _latencies(profile: Profile, names: Mapping[str, Value]) -> dict[str, Any]:
    """By operation; `metadata` stands for every metadata operation that is not named itself."""
    wanted = (*_DATA_OPERATIONS, *_METADATA_OPERATIONS)
    unknown = set(profile.latency) - {*wanted, "metadata"}
    if unknown:
        raise ValueError(f"there is no operation {min(unknown)!r}: there are {', '.join(wanted)} and metadata")
    latencies = {}
    for operation in wanted:
        general = profile.latency.get("metadata") if operation in _METADATA_OPERATIONS else None
        latency = profile.latency.get(operation, general)
        if latency is not None:
            latencies[operation] = _latency(latency, names)
    return latencies


def _latency(latency: Latency, names: Mapping[str, Value]) -> dict[str, Any]:
    result: dict[str, Any] = {"parts": [_leg(leg, names) for leg in latency.parts]}
    if latency.stream_bytes_per_s is not None:
        result["stream_bytes_per_s"] = _number(latency.stream_bytes_per_s, names)
    return result


def _leg(leg: Leg, names: Mapping[str, Value]) -> dict[str, Any]:
    median_us, p99_us = _number(leg.median_us, names), _number(leg.p99_us, names)
    if not 0 <= median_us <= p99_us:
        raise ValueError(f"a latency needs 0 <= median <= p99, not {median_us:g} and {p99_us:g} us")
    sigma = math.log(p99_us / median_us) / _NORMAL_QUANTILE_99 if median_us > 0 else 0.0
    max_of = int(_number(leg.max_of, names))
    return {"median_us": median_us, "sigma": sigma, "max_of": max_of, "random_only": leg.random_only}


def _first_touch(touch: FirstTouch, names: Mapping[str, Value], size_bytes: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "chunk_bytes": int(_number(touch.chunk_bytes, names)),
        "extent_bytes": size_bytes,
        "latency": _latency(touch.latency, names),
    }
    if touch.bytes_per_s is not None:
        rate = _number(touch.bytes_per_s, names)
        result["limit"] = {
            "name": "first_touch", "scope": "volume", "resource": "throughput", "unit": "byte",
            "rate_per_s": rate, "burst": 0.0,
        }  # fmt: skip
    return result


def _durability(formula: Formula, names: Mapping[str, Value]) -> str:
    """One of the daemon's words, as it stands or as a formula gives it."""
    word = formula if formula in _DURABILITIES else evaluate(formula, names)
    if word not in _DURABILITIES:
        raise ValueError(f"durability is one of {', '.join(_DURABILITIES)}, not {word!r}")
    return str(word)


def _number(formula: Formula, names: Mapping[str, Value]) -> float:
    value = evaluate(formula, names)
    if isinstance(value, str):
        raise ValueError(f"{formula!r} gives the text {value!r} where a number is needed")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{formula!r} is not finite")
    return number
