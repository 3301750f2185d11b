"""Volume SPECs: from `NAME=KIND:PLACE?OPTION=VALUE&...` to a checked VolumeSpec."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from volbench.errors import UsageError
from volbench.records.base import parse_size_bytes
from volbench.records.run import VolumeSpec
from volbench.volume.nfs_options import nfs_option_faults

_DOCKER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_KUBERNETES_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PROFILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}|(?:[^/]{0,200}/){0,40}[^/]{1,200}\.yaml")


def _anything(value: str) -> None:
    if not value:
        raise ValueError("the value is empty")


def _size(value: str) -> None:
    parse_size_bytes(value)


def _yes_or_no(value: str) -> None:
    if value not in ("yes", "no"):
        raise ValueError(f"{value!r} is neither yes nor no")


def _absolute(place: str) -> None:
    if not place.startswith("/"):
        raise ValueError(f"{place!r} is not an absolute path")


def _nfs_place(place: str) -> None:
    server, separator, _ = place.partition(":/")
    if not separator or not server:
        raise ValueError(f"{place!r} is not SERVER:/EXPORT")


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[str], None]:
    def check(place: str) -> None:
        if pattern.fullmatch(place) is None:
            raise ValueError(f"{place!r} is not {what}")

    return check


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What a kind's SPEC looks like. `options` None: those of its profile, which `volume.check` knows."""

    example: str
    check_place: Callable[[str], None]
    options: dict[str, Callable[[str], None]] | None


KINDS: dict[str, _Kind] = {
    "path": _Kind(
        example="path:/mnt/x",
        check_place=_absolute,
        options={"control": _anything},  # control directory of a supervised server that others started (compose)
    ),
    "docker-volume": _Kind(
        example="docker-volume:NAME",
        check_place=_matching(_DOCKER_NAME, "a Docker volume's name"),
        options={"create": _yes_or_no, "driver": _anything, "type": _anything, "o": _anything, "device": _anything},
    ),
    "nfs": _Kind(
        example="nfs:server:/export?vers=4.1,nconnect=4",
        check_place=_nfs_place,
        options={"options": _anything},  # everything after the ?: mount options, kept as they are
    ),
    "emulated": _Kind(
        example="emulated:ebs-gp2?size=50GiB&dir=/var/tmp/x",
        check_place=_matching(_PROFILE_NAME, "a profile's name, or the path of a profile's .yaml file"),
        options=None,
    ),
    "pvc": _Kind(example="pvc:NAME", check_place=_matching(_KUBERNETES_NAME, "a claim's name"), options={}),
    "storage-class": _Kind(
        example="storage-class:NAME?size=100Gi",
        check_place=_matching(_KUBERNETES_NAME, "a storage class's name"),
        options={"size": _size},
    ),
}
CLUSTER_KINDS = ("pvc", "storage-class")


def parse_volume(text: str, *, name: str | None = None) -> VolumeSpec:
    """The volume of `NAME=SPEC`, or of a bare SPEC when `name` is given.

    Args:
        text: for instance `a=path:/mnt/x`, `b=emulated:ebs-gp2?size=50GiB`; an absolute path alone is `path:`,
            and a relative one after `path:` is taken from the working directory.
        name: the volume's name, for a text that has none.

    Raises UsageError with the nearest match for an unknown kind or option.
    """
    if name is None:
        name, separator, spec = text.partition("=")
        if not separator or "/" in name or ":" in name:
            raise _fault(text, "a volume is given as NAME=SPEC", f"for instance a={text or KINDS['path'].example}")
    else:
        spec = text
    kind, place, query = _split(text, spec)
    try:
        KINDS[kind].check_place(place)
        options = _options(text, kind, query)
        return VolumeSpec.model_validate(
            {"name": name, "kind": kind, "place": place, "options": options, "text": spec}
        )
    except ValidationError as error:
        raise _fault(
            text, f"{name!r} is no name for a volume", "letters, digits, '_', '.' and '-', at most 41 of them"
        ) from error
    except ValueError as error:
        raise _fault(text, str(error), f"for instance {KINDS[kind].example}") from error


def require_kind(spec: VolumeSpec, *, in_cluster: bool) -> None:
    """Raise UsageError for a kind of volume that exists only in a cluster, or only outside of one."""
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
    kind, separator, rest = spec.partition(":")
    if kind not in KINDS:
        raise _fault(text, f"unknown kind of volume {kind!r}", _nearest(kind, KINDS))
    place, _, query = rest.partition("?")
    if not separator or not place:
        raise _fault(text, f"a {kind} volume needs a place", f"for instance {KINDS[kind].example}")
    if kind == "path":
        place = str(Path(place).absolute())
    if kind == "emulated" and place.endswith(".yaml"):
        place = str(Path(place).absolute())  # a profile of one's own; a run may be resumed from elsewhere
    return kind, place, query


def _options(text: str, kind: str, query: str) -> dict[str, str]:
    if not query:
        return {}
    if kind == "nfs":
        wrong = list(nfs_option_faults(query))
        if wrong:
            raise _fault(text, "; ".join(wrong), "nfs(5) has them all")
        return {"options": query}
    options: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    for part in query.split("&"):
        key, _, value = part.partition("=")
        fault = _option_fault(kind, key, value, options)
        if fault is not None:
            faults.append(fault)
        options[key] = value
    if len(faults) == 1:
        raise _fault(text, *faults[0])
    if faults:
        raise _fault(text, "; ".join(f"{what} ({hint})" for what, hint in faults), KINDS[kind].example)
    return options


def _option_fault(kind: str, key: str, value: str, before: Mapping[str, str]) -> tuple[str, str] | None:
    """What is wrong with an option, and what to write instead."""
    known = KINDS[kind].options
    if known is not None and key not in known:
        return f"a {kind} volume has no option {key!r}", _nearest(key, known)
    if not value:
        return f"the option {key!r} needs a value", f"{key}=VALUE"
    if key in before:
        return f"the option {key!r} is given twice", "give it once"
    try:
        if known is not None:
            known[key](value)
    except ValueError as error:
        return f"{key}={value}: {error}", f"for instance {KINDS[kind].example}"
    return None


def _nearest(word: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        return f"perhaps you meant {near[0]!r}"
    return f"known: {', '.join(names)}" if names else "it takes no options"


def _fault(text: str, what: str, next_step: str) -> UsageError:
    return UsageError(what, where=f"volume {text!r}", next_step=next_step)
