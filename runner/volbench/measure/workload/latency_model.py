"""The latencies of an emulated volume's model, multiplied for some kinds of operations."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from volbench.core.records.modulation import SignalKind

OPERATIONS: Mapping[SignalKind, tuple[str, ...]] = {"read": ("read",), "write": ("write", "flush")}


def slowed(parameters: Mapping[str, Any], slow: tuple[SignalKind, ...], factor: float) -> dict[str, Any]:
    """Return a model's parameters with the latencies of some kinds of operations multiplied."""
    changed: dict[str, Any] = copy.deepcopy(dict(parameters))
    for kind in slow:
        for operation in OPERATIONS[kind]:
            for component in latency_components(changed, operation):
                component["median_us"] *= factor
    return changed


def latency_components(parameters: Mapping[str, Any], operation: str) -> list[dict[str, Any]]:
    """Return the components of one operation's latency that take any time."""
    latency = parameters.get("latency", {}).get(operation) or {}
    return [component for component in latency.get("parts", []) if component.get("median_us", 0) > 0]
