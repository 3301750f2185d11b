"""Whether a volume is still the one that it was: not gone, not another, not read-only, not full."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from volbench.base import safe_files
from volbench.errors import StepFailed, VolbenchError
from volbench.volume.trouble import VolumeTrouble, cause_of, look_at_volume, trouble_error

_PROBE = ".volbench-probe"
_LOOK_EVERY_S = 1.0
_LOOKS = 3


class VolumeWatch:
    """Remembers which filesystem is at a directory now; a bare mount point is another one.

    Args:
        ours: the directory is volbench's own, so that a file can be made in it to see whether it can be written.
    """

    def __init__(self, directory: Path, *, ours: bool = False) -> None:
        self._directory = directory
        self._ours = ours
        self._device = directory.stat().st_dev
        self._in_outage = threading.Event()

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Within the block `cancelling` overlooks trouble: a crash test makes it."""
        self._in_outage.set()
        try:
            yield
        finally:
            self._in_outage.clear()

    def unexpected_trouble(self) -> VolumeTrouble | None:
        """As `trouble`, but None in an outage that was announced."""
        seen = self.trouble()
        return None if self._in_outage.is_set() else seen

    def trouble(self) -> VolumeTrouble | None:
        """What is wrong with it, None when it looks well."""
        try:
            device = self._directory.stat().st_dev
        except OSError as error:
            return VolumeTrouble(
                cause="volume_gone", evidence=f"{self._directory}: {os.strerror(error.errno or 0)}"
            )
        if device != self._device:
            return VolumeTrouble(
                cause="volume_gone",
                evidence=f"another filesystem is at {self._directory} now: device {_shown(device)}, "
                f"it was {_shown(self._device)}",
            )
        return look_at_volume(self._directory) or (self._written() if self._ours else None)

    def _written(self) -> VolumeTrouble | None:
        """A filesystem that gave up after an error may still call itself writable: try."""
        probe = self._directory / _PROBE
        try:
            with safe_files.held_directory(self._directory) as held:
                safe_files.write_new(held, _PROBE, b"x", sync=False)
                os.unlink(_PROBE, dir_fd=held)
        except OSError as error:
            cause = cause_of(error)
            return VolumeTrouble(cause=cause, evidence=f"{probe}: {error.strerror}") if cause else None
        return None

    def check(self, *, where: str) -> None:
        """Raise EnvironmentLacks or StepFailed, with the cause, when something is wrong."""
        trouble = self.trouble()
        if trouble is not None:
            raise trouble_error(trouble, where=where)


@contextmanager
def cancelling(watch: VolumeWatch, cancelled: threading.Event) -> Iterator[None]:
    """Set `cancelled` during the block when the volume stays in trouble: its server may wait for ever."""
    over = threading.Event()

    def look() -> None:
        seen = 0
        while seen < _LOOKS and not over.wait(_LOOK_EVERY_S):
            seen = seen + 1 if watch.unexpected_trouble() else 0
        if not over.is_set():
            cancelled.set()

    thread = threading.Thread(target=look, name="volume-watch", daemon=True)  # a volume may hang: not waited for
    thread.start()
    try:
        yield
    finally:
        over.set()


def kernel_refused(error: OSError) -> VolbenchError:
    """An error of the operating system as a failure: a volume's trouble when its number tells of one."""
    where = str(error.filename or "the cell")
    evidence = f"{errno.errorcode.get(error.errno or 0, type(error).__name__)}: {error}"
    cause = cause_of(error)
    if cause:
        return trouble_error(VolumeTrouble(cause=cause, evidence=evidence), where=where)
    return StepFailed("the operating system refused", where=where, evidence=evidence)


def _shown(device: int) -> str:
    return f"{os.major(device)}:{os.minor(device)}"
