"""A compose file for any number of volumes: one server for each, a runner, and `prepare`.

As docker/compose.yaml in everything but their number; it needs no checkout, since `prepare` takes the supervisor's
script out of the tools image.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from volbench.errors import UsageError
from volbench.machine.placement.docker.image_names import SERVER_ALIAS, TOOLS_ALIAS

USER = "${RUN_AS:-999:999}"
SCRIPT = "/opt/volbench/app/volbench/machine/engine/supervisor.sh"
"""Of the package in the tools image."""
_CONFINED: Mapping[str, Any] = {
    "network_mode": "none",
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "read_only": True,
}
_OF_A_RUN: Mapping[str, Any] = {**_CONFINED, "user": USER, "tmpfs": ["/tmp:rw,mode=1777"], "pids_limit": 4096}
_SERVICE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")


def compose_document(directories: Mapping[str, str], *, suite: str = "quick.yaml") -> dict[str, Any]:
    """Return the compose file's content.

    Args:
        directories: name of a volume to its directory on the engine's machine; the first is the baseline.
        suite: a file below SUITES, or of the tools image.

    Raises UsageError for a name that compose cannot use, a relative directory, and without a volume.
    """
    if not directories:
        raise UsageError(
            "a run needs a volume", where="compose", next_step="--volume gp3=/mnt/gp3 --volume io2=/mnt/io2"
        )
    for name, directory in directories.items():
        _check(name, directory)
    names = list(directories)
    data = [f"{directory.replace('$', '$$')}:/volumes/{name}" for name, directory in directories.items()]
    control = [f"control-{name}:/control/{name}" for name in names]
    return {
        "services": {
            **{f"server-{name}": _server(name, mount) for name, mount in zip(names, data, strict=True)},
            "runner": _runner(names, [*control, *data, "templates:/cache"], suite),
            "prepare": _prepare(names, [*control, *data, "templates:/cache", "supervisor:/volbench"]),
        },
        "volumes": {name: {} for name in (*(f"control-{name}" for name in names), "templates", "supervisor")},
    }


def _check(name: str, directory: str) -> None:
    if not _SERVICE_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid service name", where="compose", next_step="use small letters, digits, - and _"
        )
    if not PurePosixPath(directory).is_absolute() or ":" in directory or "\n" in directory:
        raise UsageError(f"{directory!r} is not an absolute path without a colon", where=f"volume {name}")


def _server(name: str, mount: str) -> dict[str, Any]:
    return {
        "image": f"${{SERVER_IMAGE:-{SERVER_ALIAS}}}",
        "entrypoint": ["sh", "/volbench/supervisor.sh", f"/control/{name}"],
        "command": [],
        **_OF_A_RUN,
        "stop_grace_period": "2m",
        "volumes": ["supervisor:/volbench:ro", f"control-{name}:/control/{name}", mount, "templates:/cache"],
    }


def _runner(names: list[str], mounts: list[str], suite: str) -> dict[str, Any]:
    volumes = [
        argument
        for name in names
        for argument in ("--volume", f"{name}=path:/volumes/{name}?control=/control/{name}")
    ]
    return {
        "image": _tools(),
        "depends_on": [f"server-{name}" for name in names],
        "command": [
            *("volbench", "run", f"${{SUITE:-suites/{suite}}}", "--target", "local"),
            *volumes,
            *("--out", "/results", "--yes"),
        ],
        **_OF_A_RUN,
        "stop_grace_period": "3m",
        "environment": {"HOME": "/tmp", "VOLBENCH_CACHE": "/cache"},
        "volumes": ["${RESULTS:-./results}:/results", *mounts],
    }


def _prepare(names: list[str], mounts: list[str]) -> dict[str, Any]:
    """Root with CHOWN alone: it gives directories to the user, and copies the supervisor's script."""
    directories = [f"/{kind}/{name}" for kind in ("control", "volumes") for name in names]
    script = 'cp "$$0" /volbench/supervisor.sh && chmod 0444 /volbench/supervisor.sh && exec chown "$$@"'
    return {
        "image": _tools(),
        "profiles": ["prepare"],
        "command": ["sh", "-c", script, SCRIPT, USER, "/cache", "/results", *directories],
        **_CONFINED,
        "user": "0:0",
        "cap_add": ["CHOWN"],
        "pids_limit": 16,
        "volumes": ["${RESULTS:-./results}:/results", *mounts],
    }


def _tools() -> str:
    return f"${{TOOLS_IMAGE:-{TOOLS_ALIAS}}}"
