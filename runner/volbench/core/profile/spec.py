"""Volume SPECs: from `NAME=KIND:LOCATION?OPTION=VALUE&...` to a checked VolumeSpec."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from volbench.core.base.nearest import suggestion
from volbench.core.profile.layout import layout_volume, split_layout, volume_fault
from volbench.core.profile.nfs_options import nfs_option_faults
from volbench.core.records.base import parse_size_bytes
from volbench.core.records.run import VolumeSpec
from volbench.errors import UsageError

_DOCKER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_KUBERNETES_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PROFILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}|(?:[^/]{0,200}/){0,40}[^/]{1,200}\.yaml")


def _not_empty(value: str) -> None:
    if not value:
        raise ValueError("the value is empty")


def _size(value: str) -> None:
    parse_size_bytes(value)


SYSTEM_DIRECTORIES = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
)
"""Directories of the Filesystem Hierarchy Standard that hold the system itself and no data of users."""
_DEVICES = "/dev"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a file system in memory, which a volume may be


def _yes_or_no(value: str) -> None:
    if value not in ("yes", "no"):
        raise ValueError(f"{value!r} is neither yes nor no")


def _directory_for_data(location: str) -> None:
    if not location.startswith("/"):
        raise ValueError(f"{location!r} is not an absolute path")
    if fault := system_directory_fault(location):
        raise ValueError(fault)


def system_directory_fault(location: str) -> str:
    """Return why an absolute path is no place for data: the system's own directory; empty for any other."""
    path = PurePosixPath(os.path.normpath(location))
    if str(path) in ("/", "//"):
        return "/ is the system's own directory: name one for data on it, such as /var/tmp/volbench"
    system = next((name for name in SYSTEM_DIRECTORIES if path.is_relative_to(name)), None)
    if system is None or path.is_relative_to(_SHARED_MEMORY):
        return ""
    if system == _DEVICES:
        mounted = "mount its file system, and name a directory for data on that"
        return f"{location} is in /dev, and volbench touches no device: {mounted}"
    return f"{location} belongs to the system ({system}): name a directory for data on the volume"


def _nfs_location(location: str) -> None:
    server, separator, _ = location.partition(":/")
    if not separator or not server:
        raise ValueError(f"{location!r} is not SERVER:/EXPORT")


def _matching(pattern: re.Pattern[str], noun: str) -> Callable[[str], None]:
    def check(location: str) -> None:
        if pattern.fullmatch(location) is None:
            raise ValueError(f"{location!r} is not {noun}")

    return check


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """The form of a kind's SPEC. `options` None: those of its profile, which `volume.check` checks."""

    example: str
    check_location: Callable[[str], None]
    options: dict[str, Callable[[str], None]] | None


KINDS: dict[str, _Kind] = {
    "path": _Kind(
        example="path:/mnt/x",
        check_location=_directory_for_data,
        options={"control": _not_empty},  # control directory of a supervised server from elsewhere (compose)
    ),
    "docker-volume": _Kind(
        example="docker-volume:NAME",
        check_location=_matching(_DOCKER_NAME, "a Docker volume's name"),
        options={
            "create": _yes_or_no,
            "driver": _not_empty,
            "type": _not_empty,
            "o": _not_empty,
            "device": _not_empty,
        },
    ),
    "nfs": _Kind(
        example="nfs:server:/export?vers=4.1,nconnect=4",
        check_location=_nfs_location,
        options={"options": _not_empty},  # everything after the ?: mount options, unchanged
    ),
    "emulated": _Kind(
        example="emulated:ebs-gp2?size=50GiB&dir=/var/tmp/x",
        check_location=_matching(_PROFILE_NAME, "a profile's name, or the path of a profile's .yaml file"),
        options=None,
    ),
    "pvc": _Kind(example="pvc:NAME", check_location=_matching(_KUBERNETES_NAME, "a claim's name"), options={}),
    "storage-class": _Kind(
        example="storage-class:NAME?size=100Gi",
        check_location=_matching(_KUBERNETES_NAME, "a storage class's name"),
        options={"size": _size},
    ),
}
CLUSTER_KINDS = ("pvc", "storage-class")


def parse_volume(text: str, *, name: str | None = None) -> VolumeSpec:
    """Return the volume of `NAME=SPEC`, or of a bare SPEC with `name`.

    Args:
        text: for instance `a=path:/mnt/x`, `b=emulated:ebs-gp2?size=50GiB`; an absolute path alone is `path:`,
            and a relative one after `path:` starts at the working directory. A layout of several volumes is
            `a=data:SPEC,log:SPEC`.
        name: the volume's name, for a text without one.

    Raises UsageError with the nearest match for an unknown kind or option.
    """
    if name is None:
        name, separator, spec = text.partition("=")
        if not separator or "/" in name or ":" in name:
            raise volume_fault(
                text, "a volume needs the form NAME=SPEC", f"for instance a={text or KINDS['path'].example}"
            )
    else:
        spec = text
    if (components := split_layout(spec, KINDS)) is not None:
        return layout_volume(components, name=name, spec=spec, kinds=KINDS, parse=parse_volume)
    kind, location, query = _split(text, spec)
    try:
        KINDS[kind].check_location(location)
        options = _options(text, kind, query)
        return VolumeSpec.model_validate(
            {"name": name, "kind": kind, "location": location, "options": options, "text": spec}
        )
    except ValidationError as error:
        raise volume_fault(
            text, f"{name!r} is not a volume's name", "use at most 41 letters, digits, '_', '.' and '-'"
        ) from error
    except ValueError as error:
        raise volume_fault(text, str(error), f"for instance {KINDS[kind].example}") from error


def require_kind(spec: VolumeSpec, *, in_cluster: bool) -> None:
    """Raise UsageError for a kind of volume that exists only in a cluster, or only outside."""
    where = f"volume {spec.name}={spec.text}"
    if in_cluster and spec.kind not in CLUSTER_KINDS:
        raise UsageError(
            f"a {spec.kind} volume does not exist in a cluster",
            where=where,
            next_step="name a claim (pvc:NAME) or a class (storage-class:NAME?size=100Gi); k8s/README.md has more",
        )
    if not in_cluster and spec.kind in CLUSTER_KINDS:
        raise UsageError(
            f"a {spec.kind} volume exists only on the kubernetes target",
            where=where,
            next_step="add --target kubernetes",
        )


def _split(text: str, spec: str) -> tuple[str, str, str]:
    if spec.startswith("/"):
        spec = f"path:{spec}"
    kind, separator, after_kind = spec.partition(":")
    if kind not in KINDS and not separator:
        example = f"for a directory path:{spec or '/mnt/x'}; other kinds: {', '.join(KINDS)}"
        raise volume_fault(text, f"{spec!r} says no kind of volume", example)
    if kind not in KINDS:
        raise volume_fault(text, f"unknown kind of volume {kind!r}", _nearest(kind, KINDS))
    location, _, query = after_kind.partition("?")
    if not separator or not location:
        raise volume_fault(text, f"a {kind} volume needs a name or path", f"for instance {KINDS[kind].example}")
    if kind == "path":
        location = str(Path(location).absolute())
    if kind == "emulated" and location.endswith(".yaml"):
        location = str(Path(location).absolute())  # a user's profile; a run may be resumed from another directory
    return kind, location, query


def _options(text: str, kind: str, query: str) -> dict[str, str]:
    if not query:
        return {}
    if kind == "nfs":
        faults_found = list(nfs_option_faults(query))
        if faults_found:
            raise volume_fault(text, "; ".join(faults_found), "nfs(5) lists all mount options")
        return {"options": query}
    options: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    for option_text in query.split("&"):
        key, _, value = option_text.partition("=")
        fault = _option_fault(kind, key, value, options)
        if fault is not None:
            faults.append(fault)
        options[key] = value
    if len(faults) == 1:
        raise volume_fault(text, *faults[0])
    if faults:
        listed = "; ".join(f"{fault_text} ({hint})" for fault_text, hint in faults)
        raise volume_fault(text, listed, KINDS[kind].example)
    return options


def _option_fault(kind: str, key: str, value: str, before: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what is wrong with an option, and a correction."""
    checks = KINDS[kind].options
    if checks is not None and key not in checks:
        return f"a {kind} volume has no option {key!r}", _nearest(key, checks)
    if not value:
        return f"the option {key!r} needs a value", f"{key}=VALUE"
    if key in before:
        return f"the option {key!r} occurs twice", "write it once"
    try:
        if checks is not None:
            checks[key](value)
    except ValueError as error:
        return f"{key}={value}: {error}", f"for instance {KINDS[kind].example}"
    return None


def _nearest(name: str, candidates: Iterable[str]) -> str:
    return suggestion(name, candidates) or "this kind has no options"
