"""Modules planted in a working directory: everything that a Python started there might import by name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hostile_user import RUNNER, as_nobody

IMPORTED = "imported"
"""File beside the planted modules: a line for each one that was imported."""
PACKAGES = (
    "volbench",
    "multiprocessing",
    "concurrent",
    "encodings",
    "collections",
    "importlib",
    "logging",
    "json",
    "pydantic",
    "numpy",
    "mysql",
    "typer",
    "docker",
    "rich",
)
MODULES = tuple(sorted({*sys.stdlib_module_names, "sitecustomize", "usercustomize", "pydantic_core"} - {*PACKAGES}))
_PLANT = """
import os, sys
directory, imported, modules, packages = sys.argv[1], sys.argv[2], sys.argv[3].split(), sys.argv[4].split()
code = "import sys; print(__name__, sys.argv, file=open(%r, 'a'))\\n" % imported
def write(path):
    with open(os.path.join(directory, path), "w") as file:
        file.write(code)
for name in modules:
    write(name + ".py")
for name in packages:
    os.mkdir(os.path.join(directory, name))
    for file in ("__init__", "__main__", "spawn", "resource_tracker", "process"):
        write(os.path.join(name, file + ".py"))
open(imported, "w").close()
os.chmod(imported, 0o666)
"""


def plant_modules(directory: Path) -> None:
    """Plant a module for each name, as the unprivileged user where this is root."""
    arguments = (str(directory), str(directory / IMPORTED), " ".join(MODULES), " ".join(PACKAGES))
    if os.geteuid() == 0:
        as_nobody(_PLANT, *arguments)
    else:
        subprocess.run([sys.executable, "-I", "-c", _PLANT, *arguments], check=True, timeout=120)


def imported_from(directory: Path) -> list[str]:
    """Return what was imported of the planted modules, with the arguments of the process."""
    return (directory / IMPORTED).read_text().splitlines()


def run_script(
    script: Path, *arguments: str | Path, directory: Path, flags: Sequence[str] = (), **variables: str
) -> str:
    """Run a script in that directory as an installed command is run, which imports nothing from there itself.

    Returns its output. AssertionError when it fails.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, *flags, str(script), *map(str, arguments)],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        stdin=subprocess.DEVNULL,
        env={**environment, "PYTHONPATH": str(RUNNER), **variables},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
