"""Volumes of a sweep: each declared volume with its options varied, and the treatments that its cells are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from volbench.errors import UsageError
from volbench.plan.designs import Combination, combinations_of
from volbench.plan.order import Treatment
from volbench.records.base import Scalar
from volbench.records.run import VolumeSpec
from volbench.records.sweep import SweepSpec
from volbench.suite.sweep import VOLUME
from volbench.volume.profiles import resolve_volume
from volbench.volume.spec import parse_volume

NAME_CHARACTERS_MAX = 41
VARIANTS_MAX = 16
"""All volumes of a run are up at the same time; an emulated one is a process with its own disk image."""


def with_options(spec: VolumeSpec, options: dict[str, Scalar]) -> VolumeSpec:
    """The volume with these options set over its own, checked as if the user had typed them.

    Mount options of nfs are `name=value`; true or false puts a word such as `noac` in or leaves it out.
    Raises UsageError naming the option that this kind of volume does not have, with the nearest.
    """
    if not options:
        return spec
    place = spec.text.partition("?")[0]
    own = spec.options.get("options", "").split(",") if spec.kind == "nfs" else []
    given = dict(part.partition("=")[::2] for part in own if part) if spec.kind == "nfs" else dict(spec.options)
    for name, value in options.items():
        if spec.kind == "nfs" and isinstance(value, bool):
            given.pop(name, None)
            given |= {name: ""} if value else {}
        else:
            given[name] = _text(value)
    joint = "," if spec.kind == "nfs" else "&"
    query = joint.join(f"{name}={value}" if value else name for name, value in given.items())
    made = parse_volume(f"{place}?{query}" if query else place, name=spec.name)
    if made.kind == "emulated":
        resolve_volume(made)
    return made


def spread(volumes: Sequence[VolumeSpec], sweep: SweepSpec | None) -> tuple[list[VolumeSpec], list[Treatment]]:
    """Every volume that a run needs, and every treatment: each volume with each combination of the sweep.

    Raises UsageError for an option that a volume does not have, and for too many volumes at a time.
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
                spec = with_options(volume, {key.removeprefix(VOLUME): value for key, value in options.items()})
                variant_of = "" if name == volume.name else volume.name
                specs[name] = spec.model_copy(update={"name": name, "variant_of": variant_of})
            label = _label(volume.name, combination, base, labels)
            treatments.append(Treatment(volume=name, label=label, parameters=combination))
    if len(specs) > VARIANTS_MAX:
        raise UsageError(
            f"the sweep needs {len(specs)} volumes at a time; at most {VARIANTS_MAX} are opened",
            where="sweep",
            next_step="vary fewer options of the volume, or choose `design: one_factor` or `fractional`",
        )
    return list(specs.values()), treatments


def _label(volume: str, chosen: Combination, base: Combination, taken: dict[str, Combination]) -> str:
    """`fsx` for the base, `fsx.iops-960` where one factor differs, else numbered; one label for one combination."""
    changed = {key: value for key, value in chosen.items() if value != base[key]}
    known = next((label for label, other in taken.items() if other == changed), None)
    if known is not None:
        return known
    label = volume
    if len(changed) == 1:
        [(key, value)] = changed.items()
        label = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{volume}.{key.rpartition('.')[2]}-{_text(value)}")
    if len(changed) > 1 or len(label) > NAME_CHARACTERS_MAX or label in taken:
        label = f"{volume[: NAME_CHARACTERS_MAX - 5]}.c{len(taken):03d}"
    taken[label] = changed
    return label


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
