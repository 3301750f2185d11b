"""`volbench volume` on the real kernel: volumes that outlive the command, faults, leftovers, probe and fit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import command_line
import pytest
from busy_loops import busy_loops
from emulated_volumes import write_durably

from volbench.core.base.ownership import is_owned
from volbench.core.profile.resolve import resolve
from volbench.machine.volume.emulated.attachments import attachments
from volbench.machine.volume.emulated.commands import wait_until
from volbench.machine.volume.emulated.status import list_volumes
from volbench.machine.volume.emulated.volume import EmulatedVolume

pytestmark = pytest.mark.emulator

COMMAND_S_MAX = 120.0
PROBE_SECONDS = "10"
TRIES = 2
"""A probe on a busy machine measures the machine: it is made again, so often."""


def volbench(*arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, as a user gives it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "runner"), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "volbench", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_S_MAX,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


def in_process(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """A command in this process, which has imported what it needs."""
    done = command_line.volbench(*arguments, environment={"COLUMNS": "200"})
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.mark.parametrize("spec", ["emulated:ebs-gp3?size=1GiB", "emulated:efs-elastic"])
def test_a_volume_outlives_its_command_keeps_its_bytes_and_goes(root: Path, spec: str) -> None:
    """emulate, use, stop, emulate again with the bytes still there, remove: nothing is left."""
    stdout = volbench("volume", "emulate", spec, "--dir", str(root), "--name", "stays").stdout
    data = root / "stays" / "data"
    assert f"mounted at: {data}" in stdout
    assert "volbench volume remove stays" in stdout
    write_durably(data / "file", b"x" * 100_000)
    counted = json.loads(in_process("volume", "counters", "stays", "--json").stdout)
    assert counted["operations"]["write"]["bytes"] >= 100_000
    assert "fidelity: " in in_process("volume", "counters", "stays").stdout
    assert f"stays: {counted['profile']}, running, stays: {data}" in in_process("volume", "list").stdout
    in_process("volume", "stop", "stays")
    assert not attachments(root / "stays")
    volbench("volume", "emulate", spec, "--dir", str(root), "--name", "stays")
    assert (data / "file").read_bytes() == b"x" * 100_000
    in_process("volume", "remove", str(root / "stays"))
    assert list(root.iterdir()) == []


def test_faults_are_injected_and_taken_back(root: Path) -> None:
    volbench("volume", "emulate", "emulated:efs-elastic", "--dir", str(root), "--name", "ill")
    data = root / "ill" / "data"
    write_durably(data / "file", b"x" * 4096)
    before = time.monotonic()
    in_process("volume", "fault", "ill", "stall", "--for", "4s")
    write_durably(data / "slow", b"x")
    assert time.monotonic() - before >= 4, "it began after the command did"
    in_process("volume", "fault", "ill", "detach")
    with pytest.raises(OSError, match="Input/output error"):
        (data / "other").write_bytes(b"y")
    in_process("volume", "fault", "ill", "attach")
    assert (data / "file").read_bytes() == b"x" * 4096
    lost = in_process("volume", "fault", "ill", "power-cut").stdout
    assert "lost: 0 writes" in lost
    in_process("volume", "stop", "ill")
    volbench("volume", "emulate", "emulated:efs-elastic", "--dir", str(root), "--name", "ill")
    assert (data / "file").read_bytes() == b"x" * 4096
    refused = in_process("volume", "fault", "ill", "error", "--every", "0", code=5)
    assert "out of range" in refused.stderr
    in_process("volume", "remove", "ill")


def test_what_a_killed_daemon_leaves_is_cleared_by_the_next_command(root: Path) -> None:
    """The bytes stay; a neighbour that runs is not touched. Another test may clear it first: hence the tries."""
    emulate = ("volume", "emulate", "emulated:ebs-gp3?size=1GiB", "--dir", str(root), "--name")
    for name in ("dies", "lives"):
        volbench(*emulate, name)
    write_durably(root / "dies" / "data" / "file", b"kept")
    for _ in range(TRIES):
        (daemon,) = attachments(root / "dies").daemons
        os.kill(daemon, signal.SIGKILL)
        assert wait_until(lambda: not attachments(root / "dies").daemons, timeout_s=COMMAND_S_MAX)
        cleared = in_process("volume", "list", "--dir", str(root))
        # A command of another test that clears it at this moment has it locked, and is awaited.
        assert wait_until(lambda: not attachments(root / "dies"), timeout_s=COMMAND_S_MAX)
        assert attachments(root / "lives").daemons
        if f"{root / 'dies'} (its data" in cleared.stderr:
            break
        volbench(*emulate, "dies")
    else:
        pytest.fail("no command of this test said that it cleared the volume")
    assert "dies: ebs-gp3, stopped" in cleared.stdout
    assert "lives: ebs-gp3, running" in cleared.stdout
    volbench(*emulate, "dies")
    assert (root / "dies" / "data" / "file").read_bytes() == b"kept"
    for name in ("dies", "lives"):
        in_process("volume", "remove", name)


def test_a_running_process_s_volume_and_one_in_use_are_not_removed(root: Path) -> None:
    with EmulatedVolume(resolve("efs-elastic"), root, name="mine") as subject:
        write_durably(subject.data / "file", b"x")
        refused = volbench("volume", "remove", "mine", code=4)
        assert f"kill -INT {os.getpid()}" in refused.stderr
        again = volbench("volume", "emulate", "emulated:efs-elastic", "--dir", str(root), "--name", "mine", code=4)
        assert "running already" in again.stderr
        assert (subject.data / "file").read_bytes() == b"x"
    volbench("volume", "emulate", "emulated:efs-elastic", "--dir", str(root), "--name", "used")
    with (root / "used" / "data" / "open").open("wb"):
        assert "in use" in volbench("volume", "remove", "used", code=5).stderr
    (listed,) = (volume for volume in list_volumes(root) if volume.name == "used")
    assert listed.status == "running"
    volbench("volume", "remove", "used")


def probed(spec: str, *options: str) -> dict[str, Any]:
    """The probe's answer. On a busy machine it says so, names no nearest profile and fits none."""
    command = ("volume", "probe", spec, "--seconds", PROBE_SECONDS, "--json", *options)
    done = volbench(*command, code=None)
    answer: dict[str, Any] = json.loads(done.stdout)
    if answer["held_back"]:
        assert answer["nearest"] == []
        assert any("too busy" in note for note in answer["notes"])
    assert done.returncode == (5 if answer["held_back"] and "--fit" in options else 0), done.stderr
    return answer


def iops(answer: dict[str, Any]) -> dict[str, float]:
    return {name: answer["figures"][name]["value"] for name in ("read_iops", "write_iops")}


def near(result: dict[str, float], expected: dict[str, float], *, share: float) -> bool:
    return result == pytest.approx(expected, rel=share)


def test_an_emulated_gp3_is_recognised(root: Path) -> None:
    """Nearest is ebs-gp3, IOPS within 5 %, and the fitted profile says where its figures come from."""
    recognised(root, root / "mine.yaml")


@pytest.mark.slow
def test_the_fit_of_a_probed_gp3_is_like_it(root: Path) -> None:
    """The fitted profile, emulated and probed again, is within 10 %."""
    file = root / "mine.yaml"
    if (first := recognised(root, file)) is None:
        return
    for _ in range(TRIES):
        again = probed(f"emulated:{file}?dir={root}")
        if near(iops(again), iops(first), share=0.1) and not again["held_back"]:
            break
    if again["held_back"]:
        return
    assert iops(again) == pytest.approx(iops(first), rel=0.1)
    assert again["facts"]["emulated_profile"] == "mine"
    assert [path.name for path in root.iterdir()] == ["mine.yaml"]


def recognised(root: Path, file: Path) -> dict[str, Any] | None:
    """Probe an emulated gp3 and fit a profile to it, in `file`; None on a machine that is too busy for it."""
    for _ in range(TRIES):
        file.unlink(missing_ok=True)
        first = probed(f"emulated:ebs-gp3?size=10GiB&dir={root}", "--fit", str(file))
        if near(iops(first), {"read_iops": 3000, "write_iops": 3000}, share=0.05) and not first["held_back"]:
            break
    if first["held_back"]:
        assert not file.exists()
        return None
    assert iops(first) == pytest.approx({"read_iops": 3000, "write_iops": 3000}, rel=0.05)
    assert first["nearest"][0]["profile"] == "ebs-gp3"
    assert first["facts"]["emulated_profile"] == "ebs-gp3"
    assert "measured by volbench volume probe on" in file.read_text()
    return first


def test_a_probe_beside_busy_loops_never_takes_the_machine_for_the_volume(root: Path) -> None:
    """It names an ebs-gp3, or says that the machine was too busy; another profile would be wrong."""
    with busy_loops(2 * (os.cpu_count() or 1)):
        result = probed(f"emulated:ebs-gp3?size=10GiB&dir={root}")
    assert result["held_back"] or result["nearest"][0]["profile"] == "ebs-gp3"


def test_a_probe_leaves_a_directory_as_it_was(tmp_path: Path) -> None:
    """Of any volume; what is there is not touched."""
    (tmp_path / "thesis.tex").write_text("x")
    answer = json.loads(volbench("volume", "probe", f"path:{tmp_path}", "--seconds", "5", "--json").stdout)
    assert {"read_4k_ms", "write_iops", "read_mib_per_s", "fdatasync_ms", "create_per_s"} <= answer[
        "figures"
    ].keys()
    assert all(figure["value"] > 0 for figure in answer["figures"].values())
    assert answer["emulated_late_share"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert not is_owned(tmp_path)
