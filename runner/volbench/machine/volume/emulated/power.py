"""The power of emulated volumes: cut, so that what was not durable is gone, and brought back for a recovery."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.volume.emulated.control import ask_socket
from volbench.machine.volume.emulated.mount import mount_block, unmount_block


class Power:
    """The power switch behind a control socket; needs no rights but to the socket where the volume holds files.

    A volume that is a block device has a file system on it, which only a new mount recovers: that takes root, and
    the volume's own directory in sight.

    Args:
        control: the control socket, as this process sees it.
    """

    def __init__(self, control: Path) -> None:
        self._control = control
        self._directory = control.parent

    def check(self) -> None:
        """Raise MissingPrerequisite where this process could not bring the volume back."""
        if self._is_block() and not (os.geteuid() == 0 and (self._directory / "volume.json").exists()):
            raise MissingPrerequisite(
                "a volume with a file system on a block device must be mounted again after a power cut, "
                "and an agent in a container cannot do that",
                where="power cut",
                evidence=f"uid {os.geteuid()}, control socket {self._control}",
                next_step="use --target local, a volume of files (fsx-openzfs, efs-...), or fault: kill_server",
            )

    def durability(self) -> str:
        """Return the durability of an acknowledged write: write_through, write_back or async."""
        return str(self._state()["daemon"]["durability"])

    def settle(self) -> None:
        """Make earlier writes durable, at once, so that no volume has more idle time than another."""
        ask_socket(self._control, {"do": "settle"})

    def cut(self) -> dict[str, int]:
        """Cut the power: all requests to the volume fail now. Return the lost `writes` and `bytes`."""
        return dict(self._fault("power_cut")["lost"])

    def restore(self) -> None:
        """Restore the power; no process may have a file of the volume open. Raise StepFailed."""
        if not self._is_block():
            self._fault("power_on")
            return
        unmount_block(self._directory)  # first: a mounted file system would write its cached data
        self._fault("power_on")
        mount_block(self._directory)

    def _is_block(self) -> bool:
        return str(self._state()["daemon"]["mode"]) == "block"

    def _state(self) -> dict[str, Any]:
        return dict(ask_socket(self._control, {"do": "state"})["state"])

    def _fault(self, kind: str) -> dict[str, Any]:
        try:
            return ask_socket(self._control, {"do": "fault", "fault": {"kind": kind}})
        except StepFailed as error:
            error.cause = "volume_power"
            raise


class PowerOfAll:
    """The power of a machine: the switches of all volumes that a server is on, thrown together.

    Args:
        controls: the control sockets, that of the data's volume first.
    """

    def __init__(self, controls: Sequence[Path]) -> None:
        self._switches = [Power(control) for control in controls]

    def check(self) -> None:
        """Raise MissingPrerequisite where this process could not bring a volume back."""
        for switch in self._switches:
            switch.check()

    def durability(self) -> str:
        """Return the weakest durability of the volumes: async, write_back or write_through."""
        states = {switch.durability() for switch in self._switches}
        return next(name for name in ("async", "write_back", "write_through") if name in states)

    def settle(self) -> None:
        """Make earlier writes durable on each volume."""
        for switch in self._switches:
            switch.settle()

    def cut(self) -> dict[str, int]:
        """Cut the power, one volume right after the other; return the sums of what was lost."""
        lost = [switch.cut() for switch in self._switches]
        return {name: sum(counts.get(name, 0) for counts in lost) for name in lost[0]}

    def restore(self) -> None:
        """Restore the power; no process may have a file of a volume open. Raise StepFailed."""
        for switch in self._switches:
            switch.restore()
