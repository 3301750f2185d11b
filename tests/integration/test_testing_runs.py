"""`volbench_run` on a real server: results to assert on, and what a run that fails or takes too long leaves."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_run import SMALL

from volbench.errors import StepFailed, UsageError
from volbench.testing import leftovers, run_suite

pytestmark = [pytest.mark.mysqld, pytest.mark.emulator]
SETTINGS = dict(setting.split("=", 1) for setting in SMALL) | {
    "limits.emulator_late": "100%",  # on a busy machine, whose other programs use the disk too
    "limits.device_against_client": "100000%",
}
if shutil.which("mariadbd"):
    SETTINGS["engine.flavor"] = "mariadb"


@pytest.fixture
def disk(tmp_path: Path, run_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory as a volume; of it and of the emulated volumes nothing may be left.

    In memory where there is such a place: the server reads next to nothing in its two seconds, and then what others
    read from a disk makes its cell invalid, as it should. Emulated volumes get a place of this test's own, since
    tests in other processes have theirs in the usual one.
    """
    monkeypatch.setenv("VOLBENCH_CACHE", str(run_cache))
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else tmp_path
    with (
        tempfile.TemporaryDirectory(dir=memory) as directory,
        tempfile.TemporaryDirectory(prefix="vbt", dir=leftovers.DISK_DIRECTORY) as emulated,
    ):
        monkeypatch.setattr(leftovers, "DISK_DIRECTORY", Path(emulated))
        yield Path(directory)
        assert list(Path(directory).iterdir()) == []
        assert list(Path(emulated).iterdir()) == []


def test_a_run_on_a_directory_and_an_emulated_volume_has_its_figures(disk: Path, tmp_path: Path) -> None:
    volumes: dict[str, Any] = {"disk": disk, "gp3": "emulated:ebs-gp3?size=4GiB"}
    run = run_suite("suites/quick.yaml", volumes, settings=SETTINGS, target="local", results=tmp_path / "results")
    assert run.volumes == ("disk", "gp3")
    assert run.verdict == "inconclusive", "one cell a volume decides nothing"
    assert run.metric("tps", volume="disk").median > 0
    assert run.metric("tps", volume="gp3").ci is None
    assert run.gate("tps >= 0.001").decision == "undecided"
    assert not run.gate("tps >= 0.001")
    assert isinstance(run.findings, tuple)


def test_a_suite_that_is_wrong_fails_as_on_the_command_line(disk: Path, tmp_path: Path) -> None:
    settings = {"steps.0.thraeds": 1}
    with pytest.raises(UsageError, match="the suite has 1 fault") as raised:
        run_suite("suites/quick.yaml", {"disk": disk}, settings=settings, results=tmp_path / "results")
    assert "perhaps you meant" in raised.value.evidence


def test_a_run_that_takes_too_long_is_ended_with_its_server_and_volume(disk: Path, tmp_path: Path) -> None:
    settings = {**SETTINGS, "steps.0.duration": "10m"}
    volumes: dict[str, Any] = {"gp3": "emulated:ebs-gp3?size=4GiB", "disk": disk}
    with pytest.raises(StepFailed, match="did not end within 12 s"):
        run_suite(
            "suites/quick.yaml",
            volumes,
            settings=settings,
            target="local",
            results=tmp_path / "results",
            timeout_s=12,
        )
