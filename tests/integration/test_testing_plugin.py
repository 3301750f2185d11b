"""The pytest plugin as users have it: docs/testing.md in a clean environment; in parallel, killed, failing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from emulated_volumes import write_durably
from stored_files import REPORT, stored_text

from bootstrap.directories import find_directories
from bootstrap.environment import index_settings
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.volume.emulated.attachments import attachments
from volbench.machine.volume.emulated.requirements import find_daemon
from volbench.testing import emulated_volume, mysql_on
from volbench.testing.leftovers import DISK_DIRECTORY, LABEL_OWNER, owner_label

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
SPEC = "ebs-gp3?size=2GiB"
BOUND_S = 540.0

pytestmark = [pytest.mark.docker, pytest.mark.emulator]


def examples() -> dict[str, str]:
    """The complete test files of the page, by their names."""
    blocks = re.findall(r"```python\n(# (test_\w+\.py)\n.*?)```", PAGE, re.DOTALL)
    return {name: text for text, name in blocks}


def own_containers() -> list[str]:
    """Containers that this process started and that are still there."""
    client = docker.from_env()
    try:
        filters: dict[str, Any] = {"label": f"{LABEL_OWNER}={owner_label()}"}
        return [str(container.name) for container in client.containers.list(all=True, filters=filters)]
    finally:
        client.close()


def run_pytest(
    python: Path | str, directory: Path, *options: str, required: bool = True
) -> subprocess.CompletedProcess[str]:
    """A session of its own in a directory, without this project's configuration."""
    (directory / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHONPATH"))}
    options += ("--volbench-require",) if required else ()
    return subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *options, directory],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        env=environment,
        check=False,
    )


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a new environment with the wheel of this tree, its extra `pytest`, the daemon, and nothing else."""
    base = tmp_path_factory.mktemp("clean")
    uv = Path(sys.executable).parent / "uv"
    daemon = find_daemon()
    assert daemon is not None
    python = base / "venv" / "bin" / "python"
    source = base / "source"
    ignored = shutil.ignore_patterns("__pycache__", "examples", "target")
    for name in ("runner", "suites"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy2(ROOT / name, source / name)
    steps: list[list[Any]] = [
        [uv, "build", "-q", "--wheel", "--no-build-isolation", "--python", sys.executable, "-o", base, source],
        [uv, "venv", "-q", "--python", sys.executable, base / "venv"],
    ]
    environment = {**os.environ, **index_settings(find_directories())}
    for argv in steps:
        subprocess.run(argv, check=True, timeout=BOUND_S, env=environment)
    (wheel,) = base.glob("*.whl")
    install: list[Any] = [
        uv,
        "pip",
        "install",
        "-q",
        "--python",
        python,
        "--constraint",
        ROOT / "requirements-dev.lock",
    ]
    subprocess.run([*install, f"{wheel}[pytest]"], check=True, timeout=BOUND_S, env=environment)
    shutil.copy2(daemon, python.parent)
    return python


@pytest.mark.timeout(1200)
def test_the_examples_of_the_page_pass_in_a_clean_environment(clean_python: Path, tmp_path: Path) -> None:
    assert len(examples()) == 3
    for name, text in examples().items():
        (tmp_path / name).write_text(text)
    done = run_pytest(clean_python, tmp_path)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "3 passed" in done.stdout


def test_the_wheel_has_what_the_site_needs(clean_python: Path, tmp_path: Path) -> None:
    """Templates are files of the package that a rule for ignored files could leave out."""
    run = tmp_path / "results" / "quick"
    run.mkdir(parents=True)
    (run / "report.json").write_text(stored_text(ROOT / "results/examples/quick" / REPORT))
    argv: list[Any] = [clean_python, "-m", "volbench", "site", run.parent, "--out", tmp_path / "site"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "site.css").is_file()


def test_the_power_cut_example_fails_on_a_server_that_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    """As the page says: the example can fail."""
    careless = '{"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0, "innodb_flush_log_at_timeout": 2700}'
    text = examples()["test_power_cut.py"].replace("mysql_on(volume)", f"mysql_on(volume, options={careless})")
    assert careless in text
    (tmp_path / "test_power_cut.py").write_text(text)
    done = run_pytest(sys.executable, tmp_path)
    assert done.returncode == 1
    assert "assert set(confirmed) <= kept" in done.stdout


def test_the_commands_of_the_page_work(root: Path) -> None:
    """`volbench volume emulate` from a shell."""
    (script,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    environment = {**os.environ, "PLACE": str(root), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-eu", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"operations"' in done.stdout
    assert not (root / "mine").exists()


def test_two_workers_have_volumes_of_their_own_at_the_same_time(tmp_path: Path) -> None:
    """Each waits, with its volume mounted, until the other one's is mounted too."""
    (tmp_path / "test_both.py").write_text(f"""
import time
from pathlib import Path
import pytest

MEET = Path({str(tmp_path)!r})

@pytest.mark.parametrize("me, other", [("a", "b"), ("b", "a")])
def test_meet(me, other, emulated_volume, request):
    assert request.node.get_closest_marker("volbench")
    volume = emulated_volume({SPEC!r})
    assert volume.path.is_mount()
    (volume.path / "mine").write_text(me)
    (MEET / f"{{me}}.mounted").write_text(str(volume.path))
    until = time.monotonic() + 120
    while not (MEET / f"{{other}}.mounted").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert (volume.path / "mine").read_text() == me
""")
    done = run_pytest(sys.executable, tmp_path, "-n", "2")
    assert done.returncode == 0, done.stdout[-3000:]
    paths = [Path(path.read_text()) for path in tmp_path.glob("*.mounted")]
    assert len(set(paths)) == 2
    assert not any(path.parents[1].exists() for path in paths)


def test_a_user_without_rights_gets_a_skip_with_the_reason(tmp_path: Path) -> None:
    """The session believes that it is another user's: that user could not read this Python."""
    (tmp_path / "test_it.py").write_text(f"def test_it(emulated_volume):\n    emulated_volume({SPEC!r})\n")
    (tmp_path / "conftest.py").write_text("import os\nos.geteuid = lambda: 65534\n")
    skipped = run_pytest(sys.executable, tmp_path, required=False)
    assert "1 skipped" in skipped.stdout, skipped.stdout + skipped.stderr
    assert "missing: root" in skipped.stdout
    failed = run_pytest(sys.executable, tmp_path)
    assert failed.returncode == 1
    assert "missing: root" in failed.stdout


@pytest.fixture
def directory(root: Path) -> Iterator[Path]:
    """Where this test's volumes are; nothing of them may be left. Fixtures of the session may have containers."""
    before = own_containers()
    yield root
    assert list(root.iterdir()) == []
    assert own_containers() == before


def test_a_server_that_does_not_start_leaves_nothing_and_tells_its_log(directory: Path) -> None:
    before = own_containers()
    with emulated_volume(SPEC, directory=directory) as volume:
        with (
            pytest.raises(StepFailed, match="does not answer") as raised,
            mysql_on(volume, options={"no_such_option": 1}),
        ):
            pass
        assert "no-such-option" in raised.value.evidence
        assert own_containers() == before
        assert volume.path.is_mount()


def test_an_image_that_nobody_has_is_a_missing_prerequisite(directory: Path) -> None:
    with (
        emulated_volume(SPEC, directory=directory) as volume,
        pytest.raises(MissingPrerequisite, match="cannot be pulled"),
        mysql_on(volume, "localhost:1/volbench/no-such-image:1"),
    ):
        pass


def test_an_engine_on_another_machine_is_a_missing_prerequisite(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with (
        emulated_volume(SPEC, directory=directory) as volume,
        pytest.raises(MissingPrerequisite, match="on another machine"),
        mysql_on(volume),
    ):
        pass


def test_a_volume_whose_file_system_cannot_be_mounted_leaves_nothing(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a mkfs that makes none."""
    (tmp_path / "mkfs.xfs").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "mkfs.xfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(StepFailed, match="mount failed"), emulated_volume(SPEC, directory=directory):
        pass


def test_a_test_that_fails_while_the_volume_stalls_ends_at_once(directory: Path) -> None:
    """The stall would last an hour."""

    def fail_in_the_stall() -> None:
        with emulated_volume(SPEC, directory=directory) as volume:
            (volume.path / "file").write_text("not yet durable")
            volume.stall("1h")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_stall()


def test_power_on_without_a_cut_is_refused(directory: Path) -> None:
    with emulated_volume(SPEC, directory=directory) as volume, pytest.raises(UsageError, match="has power"):
        volume.power_on()


def test_a_volume_without_power_is_removed_too(directory: Path) -> None:
    with emulated_volume(SPEC, directory=directory) as volume:
        (volume.path / "file").write_text("not yet durable")
        volume.power_cut()
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            write_durably(volume.path / "other", b"x")


def test_the_next_session_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """The killed session has a server on a volume; another one, of another test, goes on."""
    code = f"""
import os, signal, sys
from volbench.testing import emulated_volume, mysql_on
with emulated_volume({SPEC!r}) as volume, mysql_on(volume) as server:
    print(volume.directory, server.get_container_id(), os.getpid(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "TESTCONTAINERS_RYUK_DISABLED": "true"}
    killed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    left, container_id, killed_pid = killed.stdout.split()
    volume_dir = Path(left)
    owners = DISK_DIRECTORY.glob("volbench-data-*/owner")
    dead_data = [path for path in owners if f"/{killed_pid}/" in path.read_text()]
    assert len(dead_data) == 1
    assert volume_dir.is_relative_to(DISK_DIRECTORY)
    assert attachments(volume_dir)
    with emulated_volume(SPEC) as living:
        next_session = "from volbench.testing.leftovers import clear_killed_sessions as clear; clear()"
        subprocess.run([sys.executable, "-c", next_session], check=True, timeout=120)
        assert living.path.is_mount()
    assert not attachments(volume_dir)
    assert not volume_dir.parent.exists()
    assert not dead_data[0].parent.exists()
    client = docker.from_env()
    try:
        with pytest.raises(docker.errors.NotFound):
            client.containers.get(container_id)
    finally:
        client.close()
