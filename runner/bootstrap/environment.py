"""The checkout's Python environment: .venv with exactly what the lock file says."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from bootstrap.command import run
from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.packages import Need
from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities

OLDEST_PYTHON = (3, 11)
INSTALL_LIMIT_S = 900.0
RUNTIME_LOCK = "requirements.lock"
RUNTIME_EXTRAS = ("aws", "kubernetes", "query", "server", "validate")
"""What a checkout and the tools image have besides the core: `pytest` brings large packages."""
DEVELOPMENT_LOCK = "requirements-dev.lock"
UV_LOCK = "runner/bootstrap/requirements-uv.lock"
STAMP = "volbench-stamp"

#: pip's settings and what uv calls them: uv reads none of pip's, yet both have to ask the same index.
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "trusted-host": "UV_INSECURE_HOST",
}

VENV_NEEDS: tuple[Need, ...] = (
    Need(
        met=lambda: importlib.util.find_spec("ensurepip") is not None,
        packages=("python3-venv",),
        reason="the Python environment is made with it",
    ),
    Need(
        met=lambda: any(
            Path(bundle).is_file() for bundle in ("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem")
        ),
        packages=("ca-certificates",),
        reason="the package index is asked over TLS",
    ),
)


def ensure_environment(directories: Directories, console: Console, *, development: bool) -> None:
    """Make .venv fit its lock file; nothing is done when it does already.

    Raises MissingPrerequisite for a Python too old, or when packages cannot be installed.
    """
    if sys.version_info < OLDEST_PYTHON:
        required = ".".join(str(number) for number in OLDEST_PYTHON)
        raise MissingPrerequisite(
            what=f"Python {required} or newer is needed",
            where="Python environment",
            evidence=f"{sys.executable} is {platform.python_version()}",
            next_step="install a newer one and run `make PYTHON=python3.12 ...`",
        )
    lock = DEVELOPMENT_LOCK if development else RUNTIME_LOCK
    stamp = directories.venv / STAMP
    wanted_stamps = {stamp_of(directories.root, DEVELOPMENT_LOCK), stamp_of(directories.root, lock)}
    if stamp.is_file() and stamp.read_text(encoding="ascii") in wanted_stamps:
        return
    console.say(f"installing the Python packages of {lock} into .venv")
    log = directories.log("python")
    uv = ensure_uv(directories, log)
    at = [f"--python={directories.venv / 'bin' / 'python'}"]
    command = [*uv, "pip", "install", "-q", *at, "--no-deps"]
    run(
        [*command, "--require-hashes", "--requirement", str(directories.root / lock)],
        log=log,
        label="installing the locked Python packages",
        timeout_s=INSTALL_LIMIT_S,
        environment=index_settings(directories),
    )
    run(
        [*command, "--no-build-isolation", "--offline", "--editable", str(directories.root)],
        log=log,
        label="installing volbench itself",
        timeout_s=120,
    )
    stamp.write_text(stamp_of(directories.root, lock), encoding="ascii")


def ensure_uv(directories: Directories, log: Path) -> list[str]:
    """The command of the locked uv, installed into .venv by pip with its hash; .venv is made when absent."""
    python = directories.venv / "bin" / "python"
    if not python.exists():
        run(
            [sys.executable, "-m", "venv", str(directories.venv)],
            log=log,
            label="making the Python environment",
            timeout_s=120,
        )
    uv = directories.venv / "bin" / "uv"
    if not uv.exists():
        run(
            [
                str(python),
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--require-hashes",
                "--requirement",
                str(directories.root / UV_LOCK),
            ],
            log=log,
            label="installing uv",
            timeout_s=INSTALL_LIMIT_S,
        )
    return [str(uv)]


def install_for(python: str, site: Path, directories: Directories, log: Path) -> None:
    """Install the runtime lock's packages for another Python, such as `3.13`, into a directory."""
    run(
        [
            *ensure_uv(directories, log),
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--require-hashes",
            f"--python-version={python}",
            f"--python-platform={platform.machine()}-manylinux_2_28",
            f"--target={site}",
            "--link-mode=copy",
            f"--requirement={directories.root / RUNTIME_LOCK}",
        ],
        log=log,
        label=f"installing the locked packages for Python {python}",
        timeout_s=INSTALL_LIMIT_S,
        environment=index_settings(directories),
    )


def stamp_of(root: Path, lock: str) -> str:
    """What .venv was made from: the lock, the project's metadata, this Python and this place."""
    digest = hashlib.sha256(f"{lock} {platform.python_version()} {root}".encode())
    for name in (lock, "pyproject.toml"):
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def index_settings(directories: Directories) -> dict[str, str]:
    """Variables that make uv ask the index that pip is configured for, trusting what this machine trusts."""
    answer = capabilities.ask(
        [str(directories.venv / "bin" / "python"), "-m", "pip", "config", "list"], timeout_s=60
    )
    return {"UV_SYSTEM_CERTS": "true", **uv_settings(answer.output if answer.code == 0 else "", os.environ)}


def uv_settings(pip_config: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Translate the output of `pip config list`; existing settings of uv stay, and later lines win.

    A `find-links` directory that does not exist is left out: pip passes over it, uv stops at it.
    """
    settings: dict[str, str] = {}
    for line in pip_config.splitlines():
        key, _, value = line.partition("=")
        name = UV_NAMES.get(key.rpartition(".")[2])
        value = value.strip().strip("'\"").replace("\\n", " ").strip()
        if name is None or not value or name in environment:
            continue
        if name == "UV_FIND_LINKS":
            value = ",".join(link for link in value.split() if "://" in link or Path(link).is_dir())
        if value:
            settings[name] = value
    return settings


def write_locks(directories: Directories, console: Console) -> None:
    """Resolve the lock files again, for Python 3.11 to 3.14 on any platform; they name no index."""
    log = directories.log("lock")
    [uv] = ensure_uv(directories, log)
    oldest = ".".join(str(number) for number in OLDEST_PYTHON)
    compile_command = [
        uv,
        "pip",
        "compile",
        "-q",
        "--upgrade",
        "--universal",
        f"--python-version={oldest}",
        "--generate-hashes",
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--no-header",
    ]
    project = "pyproject.toml"
    uv_input = directories.state / "uv.in"
    uv_input.write_text("uv\n", encoding="ascii")
    extras = [f"--extra={extra}" for extra in RUNTIME_EXTRAS]
    for arguments in (
        [project, *extras, "--group=build", "--output-file", RUNTIME_LOCK],
        [
            project,
            "--all-extras",
            "--group=build",
            "--group=dev",
            "--constraint",
            RUNTIME_LOCK,
            "--output-file",
            DEVELOPMENT_LOCK,
        ],
        ["--no-annotate", str(uv_input), "--output-file", UV_LOCK],
    ):
        run(
            ["env", f"--chdir={directories.root}", *compile_command, *arguments],
            log=log,
            label=f"resolving {arguments[-1]}",
            timeout_s=INSTALL_LIMIT_S,
            environment=index_settings(directories),
        )
        console.say(f"wrote {arguments[-1]}")
