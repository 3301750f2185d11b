"""A volume that does not answer: a run ends with one message, and waits for nothing on it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.core.profile.spec import parse_volume
from volbench.errors import StepFailed
from volbench.machine.volume import answer
from volbench.machine.volume.interface import OpenVolume
from volbench.measure.execute.volume_watch import VolumeWatch, cancel_on_trouble
from volbench.measure.execute.volumes import close_volume

LIMIT_S = 60.0


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[VolumeWatch]:
    """A watch of a volume whose calls do not return before the end of the test."""
    watch, answers = VolumeWatch(tmp_path), threading.Event()
    monkeypatch.setattr(answer, "ANSWER_S_MAX", 0.1)
    real = os.statvfs

    def hang(path: Path) -> os.statvfs_result:
        answers.wait(LIMIT_S)
        return real(path)

    monkeypatch.setattr(os, "statvfs", hang)
    yield watch
    answers.set()


def test_it_has_a_cause_of_its_own(hanging: VolumeWatch) -> None:
    with pytest.raises(StepFailed, match="the volume does not answer") as caught:
        hanging.check(where="volume a")
    assert (caught.value.exit_code, caught.value.cause) == (5, "volume_hangs")
    assert "within 0.1 s" in caught.value.evidence


def test_the_step_is_cancelled(hanging: VolumeWatch) -> None:
    """Its server waits for the volume, and for ever on a hard NFS mount."""
    cancelled = threading.Event()
    with cancel_on_trouble(hanging, cancelled):
        assert cancelled.wait(LIMIT_S)


def test_the_runs_directory_is_named_and_not_touched(hanging: VolumeWatch, tmp_path: Path) -> None:
    """To remove it would hang."""
    removed: list[OpenVolume] = []
    opened = OpenVolume(name="a", spec=parse_volume(f"a=path:{tmp_path}"), host_path=tmp_path)
    with pytest.raises(StepFailed, match="the run's directory is still on it") as caught:
        close_volume(opened, [(opened, hanging)], removed.append)
    assert removed == []
    assert "volbench cell erase" in caught.value.next_step


@pytest.mark.parametrize("number", [errno.EBADMSG, errno.EUCLEAN, errno.EIO])
def test_a_damaged_file_system_is_the_volumes_failure(tmp_path: Path, number: int) -> None:
    """The removal of the run's directory fails: exit code 5 with the cause, not a fault of volbench."""
    opened = OpenVolume(name="a", spec=parse_volume(f"a=path:{tmp_path}"), host_path=tmp_path)

    def remove(_opened: OpenVolume) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path / "volbench-1a2b3c"))

    with pytest.raises(StepFailed, match="the volume is gone, or fails") as caught:
        close_volume(opened, [(opened, VolumeWatch(tmp_path))], remove)
    assert (caught.value.cause, caught.value.exit_code) == ("volume_gone", 5)
    assert "fsck" in caught.value.next_step
    assert errno.errorcode[number] in caught.value.evidence


def test_a_volume_that_answers_late_is_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand shorter than the limit is something to measure."""
    watch, real = VolumeWatch(tmp_path), os.statvfs
    once = threading.Event()

    def late(path: Path) -> os.statvfs_result:
        once.wait(0.3)
        return real(path)

    monkeypatch.setattr(os, "statvfs", late)
    assert watch.trouble() is None
