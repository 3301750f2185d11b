"""The package's shape: imports point downwards, only the command line prints and exits, a wheel is complete."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path("runner/volbench")
BELOW_CLI = sorted(path for path in PACKAGE.rglob("*.py") if "cli" not in path.relative_to(PACKAGE).parts)


def test_imports_point_downwards() -> None:
    """The contract of pyproject.toml, as `make lint` runs it."""
    result = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "6 kept, 0 broken" in result.stdout


def test_the_measuring_half_is_not_needed_to_read_results() -> None:
    """A report is built where there is no server, engine or target."""
    code = (
        "import sys, volbench.results.report.render;"
        "print(*sorted(m for m in sys.modules if m.startswith('volbench.')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": "runner"},
    )
    loaded = {name.split(".")[1] for name in result.stdout.split()}
    assert loaded == {"core", "errors", "results"}


def _faults(path: Path) -> list[str]:
    faults = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in {"print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write"}:
                faults.append(f"{path}:{node.lineno}: {name}")
            if any(keyword.arg == "shell" for keyword in node.keywords):
                faults.append(f"{path}:{node.lineno}: shell=")
        if isinstance(node, ast.Raise) and node.exc is not None and "SystemExit" in ast.unparse(node.exc):
            faults.append(f"{path}:{node.lineno}: SystemExit")
    return faults


PROGRAMS = {PACKAGE / "__main__.py", PACKAGE / "measure/sample/process.py", PACKAGE / "observe/process.py"}
"""Started with `python -m`: the command line, and sampling processes, which tell their starter how they ended."""


def test_only_the_command_line_prints_and_exits() -> None:
    assert len(BELOW_CLI) > 100
    assert [fault for path in BELOW_CLI if path not in PROGRAMS for fault in _faults(path)] == []


def test_the_check_sees_what_it_forbids(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "import sys, subprocess\nprint(1)\nsys.exit(2)\nraise SystemExit\nsubprocess.run('x', shell=True)\n"
    )
    assert len(_faults(path)) == 4


@pytest.fixture(scope="module", name="wheel")
def built_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel of this tree, built with the locked build backend and no network."""
    pytest.importorskip("hatchling", reason="the build backend hatchling is not in this environment")
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_a_wheel_holds_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    """Code and data: the supervisor, Lua hooks, templates, style sheets and scripts of the report."""
    packed = {name.removeprefix("volbench/") for name in wheel.namelist() if name.startswith("volbench/")}
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--", str(PACKAGE)], capture_output=True, text=True, check=True, timeout=120
    )
    known_values = {str(Path(name).relative_to(PACKAGE)) for name in tracked.stdout.split("\0") if name}
    names = {name for name in known_values if (PACKAGE / name).is_file()}
    assert names - packed == set()
    assert {Path(name).suffix for name in names} >= {".py", ".sh", ".lua", ".css", ".js"}


def test_an_installed_wheel_has_its_suites_profiles_and_prices(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Unpacked far from any checkout, and run in a directory without suites."""
    wheel.extractall(tmp_path / "site")
    requests = {
        ("suite", "check", "suites/quick.yaml"): "quick",
        ("volume", "show", "ebs-gp2"): "ebs-gp2",
        ("credits", "--profile", "ebs-gp2", "--size", "50GiB", "--iops", "1000"): "a month",
    }
    for arguments, message in requests.items():
        done = subprocess.run(
            [sys.executable, "-m", "volbench", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert message in done.stdout + done.stderr


def test_a_wheel_has_its_types_and_its_licence(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "volbench/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_a_wheel_has_the_command(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "volbench = volbench.cli.main:main" in wheel.read(entry_points).decode()
