"""The volumes of a run: opened at its start, skipped when one fails, closed at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from volbench.errors import EnvironmentLacks, StepFailed, VolumeUnavailable
from volbench.execute.completion import pending_cells
from volbench.execute.volume_watch import VolumeWatch
from volbench.records.cell import CellResult
from volbench.store.run_directory import RunDirectory
from volbench.volume.interface import OpenVolume, Volume

AtEnd = Callable[[Callable[[], object]], None]
"""Takes an action for the end of the run, after those of later calls."""


class RunVolumes:
    """Opens and closes the volumes of a run; of several, one that cannot be used only loses its own cells."""

    def __init__(
        self,
        directory: RunDirectory,
        volumes: Mapping[str, Volume],
        *,
        remove: Callable[[OpenVolume], object],
        on_message: Callable[[str], None],
    ) -> None:
        """Open nothing.

        Args:
            remove: removes the run's directory from a volume, if it is visible.
            on_message: called with a line for each volume that cannot be used or is left as it is.
        """
        self._directory = directory
        self._run = directory.run
        self._volumes = volumes
        self._remove = remove
        self._say = on_message
        self._watches: dict[str, VolumeWatch] = {}
        self.unavailable: dict[str, VolumeUnavailable] = {}
        """Why a volume's cells are skipped."""

    def open_all(self, at_end: AtEnd) -> dict[str, OpenVolume]:
        """Open the volumes that can be used; `at_end` closes each."""
        opened = {}
        for name in self._volumes:
            try:
                opened[name] = self._open(name, at_end)
            except VolumeUnavailable as error:
                self.give_up(name, error)
        return opened

    def give_up(self, volume: str, error: VolumeUnavailable) -> None:
        """Skip the volume's cells from now on. Raise the error if no other volume is left."""
        if volume in self.unavailable:
            return
        if {*self.unavailable, volume} >= set(self._volumes):
            raise error
        self.unavailable[volume] = error
        details: dict[str, Any] = {"volume": volume, "cause": error.cause, "message": error.what,
                   "where": error.where, "evidence": error.evidence, "next_step": error.next_step}  # fmt: skip
        self._directory.journal.append("volume_unavailable", **details)
        self._say(f"volume {volume} cannot be used, its cells are skipped: {error.what}: {error.evidence}")

    def _measured(self, volume: str) -> CellResult | None:
        """Return the result of the last cell that is done on the volume."""
        results = [self._directory.result(cell.cell_id) for cell in self._run.cells if cell.volume == volume]
        return next((result for result in reversed(results) if result and result.status == "done"), None)

    def _close(self, name: str) -> None:
        """Close a volume; one that cells were measured on stays as it is while the run can be resumed."""
        volume = self._volumes[name]
        volume.retained = bool(pending_cells(self._directory)) and self._measured(name) is not None
        volume.__exit__(None, None, None)
        if volume.retained and (leftover := volume.leftover()):
            self._say(leftover)

    def _open(self, name: str, at_end: AtEnd) -> OpenVolume:
        volume = self._volumes[name]
        measured = self._measured(name)
        volume.measured = measured.volume_facts if measured is not None else None
        volume.retained = measured is not None  # a failed `open` closes the volume too
        opened = volume.__enter__()
        at_end(lambda: self._close(name))
        if opened.host_path is not None:
            self._watches[name] = VolumeWatch(opened.host_path)
        at_end(lambda: close_volume(opened, self._watches.get(name), self._remove))
        return opened

    def check(self, volume: str) -> None:
        """Raise EnvironmentLacks or StepFailed, with the cause, if something is wrong with a volume."""
        watch = self._watches.get(volume)
        if watch is not None:
            watch.check(where=f"volume {volume}")

    def check_mounts(self, volumes: Mapping[str, OpenVolume]) -> None:
        """Check that the volumes of the run's start are mounted now: a bare mount point is another volume."""
        first = next((event.details for event in self._directory.events() if "mounts" in event.details), {})
        before = first.get("mounts", {})
        for name, volume in volumes.items():
            now, then = mount_of(volume), before.get(name, "")
            if then and now and then != now:
                raise EnvironmentLacks(
                    f"volume {name} is not the one that the run started with",
                    where=f"volume {volume.spec.text}",
                    evidence=f"then on {then}, now on {now}",
                    next_step="mount the original volume, then `volbench resume`; or start a new run",
                    cause="volume_gone",
                )


def close_volume(opened: OpenVolume, watch: VolumeWatch | None, remove: Callable[[OpenVolume], object]) -> None:
    """Remove the run's directory from a volume. Raise StepFailed if the volume was unmounted: the directory stays.

    Args:
        watch: knows which file system was mounted at the start; None: not visible from here.
        remove: removes the run's directory, if it is visible.
    """
    trouble = watch.trouble() if watch is not None and opened.spec.kind == "path" else None
    remove(opened)
    if trouble is not None and trouble.cause == "volume_gone":
        raise StepFailed(
            "the volume was unmounted during the run, and the run's directory is still on it",
            where=f"volume {opened.spec.text}",
            evidence=trouble.evidence,
            next_step="mount the volume again, then remove its volbench-* with `volbench cell erase DIR`",
            cause="volume_gone",
        )


def mount_of(volume: OpenVolume) -> str:
    """Return mount point and filesystem of a user's directory; empty for other kinds of volumes."""
    facts = volume.facts
    if volume.spec.kind != "path" or facts is None or facts.mount_point is None:
        return ""  # the `open` of other kinds mounts them
    return f"{facts.mount_point} ({facts.filesystem})"
