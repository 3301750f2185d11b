"""Attacks by an unprivileged user on root's commands: nothing of anybody's is written to, erased or detached."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import hostile_user
import pytest
from hostile_user import TREASURE, as_nobody, attacking, plant, volbench, volbench_in_process
from waiting import wait_for

from volbench.core.base import ownership
from volbench.errors import EXIT_REFUSED, Refused, VolbenchError
from volbench.machine.placement.workspace import Workspace
from volbench.machine.volume.emulated.attachments import DAEMON
from volbench.machine.volume.emulated.teardown import take_down

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")
RACE_S = 4.0
RACE_S_MAX = 90.0
TURNS_MIN = 50


@pytest.fixture
def shared() -> Iterator[Path]:
    """A sticky directory that everybody may write to; volumes in it are taken down."""
    with hostile_user.shared_place() as location:
        yield location
        for directory in location.glob("*/*"):
            if directory.is_dir() and not directory.is_symlink():
                take_down(directory, force=True)


def swap_in_a_loop(directory: Path, name: str, victim_directory: Path) -> str:
    """Code of the attacker: a name is a directory, then a link, then a directory, as fast as it goes."""
    return f"""
import os
path, victim = {str(directory / name)!r}, {str(victim_directory)!r}
while True:
    for act in (lambda: os.mkdir(path, 0o777), lambda: os.rename(path, path + str(os.getpid())),
                lambda: os.symlink(victim, path), lambda: os.unlink(path),
                lambda: os.rmdir(path + str(os.getpid()))):
        try:
            act()
        except OSError:
            pass
"""


def test_a_planted_control_directory_is_refused(
    shared: Path, victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory in /tmp into which the docker target writes supervisor.sh, with a link by that name."""
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    workspace = Workspace(run_id="20260101T000000Z-quick-1a2b3c", cache=tmp_path / "cache")
    control = workspace.control_dir("02-a")
    plant(control, {"supervisor.sh": victim})
    with pytest.raises(Refused, match=f"belongs to user {hostile_user.NOBODY}") as caught:
        workspace.claim(control)
    assert caught.value.exit_code == EXIT_REFUSED
    assert victim.read_text() == TREASURE
    assert workspace.leftovers() == []  # it is not taken for ours when the run cleans up either


@pytest.mark.emulator
@pytest.mark.parametrize(
    "name",
    ["config.partial", "config.json", ".config.json.partial", "daemon.log", "daemon.lock", "backing/disk.img"],
)
def test_a_planted_volume_is_refused(shared: Path, victim: Path, name: str) -> None:
    """`volume emulate` into a directory that somebody has prepared below a root that everybody may write to."""
    plant(shared / "v", {name: victim})
    done = volbench_in_process(
        "volume", "emulate", "emulated:ebs-gp3?size=1GiB", "--dir", str(shared), "--name", "v"
    )
    assert done.returncode == EXIT_REFUSED, done.stdout + done.stderr
    assert f"belongs to user {hostile_user.NOBODY}" in done.stderr
    assert "next step" in done.stderr
    assert victim.read_text() == TREASURE


@pytest.mark.emulator
def test_a_planted_root_of_volumes_is_refused(shared: Path, victim: Path) -> None:
    """The usual directory of volumes itself, made by somebody else before root came."""
    plant(shared / "volbench", {"v": victim.parent}, marker=False)
    done = volbench_in_process(
        "volume", "emulate", "emulated:ebs-gp3?size=1GiB", "--dir", str(shared / "volbench"), "--name", "v"
    )
    assert done.returncode == EXIT_REFUSED, done.stdout + done.stderr
    assert victim.read_text() == TREASURE
    assert sorted(victim.parent.iterdir()) == [victim]


@pytest.mark.parametrize("name", [".volbench-owned.json.partial", "probe.dat", "direct"])
@pytest.mark.parametrize("marker", [True, False])
def test_a_planted_probe_directory_is_refused(shared: Path, victim: Path, name: str, marker: bool) -> None:
    """The probe's fixed name on a volume that everybody may write to; nothing is written before the refusal."""
    plant(shared / "volbench-probe", {name: victim}, marker=marker)
    done = volbench_in_process("volume", "probe", f"path:{shared}", "--seconds", "5")
    assert done.returncode == EXIT_REFUSED, done.stdout + done.stderr
    assert victim.read_text() == TREASURE
    assert "volbench-probe" in done.stderr


def test_a_volume_whose_directories_can_be_exchanged_is_refused(shared: Path) -> None:
    """Everybody may write to it and it is not sticky: whatever root makes there could be renamed by anybody."""
    shared.chmod(0o777)
    done = volbench_in_process("volume", "probe", f"path:{shared}", "--seconds", "5")
    assert done.returncode == EXIT_REFUSED, done.stdout + done.stderr
    assert "every user may rename what is in" in done.stderr
    assert "chmod +t" in done.stderr
    assert list(shared.iterdir()) == []


@pytest.mark.emulator
def test_a_process_with_our_daemons_name_gets_nothing_detached(shared: Path, tmp_path: Path) -> None:
    """`volume list` clears what killed processes left, but name and lock of somebody else detach nothing."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(1 << 20)
    made = subprocess.run(
        ["losetup", "-f", "--show", image], capture_output=True, text=True, check=True, timeout=120
    )
    device = Path(made.stdout.strip())
    number = Path(f"/sys/block/{device.name}/diskseq").read_text().strip()
    try:
        plant(shared / "pool" / "v", {})
        code = """
import json, os, sys, time
directory, loop = sys.argv[1:]
os.chdir(directory)
open("volume.json", "w").write(json.dumps({"profile": "x", "owner": {"pid": 1, "started": 0}}))
open("loop-device", "w").write(loop)
lock = open("daemon.lock", "w")
ctypes.CDLL(None).prctl(15, b"volbench-volume")  # PR_SET_NAME: /proc/self/comm is root's since the user changed
time.sleep(600)
"""
        with attacking(code, shared / "pool" / "v", f"{device.name} {number}") as attacker:
            name = Path(f"/proc/{attacker.pid}/comm")
            wait_for(lambda: name.read_text().strip() == DAEMON, "the attacker did not take the daemon's name")
            done = volbench_in_process("volume", "list", "--dir", str(shared / "pool"))
        assert done.returncode == 0, done.stderr
        assert "cleared" not in done.stdout + done.stderr
        assert Path(f"/sys/block/{device.name}/loop/backing_file").exists()
    finally:
        subprocess.run(["losetup", "-d", device], check=False, timeout=120)


def test_a_link_into_a_data_directory_is_refused(shared: Path) -> None:
    """`path:/mnt/link`, where the link leads to a server's data directory."""
    data = shared / "mysql"
    data.mkdir()
    (data / "ibdata1").write_text(TREASURE)
    (data / "sub").mkdir()
    (shared / "link").symlink_to(data / "sub")
    done = volbench_in_process("volume", "probe", f"path:{shared / 'link'}", "--seconds", "5")
    assert done.returncode == EXIT_REFUSED, done.stdout + done.stderr
    assert "MySQL data directory" in done.stderr
    assert list((data / "sub").iterdir()) == []


def test_a_directory_that_is_swapped_for_a_link_is_never_followed(shared: Path, tmp_path: Path) -> None:
    """Root claims, writes and erases a name in /tmp over and over, while somebody exchanges what is there."""
    precious = tmp_path / "precious"
    precious.mkdir()
    precious.chmod(0o777)
    tmp_path.chmod(0o755)
    (precious / "file").write_text(TREASURE)
    turns = refused = 0
    directory = shared / "volbench-race"
    with attacking(swap_in_a_loop(shared, directory.name, precious)):
        began = time.monotonic()
        while (took_s := time.monotonic() - began) < RACE_S or (
            took_s < RACE_S_MAX and (turns <= TURNS_MIN or not refused)  # on a busy machine it takes longer
        ):
            turns += 1
            try:
                ownership.claim(directory, purpose="race")
                with ownership.open_owned(directory):
                    ownership.erase_contents(directory)
                ownership.remove(directory)
            except VolbenchError:
                refused += 1
    assert turns > TURNS_MIN
    assert refused > 0, "the attacker never came in between"
    assert [path.name for path in precious.iterdir()] == ["file"]
    assert (precious / "file").read_text() == TREASURE


def test_erasing_survives_somebody_who_swaps_what_is_inside(tmp_path: Path) -> None:
    """A tree of ours in which the containers' user goes on exchanging directories for links while root erases."""
    with hostile_user.shared_place(0o755) as location:
        directory = location / "volbench-1"
        precious = tmp_path / "precious"
        precious.mkdir()
        (precious / "file").write_text(TREASURE)
        ownership.claim(directory, purpose="test")
        ownership.hand_over(directory, group=hostile_user.NOBODY)
        as_nobody("import os, sys; os.makedirs(sys.argv[1])", directory / "data" / "a" / "b")
        with attacking(swap_in_a_loop(directory / "data", "a", precious)):
            until = time.monotonic() + RACE_S
            while time.monotonic() < until:
                try:
                    ownership.erase_contents(directory)
                except VolbenchError:
                    continue
                as_nobody("import os, sys; os.makedirs(sys.argv[1], exist_ok=True)", directory / "data")
        assert (precious / "file").read_text() == TREASURE
        ownership.remove(directory)
        assert not directory.exists()


def test_the_containers_user_cannot_make_our_marker_its_own(shared: Path) -> None:
    """A directory that was handed over stays root's: its marker and our files cannot be replaced."""
    directory = shared / "volbench-1"
    ownership.claim(directory, purpose="test")
    ownership.hand_over(directory, group=hostile_user.NOBODY)
    code = "import os, sys; os.rename(sys.argv[1] + '/.volbench-owned.json', sys.argv[1] + '/x')"
    with pytest.raises(AssertionError, match="PermissionError"):
        as_nobody(code, directory)
    assert ownership.is_owned(directory)
    ownership.remove(directory)


def test_a_mount_that_appears_while_we_erase_is_not_entered(tmp_path: Path) -> None:
    """File systems are mounted over parts of the tree while it is erased; their files stay."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text(TREASURE)
    directory = tmp_path / "volbench-1"
    ownership.claim(directory, purpose="test")
    stop = threading.Event()
    mounted: list[int] = []

    def mount_and_unmount() -> None:
        result = directory / "m" / "n"
        while not stop.is_set():
            with suppress(OSError):  # erased at this very moment
                result.mkdir(parents=True, exist_ok=True)
                done = subprocess.run(
                    ["mount", "--bind", outside, result], check=False, capture_output=True, timeout=120
                )
                mounted.append(done.returncode)
                subprocess.run(["umount", result], check=False, capture_output=True, timeout=120)

    thread = threading.Thread(target=mount_and_unmount)
    thread.start()
    refused = 0
    until = time.monotonic() + RACE_S
    while time.monotonic() < until and (outside / "file").exists():
        try:
            ownership.erase_contents(directory)
        except VolbenchError:
            refused += 1
    stop.set()
    thread.join(120)
    assert (outside / "file").read_text() == TREASURE
    assert mounted.count(0) > 0
    assert refused > 0
    ownership.remove(directory)


@pytest.mark.emulator
@pytest.mark.parametrize("spec", ["emulated:ebs-gp3?size=1GiB", "emulated:efs-elastic"])
def test_other_users_cannot_read_an_emulated_volumes_bytes(shared: Path, spec: str) -> None:
    """The image and the daemon's files are root's alone; a server's user reaches what is mounted, nothing else."""
    root = shared / "pool"
    done = volbench("volume", "emulate", spec, "--dir", str(root), "--name", "v")
    assert done.returncode == 0, done.stdout + done.stderr
    volume = root / "v"
    try:
        own = volume / "data" / "own"
        own.mkdir(mode=0o700)
        os.chown(own, hostile_user.NOBODY, hostile_user.NOBODY)
        as_nobody("import sys; open(sys.argv[1] + '/file', 'w').write('x')", own)  # the server's own directory
        code = "import os, sys; os.listdir(sys.argv[1])"
        for private in (volume, volume / "backing", *([volume / "image"] if "ebs" in spec else [])):
            with pytest.raises(AssertionError, match="PermissionError"):
                as_nobody(code, private)
        for path in volume.iterdir():
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) or stat.S_ISSOCK(mode):
                assert mode & 0o077 == 0, path
    finally:
        removal = volbench("volume", "remove", "v", "--dir", str(root))
    assert removal.returncode == 0, removal.stdout + removal.stderr
    assert not volume.exists()


def test_the_attackers_user_is_really_unprivileged(victim: Path) -> None:
    """Else none of the tests here would prove anything."""
    assert shutil.which("mount")
    with pytest.raises(AssertionError, match="PermissionError"):
        as_nobody("import sys; open(sys.argv[1])", victim)
