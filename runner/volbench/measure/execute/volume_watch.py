"""Watches that a volume is still the same: not gone, not another one, not read-only, not full."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from volbench.core.base import safe_files
from volbench.errors import StepFailed, VolbenchError
from volbench.machine.volume.answer import in_time
from volbench.machine.volume.trouble import HANGS, VolumeTrouble, cause_of, check_volume_state, trouble_error

_PROBE = ".volbench-probe"
_CHECK_INTERVAL_S = 1.0
_FAILED_CHECKS = 3


class VolumeWatch:
    """Remembers which filesystem a directory is on; a bare mount point is another filesystem.

    Args:
        writable: the directory belongs to volbench, so that the watch can try to write a file to it.
    """

    def __init__(self, directory: Path, *, writable: bool = False) -> None:
        self._directory = directory
        self._writable = writable
        self._device = directory.stat().st_dev
        self._in_outage = threading.Event()

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Make `cancel_on_trouble` ignore trouble during the block: a crash test causes it."""
        self._in_outage.set()
        try:
            yield
        finally:
            self._in_outage.clear()

    def unexpected_trouble(self) -> VolumeTrouble | None:
        """Return as `trouble`, but None in an announced outage."""
        trouble = self.trouble()
        return None if self._in_outage.is_set() else trouble

    def trouble(self) -> VolumeTrouble | None:
        """Return what is wrong with the volume, or None; a volume may take ANSWER_S_MAX to answer."""
        try:
            device = in_time(self._directory.stat).st_dev
        except OSError as error:
            cause = cause_of(error, on_volume=True) or "volume_gone"
            return VolumeTrouble(cause=cause, evidence=f"{self._directory}: {error.strerror}")
        if device != self._device:
            return VolumeTrouble(
                cause="volume_gone",
                evidence=f"another filesystem is at {self._directory} now: device {_device_number(device)}, "
                f"formerly {_device_number(self._device)}",
            )
        return check_volume_state(self._directory) or (self._probe_write() if self._writable else None)

    def _probe_write(self) -> VolumeTrouble | None:
        """Try to write: a filesystem that failed may still be mounted as writable."""
        probe = self._directory / _PROBE
        try:
            in_time(self._write_probe)
        except OSError as error:
            cause = cause_of(error, on_volume=isinstance(error, TimeoutError))
            return VolumeTrouble(cause=cause, evidence=f"{probe}: {error.strerror}") if cause else None
        return None

    def _write_probe(self) -> None:
        with safe_files.held_directory(self._directory) as descriptor:
            safe_files.write_new(descriptor, _PROBE, b"x", sync=False)
            os.unlink(_PROBE, dir_fd=descriptor)

    def check(self, *, where: str) -> None:
        """Raise MissingPrerequisite or StepFailed, with the cause, if something is wrong."""
        trouble = self.trouble()
        if trouble is not None:
            raise trouble_error(trouble, where=where)


@contextmanager
def cancel_on_trouble(watch: VolumeWatch, cancelled: threading.Event) -> Iterator[None]:
    """Set `cancelled` during the block if the volume stays in trouble: its server may wait for ever."""
    ended = threading.Event()

    def check() -> None:
        failed_checks = 0
        while failed_checks < _FAILED_CHECKS and not ended.wait(_CHECK_INTERVAL_S):
            trouble = watch.unexpected_trouble()
            failed_checks = failed_checks + 1 if trouble else 0
            if trouble is not None and trouble.cause == HANGS:  # it was waited for
                break
        if not ended.is_set():
            cancelled.set()

    thread = threading.Thread(target=check, name="volume-watch", daemon=True)  # a volume may hang: not waited for
    thread.start()
    try:
        yield
    finally:
        ended.set()


def failure_from_os_error(error: OSError) -> VolbenchError:
    """Return an error of the operating system as a failure; as a volume's trouble if its number means one."""
    where = str(error.filename or "the cell")
    evidence = f"{errno.errorcode.get(error.errno or 0, type(error).__name__)}: {error}"
    cause = cause_of(error)
    if cause:
        return trouble_error(VolumeTrouble(cause=cause, evidence=evidence), where=where)
    return StepFailed("the operating system refused the operation", where=where, evidence=evidence)


def _device_number(device: int) -> str:
    return f"{os.major(device)}:{os.minor(device)}"
