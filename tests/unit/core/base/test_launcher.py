"""What a program gets that volbench starts: directory, variables, privileges, and limits if it is confined."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from waiting import wait_for

from volbench.core.base import programs
from volbench.core.base.confinement import Confinement, confine_this_process, unprivileged_user
from volbench.core.base.environment import environment, find_program, search_path
from volbench.core.base.workers import worker_pool
from volbench.errors import MissingPrerequisite

IS_ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not IS_ROOT, reason="only root becomes another user")
PYTHON = "/usr/bin/python3"
"""Debian's: another user may read it, which a user's own Python does not allow everywhere."""
debian_python = pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"there is no {PYTHON}")
HOSTILE = (
    "BASH_ENV",
    "BASH_FUNC_ls%%",
    "BROWSER",
    "EDITOR",
    "ENV",
    "GCONV_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH_COMMAND",
    "GZIP",
    "IFS",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LESSOPEN",
    "LIBMYSQL_PLUGINS",
    "LOCPATH",
    "LUA_CPATH",
    "LUA_INIT",
    "LUA_PATH",
    "MALLOC_TRACE",
    "MYSQL_PS1",
    "MYSQL_PWD",
    "MYSQL_TEST_LOGIN_FILE",
    "OPENSSL_CONF",
    "PAGER",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PTDEBUG",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "SHELLOPTS",
    "TAR_OPTIONS",
    "VISUAL",
    "ZSTD_CLEVEL",
)


def status(**options: object) -> dict[str, str]:
    """Return /proc/self/status of a program that the launcher starts."""
    done = programs.run(["cat", "/proc/self/status"], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return {name: value.strip() for name, _, value in (line.partition(":") for line in done.stdout.splitlines())}


def in_confined_python(code: str, confined: Confinement, **options: object) -> subprocess.CompletedProcess[str]:
    argv = [PYTHON, "-I", "-c", code]
    return programs.run(argv, capture_output=True, text=True, timeout=60, confined=confined, **options)


def test_a_program_works_in_the_root_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert programs.run(["pwd"], capture_output=True, text=True).stdout == "/\n"
    assert programs.run(["pwd"], capture_output=True, text=True, cwd=".").stdout == f"{tmp_path}\n"
    process = programs.Popen(["pwd"], stdout=subprocess.PIPE)
    assert process.communicate()[0] == b"/\n"


def test_a_program_has_no_variable_that_makes_it_run_or_load_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in HOSTILE:
        monkeypatch.setenv(name, "/tmp/hostile")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("HOME", "relative")
    done = programs.run(["env", "-0"], capture_output=True, text=True)
    names = {entry.partition("=")[0] for entry in done.stdout.split("\0") if entry}
    assert names.isdisjoint(HOSTILE)
    assert {"PATH", "TZ"} <= names
    assert "HOME" not in names
    own = programs.python_environment()
    assert set(HOSTILE) & set(own) <= {"PYTHONPATH"}
    assert own["PYTHONSAFEPATH"] == "1"


def test_a_caller_names_what_else_its_program_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "a")
    monkeypatch.setenv("AWS_REGION", "b")
    assert "AWS_PROFILE" not in environment()
    named = environment("AWS_*", LC_ALL="C")
    assert (named["AWS_PROFILE"], named["AWS_REGION"], named["LC_ALL"]) == ("a", "b", "C")


@pytest.mark.parametrize(
    "path", [":/usr/bin:/bin", "/usr/bin::/bin", "/usr/bin:/bin:", ".:/usr/bin", "bin:/bin:/usr/bin"]
)
def test_no_program_of_the_working_directory_is_run(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    for planted in (tmp_path / "pwd", tmp_path / "bin/pwd", tmp_path / "mysqld", tmp_path / "setpriv"):
        planted.write_text("#!/bin/sh\necho planted\n")
        planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    assert programs.run(["pwd"], capture_output=True, text=True, cwd=tmp_path).stdout == f"{tmp_path}\n"
    assert all(entry.startswith("/") for entry in search_path().split(":"))
    assert find_program("mysqld", path=path) != "mysqld"
    assert find_program("./mysqld") is None
    with pytest.raises(FileNotFoundError):
        programs.run(["./pwd"])


def test_a_missing_program_and_one_that_cannot_be_executed_are_the_usual_errors(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    with pytest.raises(FileNotFoundError):
        programs.run([str(tmp_path / "none")])
    with pytest.raises(PermissionError):
        programs.Popen([tmp_path / "text"])


def test_a_program_can_gain_no_privileges_and_has_no_terminal_to_read() -> None:
    assert status()["NoNewPrivs"] == "1"
    done = programs.run(["readlink", "/proc/self/fd/0"], capture_output=True, text=True)
    assert done.stdout == "/dev/null\n"


def test_a_program_ends_with_the_thread_that_started_it() -> None:
    started: list[programs.Popen] = []

    def start() -> None:
        started.append(process := programs.Popen(["sleep", "600"], parent_death_signal=signal.SIGTERM))
        wait_for(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "it did not start")

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert started[0].wait(60) == -signal.SIGTERM


def test_an_error_names_the_program_without_what_is_before_it() -> None:
    with pytest.raises(subprocess.TimeoutExpired, match=r"Command '\['sleep', '600'\]'"):
        programs.run(["sleep", "600"], timeout=0.2)
    with pytest.raises(subprocess.CalledProcessError, match=r"Command '\['false'\]'"):
        programs.run(["false"], check=True)


@debian_python
def test_a_confined_program_starts_no_other_one() -> None:
    """As MariaDB's client would with `\\!`, `edit` or a pager."""
    code = """
import os, subprocess
shell = "/bin/sh"
for start in (os.fork, lambda: subprocess.run([shell, "-c", "true"]), lambda: os.posix_spawn(shell, ["sh"], {})):
    try:
        start()
    except BlockingIOError:
        continue
    raise SystemExit("started")
"""
    done = in_confined_python(code, Confinement())
    assert (done.returncode, done.stderr) == (0, "")


@debian_python
def test_a_confined_program_has_its_limits_and_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/root")
    code = """
import json, os, resource
names = ("AS", "CPU", "NPROC", "FSIZE", "NOFILE", "CORE")
limits = [resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1] for name in names]
print(json.dumps([limits, dict(os.environ)]))
"""
    confined = Confinement(memory_bytes=1 << 29, cpu_s=20, file_bytes=4096, open_files=32)
    done = in_confined_python(code, confined)
    limits, variables = json.loads(done.stdout)
    assert limits == [1 << 29, 20, 1, 4096, 32, 0]
    assert variables["HOME"] == "/nonexistent"


@debian_python
@pytest.mark.parametrize(
    ("code", "limits"),
    [
        ("x = bytes(1 << 30)", {"memory_bytes": 1 << 28}),
        ("while True: pass", {"cpu_s": 1}),
        ("import os; os.write(1, bytes(1 << 20)); os.write(1, b'x')", {"file_bytes": 4096}),
        ("files = [open('/dev/null') for _ in range(100)]", {"open_files": 32}),
    ],
)
def test_a_confined_program_that_exceeds_a_limit_ends(code: str, limits: dict[str, int], tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as output:
        process = programs.Popen(
            [PYTHON, "-I", "-c", code], stdout=output, stderr=subprocess.PIPE, confined=Confinement(**limits)
        )
        process.communicate(timeout=60)
    assert process.returncode != 0
    assert (tmp_path / "output").stat().st_size <= 4096


def test_a_confined_program_needs_a_time_limit() -> None:
    with pytest.raises(ValueError, match="time limit"):
        programs.run(["true"], confined=Confinement())


def test_it_is_not_started_where_it_cannot_be_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_system_program", {}.get)
    with pytest.raises(MissingPrerequisite) as caught:
        programs.run(["true"], confined=Confinement(), timeout=60)
    assert "util-linux" in (caught.value.next_step or "")


@as_root
def test_roots_confined_program_is_nobody_who_owns_anything(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    confined = Confinement()
    displayed = status(confined=confined)
    assert displayed["Uid"].split() == displayed["Gid"].split() == [str(confined.user)] * 4
    assert displayed["Groups"] == ""
    assert displayed["NoNewPrivs"] == "1"
    assert int(displayed["CapEff"], 16) == int(displayed["CapPrm"], 16) == int(displayed["CapAmb"], 16) == 0
    tmp_path.chmod(0o755)
    refused = programs.run(["cat", secret], capture_output=True, text=True, confined=confined, timeout=60)
    assert "Permission denied" in refused.stderr
    with secret.open("rb") as source:
        handed = programs.run(["cat"], stdin=source, capture_output=True, text=True, confined=confined, timeout=60)
    assert handed.stdout == "x"


@as_root
def test_it_opens_a_file_in_memory_that_was_given_to_it() -> None:
    confined = Confinement()
    descriptor = os.memfd_create("test")
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, b"text")
        confined.give(descriptor)
        done = programs.run(
            ["cat", f"/dev/fd/{descriptor}"],
            pass_fds=[descriptor],
            capture_output=True,
            text=True,
            confined=confined,
            timeout=60,
        )
    finally:
        os.close(descriptor)
    assert done.stdout == "text", done.stderr


@as_root
def test_two_confined_programs_are_different_users() -> None:
    process = programs.Popen(["sleep", "600"], confined=Confinement(user=61184))
    try:
        assert all(unprivileged_user() not in {None, 61184, 0} for _ in range(20))
    finally:
        process.kill()
        process.wait()


@debian_python
def test_a_user_with_many_processes_can_start_a_program_that_starts_others() -> None:
    """The kernel counts all processes of a user against the limit, not those of the program."""
    assert "nproc" not in Confinement(processes=4, user=None).limits()
    assert Confinement(processes=1, user=None).limits()["nproc"] == 1
    code = "import subprocess; print(subprocess.run(['/bin/echo', 'x'], capture_output=True, text=True).stdout)"
    assert in_confined_python(code, Confinement(processes=4)).stdout.strip() == "x"


def test_a_worker_can_be_confined() -> None:
    confined = Confinement(memory_bytes=4 << 30, processes=64 if IS_ROOT else 1 << 20)
    with worker_pool(1, initializer=confine_this_process, initargs=(confined,)) as pool:
        text = pool.submit(Path("/proc/self/status").read_text).result(60)
        if IS_ROOT:
            with pytest.raises(PermissionError):
                pool.submit(os.listdir, "/root").result(60)
    values = {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    assert values["NoNewPrivs"] == "1"
    assert not IS_ROOT or values["Uid"].split() == [str(confined.user)] * 4
    assert confined.memory_bytes == 4 << 30


def test_a_worker_works_in_the_root_directory_and_knows_nothing_of_the_parents_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with worker_pool(2) as pool:
        assert pool.submit(os.getcwd).result(60) == "/"
        assert str(tmp_path) not in pool.submit(eval, "__import__('sys').path").result(60)
        assert pool.submit(os.getpid).result(60) != os.getpid()


def test_a_worker_that_is_killed_breaks_its_pool_at_once() -> None:
    with worker_pool(1) as pool:
        pid = pool.submit(os.getpid).result(60)
        waiting = pool.submit(time.sleep, 600)
        os.kill(pid, signal.SIGKILL)
        assert waiting.exception(60) is not None
