"""What a volume is while a run uses it: a place for data directories, opened and closed around the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

from volbench.records.facts import VolumeFacts
from volbench.records.run import VolumeSpec


@dataclass(frozen=True, kw_only=True)
class OpenVolume:
    """A volume that is ready for a data directory.

    Args:
        host_path: its directory on this machine, which may hold other things: a run makes one directory of its own
            there. None: only containers can reach it.
        docker_volume: its name for the Docker engine, when containers reach it by name.
        docker_driver, docker_driver_options: how that volume is mounted, as the engine says.
        facts: what is behind it; None when that cannot be seen from here.
        claim: its name in a Kubernetes namespace.
        emulator_claim: name of the claim that holds the control socket of the emulated volume behind it.
        emulator_socket: control socket of an emulated volume: its counters are a source of samples.
    """

    name: str
    spec: VolumeSpec
    host_path: Path | None = None
    docker_volume: str | None = None
    docker_driver: str | None = None
    docker_driver_options: Mapping[str, str] = field(default_factory=dict)
    facts: VolumeFacts | None = None
    claim: str | None = None
    emulator_claim: str | None = None
    emulator_socket: Path | None = None


class Volume(Protocol):
    """A volume of some kind; a context manager that opens and closes it."""

    spec: VolumeSpec

    def open(self) -> OpenVolume:
        """Make it ready: check, mount or create it.

        Raises EnvironmentLacks when the machine cannot, Refused when it would endanger what is there.
        """

    def close(self) -> None:
        """Undo what `open` did and nothing else. Safe to call twice, and after an `open` that failed."""

    def __enter__(self) -> OpenVolume: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class VolumeBase:
    """The context manager over `open` and `close`, for volumes to inherit."""

    def __init__(self, spec: VolumeSpec) -> None:
        self.spec = spec

    def open(self) -> OpenVolume:
        """Make it ready. Kinds say how."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to undo, unless the kind says otherwise."""

    def __enter__(self) -> OpenVolume:
        try:
            return self.open()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
