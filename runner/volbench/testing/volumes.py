"""An emulated volume for one test: mounted, made slow, stalled, without power, and removed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from volbench.core.profile.resolve import resolve_volume
from volbench.core.profile.spec import parse_volume
from volbench.core.records.base import parse_duration_s
from volbench.core.records.run import VolumeSpec
from volbench.errors import UsageError, VolbenchError
from volbench.machine.volume.emulated.control import ask
from volbench.machine.volume.emulated.volume import EmulatedVolume
from volbench.testing.leftovers import clear_killed_sessions, private_directory


@dataclass(frozen=True, kw_only=True)
class PowerLoss:
    """What a power cut took back: acknowledged writes that no flush had made durable."""

    writes: int
    bytes: int


class PoweredServer(Protocol):
    """A server on a volume: it loses power with it, and restarts with it."""

    def cut_power(self) -> None:
        """End at once, without a chance to write."""

    def power_on(self) -> None:
        """Start on the data that is there, and return when it answers. Raise TimeoutError."""

    def remove(self) -> None:
        """End and leave nothing. Safe to call twice."""


class MountedVolume:
    """An emulated volume that is mounted at `path`, with the faults that a test injects.

    Args:
        emulated: the started volume.
        spec: as the test named it.
    """

    def __init__(self, emulated: EmulatedVolume, *, spec: str) -> None:
        self._emulated = emulated
        self.spec = spec
        self._servers: list[PoweredServer] = []
        self._powered = True

    def __repr__(self) -> str:
        return f"<emulated volume {self.spec} at {self.path}>"

    @property
    def path(self) -> Path:
        """The directory to use: the root of the mounted file system."""
        return self._emulated.data

    @property
    def directory(self) -> Path:
        """The volume's own directory: its image, its log, its control socket."""
        return self._emulated.directory

    def stall(self, duration: float | str = 3.0) -> None:
        """Complete nothing for a time; what waits goes on afterwards.

        Args:
            duration: seconds, or a text such as "3s".
        """
        self.fault("stall", seconds=parse_duration_s(str(duration)))

    def slow(self, factor: float) -> None:
        """Multiply every latency, until `clear`. Limits of IOPS and throughput stay."""
        self.fault("slow_down", factor=factor)

    def drain_credits(self) -> None:
        """Empty the burst buckets: from now on the volume gives its baseline."""
        self.fault("credits", fill=0.0)

    def fail(self, every: int, *operations: str) -> None:
        """Let every n-th operation fail with EIO, until `clear`.

        Args:
            every: n.
            operations: kinds such as "read", "write", "flush"; none: all of them.
        """
        self.fault("error", every=every, ops=list(operations))

    def fault(self, kind: str, **details: object) -> None:
        """Inject any fault of the daemon (runner/emulator/README.md). Raise StepFailed for an unknown one."""
        self._emulated.fault(kind, **details)

    def clear(self) -> None:
        """End every fault that can end."""
        self.fault("clear")

    def power_cut(self) -> PowerLoss:
        """Cut the power of the volume and of each server on it; `power_on` brings them back.

        Returns what was acknowledged and is lost. From here on every access fails with EIO.
        """
        lost = self._emulated.fault("power_cut")
        self._powered = False
        for server in self._servers:
            server.cut_power()
        return PowerLoss(writes=lost["writes"], bytes=lost["bytes"])

    def power_on(self) -> None:
        """Mount the volume again, as a file system recovers it, and start the servers that were on it.

        Raises UsageError where the power is on, StepFailed where a process still has a file of it open.
        """
        if self._powered:
            raise UsageError("the volume has power", where=self.spec, next_step="call power_cut() first")
        self._emulated.stop()
        self._emulated.start()
        self._powered = True
        for server in self._servers:
            server.power_on()

    def counters(self) -> Mapping[str, Any]:
        """Return the daemon's counters since the start: operations, credits left, time at limits, fidelity."""
        return self._emulated.counters()

    @contextlib.contextmanager
    def unlimited(self) -> Iterator[None]:
        """Leave limits and latencies out for a block: for what a test prepares and does not examine.

        Burst credits are not spent in it, and are earned as always: `drain_credits` after it empties the buckets.
        """
        ask(self.directory, {"do": "hurry", "on": True})
        try:
            yield
        finally:
            ask(self.directory, {"do": "hurry", "on": False})

    def attach(self, server: PoweredServer) -> None:
        """Let a server lose its power with this volume."""
        self._servers.append(server)

    def detach(self, server: PoweredServer) -> None:
        """Forget a server that was removed."""
        if server in self._servers:
            self._servers.remove(server)

    def close(self) -> None:
        """Remove the servers on the volume, then the volume with its data, each whatever happens to the others."""
        with contextlib.suppress(VolbenchError):  # without power, or its daemon is dead
            self.clear()
        with ExitStack() as steps:
            steps.callback(self._emulated.remove)
            for server in tuple(self._servers):
                steps.callback(server.remove)


@contextlib.contextmanager
def emulated_volume(spec: str, *, directory: Path | None = None) -> Iterator[MountedVolume]:
    """Mount an emulated volume for the block; nothing of it is left afterwards.

    Args:
        spec: `PROFILE?PARAMETER=VALUE&...` as in `ebs-gp2?size=50GiB&credits=0%`, with or without `emulated:`.
        directory: on the disk for the data; None: /var/tmp. It takes the space of what is written.

    Raises UsageError for a SPEC that cannot be read, MissingPrerequisite without root, FUSE, loop devices or the
    daemon.
    """
    resolved = resolve_volume(_parse(spec))
    clear_killed_sessions()
    with private_directory(directory) as root, ExitStack() as steps:
        emulated = EmulatedVolume(resolved, root, name="volume")
        emulated.start()
        volume = MountedVolume(emulated, spec=spec)
        steps.callback(volume.close)
        yield volume


def _parse(spec: str) -> VolumeSpec:
    """Return the VolumeSpec of an emulated volume's SPEC. Raise UsageError for another kind, and for `dir`."""
    parsed = parse_volume(spec if spec.startswith("emulated:") else f"emulated:{spec}", name="volume")
    if "dir" in parsed.options:
        raise UsageError(
            "dir= is not for tests, whose volumes have directories of their own",
            where=spec,
            next_step="leave it out, or pass directory=",
        )
    return parsed
