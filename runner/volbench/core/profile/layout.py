"""The SPEC of a layout: `data:SPEC,log:SPEC,tmp:SPEC`, the server's files on volumes of their own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from volbench.core.base.nearest import suggestion
from volbench.core.records.base import Scalar
from volbench.core.records.layout import DATA, GROUPS, ROLE_TEXTS, component_name
from volbench.core.records.run import TargetName, VolumeSpec
from volbench.errors import UsageError

_NAME = r"[A-Za-z][A-Za-z0-9_-]*"
_EXAMPLE = "for instance a=data:path:/mnt/data,log:path:/mnt/log"
_TARGETS: tuple[TargetName, ...] = ("local", "docker")
_KINDS = ("path", "nfs", "emulated")
"""Volumes with a directory on this machine."""


@dataclass(frozen=True, kw_only=True)
class ComponentText:
    """One component of a layout's text: its name before the colon, and the SPEC after it."""

    name: str
    spec: str


def split_layout(spec: str, kinds: Collection[str]) -> list[ComponentText] | None:
    """Return the components of a layout; None for the SPEC of one volume.

    A component begins with a known word and a colon, or with any word, a colon, and a kind of volume or an absolute
    path. So a comma within the options of an NFS mount begins none.

    Args:
        kinds: words that begin the SPEC of one volume.
    """
    kind, known_name = ("|".join(map(re.escape, names)) for names in (kinds, (DATA, *GROUPS)))
    first = re.match(rf"(?:{_NAME}:(?=(?:{kind}):)|(?:{known_name}):)", spec)
    if first is None or first[0].rstrip(":") in kinds:
        return None
    start = rf"(?:{_NAME}:(?=(?:{kind}):|/)|(?:{known_name}):)"
    beginnings = [first.start(), *(start_match.start() + 1 for start_match in re.finditer(f",{start}", spec))]
    ends = [*(begin - 1 for begin in beginnings[1:]), len(spec)]
    texts = [spec[begin:end] for begin, end in zip(beginnings, ends, strict=True)]
    return [
        ComponentText(name=name, spec=spec_text) for name, _, spec_text in (text.partition(":") for text in texts)
    ]


def layout_volume(
    components: Sequence[ComponentText],
    *,
    name: str,
    spec: str,
    kinds: Collection[str],
    parse: Callable[..., VolumeSpec],
) -> VolumeSpec:
    """Return the volume of the data with the others as its components. Raise UsageError.

    Args:
        spec: the whole text of the layout.
        kinds: words that begin the SPEC of one volume.
        parse: returns the volume of `NAME=SPEC`, or of a SPEC with `name`.
    """
    _check_names(components, text=f"{name}={spec}")
    for component in components:
        if split_layout(component.spec, kinds) is not None or not component.spec:
            message = (
                f"{component.name!r} is a layout itself"
                if component.spec
                else f"{component.name!r} names no volume"
            )
            raise volume_fault(f"{name}={spec}", message, _EXAMPLE)
    volumes = [parse(f"{component_name(name, component.name)}={component.spec}") for component in components]
    _check_directories(components, volumes, text=f"{name}={spec}")
    layout = [
        volume.model_copy(update={"roles": GROUPS[component.name]})
        for component, volume in zip(components, volumes, strict=True)
        if component.name != DATA
    ]
    data = next(component for component in components if component.name == DATA)
    return parse(data.spec, name=name).model_copy(update={"text": spec, "layout": tuple(layout)})


def component_word(component: VolumeSpec) -> str:
    """Return the word of a component in its layout's SPEC, such as `log`."""
    return component.name.rpartition(".")[2]


def _check_names(components: Sequence[ComponentText], *, text: str) -> None:
    names = [component.name for component in components]
    for name in names:
        if name not in (DATA, *GROUPS):
            hint = suggestion(name, (DATA, *GROUPS)) or _EXAMPLE
            raise volume_fault(text, f"{name!r} is no component of a server", hint)
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise volume_fault(text, f"{twice!r} occurs twice", "name each component once")
    if DATA not in names:
        raise volume_fault(text, "the layout has no volume for the data", _EXAMPLE)
    name_of: dict[str, str] = {}
    for name in names:
        for role in GROUPS.get(name, ()):
            if role in name_of:
                raise volume_fault(
                    text,
                    f"{name_of[role]!r} and {name!r} both name the {ROLE_TEXTS[role]}",
                    "name each component once",
                )
            name_of[role] = name


def _check_directories(components: Sequence[ComponentText], volumes: Sequence[VolumeSpec], *, text: str) -> None:
    for volume in volumes:
        if volume.kind not in _KINDS:
            raise volume_fault(
                text,
                f"a {volume.kind} volume cannot be a component of a layout",
                f"components have a directory on this machine: {', '.join(_KINDS)}",
            )
        if "control" in volume.options:
            raise volume_fault(text, "a server from elsewhere has its own layout", "leave the option `control` out")
    volume_of: dict[tuple[str, str], str] = {}
    for component, volume in zip(components, volumes, strict=True):
        if volume.kind == "emulated":
            continue  # each is a volume of its own, whatever its profile
        key = (volume.kind, os.path.normpath(volume.location) if volume.kind == "path" else volume.location)
        if key in volume_of:
            raise volume_fault(
                text,
                f"{volume_of[key]!r} and {component.name!r} name the same directory",
                "give each a volume of its own, or leave one out: it is with the data then",
            )
        volume_of[key] = component.name


def require_target(spec: VolumeSpec, target: TargetName) -> None:
    """Raise UsageError for a layout on a target that places all files of a server on one volume."""
    if spec.layout and target == "docker" and any(volume.kind == "nfs" for volume in (spec, *spec.layout)):
        raise UsageError(
            "in a layout, the docker target takes directories and emulated volumes",
            where=f"volume {spec.name}={spec.text}",
            next_step="mount the export, and name its mount point with path:",
        )
    if spec.layout and target not in _TARGETS:
        raise UsageError(
            f"the {target} target has no layouts: all files of a server are on one volume",
            where=f"volume {spec.name}={spec.text}",
            next_step=f"use --target {' or '.join(_TARGETS)}, or name one volume",
        )


def require_one_volume(spec: VolumeSpec, *, where: str) -> None:
    """Raise UsageError for a layout, where one volume is asked about: an answer would be of its data alone."""
    if spec.layout:
        names = ", ".join((DATA, *map(component_word, spec.layout)))
        raise UsageError(
            "a layout is several volumes, and this is about one",
            where=where,
            evidence=f"its components: {names}",
            next_step="name the volume of one component, such as path:/mnt/data",
        )


def role_faults(spec: VolumeSpec, *, flavor: str, option: Callable[[str], Scalar | None]) -> Iterator[str]:
    """Yield why a server has no files of a role that the layout names.

    Args:
        flavor: mysql, mariadb, or any where it is not known yet.
        option: returns the value of an option of the suite; None where the suite does not set it.
    """
    roles = {role for component in spec.layout for role in component.roles}
    if "doublewrite" in roles and flavor == "mariadb":
        yield "MariaDB writes its doublewrite buffer into the system tablespace: it cannot be on another volume"
    for role, name in (("binlog", "log_bin"), ("doublewrite", "innodb_doublewrite")):
        if role in roles and str(option(name)).lower() in ("false", "off", "0"):
            yield f"the suite switches {name} off: there is no {ROLE_TEXTS[role]} to place"
    undo = option("innodb_undo_tablespaces")
    if "undo" in roles and flavor == "mariadb" and undo is not None and str(undo) in ("0", "1"):
        yield f"innodb_undo_tablespaces = {undo}: MariaDB's undo logs are in the system tablespace then"


def check_roles(specs: Sequence[VolumeSpec], *, flavor: str, option: Callable[[str], Scalar | None]) -> None:
    """Raise UsageError with every fault of every layout, see `role_faults`."""
    for spec in specs:
        faults = list(role_faults(spec, flavor=flavor, option=option))
        if faults:
            raise UsageError(
                "; ".join(faults),
                where=f"volume {spec.name}={spec.text}",
                next_step="leave that component out of the layout, or change the server's options",
            )


def volume_fault(text: str, message: str, next_step: str) -> UsageError:
    """Return the error of a SPEC that cannot be used."""
    return UsageError(message, where=f"volume {text!r}", next_step=next_step)
