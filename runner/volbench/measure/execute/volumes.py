"""The volumes of a run: opened at its start or that of their lane, skipped when one fails, closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from subprocess import TimeoutExpired
from typing import Any

from volbench.core.records.cell import CellResult
from volbench.core.records.run import PlannedCell
from volbench.errors import MissingPrerequisite, StepFailed, VolbenchError, VolumeUnavailable
from volbench.machine.volume.interface import OpenVolume, Volume
from volbench.machine.volume.trouble import HANGS, volume_failure
from volbench.measure.execute.completion import pending_cells
from volbench.measure.execute.volume_watch import VolumeWatch
from volbench.results.store.run_directory import RunDirectory

AtEnd = Callable[[Callable[[], object]], None]
"""Takes an action for the end of the run, after those of later calls."""


def volume_key(name: str, lane: str) -> str:
    """Return the key of a volume in a run: its name, and its lane if each lane has one of its own."""
    return f"{name}@{lane}" if lane else name


def _lane_of_key(key: str) -> str:
    return key.partition("@")[2]


class RunVolumes:
    """Opens and closes the volumes of a run; of several, one that cannot be used only loses its own cells.

    A volume whose key names a lane is made when that lane begins, and deleted when its cells are done.
    """

    def __init__(
        self,
        directory: RunDirectory,
        volumes: Mapping[str, Volume],
        *,
        lane_of: Callable[[PlannedCell], str],
        remove: Callable[[OpenVolume], object],
        on_message: Callable[[str], None],
    ) -> None:
        """Open nothing.

        Args:
            volumes: by `volume_key`.
            lane_of: returns the lane of a cell, empty without lanes.
            remove: removes the run's directory from a volume, if it is visible.
            on_message: called with a line for each volume that cannot be used or is left as it is.
        """
        self._directory = directory
        self._run = directory.run
        self._volumes = volumes
        self._remove = remove
        self._say = on_message
        self._lane_of = lane_of
        self._watches: dict[str, list[tuple[OpenVolume, VolumeWatch]]] = {}
        self._closed: set[str] = set()
        self.opened: dict[str, OpenVolume] = {}
        """By key."""
        self.unavailable: dict[str, VolumeUnavailable] = {}
        """By key: why a volume's cells are skipped."""

    def key_of(self, cell: PlannedCell) -> str:
        """Return the key of the cell's volume: that of its lane, if the lane has a volume of its own."""
        key = volume_key(cell.volume, self._lane_of(cell))
        return key if key in self._volumes else cell.volume

    def get(self, cell: PlannedCell) -> OpenVolume | None:
        """Return the cell's volume; None if it is not open."""
        return self.opened.get(self.key_of(cell))

    def open_all(self, at_end: AtEnd) -> None:
        """Open the volumes that can be used, but those of lanes; `at_end` closes each."""
        for key in self._volumes:
            if _lane_of_key(key):
                at_end(partial(self._close_once, key))
            else:
                self._open_or_give_up(key, at_end)

    def open_lane(self, lane: str) -> None:
        """Open those volumes of a lane that can be used."""
        for key in self._volumes:
            if lane and _lane_of_key(key) == lane and key not in self.opened and key not in self.unavailable:
                self._open_or_give_up(key, lambda _: None)

    def free_unused(self, cell: PlannedCell) -> None:
        """Let the cell's volume give space back that the cell no longer uses. It is no failure where it cannot."""
        volume = self._volumes.get(self.key_of(cell))  # an attached server has none
        with suppress(VolbenchError, OSError, TimeoutExpired):
            if volume is not None:
                volume.free_unused()

    def close_lane(self, lane: str) -> None:
        """Close the volumes of a lane whose cells are done."""
        for key in [key for key in list(self.opened) if lane and _lane_of_key(key) == lane]:
            self._close_once(key)
            del self.opened[key]

    def _close_once(self, key: str) -> None:
        """Close a lane's volume, unless that was done: of a hundred lanes, all results would be read again."""
        if key not in self._closed:
            self._close(key)
            self._closed.add(key)

    def _open_or_give_up(self, key: str, at_end: AtEnd) -> None:
        try:
            self.opened[key] = self._open(key, at_end)
        except VolumeUnavailable as error:
            self.give_up(key, error)

    def give_up(self, key: str, error: VolumeUnavailable) -> None:
        """Skip the volume's cells from now on. Raise the error if no other volume is left."""
        if key in self.unavailable:
            return
        if {*self.unavailable, key} >= set(self._volumes):
            raise error
        self.unavailable[key] = error
        volume = key.partition("@")[0]
        details: dict[str, Any] = {
            "volume": volume,
            "cause": error.cause,
            "message": error.what,
            "where": error.where,
            "evidence": error.evidence,
            "next_step": error.next_step,
        }
        self._directory.journal.append("volume_unavailable", **details)
        self._say(f"volume {volume} cannot be used, its cells are skipped: {error.what}: {error.evidence}")

    def _measured(self, key: str) -> CellResult | None:
        """Return the result of the last cell that is done on the volume."""
        results = [self._directory.result(cell.cell_id) for cell in self._run.cells if self.key_of(cell) == key]
        return next((result for result in reversed(results) if result and result.status == "done"), None)

    def _is_pending(self, key: str) -> bool:
        """Return whether the run, or the volume's lane of it, has cells that are not done."""
        lane = _lane_of_key(key)
        return bool(
            pending_cells(self._directory, [c for c in self._run.cells if self._lane_of(c) == lane or not lane])
        )

    def _close(self, key: str) -> None:
        """Close a volume; one that cells were measured on stays as it is while the run can be resumed."""
        volume = self._volumes[key]
        volume.retained = self._is_pending(key) and self._measured(key) is not None
        volume.__exit__(None, None, None)
        if volume.retained and (leftover := volume.leftover()):
            self._say(leftover)

    def _open(self, key: str, at_end: AtEnd) -> OpenVolume:
        volume = self._volumes[key]
        measured = self._measured(key)
        volume.measured = measured.volume_facts if measured is not None else None
        volume.retained = measured is not None  # a failed `open` closes the volume too
        opened = volume.__enter__()
        at_end(lambda: self._close(key))
        self._watches[key] = [
            (component, VolumeWatch(component.host_path))
            for component in opened.all
            if component.host_path is not None
        ]
        at_end(lambda: close_volume(opened, self._watches[key], self._remove))
        return opened

    def check(self, cell: PlannedCell) -> None:
        """Raise MissingPrerequisite or StepFailed, with the cause, if something is wrong with a cell's volume."""
        for component, watch in self._watches.get(self.key_of(cell), ()):
            watch.check(where=f"volume {component.name}")

    def check_mounts(self) -> None:
        """Check that the volumes of the run's start are mounted now: a bare mount point is another volume."""
        first = next((event.details for event in self._directory.events() if "mounts" in event.details), {})
        before = first.get("mounts", {})
        for name, volume in self.opened.items():
            now, then = mount_of(volume), before.get(name, "")
            if then and now and then != now:
                raise MissingPrerequisite(
                    f"volume {name} is not the one that the run started with",
                    where=f"volume {volume.spec.text}",
                    evidence=f"then on {then}, now on {now}",
                    next_step="mount the original volume, then `volbench resume RUN`; or start a new run",
                    cause="volume_gone",
                )


def close_volume(
    opened: OpenVolume,
    watches: Sequence[tuple[OpenVolume, VolumeWatch]],
    remove: Callable[[OpenVolume], object],
) -> None:
    """Remove the run's directory from a volume. Raise StepFailed if it was unmounted or fails: the directory stays.

    Args:
        watches: know which file system was mounted at the start, for each volume that is visible from here.
        remove: removes the run's directory, if it is visible.
    """
    troubles = [(component, watch.trouble()) for component, watch in watches if component.spec.kind == "path"]
    for component, trouble in troubles:
        if trouble is not None and trouble.cause == HANGS:
            raise StepFailed(
                "the volume does not answer, and the run's directory is still on it",
                where=f"volume {component.spec.text}",
                evidence=trouble.evidence,
                next_step="once it answers, remove its volbench-* with `volbench cell erase DIR`",
                cause=HANGS,
            )
    try:
        remove(opened)
    except OSError as error:
        raise volume_failure(
            error, phase=f"removal of the run's directory from volume {opened.spec.text}"
        ) from error
    gone = [
        (component, trouble)
        for component, trouble in troubles
        if trouble is not None and trouble.cause == "volume_gone"
    ]
    if gone:
        component, trouble = gone[0]
        raise StepFailed(
            "the volume was unmounted during the run, and the run's directory is still on it",
            where=f"volume {component.spec.text}",
            evidence=trouble.evidence,
            next_step="mount the volume again, then remove its volbench-* with `volbench cell erase DIR`",
            cause="volume_gone",
        )


def mount_of(volume: OpenVolume) -> str:
    """Return mount point and filesystem of a user's directories; empty for other kinds of volumes."""
    mounts = [
        f"{component.facts.mount_point} ({component.facts.filesystem})"
        for component in volume.all
        if component.spec.kind == "path" and component.facts is not None and component.facts.mount_point is not None
    ]  # the `open` of other kinds mounts them
    return ", ".join(mounts)
