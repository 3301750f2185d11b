"""The profile whose limits a run's volume has: the emulated one, or the one that a target option names for it."""

from __future__ import annotations

from collections.abc import Mapping

from volbench.core.profile.resolve import ResolvedVolume, resolve_spec, resolve_volume
from volbench.core.records.base import Scalar
from volbench.core.records.run import VolumeSpec


def profile_of(spec: VolumeSpec, target_options: Mapping[str, Scalar]) -> ResolvedVolume | None:
    """Return the profile whose limits the volume has; None where none is known.

    Raises UsageError for a wrong one.
    """
    if spec.kind == "emulated":
        return resolve_volume(spec)
    named = target_options.get(f"{spec.name}.profile")
    return resolve_spec(str(named), name=spec.name) if named else None
