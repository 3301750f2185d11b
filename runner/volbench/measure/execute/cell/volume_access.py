"""A cell's volumes: cleared before it, watched during it, cleared after it; the trouble of one is named."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from volbench.core.base import ownership
from volbench.core.records.cell import CellPlaces
from volbench.core.records.layout import ROLE_TEXTS
from volbench.errors import VolbenchError
from volbench.machine.volume.trouble import CAUSES, HANGS, VolumeTrouble, trouble_error
from volbench.measure.execute.volume_watch import VolumeWatch, cancel_on_trouble

Outage = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """The cell's directory on one volume, and what messages call that volume; empty for the data's own."""

    directory: Path
    noun: str = ""


@contextmanager
def on_volumes(paths: CellPlaces, cancelled: threading.Event) -> Iterator[Outage]:
    """Leave nothing on the volumes, however the block ends; the directories themselves belong to the orchestrator.

    Yields what announces an outage of all volumes, so that it cancels nothing.
    A failure that a volume's trouble caused is raised as that trouble, with the volume's name.

    Args:
        cancelled: is set when a volume stays in trouble.
    """
    directories = [
        _Entry(directory=Path(paths.volume_dir)),
        *(_Entry(directory=Path(component.volume_dir), noun=noun_of(component.name)) for component in paths.layout),
    ]
    for entry in directories:
        ownership.claim(entry.directory, purpose="cell")
        ownership.erase_contents(entry.directory)
    writing = [(entry, VolumeWatch(entry.directory, writable=True)) for entry in directories]
    try:
        with ExitStack() as stack:
            passive = [VolumeWatch(entry.directory) for entry in directories]
            for watch in passive:
                stack.enter_context(cancel_on_trouble(watch, cancelled))
            yield partial(_outage, passive)
        for entry, watch in writing:  # a server still writes to a volume that was unmounted
            watch.check(where=_where(entry))
    except (VolbenchError, OSError) as error:
        troubles = [(entry, trouble) for entry, watch in writing if (trouble := watch.trouble()) is not None]
        hanging = [entry for entry, trouble in troubles if trouble.cause == HANGS]
        for entry in (entry for entry in directories if entry not in hanging):
            with suppress(VolbenchError):  # the cell's own failure matters more than a failure of the cleanup
                ownership.erase_contents(entry.directory)
        explained = _explained(error, troubles)
        if explained is error:
            raise
        raise explained from error
    except BaseException:
        _erase(directories)
        raise
    _erase(directories)


@contextmanager
def _outage(watches: Sequence[VolumeWatch]) -> Iterator[None]:
    """Announce an outage of each volume during the block."""
    with ExitStack() as stack:
        for watch in watches:
            stack.enter_context(watch.outage())
        yield


def noun_of(component: str) -> str:
    """Return what messages call the volume of a component: `the volume of the redo log (redo)`."""
    return f"the volume of the {ROLE_TEXTS.get(component, component)} ({component})"


def _explained(
    error: VolbenchError | OSError, troubles: Sequence[tuple[_Entry, VolumeTrouble]]
) -> VolbenchError | OSError:
    """Return the error, or the trouble of the volume that is behind it."""
    if not troubles:
        return error
    cause = getattr(error, "cause", "")
    entry, trouble = next((pair for pair in troubles if pair[1].cause == cause), troubles[0])
    # A write refused as read-only is better evidence than a log that only names an I/O error.
    is_known = (cause in CAUSES and trouble.cause != "volume_read_only") or cause == trouble.cause
    if is_known and not entry.noun:
        return error
    where = getattr(error, "where", "")
    if entry.noun:
        where = f"{entry.noun}: {where}" if where else entry.noun
    return trouble_error(trouble, where=where, also=_error_text(error))


def _where(entry: _Entry) -> str:
    return f"{entry.noun or 'volume'} at {entry.directory}"


def _erase(directories: Sequence[_Entry]) -> None:
    for entry in directories:
        ownership.erase_contents(entry.directory)


def _error_text(error: Exception) -> str:
    if isinstance(error, VolbenchError):
        return "; ".join(text for text in (error.what, error.evidence) if text)
    return str(error)
