"""The profiles nearest to a measured volume, and what a probe cannot measure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from volbench.core.profile.files import profile_names, whole_profile
from volbench.core.profile.resolve import ResolvedVolume, resolve
from volbench.machine.volume.probe.assumed import assumed_figures
from volbench.machine.volume.probe.figures import FIGURES, SMALL_BYTES, credit_limits, expected_figures, rate_per_s

COUNT_DEFAULT = 3
_SHARED_MIN = 3
_ASSUMED_WEIGHT = 0.1
"""Weight of an assumed figure, compared with a published or measured one."""


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """A profile and its distance from a measurement.

    Args:
        distance: root mean square of ln(measured / expected) over the figures that both have; 0.05 is about 5 %.
            Figures of the profile that are assumed weigh a tenth.
        figures: the profile's figures.
        assumed: names of the figures that rest on an assumption.
    """

    profile: ResolvedVolume
    distance: float
    figures: Mapping[str, float]
    assumed: frozenset[str]


def nearest_profiles(measured: Mapping[str, float], *, count: int = COUNT_DEFAULT) -> tuple[Nearest, ...]:
    """Return the profiles, with default parameters, nearest to the measured figures, the nearest first.

    Profiles with a slow first touch are skipped: a probe writes before it reads.
    """
    profiles = []
    for name in profile_names():
        resolved = resolve(name)
        if "first_touch" in resolved.model:
            continue
        figures = expected_figures(resolved)
        assumed = assumed_figures(resolved, whole_profile(name))
        separation = distance(measured, figures, assumed=assumed)
        if separation is not None:
            profiles.append(Nearest(profile=resolved, distance=separation, figures=figures, assumed=assumed))
    return tuple(sorted(profiles, key=lambda nearest: nearest.distance)[:count])


def distance(
    measured: Mapping[str, float], expected: Mapping[str, float], *, assumed: Collection[str] = ()
) -> float | None:
    """Return the weighted root mean square of the ratios' logarithms; None if both sides share too few figures."""
    shared = [name for name in expected if FIGURES[name].compared and measured.get(name, 0.0) > 0]
    if len(shared) < _SHARED_MIN:
        return None
    weights = [_ASSUMED_WEIGHT if name in assumed else 1.0 for name in shared]
    squares = [
        (w * math.log(measured[name] / expected[name])) ** 2 for w, name in zip(weights, shared, strict=True)
    ]
    return math.sqrt(sum(squares) / sum(w**2 for w in weights))


def unseen(nearest: Nearest) -> tuple[str, ...]:
    """Return a sentence for each credit bucket of the nearest profile, which a probe cannot measure."""
    resolved, sentences = nearest.profile, []
    for limit in credit_limits(resolved):
        units = "I/Os" if limit["unit"] == "io" else "bytes"
        burst = rate_per_s(resolved, "read", SMALL_BYTES, depth=1 << 20)
        base = rate_per_s(resolved, "read", SMALL_BYTES, depth=1 << 20, credit=False)
        fall = f", then falls from {burst:,.0f} to {base:,.0f} IOPS" if limit["unit"] == "io" else ""
        sentences.append(
            f"A volume such as {resolved.profile} has a bucket of {limit['burst']:,.0f} {units} of credit, "
            f"refilled at {limit['rate_per_s']:,.0f} a second: while it lasts the volume is this fast{fall}."
        )
    return tuple(sentences)
