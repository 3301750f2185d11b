"""A database server on emulated volumes: it starts, commits, loses power, and recovers what the volume promised."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.engine.server import Server
from volbench.engine.supervisor import launch_supervisor
from volbench.records.cell import CellPlaces, ServerSpec
from volbench.target.means import SEARCH_PATH
from volbench.volume import ownership
from volbench.volume.emulated import EmulatedVolume, find_daemon
from volbench.volume.profiles import profile_names, resolve
from volbench.volume.teardown import run, take_down, wait_until

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.mysqld,
    pytest.mark.skipif(find_daemon() is None, reason="needs the daemon: pip install runner/emulator"),
]

FLAVOR = "mariadb" if shutil.which("mariadbd", path=SEARCH_PATH) else "mysql"
BLOCK_SIZE = {"ebs-sc1": "125GiB", "ebs-st1": "125GiB", "ebs-io2": "16GiB"}
COMMITS = 200


@pytest.fixture
def base() -> Iterator[Path]:
    """A short path, since a socket is below it; on a disk."""
    place = Path(tempfile.mkdtemp(prefix="vb", dir="/var/tmp"))
    (place / "volumes").mkdir()
    yield place
    for directory in (place / "volumes").iterdir():
        take_down(directory, force=True)
    shutil.rmtree(place)


@contextlib.contextmanager
def server_on(volume: EmulatedVolume, base: Path) -> Iterator[Server]:
    control = Path(tempfile.mkdtemp(prefix="c", dir=base))
    data_dir = volume.data / "server" / "data"
    if not data_dir.parent.exists():
        ownership.claim(data_dir.parent, purpose="test")
    places = CellPlaces(
        data_dir=str(data_dir),
        volume_dir=str(data_dir.parent),
        control_dir=str(control),
        template_dir=str(base / "t"),
        scratch_dir=str(control),
    )
    supervisor = launch_supervisor(control)
    supervisor.wait_ready_for_commands(30.0)
    config: dict[str, str | int | bool] = {"innodb_buffer_pool_size": "32MiB", "innodb_flush_log_at_trx_commit": 1}
    spec = ServerSpec.model_validate({"flavor": FLAVOR, "config": config})
    try:
        yield Server(spec=spec, places=places, supervisor=supervisor)
    finally:
        supervisor.kill()
        supervisor.quit(10.0)


def volume_of(profile: str, base: Path, **options: str) -> EmulatedVolume:
    resolved = resolve(profile, options)
    if resolved.mode == "block":
        resolved = resolve(profile, {"size": BLOCK_SIZE.get(profile, "4GiB"), **options})
    return EmulatedVolume(resolved, base / "volumes", name="v")


def commit_then_cut_power(volume: EmulatedVolume, base: Path) -> int:
    """Commits COMMITS rows, one by one, cuts the power, recovers, and returns how many rows are there."""
    volume.start()
    with server_on(volume, base) as server:
        server.initialise()
        server.start()
        server.query("CREATE DATABASE kept")
        server.query("CREATE TABLE kept.row (id INT PRIMARY KEY AUTO_INCREMENT, text VARCHAR(200))")
        server.stop()
        run(["sync", "-f", str(volume.data)])
        if volume.resolved.durability == "async":
            assert wait_until(lambda: volume.state()["unsynced"]["writes"] == 0, timeout_s=20)
        server.start()
        with server.connect() as connection, connection.cursor() as cursor:
            for number in range(COMMITS):
                cursor.execute("INSERT INTO kept.row (text) VALUES (%s)", (f"commit {number} " * 10,))
        volume.fault("power_cut")
        server.kill()
    volume.stop()
    volume.start()
    with server_on(volume, base) as server:
        server.start()
        ((rows,),) = server.query("SELECT COUNT(*) FROM kept.row")
        server.stop()
    volume.remove()
    return int(rows)


@pytest.mark.slow
@pytest.mark.parametrize("profile", profile_names())
def test_no_commit_is_lost_on_any_profile_s_default(base: Path, profile: str) -> None:
    assert commit_then_cut_power(volume_of(profile, base), base) == COMMITS


def test_no_commit_is_lost_on_a_synchronous_volume(base: Path) -> None:
    assert commit_then_cut_power(volume_of("ebs-gp3", base, filesystem="ext4"), base) == COMMITS


def test_commits_are_lost_on_an_asynchronous_export(base: Path) -> None:
    volume = volume_of("fsx-openzfs", base, mode="async", iops="50000", throughput="4000")
    assert commit_then_cut_power(volume, base) < COMMITS
