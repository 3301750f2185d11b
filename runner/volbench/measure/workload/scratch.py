"""A directory for a step's own files on the measured volume: below volbench's marker, removed afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from volbench.core.base.ownership import is_owned
from volbench.core.records.steps.kind import WRITES_FILES
from volbench.errors import Refused, StepFailed
from volbench.machine.volume.deleted_inodes import sync_filesystem
from volbench.machine.volume.emulated.control import without_delays
from volbench.measure.workload.interface import StepContext


def require_own_volume(step_name: str, ctx: StepContext) -> None:
    """Raise MissingPrerequisite on an attached server: volbench writes no files to its volume."""
    ctx.server.own(WRITES_FILES, where=f"step {step_name}")


@contextmanager
def scratch_on_volume(ctx: StepContext, step_name: str) -> Iterator[Path]:
    """Yield an empty directory on the volume; remove it with its content at the end of the block.

    An emulated volume removes it without its delays: 38,000 files on an NFS server take ten minutes to remove.

    Raises Refused if the volume's directory does not have volbench's marker.
    """
    if not is_owned(ctx.volume_dir):
        raise Refused(
            "the volume's directory does not have volbench's marker",
            where=f"step {step_name}",
            evidence=str(ctx.volume_dir),
            next_step="nothing was written",
        )
    directory = ctx.volume_dir / f"files-{step_name.replace('/', '-')}"
    if directory.exists():  # of an earlier step of that name
        shutil.rmtree(directory)
    directory.mkdir()
    try:
        yield directory
    except BaseException:
        with suppress(StepFailed):
            _remove(directory, ctx.emulator_socket)
        raise
    _remove(directory, ctx.emulator_socket)


def _remove(directory: Path, emulator_socket: Path | None) -> None:
    with without_delays(emulator_socket) if emulator_socket else nullcontext():
        shutil.rmtree(directory, ignore_errors=True)  # the cell erases the rest once the volume works again


def acknowledge_lost_writes(directory: Path) -> None:
    """Sync after a power cut: the kernel reports failed writes to the next process that syncs; let it be this one.

    Otherwise the next cell would get the error.
    """
    with suppress(OSError):
        sync_filesystem(directory)
