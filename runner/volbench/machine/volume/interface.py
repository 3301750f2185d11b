"""The interface of volumes: storage for data directories, opened and closed around a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

from volbench.core.records.facts import VolumeFacts
from volbench.core.records.run import VolumeSpec


@dataclass(frozen=True, kw_only=True)
class OpenVolume:
    """A volume that is ready for a data directory.

    Args:
        host_path: its directory on this machine, which may contain other files: a run makes one directory of its
            own there. None: only containers can reach it.
        docker_volume: its name for the Docker engine, when containers reach it by name.
        docker_driver, docker_driver_options: how the engine mounts that volume.
        facts: the storage that backs it; None if not visible from here.
        claim: its name in a Kubernetes namespace.
        emulator_claim: name of the claim with the control socket of the emulated volume that backs it.
        emulator_socket: control socket of an emulated volume: its counters are a source of samples.
        components: of a layout, the volumes of logs and others, each with its roles in `spec`.
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
    components: tuple[OpenVolume, ...] = ()

    @property
    def all(self) -> tuple[OpenVolume, ...]:
        """The volume of the data, then those of a layout's other components."""
        return self, *self.components


class Volume(Protocol):
    """A volume of some kind; a context manager that opens and closes it."""

    spec: VolumeSpec
    measured: VolumeFacts | None
    """What earlier cells of the run measured; `open` refuses another volume where it can tell."""
    retained: bool
    """The run can be resumed on the volume: `close` leaves it as it is."""

    def open(self) -> OpenVolume:
        """Check, mount or create the volume.

        Raises MissingPrerequisite if the machine cannot do that, Refused if that would endanger data.
        """

    def close(self) -> None:
        """Undo what `open` did and nothing else. Safe to call twice, and after a failed `open`."""

    def leftover(self) -> str:
        """Return what a retained volume leaves, and the command that removes it; empty for nothing."""

    def free_unused(self) -> None:
        """Give space back that no file on the volume uses any more, where it lies on a disk of others."""

    def __enter__(self) -> OpenVolume: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class VolumeBase:
    """The context manager over `open` and `close`, for volumes to inherit."""

    def __init__(self, spec: VolumeSpec) -> None:
        self.spec = spec
        self.measured: VolumeFacts | None = None
        self.retained = False

    def open(self) -> OpenVolume:
        """Open the volume; each kind implements this."""
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing; a kind may override this."""

    def leftover(self) -> str:
        """Return nothing; a kind may override this."""
        return ""

    def free_unused(self) -> None:
        """Do nothing; a kind may override this."""

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
