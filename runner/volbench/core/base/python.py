"""Says how volbench's own Python is started, so that no working directory has modules for it.

A Python that runs `-m` or `-c` looks for every module in its working directory first, and in each relative or empty
entry of PYTHONPATH. That directory may be /tmp, where other users plant `signal.py`, while volbench runs as root.
"""

from __future__ import annotations

import atexit
import gc
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

__all__ = [
    "collect_nothing_at_end",
    "importing_modules",
    "isolated_python_command",
    "python_command",
    "python_variables",
]

_ROOT = str(Path(__file__).resolve().parents[3])
"""The directory of the package `volbench`."""
_SWITCHES = frozenset(
    {
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONFAULTHANDLER",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONNOUSERSITE",
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
    }
)
_CHECKED_AT_END = "_duckdb"
"""A module of nanobind: at the interpreter's end it complains of each of its objects that was not collected."""
_DIRECTORIES = frozenset({"PYTHONHOME", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE"})


@contextmanager
def importing_modules() -> Iterator[None]:
    """Search for no garbage during the block, which imports modules, and not among what it made later on.

    Modules stay as long as the process. Their thousands of objects set off hundreds of searches: a tenth of the CPU
    time of their import.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _collect_nothing()
        if was_enabled:
            gc.enable()


def collect_nothing_at_end() -> None:
    """Have this process end without a search for garbage: after the imports of an agent that is 0.2 s of CPU."""
    atexit.register(_collect_nothing)


def _collect_nothing() -> None:
    if _CHECKED_AT_END not in sys.modules:
        gc.freeze()


def python_command(*arguments: str) -> list[str]:
    """Return the argument list of a Python as this one, with `-P`: such as `python_command("-m", "volbench", ...)`.

    Start it with `python_variables` in its environment, and cwd="/".
    """
    flags = sys.flags
    if flags.isolated:  # includes -P
        return [sys.executable, "-I", *arguments]
    ignoring = ["-E"] if flags.ignore_environment else []
    return [sys.executable, *ignoring, *(["-s"] if flags.no_user_site else []), "-P", *arguments]


def isolated_python_command(script: Path) -> list[str]:
    """Return the arguments of a Python that runs a script with the standard library alone: it begins in 15 ms."""
    return [sys.executable, "-I", "-S", str(script)]


def python_variables(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the PYTHON* variables for a Python of ours; no other ones of PYTHON* may reach it.

    Args:
        environment: whose variables are taken, as far as they name no relative path and run no code; None: this
            process's.
    """
    variables = os.environ if environment is None else environment
    chosen = {name: value for name, value in variables.items() if name in _SWITCHES}
    chosen |= {name: value for name, value in variables.items() if name in _DIRECTORIES and value.startswith("/")}
    path = [entry for entry in variables.get("PYTHONPATH", "").split(os.pathsep) if entry.startswith("/")]
    if _ROOT not in (*path, *_site_directories()):
        path.append(_ROOT)
    return {**chosen, "PYTHONSAFEPATH": "1", **({"PYTHONPATH": os.pathsep.join(path)} if path else {})}


@cache
def _site_directories() -> frozenset[str]:
    """Return where every Python as this one looks; in PYTHONPATH they would come before the standard library."""
    names = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    names |= {site.getusersitepackages()} if site.ENABLE_USER_SITE else set()
    return frozenset(os.path.realpath(name) for name in names)
