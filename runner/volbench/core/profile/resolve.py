"""Volume profiles with a SPEC's options: from suites/volumes/NAME.yaml to the emulator's configuration.

`schema` defines the files, `files` loads them, `daemon_model` makes the daemon's model.
The resolver takes, in this order: units (KiB .. TiB), figures, parameters, the row of the instance table, formulas
from top to bottom; then it evaluates the limits whose `when` is true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from volbench.core.base.nearest import suggestion
from volbench.core.profile.daemon_model import daemon_model, disk_limits, number
from volbench.core.profile.files import (
    INSTANCES,
    is_profile_path,
    load_profile,
    merged_profile,
    profiles_directory,
)
from volbench.core.profile.formula import Value, evaluate
from volbench.core.profile.instances import ec2_type
from volbench.core.profile.schema import Figure, Formula, Parameter, Profile
from volbench.core.profile.spec import parse_volume
from volbench.core.records.base import parse_fraction, parse_size_bytes
from volbench.core.records.run import VolumeSpec
from volbench.errors import UsageError

_PLACE_OPTIONS = ("dir",)
"""Options of a SPEC that are not the profile's: the directory of its data."""
DAEMON_SCHEMA = 1
_UNITS: dict[str, Value] = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "MB": 1e6}
_DURABILITIES = ("write_through", "write_back", "async")


@dataclass(frozen=True, kw_only=True)
class ResolvedVolume:
    """A profile with every parameter set: the daemon's configuration without paths.

    Args:
        parameters: set ones and defaults, as numbers (sizes in bytes, shares 0..1) and texts.
        read_ahead_kib: what the kernel reads ahead of a sequential reader; files mode only, None: its default.
        client_sync: every write waits for the server, as an NFS mount with `sync` does; files mode only.
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
    read_ahead_kib: int | None
    client_sync: bool
    late_tolerance_us: float
    atomic_bytes: int
    parameters: Mapping[str, Value]
    assumed: tuple[str, ...]
    model: Mapping[str, Any]

    def daemon_config(self, *, directory: Path, mount: Path, backing: Path) -> dict[str, Any]:
        """Return the configuration file of `volbench-volume run`, with paths of control socket, mount and data."""
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
            "client_sync": self.client_sync,
            "late_tolerance_us": self.late_tolerance_us,
            **({"atomic_bytes": self.atomic_bytes} if self.atomic_bytes else {}),
            "model": dict(self.model),
        }


def resolve(name: str, options: Mapping[str, str] | None = None, directory: Path | None = None) -> ResolvedVolume:
    """Return a profile with its parameters set by a SPEC's options.

    Args:
        name: a profile such as ebs-gp2, or a path such as ./mine.yaml.
        options: parameter to text, for instance {"size": "50GiB", "credits": "10%"}.
        directory: of the profiles; default suites/volumes.

    Raises UsageError for an unknown profile or parameter (with the nearest), a value out of range, or parameters
    that contradict each other.
    """
    directory = (directory or profiles_directory()).resolve()
    try:
        return _resolve(name, dict(options or {}), directory)
    except ValueError as error:
        file = name if is_profile_path(name) else directory / f"{name}.yaml"
        raise UsageError(
            str(error), where=f"emulated:{name}", next_step=f"{file} describes the parameters"
        ) from error


def resolve_spec(spec: str, *, name: str) -> ResolvedVolume:
    """Return the profile of a SPEC, with or without `emulated:`, and its parameters. Raise UsageError.

    Args:
        name: the SPEC's use, for error messages.
    """
    named = parse_volume(spec if spec.startswith("emulated:") else f"emulated:{spec}", name=name)
    return resolve_volume(named)


def resolve_volume(spec: VolumeSpec) -> ResolvedVolume:
    """Return the profile of an emulated volume with its parameters. Raise UsageError."""
    return resolve(spec.location, {key: value for key, value in spec.options.items() if key not in _PLACE_OPTIONS})


def resolve_disk(spec: str) -> ResolvedVolume:
    """Return the volume that a cluster's disk is: a parameter such as `ebs-gp2?size=600GiB,credits=0`.

    Raise UsageError.
    """
    name, options = _disk_spec(spec)
    return resolve(name, options)


def _resolve(name: str, options: dict[str, str], directory: Path) -> ResolvedVolume:
    profile = merged_profile(name, options, directory)
    names: dict[str, Value] = {**_UNITS, **{key: figure.number for key, figure in profile.figures.items()}}
    limits, checks, assumed = list(profile.limits), list(profile.checks), set(profile.figures)
    parameters = _parameters(profile, options, names, directory)
    if any(profile.parameters[key].kind == "instance" and value != "none" for key, value in parameters.items()):
        limits += load_profile(INSTANCES, directory).limits
    disk = _disk(profile, parameters, names, directory)
    for key, formula in profile.formulas.items():
        names[key] = evaluate(formula, names)
    for check in checks:
        if not evaluate(check.require, names):
            options_text = ", ".join(f"{key}={value}" for key, value in options.items())
            unit = "; a size without a unit is in bytes" if str(options.get("size", "")).strip().isdigit() else ""
            raise ValueError(f"{check.text}; given: {options_text}{unit}" if options_text else check.text)
    if profile.mode is None or profile.durability is None or profile.size_bytes is None:
        raise ValueError(f"{name} is not a complete volume: mode, durability or size_bytes is missing")
    if "filesystem" in options and profile.mode != "block":
        raise ValueError(f"filesystem={options['filesystem']}: {name} has its vendor's file system")
    size_bytes = int(number(profile.size_bytes, names))
    model = daemon_model(profile, limits, names, size_bytes)
    if disk is not None and profile.disks is not None:
        model["limits"] += disk_limits(disk.model["limits"], profile.disks, names)
    return ResolvedVolume(
        profile=profile.name,
        title=profile.title,
        mode=profile.mode,
        durability=_durability(profile.durability, names),
        size_bytes=size_bytes,
        filesystem=str(names["filesystem"]) if profile.mode == "block" else None,
        async_window_s=number(profile.async_window_s or 0.0, names),
        attribute_ttl_s=number(profile.attribute_ttl_s or 0.0, names),
        read_ahead_kib=int(number(profile.read_ahead_kib, names)) if profile.read_ahead_kib is not None else None,
        client_sync=bool(evaluate(profile.client_sync, names)),
        late_tolerance_us=number(profile.late_tolerance_us or 0.0, names),
        atomic_bytes=_atomic_bytes(profile, names),
        parameters=parameters,
        assumed=tuple(sorted(key for key in assumed if profile.figures[key].assumed)),
        model=model,
    )


def _disk(
    profile: Profile, parameters: Mapping[str, Value], names: dict[str, Value], directory: Path
) -> ResolvedVolume | None:
    """Return the volume that each disk of a cluster is, and add its figures to `names`. Raise ValueError."""
    if profile.disks is None:
        return None
    key = profile.disks.parameter
    name, options = _disk_spec(str(parameters[key]))
    try:
        disk = _resolve(name, options, directory)
    except (UsageError, ValueError) as error:
        reason = error.what if isinstance(error, UsageError) else error
        raise ValueError(f"{key}={parameters[key]}: {reason}") from error
    if disk.mode != "block":
        raise ValueError(f"{key}={parameters[key]}: a disk is a block volume")
    figures = merged_profile(name, options, directory).figures
    names |= {f"{key}_{figure_name}": figure.number for figure_name, figure in figures.items()}
    return disk


def _disk_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Return profile and options of a disk: options are separated by commas, since `&` ends the cluster's own."""
    profile, _, query = spec.partition("?")
    return profile, {
        name: value for name, _, value in (option.partition("=") for option in query.split(",") if option)
    }


def _parameters(
    profile: Profile, options: Mapping[str, str], names: dict[str, Value], directory: Path
) -> dict[str, Value]:
    """Return every parameter's value; add the values, and the columns of the instance's row, to `names`.

    Raises ValueError with all unknown or invalid options.
    """
    faults = []
    for option in options:
        if option not in profile.parameters:
            hint = suggestion(option, [*profile.parameters, *_PLACE_OPTIONS])
            faults.append(f"{profile.name} has no parameter {option!r}: {hint}")
    parameters: dict[str, Value] = {}
    for key, parameter in profile.parameters.items():
        try:
            parameters[key] = _parameter(key, parameter, options.get(key), names)
            if parameter.kind == "instance" and parameters[key] != "none":
                row = _row(load_profile(INSTANCES, directory), str(parameters[key]))
                names |= {column: figure.number for column, figure in row.items()}
        except ValueError as error:
            faults.append(str(error))
            parameters[key] = _parameter(key, parameter, None, names)  # no further faults because of this one
        names[key] = parameters[key]
    if faults:
        raise ValueError("; ".join(faults))
    return parameters


def _parameter(key: str, parameter: Parameter, option: str | None, names: Mapping[str, Value]) -> Value:
    text_kinds = ("choice", "instance", "profile", "volume")
    if option is None:
        if parameter.kind in text_kinds or not isinstance(parameter.default, str):
            return str(parameter.default) if parameter.kind in text_kinds else parameter.default
        try:
            return number(parameter.default, names)
        except ValueError:
            option = parameter.default  # a quantity such as 100GiB, not a formula
    try:
        if parameter.kind == "size":
            return float(parse_size_bytes(option))
        if parameter.kind == "share":
            return _between(parse_fraction(option), 0.0, 1.0)
        if parameter.kind == "number":
            return _between(float(option), 0.0, math.inf)
    except ValueError as error:
        raise ValueError(f"{key}={option}: {error}") from error
    if parameter.kind == "choice" and option not in parameter.choices:
        raise ValueError(f"{key}={option}: it is one of {', '.join(parameter.choices)}")
    return option


def _between(value: float, low: float, high: float) -> float:
    if not low <= value <= high or math.isinf(value):
        raise ValueError(f"the value is not between {low:g} and {high:g}")
    return value


def _row(instances: Profile, instance: str) -> Mapping[str, Figure]:
    if ec2_type(instance) in instances.table:
        return instances.table[ec2_type(instance)]
    raise ValueError(f"instance={instance}: not in {INSTANCES}.yaml; {suggestion(instance, instances.table)}")


def _atomic_bytes(profile: Profile, names: Mapping[str, Value]) -> int:
    """Return where a power cut tears writes under way; 0: it tears none. Raise ValueError for other volumes."""
    size = int(parse_size_bytes(str(names["atomic_bytes"])))
    if size == 0:
        return 0
    if profile.mode != "block" or _durability(profile.durability or "", names) != "write_through":
        raise ValueError("atomic_bytes is for a block device that is durable when it acknowledges")
    return size


def _durability(formula: Formula, names: Mapping[str, Value]) -> str:
    """Return the daemon's durability mode, which is the text itself or the result of a formula."""
    value = formula if formula in _DURABILITIES else evaluate(formula, names)
    if value not in _DURABILITIES:
        raise ValueError(f"durability is one of {', '.join(_DURABILITIES)}, not {value!r}")
    return str(value)
