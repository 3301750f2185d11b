"""Tests in forks of one collection: each runs once, apart, and what ends a process fails its test only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest

SUPPORT = Path(forked.__file__).parent
FILE = """
import os, signal, sys
from pathlib import Path
import pytest

LOG = Path(__file__).with_suffix(".log")

@pytest.fixture(scope="module")
def once():
    with LOG.open("a") as log:
        print("set up", file=log)
    yield
    with LOG.open("a") as log:
        print("torn down", file=log)

def test_writes(once, capfd, tmp_path):
    os.system("echo from a program")
    assert capfd.readouterr().out == "from a program\\n"
    assert os.environ["PYTEST_XDIST_WORKER"] in str(tmp_path)

def test_fails(once):
    print("what it printed")
    assert 1 == 2

def test_is_killed(once):
    if "a" in LOG.stem:
        os.kill(os.getpid(), signal.SIGKILL)

def test_exits():
    if "a" in LOG.stem:
        os._exit(3)

def test_is_skipped():
    pytest.skip("for a reason")
"""


SHARED = """
import os, time
from pathlib import Path
import pytest

LOG = Path(__file__).with_suffix(".log")

def note(text):
    with LOG.open("a") as log:
        print(text, file=log)

@pytest.fixture(scope="module")
def once():
    note("set up")
    yield
    note("torn down")

@pytest.mark.parametrize("number", range(12))
def test_waits_for_two_forks(once, number):
    until_s = time.monotonic() + 60
    while LOG.read_text().count("set up") < 2:
        assert time.monotonic() < until_s
        time.sleep(0.01)
    note(f"{number} {os.environ['PYTEST_XDIST_WORKER']}")
"""


def run(directory: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (directory / f"test_{name}.py").write_text(text)
    plugins = ("-p", "no:volbench", "-p", "no:hypothesispytest", "-p", "forked")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", *plugins, "--basetemp", str(directory / "temporary"), *options],
        cwd=directory,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_test_runs_once_and_what_ends_a_process_fails_its_test_only(tmp_path: Path) -> None:
    done = run(tmp_path, "--forks", "1+1", a=FILE, b=FILE)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    ended = re.findall(r"^(PASSED|FAILED) (\S+)", done.stdout, re.MULTILINE)
    assert sorted(ended, key=lambda pair: pair[1]) == [
        ("FAILED", "test_a.py::test_exits"),
        ("FAILED", "test_a.py::test_fails"),
        ("FAILED", "test_a.py::test_is_killed"),
        ("PASSED", "test_a.py::test_writes"),
        ("PASSED", "test_b.py::test_exits"),
        ("FAILED", "test_b.py::test_fails"),
        ("PASSED", "test_b.py::test_is_killed"),
        ("PASSED", "test_b.py::test_writes"),
    ]
    assert len(re.findall(r"^SKIPPED \[1\] .*: for a reason$", done.stdout, re.MULTILINE)) == 2
    assert "ended by signal SIGKILL" in done.stdout
    assert "ended with exit code 3" in done.stdout
    assert done.stdout.count("Captured stdout call") == done.stdout.count("what it printed\n") == 2
    assert (tmp_path / "test_b.log").read_text() == "set up\ntorn down\n"


def test_the_last_long_file_is_shared_by_forks_that_have_nothing_else(tmp_path: Path) -> None:
    directory = tmp_path / "integration"
    directory.mkdir()
    done = run(directory, "--forks", "1+1", shared=SHARED)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    log = (directory / "test_shared.log").read_text()
    assert (log.count("set up\n"), log.count("torn down\n")) == (2, 2)
    worker_of = dict(line.split() for line in log.splitlines() if line[0].isdecimal())
    workers = [worker_of[str(number)] for number in range(12)]
    assert workers[:6] == workers[:1] * 6
    assert workers[6:] == workers[6:7] * 6
    assert workers[0] != workers[6]


def test_a_short_file_is_not_shared(tmp_path: Path) -> None:
    text = "import os\n" + "".join(f"def test_{n}(): print(os.environ['PYTEST_XDIST_WORKER'])\n" for n in range(50))
    done = run(tmp_path, "--forks", "2", short=text)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert len(set(re.findall(r"^gw\d$", done.stdout, re.MULTILINE))) == 1


def test_the_first_failure_ends_a_session_that_asks_for_it(tmp_path: Path) -> None:
    late = "import time\ndef test_fails(): assert 0\n" + "".join(f"def test_{n}(): pass\n" for n in range(50))
    done = run(tmp_path, "--forks", "1", "-x", late=late)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed in" in done.stdout


def test_a_session_fixture_that_fails_at_the_end_fails_the_session(tmp_path: Path) -> None:
    text = """
import pytest
@pytest.fixture(scope="session")
def service():
    yield
    raise RuntimeError("left behind")
def test_passes(service): pass
"""
    done = run(tmp_path, "--forks", "2", service=text)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "RuntimeError: left behind" in done.stdout


def test_a_thread_that_collecting_has_started_is_named(tmp_path: Path) -> None:
    text = "import threading\nthreading.Thread(target=threading.Event().wait, name='mine', daemon=True).start()\n"
    done = run(tmp_path, "--forks", "2", thread=text + "def test_passes(): pass\n")
    assert done.returncode not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    assert "mine" in done.stdout + done.stderr


@pytest.mark.parametrize("wrong", ["0", "many", "1+two"])
def test_a_wrong_number_is_a_usage_error(tmp_path: Path, wrong: str) -> None:
    done = run(tmp_path, "--forks", wrong)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR


def test_the_longest_files_that_wait_come_first_where_they_are_asked_for() -> None:
    items = [item("unit/a", 1), item("integration/b", 1), item("integration/c", 3), item("unit/d", 2)]
    queues = forked.Queues([each for file in items for each in file], {"tests/unit/test_a.py": 9.0})
    assert [queues.take(waiting=waiting) for waiting in (True, False, True, True, True)] == [
        (2, 3, 4),
        (0,),
        (1,),
        (5, 6),
        None,
    ]


def test_one_whole_run_comes_before_some_short_tests_where_nothing_was_measured() -> None:
    items = [
        *item("integration/queries", 4),
        *item("integration/image", 2, keywords=("docker",)),
        *item("integration/run", 1, fixtures=("tmp_path", "local")),
    ]
    queues = forked.Queues(items, {})
    assert [queues.take(waiting=True) for _ in range(3)] == [(6,), (0, 1, 2, 3), (4, 5)]


def item(
    name: str, count: int, *, fixtures: tuple[str, ...] = (), keywords: tuple[str, ...] = ()
) -> list[pytest.Item]:
    directory, file = name.split("/")
    path = Path("tests") / directory / f"test_{file}.py"
    return [Item(path, number, fixtures, keywords) for number in range(count)]  # type: ignore[misc]


class Item:
    def __init__(self, path: Path, number: int, fixtures: tuple[str, ...], keywords: tuple[str, ...]) -> None:
        self.path, self.nodeid = path, f"{path}::test_{number}"
        self.fixturenames, self.keywords = fixtures, keywords
