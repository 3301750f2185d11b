"""A directory for a step's own files on the measured volume: below our marker, and gone afterwards."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from volbench.engine.attached import AttachedServer
from volbench.errors import EnvironmentLacks, Refused
from volbench.volume.ownership import is_ours
from volbench.workload.interface import StepContext

_libc = ctypes.CDLL(None, use_errno=True)


def require_own_volume(step_name: str, ctx: StepContext) -> None:
    """Raises EnvironmentLacks on a server that is not volbench's own: nothing is written beside its data."""
    if isinstance(ctx.server, AttachedServer):
        raise EnvironmentLacks(
            "this step writes on the server's volume, and the server is not volbench's own",
            where=f"step {step_name}",
            next_step="leave the step out, or run the suite with --target local or docker on a volume of that kind",
        )


@contextmanager
def scratch_on_volume(ctx: StepContext, step_name: str) -> Iterator[Path]:
    """An empty directory on the volume, removed at the end of the block with all that is in it.

    Raises Refused when the volume's directory does not carry our marker.
    """
    if not is_ours(ctx.volume_dir):
        raise Refused(
            "the volume's directory does not carry volbench's marker",
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
    finally:
        shutil.rmtree(directory, ignore_errors=True)  # the cell erases what a broken volume keeps from going


def acknowledge_lost_writes(directory: Path) -> None:
    """After a power cut: of writes that failed meanwhile the kernel tells the next who syncs; be that one here.

    Else it would be the next cell, which lost nothing.
    """
    with suppress(OSError):
        sync_filesystem(directory)


def sync_filesystem(directory: Path) -> None:
    """Write back all that is dirty on a directory's filesystem, and wait for it. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        if _libc.syncfs(ctypes.c_int(descriptor)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(directory))
    finally:
        os.close(descriptor)
