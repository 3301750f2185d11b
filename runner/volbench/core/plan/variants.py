"""Volumes of a sweep: each declared volume with its options varied, and the treatments of its cells."""

from __future__ import annotations

import re
from collections.abc import Sequence

from volbench.core.base.text import counted
from volbench.core.plan.designs import Combination, combinations_of
from volbench.core.plan.order import Treatment
from volbench.core.profile.resolve import resolve_volume
from volbench.core.profile.spec import parse_volume
from volbench.core.records.base import Scalar
from volbench.core.records.run import VolumeSpec
from volbench.core.records.sweep import SweepSpec
from volbench.core.suite.sweep import VOLUME
from volbench.errors import UsageError

NAME_CHARACTERS_MAX = 41
VARIANTS_MAX = 16
"""All volumes of a run are open at the same time; an emulated one is a process with its own disk image."""


def with_spec_options(spec: VolumeSpec, options: dict[str, Scalar]) -> VolumeSpec:
    """Return the volume with these options over its own, checked like a user's SPEC.

    Mount options of nfs are `name=value`; true or false adds or removes an option such as `noac`.
    Raises UsageError for an option that this kind of volume does not have, with the nearest match.
    """
    if not options:
        return spec
    if spec.layout:
        raise UsageError(
            "a sweep varies the options of one volume, and this is a layout of several",
            where=f"volume {spec.name}={spec.text}",
            next_step="name a layout for each value: --volume a=... --volume b=...",
        )
    location = spec.text.partition("?")[0]
    own = spec.options.get("options", "").split(",") if spec.kind == "nfs" else []
    merged = (
        dict(option.partition("=")[::2] for option in own if option) if spec.kind == "nfs" else dict(spec.options)
    )
    for name, value in options.items():
        if spec.kind == "nfs" and isinstance(value, bool):
            merged.pop(name, None)
            merged |= {name: ""} if value else {}
        else:
            merged[name] = _text(value)
    joint = "," if spec.kind == "nfs" else "&"
    query = joint.join(f"{name}={value}" if value else name for name, value in merged.items())
    varied = parse_volume(f"{location}?{query}" if query else location, name=spec.name)
    if varied.kind == "emulated":
        resolve_volume(varied)
    return varied


def expand_variants(
    volumes: Sequence[VolumeSpec], sweep: SweepSpec | None
) -> tuple[list[VolumeSpec], list[Treatment]]:
    """Return every volume of a run, and every treatment: each volume with each combination of the sweep.

    Raises UsageError for an option that a volume does not have, and for too many volumes.
    """
    if sweep is None:
        return list(volumes), [Treatment(volume=volume.name, label=volume.name) for volume in volumes]
    specs: dict[str, VolumeSpec] = {}
    treatments: list[Treatment] = []
    base = {name: factor.base for name, factor in sweep.factors.items()}
    for volume in volumes:
        labels: dict[str, Combination] = {}
        for combination in combinations_of(sweep):
            options = {key: value for key, value in combination.items() if key.startswith(VOLUME)}
            name = _label(volume.name, options, base, labels)
            if name not in specs:
                spec = with_spec_options(
                    volume, {key.removeprefix(VOLUME): value for key, value in options.items()}
                )
                variant_of = "" if name == volume.name else volume.name
                specs[name] = spec.model_copy(update={"name": name, "variant_of": variant_of})
            label = _label(volume.name, combination, base, labels)
            treatments.append(Treatment(volume=name, label=label, parameters=combination))
    if len(specs) > VARIANTS_MAX:
        raise UsageError(
            f"the sweep needs {counted(len(specs), 'volume')} at the same time; the maximum is {VARIANTS_MAX}",
            where="sweep",
            next_step="vary fewer options of the volume, or choose `design: one_factor`",
        )
    return list(specs.values()), treatments


def _label(volume: str, chosen: Combination, base: Combination, labels: dict[str, Combination]) -> str:
    """Return `fsx` for the base, `fsx.iops-960` if one factor differs, else a number; one label per combination."""
    changed = {key: value for key, value in chosen.items() if value != base[key]}
    existing = next((label for label, other_changes in labels.items() if other_changes == changed), None)
    if existing is not None:
        return existing
    label = volume
    if len(changed) == 1:
        [(key, value)] = changed.items()
        label = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{volume}.{key.rpartition('.')[2]}-{_text(value)}")
    if len(changed) > 1 or len(label) > NAME_CHARACTERS_MAX or label in labels:
        label = f"{volume[: NAME_CHARACTERS_MAX - 5]}.c{len(labels):03d}"
    labels[label] = changed
    return label


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
