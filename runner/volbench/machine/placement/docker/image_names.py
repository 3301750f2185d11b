"""Names of images: the tools image of exactly this code, and flavor and version of server images.

Standard library only: the set-up builds the images under these names before any dependency is installed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from volbench import __version__
from volbench.machine.placement import capabilities

TOOLS_REPOSITORY = "volbench/tools"
_NO_REGISTRY = "volbench.invalid"
"""A host that cannot exist (RFC 2606): a program that lacks such an image fails and pulls nobody's."""
SERVER_ALIAS = f"{_NO_REGISTRY}/server:{__version__}"
TOOLS_ALIAS = f"{_NO_REGISTRY}/tools:{__version__}"
"""Second names of the images that the set-up chose and built, for compose files and commands."""
TOOLS_INPUTS = (".dockerignore", "docker/tools", "requirements.lock", "runner/volbench", "suites")
SERVER_REPOSITORIES = {
    "mysql": "mysql",
    "volbench/mysql": "mysql",
    "percona/percona-server": "mysql",
    "mariadb": "mariadb",
    "volbench/mariadb": "mariadb",
}
PODMAN_HOSTS = ("localhost/", "docker.io/library/", "docker.io/")
"""What podman lists in front of names that Docker lists without a host."""
HASH_DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class ServerImage:
    """A database server's image: flavor `mysql` or `mariadb`, version from the tag."""

    name: str
    flavor: str
    version: tuple[int, ...]


def checkout_root() -> Path | None:
    """Return the checkout's directory that this code runs from; None for an installed package."""
    root = Path(__file__).resolve().parents[5]
    return root if (root / "docker" / "tools" / "Dockerfile").is_file() else None


def content_hash(root: Path, inputs: Sequence[str], *extra: str) -> str:
    """Return 12 hex digits of the SHA-256 over names and bytes of files below `inputs`, and `extra` strings."""
    digest = hashlib.sha256()
    for file in sorted(_files(root, inputs)):
        digest.update(f"{file.relative_to(root)}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    for text in extra:
        digest.update(f"\0{text}".encode())
    return digest.hexdigest()[:HASH_DIGITS]


def _files(root: Path, inputs: Sequence[str]) -> Iterable[Path]:
    for name in inputs:
        path = root / name
        if path.is_file():
            yield path
        for below in path.rglob("*"):
            if below.is_file() and "__pycache__" not in below.parts:
                yield below


def is_local(image: str) -> bool:
    """Return whether an image has a name that no registry serves.

    The set-up's names (on Docker Hub anybody may own `volbench/...`), also as Podman lists them.
    """
    return image.startswith(("volbench/", "localhost/", f"{_NO_REGISTRY}/"))


def tools_image() -> str:
    """Return the tools image of this code: by content in a checkout, by version elsewhere.

    `VOLBENCH_TOOLS_IMAGE` overrides it, for a private registry.
    """
    return os.environ.get("VOLBENCH_TOOLS_IMAGE") or _own_tools_image()


@cache
def _own_tools_image() -> str:
    """Compute the name once: edits of the code during a run must not change the image of later cells."""
    root = checkout_root()
    return f"{TOOLS_REPOSITORY}:{content_hash(root, TOOLS_INPUTS)}" if root else TOOLS_ALIAS


def parse_server_image(name: str) -> ServerImage | None:
    """Parse `volbench/mysql:9.7` into flavor and version; None for other images.

    The name stays whole: podman's `localhost/volbench/mysql:9.7` is asked for as that.
    """
    repository, _, tag = name.rpartition(":")
    flavor = SERVER_REPOSITORIES.get(_without_host(repository))
    number = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})*(?![0-9])", tag)
    if flavor is None or number is None:
        return None
    return ServerImage(
        name=name, flavor=flavor, version=tuple(int(number_text) for number_text in number[0].split("."))
    )


def _without_host(repository: str) -> str:
    host = next((host for host in PODMAN_HOSTS if repository.startswith(host)), "")
    return repository.removeprefix(host)


def pick_server_image(names: Iterable[str], flavor: str, version: str | None = None) -> ServerImage | None:
    """Return the newest image of a flavor among `names`; `version` such as `8.4` limits it to that series."""
    series = tuple(int(number_text) for number_text in version.split(".")) if version else ()
    images = (image for image in map(parse_server_image, names) if image is not None)
    fitting = [i for i in images if i.flavor == flavor and i.version[: len(series)] == series]
    return max(fitting, key=lambda image: (image.version, image.name), default=None)


def local_images() -> tuple[str, ...]:
    """Return names `repository:tag` of every image in the local engine; empty if no engine answers."""
    answer = capabilities.ask(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"])
    return tuple(answer.output.split()) if answer.code == 0 else ()


def images_ready() -> capabilities.Means:
    """Test for engine, tools image of this code and at least one MySQL server image, as one prerequisite."""
    engine = capabilities.docker_engine()
    if not engine.present:
        return engine
    tools = capabilities.docker_image(tools_image())
    server = pick_server_image(local_images(), "mysql")
    if not tools.present or server is None:
        lack = "a MySQL server image" if tools.present else tools.name
        evidence = f"{engine.evidence}, without {lack}"
        return capabilities.Means(name="docker", present=False, evidence=evidence, remedy="make images")
    return capabilities.Means(
        name="docker", present=True, evidence=f"{engine.evidence}, {server.name}, {tools.name}"
    )
