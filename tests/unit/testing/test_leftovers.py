"""What a killed session leaves is found by the next one, also where it was killed while it removed it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from volbench.testing import leftovers


class Killed(BaseException):
    """The process ends here."""


def test_a_removal_that_was_interrupted_is_finished_by_the_next_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner's file is removed last: without it nobody would know whose directory it is."""
    monkeypatch.setattr(leftovers, "DISK_DIRECTORY", tmp_path)
    monkeypatch.setattr(leftovers, "_remove_containers", lambda: None)
    directory = leftovers.data_directory()
    (directory / "data" / "mysql").mkdir(parents=True)
    (directory / "a.log").touch()

    def killed(_: Path) -> None:
        raise Killed

    with monkeypatch.context() as interrupted:
        interrupted.setattr(shutil, "rmtree", killed)
        with pytest.raises(Killed):
            leftovers.remove_data(directory)
    assert (directory / "owner").exists()
    leftovers.clear_killed_sessions.__wrapped__()
    assert directory.exists(), "its owner is alive"
    monkeypatch.setattr(leftovers, "_is_dead", lambda _: True)
    leftovers.clear_killed_sessions.__wrapped__()
    assert not directory.exists()
