"""Caveats of the volumes: what kind of storage they are, what they share, and which could not be used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from volbench.core.profile.shared_storage import not_mounted_text, shared_storage
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.report import VolumeRow
from volbench.core.records.run import JournalEvent, RunRecord
from volbench.results.report.wording import joined

_Key = TypeVar("_Key", float, str)


def unavailable_volumes(events: Iterable[JournalEvent], volume_of: Mapping[str, str]) -> dict[str, str]:
    """Return volume -> the caveat that it could not be used; without volumes that a later cell ran on.

    Args:
        events: the journal.
        volume_of: the volume of each cell id.
    """
    volumes: dict[str, str] = {}
    for event in events:
        if event.event == "volume_unavailable":
            name, details = str(event.details.get("volume")), event.details
            evidence = next(iter(str(details.get("evidence", "")).splitlines()), "")
            reason = f"{details.get('message')} ({evidence})"
            volumes[name] = f"Volume {name} could not be used, and its other cells did not run: {reason}."
        elif event.event == "cell_started":
            volumes.pop(volume_of.get(event.cell_id, ""), None)
    return volumes


def volume_caveats(volumes: Sequence[VolumeRow]) -> Iterator[str]:
    """Yield what kind of storage the volumes are, each kind in a sentence with all of them."""
    emulated = [volume for volume in volumes if volume.emulated]
    if emulated:
        kinds = [volume.profile or volume.spec for volume in emulated]
        listed = joined([f"{volume.name} ({kind})" for volume, kind in zip(emulated, kinds, strict=True)])
        yield (
            f"Volume {emulated[0].name} is emulated ({kinds[0]}): it imitates that kind of storage and is not a"
            " measurement of it."
            if len(emulated) == 1
            else f"Volumes {listed} are emulated: they imitate these kinds of storage and do not measure them."
        )
    for scale, names in _named(emulated, _time_scale).items():
        if scale != 1:
            text = f"credit buckets {scale:,.10g} times smaller than the real ones (time_scale)"
            yield f"{_have(names)} {text}: {'its' if len(names) == 1 else 'their'} bursts end so much sooner."
    in_memory = [volume for volume in volumes if volume.facts.get("memory_backed")]
    for filesystem, names in _named(in_memory, lambda volume: str(volume.filesystem)).items():
        yield f"{_are(names)} memory ({filesystem}), not durable storage."
    layers = [volume.name for volume in volumes if volume.facts.get("overlay")]
    if layers:
        kind = "a container's layer, not a volume" if len(layers) == 1 else "containers' layers, not volumes"
        yield f"{_are(layers)} on an overlay filesystem: {kind}."
    nfs = [volume.name for volume in volumes if volume.facts.get("nfs_server") and not volume.emulated]
    if nfs:
        yield (
            f"{_are(nfs)} NFS: {'its' if len(nfs) == 1 else 'their'} export decides whether a commit survives a"
            " crash of the NFS server (sync, or async, which loses acknowledged commits). A client cannot see the"
            " export's options. The option async of the mount loses nothing that was synced."
        )


def _named(volumes: Iterable[VolumeRow], key: Callable[[VolumeRow], _Key]) -> dict[_Key, list[str]]:
    """Return the names of volumes by what they have in common."""
    names: dict[_Key, list[str]] = {}
    for volume in volumes:
        names.setdefault(key(volume), []).append(volume.name)
    return names


def _time_scale(volume: VolumeRow) -> float:
    return float(volume.facts.get("emulated_parameters", {}).get("time_scale", 1))


def _are(names: Sequence[str]) -> str:
    return f"Volume {names[0]} is" if len(names) == 1 else f"Volumes {joined(names)} are"


def _have(names: Sequence[str]) -> str:
    return f"Volume {names[0]} has" if len(names) == 1 else f"Volumes {joined(names)} have"


def place_caveats(run: RunRecord, volumes: Sequence[VolumeRow]) -> Iterator[str]:
    """Yield volumes that share their storage, and directories on which nothing is mounted."""
    facts = {volume.name: VolumeFacts.model_validate(volume.facts) for volume in volumes if volume.facts}
    yield from (shared.text for shared in shared_storage(facts))
    for name, volume in facts.items():
        if volume.foreign_pods:
            pods, verb = ", ".join(volume.foreign_pods), "mounts" if len(volume.foreign_pods) == 1 else "mount"
            yield f"Claim {volume.claim} of volume {name} is not this run's alone: {pods} {verb} it too."
    for spec in run.volumes:
        if spec.kind == "path" and spec.name in facts and facts[spec.name].emulated_profile is None:
            text = not_mounted_text(spec.name, spec.location, facts[spec.name])
            yield from [text] if text else []
