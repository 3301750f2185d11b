"""Which profiles a measured volume is like, and what a probe cannot see."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from volbench.volume.probe_assumed import assumed_figures
from volbench.volume.probe_figures import FIGURES, SMALL_BYTES, credit_limits, expected_figures, rate_per_s
from volbench.volume.profile_files import profile_names, whole_profile
from volbench.volume.profiles import ResolvedVolume, resolve

SHOWN = 3
_SHARED_MIN = 3
_GUESS = 0.1
"""What an assumed figure says beside one that a vendor publishes or that was measured."""


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """A profile beside a measurement.

    Args:
        distance: root mean square of ln(measured / expected) over the figures that both have; 0.05 is about 5 %.
            Figures of the profile that are assumed weigh a tenth.
        figures: what the profile gives.
        assumed: those of them that rest on an assumption.
    """

    profile: ResolvedVolume
    distance: float
    figures: Mapping[str, float]
    assumed: frozenset[str]


def nearest_profiles(measured: Mapping[str, float], *, shown: int = SHOWN) -> tuple[Nearest, ...]:
    """The profiles, with their default parameters, that are nearest to the measured figures; the nearest first.

    A profile of a volume whose blocks are slow at first touch is left out: a probe writes before it reads.
    """
    found = []
    for name in profile_names():
        resolved = resolve(name)
        if "first_touch" in resolved.model:
            continue
        figures = expected_figures(resolved)
        assumed = assumed_figures(resolved, whole_profile(name))
        far = distance(measured, figures, assumed=assumed)
        if far is not None:
            found.append(Nearest(profile=resolved, distance=far, figures=figures, assumed=assumed))
    return tuple(sorted(found, key=lambda nearest: nearest.distance)[:shown])


def distance(
    measured: Mapping[str, float], expected: Mapping[str, float], *, assumed: Collection[str] = ()
) -> float | None:
    """Weighted root mean square of the logarithms of the ratios; None when too few figures are on both sides."""
    shared = [name for name in expected if FIGURES[name].compared and measured.get(name, 0.0) > 0]
    if len(shared) < _SHARED_MIN:
        return None
    weights = [_GUESS if name in assumed else 1.0 for name in shared]
    squares = [
        (w * math.log(measured[name] / expected[name])) ** 2 for w, name in zip(weights, shared, strict=True)
    ]
    return math.sqrt(sum(squares) / sum(w**2 for w in weights))


def unseen(nearest: Nearest) -> tuple[str, ...]:
    """What the measured volume may still do, if it is the nearest profile: sentences for each credit bucket."""
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
