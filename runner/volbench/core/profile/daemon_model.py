"""From a profile's limits and latencies to the parameters of the emulator's model, with every formula evaluated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from volbench.core.profile.formula import Value, evaluate
from volbench.core.profile.schema import Disks, FirstTouch, Formula, Latency, Leg, Limit, Profile
from volbench.core.records.sources.device.emulator import DATA_OPERATIONS, METADATA_OPERATIONS

_NORMAL_QUANTILE_99 = 2.3263478740408408


def daemon_model(
    profile: Profile, limits: list[Limit], names: Mapping[str, Value], size_bytes: int
) -> dict[str, Any]:
    """Return the daemon's model parameters as JSON data. Raise ValueError for a formula without a valid value."""
    model: dict[str, Any] = {
        "seed": int(number("seed", names)),
        "time_scale": number("time_scale", names),
        "overhead_us": number(profile.overhead_us or 0.0, names),
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
        "rate_per_s": number(limit.rate_per_s, names),
        "burst": number(limit.burst, names),
        "credits": limit.credits,
        "fill": number(limit.fill, names),
        "min_bytes": int(number(limit.min_bytes, names)),
    }
    for key in ("max_io_bytes", "merge_from_bytes"):
        formula = getattr(limit, key)
        if formula is not None:
            result[key] = int(number(formula, names))
    if limit.weights is not None:
        result["weights"] = {key: number(formula, names) for key, formula in limit.weights.items()}
    if limit.spread is not None:
        spread = limit.spread.model_dump()
        result["spread"] = {key: int(number(formula, names)) for key, formula in spread.items()}
    if limit.published is not None:
        result["published"] = limit.published.model_dump()
    return result


def disk_limits(
    limits: Sequence[Mapping[str, Any]], disks: Disks, names: Mapping[str, Value]
) -> list[dict[str, Any]]:
    """Return the limits of a cluster's disk, each existing once per disk: `volume.iops` becomes `osd.iops`."""
    spread = {key: int(number(formula, names)) for key, formula in disks.spread.model_dump().items()}
    write_ios = number(disks.write_ios, names)
    return [
        {
            **limit,
            "name": f"{disks.parameter}.{limit['name'].partition('.')[2]}",
            "scope": "cluster",
            "spread": spread,
            "weights": {"read": 1.0, "write": write_ios if limit["unit"] == "io" else 1.0},
        }
        for limit in limits
    ]


def _latencies(profile: Profile, names: Mapping[str, Value]) -> dict[str, Any]:
    """Return latencies by operation; `metadata` applies to every metadata operation without an own one."""
    operations = (*DATA_OPERATIONS, *METADATA_OPERATIONS)
    unknown = set(profile.latency) - {*operations, "metadata"}
    if unknown:
        raise ValueError(f"unknown operation {min(unknown)!r}; known: {', '.join(operations)} and metadata")
    latencies = {}
    for operation in operations:
        general = profile.latency.get("metadata") if operation in METADATA_OPERATIONS else None
        latency = profile.latency.get(operation, general)
        if latency is not None:
            latencies[operation] = _latency(latency, names)
    return latencies


def _latency(latency: Latency, names: Mapping[str, Value]) -> dict[str, Any]:
    result: dict[str, Any] = {"parts": [_leg(leg, names) for leg in latency.parts]}
    if latency.stream_bytes_per_s is not None:
        result["stream_bytes_per_s"] = number(latency.stream_bytes_per_s, names)
    return result


def _leg(leg: Leg, names: Mapping[str, Value]) -> dict[str, Any]:
    median_us, p99_us = number(leg.median_us, names), number(leg.p99_us, names)
    if not 0 <= median_us <= p99_us:
        raise ValueError(f"a latency needs 0 <= median <= p99, not {median_us:g} and {p99_us:g} us")
    sigma = math.log(p99_us / median_us) / _NORMAL_QUANTILE_99 if median_us > 0 else 0.0
    max_of = int(number(leg.max_of, names))
    return {"median_us": median_us, "sigma": sigma, "max_of": max_of, "random_only": leg.random_only}


def _first_touch(touch: FirstTouch, names: Mapping[str, Value], size_bytes: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "chunk_bytes": int(number(touch.chunk_bytes, names)),
        "extent_bytes": size_bytes,
        "latency": _latency(touch.latency, names),
    }
    if touch.bytes_per_s is not None:
        rate = number(touch.bytes_per_s, names)
        result["limit"] = {
            "name": "first_touch",
            "scope": "volume",
            "resource": "throughput",
            "unit": "byte",
            "rate_per_s": rate,
            "burst": 0.0,
        }
    return result


def number(formula: Formula, names: Mapping[str, Value]) -> float:
    """Return a formula's value. Raise ValueError for a text or a value that is not finite."""
    value = evaluate(formula, names)
    if isinstance(value, str):
        raise ValueError(f"{formula!r} gives the text {value!r} where a number is needed")
    result = float(value)
    if not math.isfinite(result):
        raise ValueError(f"{formula!r} is not finite")
    return result
