"""Variables that programs get, and where programs are found: never in a working directory.

An environment is an allow-list. What makes a program start another one, or load code, is in none of them: EDITOR,
VISUAL, PAGER, LESSOPEN, BASH_ENV, ENV, LD_*, PERL5*, LUA_*, GIT_*, MYSQL_*. docs/environment.md lists the names.
"""

from __future__ import annotations

import os
import shutil
from fnmatch import fnmatchcase

__all__ = ["CLOUD", "CONTAINERS", "NETWORK", "OWN", "USUAL", "environment", "find_program", "search_path"]

USUAL = ("HOME", "LANG", "LC_*", "LOGNAME", "TMPDIR", "TZ", "USER", "VOLBENCH_PLACED")
"""Names, or patterns of names, that every program gets besides PATH. The last one labels a cell's processes."""
NETWORK = ("*_proxy", "*_PROXY", "SSL_CERT_DIR", "SSL_CERT_FILE")
"""For a program that reaches other hosts."""
CLOUD = ("AWS_*", *NETWORK, "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
"""For a client of AWS."""
CONTAINERS = ("DOCKER_*", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", *CLOUD)
"""For Docker's command, whose credential helpers ask a cloud."""
OWN = (
    "VOLBENCH_*",
    "XDG_CACHE_HOME",
    "KUBECONFIG",
    "KUBERNETES_*",
    "SUDO_UID",
    "TESTCONTAINERS_*",
    "NO_COLOR",
    "COLUMNS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    *CONTAINERS,
)
"""For volbench's own Python."""
_DIRECTORIES = ("HOME", "TMPDIR")
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment(*names: str, **variables: str) -> dict[str, str]:
    """Return the environment of a program: PATH, what is `USUAL`, and what the caller names.

    Args:
        names: of variables of this process that the program needs besides, or patterns such as `AWS_*`.
        variables: added, with these values.
    """
    patterns = (*USUAL, *names)
    chosen = {
        name: value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
        and (name not in _DIRECTORIES or value.startswith("/"))
    }
    return {**chosen, "PATH": search_path(), **variables}


def search_path() -> str:
    """Return PATH without relative and empty entries, which stand for the working directory."""
    entries = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if entry.startswith("/")]
    return os.pathsep.join(entries) or _USUAL_PATH


def find_program(name: str, *, path: str | None = None) -> str | None:
    """Return the absolute path of a program of PATH; None where there is none.

    Args:
        name: of the program, or its absolute path.
        path: directories to search instead.
    """
    if "/" in name:
        return shutil.which(name) if name.startswith("/") else None
    directories = search_path() if path is None else path
    entries = [entry for entry in directories.split(os.pathsep) if entry.startswith("/")]
    return shutil.which(name, path=os.pathsep.join(entries)) if entries else None
