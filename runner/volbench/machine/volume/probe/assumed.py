"""The expected figures of a profile that rest on an assumed number, not a published or measured one."""

from __future__ import annotations

import ast

from volbench.core.profile.resolve import ResolvedVolume
from volbench.core.profile.schema import Formula, Profile
from volbench.machine.volume.probe.figures import (
    LARGE_BYTES,
    RANDOM_DEPTH,
    SMALL_BYTES,
    STREAM_DEPTH,
    Operation,
    tightest,
)

_OPERATIONS: tuple[Operation, ...] = ("read", "write")


def assumed_figures(resolved: ResolvedVolume, profile: Profile) -> frozenset[str]:
    """Return the names of figures of probe_figures.expected_figures that rest on an assumption.

    Args:
        resolved, profile: the same volume, with default parameters; the profile merged with its bases.
    """
    figures = set()
    for operation in _OPERATIONS:
        if _latency_is_assumed(profile, operation):
            figures |= {f"{operation}_4k_ms", f"{operation}_16k_ms"}
        for name, size_bytes, depth in (
            ("iops", SMALL_BYTES, RANDOM_DEPTH),
            ("mib_per_s", LARGE_BYTES, STREAM_DEPTH),
        ):
            _, limit = tightest(resolved, operation, size_bytes, depth=depth)
            if _limit_is_assumed(profile, limit) if limit else _latency_is_assumed(profile, operation):
                figures.add(f"{operation}_{name}")
    if resolved.mode == "files" and _latency_is_assumed(profile, "open"):
        figures.add("open_ms")
    return frozenset(figures)


def _latency_is_assumed(profile: Profile, operation: str) -> bool:
    latency = profile.latency.get(operation, profile.latency.get("metadata"))
    return latency is not None and any(_rests_on_assumed(profile, leg.median_us) for leg in latency.parts)


def _limit_is_assumed(profile: Profile, name: str) -> bool:
    limit = next((limit for limit in profile.limits if limit.name == name), None)
    if limit is None:  # of a disk of a cluster: which volume it is, is the profile's assumption
        return True
    weights = list(limit.weights.values()) if limit.weights else []
    return any(_rests_on_assumed(profile, formula) for formula in (limit.rate_per_s, *weights))


def _rests_on_assumed(profile: Profile, formula: Formula) -> bool:
    """Return whether a formula uses an assumed figure, also through other formulas and defaults of parameters."""
    pending, visited = _names(formula), set[str]()
    while pending:
        name = pending.pop()
        if name in visited:
            continue
        visited.add(name)
        if name in profile.formulas:
            pending |= _names(profile.formulas[name])
        elif name in profile.parameters:
            pending |= _names(profile.parameters[name].default)
        elif name in profile.figures and profile.figures[name].assumed:
            return True
    return False


def _names(formula: Formula) -> set[str]:
    """Return the names in a formula; none in a quantity such as 100GiB."""
    if not isinstance(formula, str):
        return set()
    try:
        tree = ast.parse(formula.strip(), mode="eval")
    except SyntaxError:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
