"""Names where everybody may make files, as in /tmp: what another user planted there is not written or trusted."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hostile_user import NOBODY, TREASURE, as_nobody, shared_place, volbench
from synthetic_observation import observation
from synthetic_run import build_run, two_volumes
from waiting import wait_for

from bootstrap.directories import Directories
from volbench.core.base import ownership, safe_files
from volbench.core.records.cell import AttachSpec
from volbench.errors import EXIT_REFUSED, EXIT_USAGE, MissingPrerequisite, Refused, StepFailed
from volbench.machine.engine.server import ACCOUNT_FILE, Server
from volbench.machine.engine.supervisor import Supervisor, launch_supervisor, supervisor_script
from volbench.machine.host.task_account import keep_task_file
from volbench.machine.placement.local import log_tail
from volbench.measure.execute.downloads import download
from volbench.measure.sample.server_group import ServerGroup
from volbench.observe.observer import ObserveOptions, _make_directory
from volbench.results.store.run_directory import RunDirectory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked by an unprivileged user")
SYNTHETIC = two_volumes(repeats=1)
PLANTS = ["link", "hard link", "pipe", "file"]
_PLANT = """
name, kind, victim = sys.argv[1:]
if kind == "link":
    os.symlink(victim, name)
elif kind == "pipe":
    os.mkfifo(name)
elif kind == "file":
    open(name, "w").close()
    os.chmod(name, 0o666)
elif kind == "directory":
    os.mkdir(name)
elif kind == "linked directory":
    os.mkdir(name + "-own")
    os.symlink(name + "-own", name)
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A sticky directory that everybody may write to."""
    with shared_place() as location:
        yield location


@pytest.fixture
def victim(shared: Path) -> Iterator[Path]:
    """A file that only root may read or write, on the same file system."""
    with shared_place(0o700) as location:
        path = location / "victim"
        path.write_text(TREASURE)
        path.chmod(0o600)
        yield path
        assert path.read_text() == TREASURE
        assert sorted(location.iterdir()) == [path]


def plant(name: Path, kind: str, victim: Path) -> None:
    if kind == "hard link":  # where fs.protected_hardlinks is 0, an unprivileged user can make it
        os.link(victim, name)
    else:
        as_nobody(_PLANT, name, kind, victim)


@pytest.mark.parametrize("kind", PLANTS)
def test_a_planted_log_is_not_written(shared: Path, victim: Path, kind: str) -> None:
    log = shared / "volbench.log"
    plant(log, kind, victim)
    done = volbench("suite", "list", VOLBENCH_LOG=str(log))
    assert done.returncode == EXIT_USAGE, done.stderr
    assert "the log cannot be written" in done.stderr
    if kind == "file":
        assert log.read_text() == ""


def test_an_own_log_is_appended_to(shared: Path) -> None:
    for _ in range(2):
        assert volbench("suite", "list", VOLBENCH_LOG=str(shared / "volbench.log")).returncode == 0
    assert (shared / "volbench.log").read_text().count("command: volbench suite list") == 2


@pytest.mark.parametrize("kind", ["directory", "linked directory"])
@pytest.mark.parametrize("depth", [0, 1])
def test_no_run_is_made_in_a_planted_directory(shared: Path, victim: Path, kind: str, depth: int) -> None:
    """`volbench run` as root in /tmp, where somebody has made `results`."""
    plant(shared / "results", kind, victim)
    results = shared / "results" / ("below" if depth else "")
    with pytest.raises(Refused, match="another user has made this directory") as caught:
        build_run(results, SYNTHETIC)
    assert f"belongs to user {NOBODY}" in str(caught.value)
    assert list((shared / "results").iterdir()) == []


def test_a_run_in_a_planted_directory_is_not_worked_on(shared: Path, victim: Path) -> None:
    """The run is root's, but who owns the directory above can put another one in its place."""
    made = build_run(shared / "results", SYNTHETIC)
    os.chown(shared / "results", NOBODY, NOBODY)
    with pytest.raises(Refused, match="another user has made this directory"), RunDirectory(made.path).lock():
        pass


def test_other_outputs_are_not_put_into_planted_directories(shared: Path, victim: Path) -> None:
    build_run(shared / "mine", SYNTHETIC)
    plant(shared / "site", "directory", victim)
    plant(shared / "observed", "directory", victim)
    site = volbench("site", str(shared / "mine"), "--out", str(shared / "site"))
    assert site.returncode == EXIT_REFUSED, site.stderr
    assert list((shared / "site").iterdir()) == []
    options = ObserveOptions(attach=AttachSpec(), directory=shared / "observed" / "one")
    with pytest.raises(Refused, match="another user has made this directory"):
        _make_directory(options, observation())
    assert list((shared / "observed").iterdir()) == []


@pytest.mark.parametrize("kind", PLANTS)
def test_a_planted_lock_of_a_download_is_not_opened(shared: Path, victim: Path, kind: str) -> None:
    plant(shared / ".dump.sql.lock", kind, victim)
    with pytest.raises(MissingPrerequisite, match="could not be downloaded"):
        download("http://127.0.0.1:9/dump.sql", shared / "dump.sql", progress=lambda _: None)
    assert not (shared / "dump.sql").exists()


@pytest.mark.parametrize("total", [True, False])
def test_a_planted_download_is_not_taken_for_one_that_was_checked(shared: Path, victim: Path, total: bool) -> None:
    """Its record would say that the bytes have the SHA-256 of the suite."""
    url, sha256 = "http://127.0.0.1:9/dump.sql", "ab" * 32
    code = "open(sys.argv[1], 'w').write(sys.argv[2])"
    record = json.dumps({"url": url, "files": {}, "sha256": sha256})
    if total:
        as_nobody(code, shared / "dump.sql", "DROP DATABASE production;")
    else:
        (shared / "dump.sql").write_text("root's")
    as_nobody(code, shared / "dump.sql.download.json", record)
    with pytest.raises((Refused, MissingPrerequisite), match=f"belongs to user {NOBODY}"):
        download(url, shared / "dump.sql", sha256=sha256, progress=lambda _: None)


@pytest.mark.parametrize("name", ["state", "cache", "root"])
def test_the_set_up_does_not_work_in_planted_directories(shared: Path, victim: Path, name: str) -> None:
    """It would take the emulator's daemon from there."""
    plant(shared / name, "directory", victim)
    shareds = {piece: shared / "own" / piece for piece in ("root", "state", "cache")}
    shareds[name] = shared / name / "volbench"
    locked = Directories(**shareds).locked(on_wait=lambda _: None)
    with pytest.raises(Refused, match="another user has made"), locked:
        pass


@pytest.mark.parametrize("kind", PLANTS)
def test_only_an_own_file_is_opened(shared: Path, victim: Path, kind: str) -> None:
    plant(shared / "name", kind, victim)
    with pytest.raises(OSError, match="name"):
        safe_files.open_own(shared / "name", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def test_directories_of_root_and_of_who_became_root_are_no_plants(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared / "own").mkdir()
    assert safe_files.planted_entry(shared / "own" / "run") is None
    os.chown(shared / "own", NOBODY, NOBODY)
    assert safe_files.planted_entry(shared / "own" / "run") is not None
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    assert safe_files.planted_entry(shared / "own" / "run") is None
    assert safe_files.planted_entry(Path(sys.executable)) is None


@pytest.fixture
def control(shared: Path) -> Path:
    """A cell's control directory: root's, and a container's user may make files in it."""
    directory = shared / "control"
    ownership.claim(directory, purpose="run")
    ownership.hand_over(directory, group=NOBODY)
    return directory


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize("name", ["tasks.json.new", ".tasks.json.partial", "tasks.json"])
def test_a_container_turns_no_report_of_its_processes_elsewhere(
    control: Path, victim: Path, name: str, kind: str
) -> None:
    """root writes it twice a second where the server's container may make files."""
    plant(control / name, kind, victim)
    stop = threading.Event()
    arguments = (control / "tasks.json", {"server": [os.getpid()]}, stop)
    thread = threading.Thread(target=keep_task_file, args=arguments, daemon=True)
    thread.start()
    report = control / "tasks.json"

    def is_written() -> bool:
        return os.path.lexists(report) and stat.S_ISREG(report.lstat().st_mode) and "entities" in report.read_text()

    try:
        wait_for(is_written, "there is no report")
        assert json.loads(report.read_text())["entities"][0] == "server"
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize("name", ["command", "state", "argv", ".argv.new", ".argv.partial", "mysqld.log"])
def test_a_container_turns_no_file_of_the_supervisor_elsewhere(
    control: Path, victim: Path, name: str, kind: str
) -> None:
    """Whoever controls the server writes there, and reads what the server's container writes."""
    plant(control / name, kind, victim)
    supervisor = Supervisor(control)
    with pytest.raises(StepFailed):
        supervisor.start(["/bin/true"])
    if kind != "hard link":  # for which the container's user needs the right to read
        assert TREASURE not in supervisor.log_tail()
    with pytest.raises(StepFailed):
        supervisor.wait_ready_for_commands(timeout_s=0.1)
    assert ServerGroup(control / "state").text() == ""


@pytest.mark.parametrize("kind", PLANTS)
def test_a_supervisor_is_launched_only_with_an_own_log(control: Path, victim: Path, kind: str) -> None:
    plant(control / "mysqld.log", kind, victim)
    plant(control / "supervisor.sh", kind, victim)
    with pytest.raises(OSError, match=r"mysqld\.log"):
        launch_supervisor(control)
    assert (control / "supervisor.sh").read_bytes() == supervisor_script()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_server_turns_the_file_of_its_account_nowhere(shared: Path, victim: Path, kind: str) -> None:
    """The agent would send what it reads there as the password."""
    plant(shared / ACCOUNT_FILE, kind, victim)
    server = SimpleNamespace(data_dir=shared, socket=shared / "mysqld.sock")
    with pytest.raises(StepFailed, match="has no account of volbench"):
        Server.account.fget(server)  # type: ignore[attr-defined]


def test_of_a_log_without_an_end_its_last_lines_are_read(shared: Path) -> None:
    log = shared / "agent.log"
    with log.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe last line\n")
    assert log_tail(log, lines=1) == "the last line"
