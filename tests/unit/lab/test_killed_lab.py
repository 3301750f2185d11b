"""What a killed lab of causes has left is found by what only the lab makes, and what another lab uses stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import NotFound
from synthetic_run import Synthetic, SyntheticVolume, build_run

from causes import leftovers, machine
from causes.runner import RESULTS
from volbench.machine.placement.docker.containers import LABEL_RUN
from volbench.machine.placement.docker.images import tools_image
from volbench.machine.placement.processes import LABEL_VARIABLE
from volbench.results.store.run_directory import RUN_FILE

SLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], env={}, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A lane of this test alone, whose groups are directories."""
    name = f"test-{os.getpid()}"
    for module in (machine, leftovers):
        monkeypatch.setattr(module, "LANE", name)
    monkeypatch.setattr(machine, "GROUP", f"volbench-lab-{name}")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroup")
    return name


class Program:
    """A process of this test that has printed a line; it ends with the block."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        variables = {**os.environ, **environment}
        self.process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, start_new_session=True)

    def __enter__(self) -> Program:
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline().decode().strip()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def killed(self) -> bool:
        """Whoever waited for it: by itself it would go on for ten minutes."""
        return self.process.wait(timeout=60) is not None


def test_a_server_without_the_label_ends_with_the_lab_that_started_it(lane: str) -> None:
    """volbench starts servers with few variables: they stayed, and kept their volume and their port."""
    with Program([sys.executable, "-c", PARENT, *SLEEP], {machine.LABEL: lane}) as parent:
        server = int(parent.line)
        assert server not in machine.labelled_processes()
        assert machine.lab_processes() == {parent.process.pid, server}
        machine.kill_processes()
        assert parent.killed
    assert not (Path("/proc") / str(server) / "exe").exists()


def test_a_server_whose_parents_were_killed_is_found_in_the_labs_groups(lane: str) -> None:
    with Program(SLEEP, {}) as server, Program(SLEEP, {}) as stranger:
        group = machine.group_of("blkio")
        group.mkdir(parents=True)
        (group / "cgroup.procs").write_text(f"{server.process.pid}\n")
        assert machine.lab_processes() == {server.process.pid}
        machine.kill_processes()
        assert server.killed
        assert stranger.process.poll() is None


def killed_run(directory: Path, target: str) -> str:
    """The identity of a run in the results of a setup."""
    run_id = f"20260302T093000Z-lab-{os.getpid():06x}"
    results = directory / RESULTS
    results.mkdir()
    run = build_run(results, Synthetic(volumes=(SyntheticVolume(name="v"),), repeats=1), run_id=run_id)
    data = json.loads((run.path / RUN_FILE).read_text()) | {"target": target}
    (run.path / RUN_FILE).write_text(json.dumps(data))
    return run_id


def test_a_server_is_found_by_the_run_that_it_is_of(tmp_path: Path) -> None:
    """Also where an earlier `clean` has moved it out of the lab's groups."""
    run_id = killed_run(tmp_path, "local")
    with (
        Program(SLEEP, {LABEL_VARIABLE: f"{run_id}/01-v"}) as server,
        Program(SLEEP, {LABEL_VARIABLE: "20260101T000000Z-other-000000/01-v"}) as stranger,
    ):
        leftovers.clean_runs(tmp_path)
        assert server.killed
        assert stranger.process.poll() is None


@pytest.mark.docker
def test_a_container_is_found_by_the_run_that_it_is_of(tmp_path: Path) -> None:
    run_id, client = killed_run(tmp_path, "docker"), docker.from_env()
    container = client.containers.run(
        tools_image(client, ""),
        ["sleep", "60"],
        entrypoint=[],
        labels={LABEL_RUN: run_id},
        network_mode="none",
        detach=True,
    )
    try:
        leftovers.clean_runs(tmp_path)
        with pytest.raises(NotFound):
            client.containers.get(str(container.id))
    finally:
        with suppress(NotFound):
            container.remove(force=True)
        client.close()


def test_mounts_and_loop_devices_of_every_directory_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`clean` knew those below its own --out alone."""
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/loop0 /var/tmp/fresh/lane-0/mnt ext4 rw 0 0\nnbdfuse /data/my\\040runs/lane-2/nbd/disk fuse rw 0 0\n"
        "/dev/sda1 / ext4 rw 0 0\n/dev/loop1 /srv/lane-0/data ext4 rw 0 0\n"
    )
    files = "/var/tmp/late/lane-0/volume.img (deleted)\n/srv/stranger.img\n\n"
    monkeypatch.setattr(leftovers, "run", lambda *_: files)
    assert leftovers.places_in_use(mounts) == {
        (Path("/var/tmp/fresh"), "0"),
        (Path("/data/my runs"), "2"),
        (Path("/var/tmp/late"), "0"),
    }


def test_clean_removes_from_each_directory_of_its_lane_and_names_other_lanes(
    lane: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cleaned: list[Path] = []
    own, late = tmp_path / "own", tmp_path / "late"
    killed, ended = (late / "seed-1" / "limit" / number for number in "12")
    for file in (killed / "setup.json", ended / "setup.json", ended / "done.json"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setattr(leftovers, "remove_rules", lambda: None)
    monkeypatch.setattr(leftovers, "places_in_use", lambda: {(late, lane), (tmp_path / "alien", "7")})
    monkeypatch.setattr(machine.Machine, "clean_up", lambda self: cleaned.append(self.cache))
    monkeypatch.setattr(leftovers, "clean_runs", cleaned.append)
    leftovers.clean(own)
    assert cleaned == [late, killed, own]
    assert "VOLBENCH_CAUSES_LANE=7 python -m causes clean" in capsys.readouterr().out


def test_nothing_of_a_lab_that_works_is_removed(lane: str, tmp_path: Path) -> None:
    with leftovers.only_lab(tmp_path):
        second = leftovers.only_lab(tmp_path)
        with pytest.raises(RuntimeError, match=f"a lab works in lane {lane}"):
            second.__enter__()
    with leftovers.only_lab(tmp_path):
        pass
