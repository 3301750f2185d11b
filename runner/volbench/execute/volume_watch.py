"""Whether a volume is still the one that it was: not gone, not another, not read-only, not full."""

from __future__ import annotations

import os
from pathlib import Path

from volbench.engine.failure import VolumeTrouble, volume_trouble
from volbench.errors import StepFailed

_SAID = {
    "volume_full": ("the volume is full", "give it more space, or the suite a smaller dataset"),
    "volume_read_only": ("the volume is read-only", "see the kernel's log for why, and mount it writable"),
    "volume_gone": ("the volume is gone", "mount it again"),
}
CAUSES = frozenset(_SAID)


class VolumeWatch:
    """Remembers which filesystem is at a directory now; a bare mount point is another one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._device = directory.stat().st_dev

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
        return volume_trouble(self._directory)

    def check(self, *, where: str) -> None:
        """Raise StepFailed, with the cause, when something is wrong."""
        trouble = self.trouble()
        if trouble is not None:
            raise trouble_error(trouble, where=where)


def trouble_error(trouble: VolumeTrouble, *, where: str, also: str = "") -> StepFailed:
    """The trouble as a failure; `also` is what was seen of it first."""
    what, next_step = _SAID.get(trouble.cause, ("the volume cannot be used", "see the evidence"))
    return StepFailed(
        what,
        where=where,
        evidence="; ".join(part for part in (also, trouble.evidence) if part),
        next_step=f"{next_step}, then `volbench resume`",
        cause=trouble.cause,
    )


def _shown(device: int) -> str:
    return f"{os.major(device)}:{os.minor(device)}"
