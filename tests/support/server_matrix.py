"""The servers of `make test-servers`, each over TCP: official images that a registry gives, else ours."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from server_container import throwaway_container
from testcontainers.core.waiting_utils import WaitStrategyTarget

from bootstrap import offline
from bootstrap.command import run, with_rights
from volbench.machine.engine.connection import Account
from volbench.machine.placement import capabilities
from volbench.testing.containers import QueryWaitStrategy

OFFICIAL = (
    "mysql:8.0",
    "mysql:8.4",
    "mysql:9",
    "percona/percona-server:8.0",
    "percona/percona-server:8.4",
    "mariadb:10.6",
    "mariadb:10.11",
    "mariadb:11.4",
    "mariadb:11.8",
)
BOOKWORM = "volbench/mariadb:10.11"
OURS = {
    "volbench/mysql:9.7": "Debian sid, mysql-server-core",
    BOOKWORM: "Debian bookworm, mariadb-server-core",
    "volbench/mariadb:11.8": "Debian sid, mariadb-server-core",
}
"""Image of ours: what it was built of. `make images` builds all but that of bookworm, which is built here."""
PASSWORD = "not for lists, #1"
_PORT = 3306
_PULL_BOUND_S = 900.0
_BUILD_BOUND_S = 900.0
_DATA = "--no-defaults --user=root --datadir=/var/tmp/data"
_USER = f"CREATE USER root@'%' IDENTIFIED BY '{PASSWORD}';\nGRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"
_SERVE = {
    "mysql": f"mysqld {_DATA} --initialize-insecure && exec mysqld {_DATA}",
    "mariadb": f"mariadb-install-db {_DATA} >/dev/null && exec mariadbd {_DATA} --performance-schema=ON",
}


@dataclass(frozen=True, kw_only=True)
class Availability:
    """Whether an image is in the engine now; `reason` says why not."""

    present: bool
    reason: str = ""


def flavor_of(image: str) -> str:
    """`mariadb` or `mysql`."""
    return "mariadb" if "mariadb" in image else "mysql"


@cache
def availability(image: str) -> Availability:
    """Pull an official image; build ours of bookworm where it is not there."""
    if image in OURS:
        if image == BOOKWORM and not capabilities.docker_image(image).present:
            _build_bookworm()
        present = capabilities.docker_image(image).present
        return Availability(present=present, reason="" if present else "not built: `make images`")
    pulled = capabilities.ask(["docker", "pull", "-q", image], timeout_s=_PULL_BOUND_S)
    if pulled.code == 0 or capabilities.docker_image(image).present:
        return Availability(present=True)
    return Availability(present=False, reason=pulled.last_line)


def registry_gives_one() -> bool:
    """Whether any official image could be had; ours stand in only where none can."""
    return any(availability(image).present for image in OFFICIAL)


@contextmanager
def server_over_tcp(image: str) -> Iterator[Account]:
    """An account that may do everything on a server of the image, at its mapped TCP port, once it answers there."""

    def account(container: WaitStrategyTarget) -> Account:
        host, port = container.get_container_host_ip(), container.get_exposed_port(_PORT)
        return Account(user="root", password=PASSWORD, host=host, port=port, password_unverified=True)

    if image in OURS:
        serve = f'{_SERVE[flavor_of(image)]} --init-file=/var/tmp/user.sql --socket=/var/tmp/s --bind-address="*"'
        container = throwaway_container(
            image, ["-c", f"printf '%s' \"{_USER}\" >/var/tmp/user.sql; {serve}"], entrypoint="sh"
        )
    else:
        # Its entrypoint first serves without a network, to make the accounts: no answer over TCP is that server's.
        container = throwaway_container(image, ["--performance-schema=ON"])
        for prefix in ("MYSQL", "MARIADB"):
            container.with_env(f"{prefix}_ROOT_PASSWORD", PASSWORD).with_env(f"{prefix}_ROOT_HOST", "%")
    with container.with_exposed_ports(_PORT).waiting_for(QueryWaitStrategy(account)):
        yield account(container)


def _build_bookworm() -> None:
    """MariaDB 10.11 and no more, by debootstrap; nothing is left of it but the image."""
    parent = Path(tempfile.mkdtemp(prefix="volbench-base-", dir="/var/tmp"))
    log, target, archive = parent / "log", parent / "root", parent / "root.tar"
    packages = "--include=mariadb-server-core,mariadb-client-core"
    mirror = [mirror_url] if (mirror_url := offline.find_mirror()) else []
    excludes = [f"--exclude={pattern}" for pattern in offline.LEFT_OUT]
    steps = {
        "debootstrap": with_rights(
            ["debootstrap", "--variant=minbase", packages, "bookworm", str(target), *mirror]
        ),
        "tar": with_rights(["tar", "-C", str(target), *excludes, "--numeric-owner", "-cf", str(archive), "."]),
        "docker import": ["docker", "import", str(archive), BOOKWORM],
    }
    try:
        shutil.copytree(Path(__file__).parents[2] / offline.ROOTFS, target)
        target.chmod(0o755)
        for subject, argv in steps.items():
            run(argv, log=log, label=f"{subject} of {BOOKWORM}", timeout_s=_BUILD_BOUND_S)
    finally:
        run(
            with_rights(["rm", "-rf", "--one-file-system", str(parent)]),
            log=Path("/dev/null"),
            label=f"removing {parent}",
            timeout_s=120,
        )
