"""Names of images: the tools image that holds exactly this code, and what a server image's name tells.

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
from volbench.target import means

TOOLS_REPOSITORY = "volbench/tools"
TOOLS_INPUTS = (".dockerignore", "docker/tools", "requirements.lock", "runner/volbench", "suites")
SERVER_REPOSITORIES = {
    "mysql": "mysql",
    "volbench/mysql": "mysql",
    "percona/percona-server": "mysql",
    "mariadb": "mariadb",
    "volbench/mariadb": "mariadb",
}
HASH_DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class ServerImage:
    """A database server's image: flavor `mysql` or `mariadb`, version as far as the tag tells it."""

    name: str
    flavor: str
    version: tuple[int, ...]


def checkout_root() -> Path | None:
    """The directory of the checkout this code runs from, or None when it is installed elsewhere."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "docker" / "tools" / "Dockerfile").is_file() else None


def content_hash(root: Path, inputs: Sequence[str], *extra: str) -> str:
    """First 12 hex digits of the SHA-256 over names and bytes of files below `inputs`, and `extra` strings."""
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


def tools_image() -> str:
    """The tools image of this code: by content in a checkout, by version elsewhere.

    `VOLBENCH_TOOLS_IMAGE` overrides it, for a registry of one's own.
    """
    return os.environ.get("VOLBENCH_TOOLS_IMAGE") or _own_tools_image()


@cache
def _own_tools_image() -> str:
    """Told once: who edits the code while a run goes on must not change the image of its later cells."""
    root = checkout_root()
    return f"{TOOLS_REPOSITORY}:{content_hash(root, TOOLS_INPUTS) if root else __version__}"


def parse_server_image(name: str) -> ServerImage | None:
    """Read `volbench/mysql:9.7` as flavor and version; None for an image that is no server we know."""
    repository, _, tag = name.rpartition(":")
    flavor = SERVER_REPOSITORIES.get(repository)
    number = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})*(?![0-9])", tag)
    if flavor is None or number is None:
        return None
    return ServerImage(name=name, flavor=flavor, version=tuple(int(part) for part in number[0].split(".")))


def pick_server_image(names: Iterable[str], flavor: str, version: str | None = None) -> ServerImage | None:
    """The newest image of a flavor among `names`; `version` such as `8.4` narrows it to that series."""
    wanted = tuple(int(part) for part in version.split(".")) if version else ()
    known = (image for image in map(parse_server_image, names) if image is not None)
    fitting = [i for i in known if i.flavor == flavor and i.version[: len(wanted)] == wanted]
    return max(fitting, key=lambda image: (image.version, image.name), default=None)


def local_images() -> tuple[str, ...]:
    """Names `repository:tag` of every image in the local engine; empty when no engine answers."""
    answer = means.ask(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"])
    return tuple(answer.output.split()) if answer.code == 0 else ()


def images_ready() -> means.Means:
    """Engine, tools image of this code and at least one MySQL server image, as one answer."""
    engine = means.docker_engine()
    if not engine.present:
        return engine
    tools = means.docker_image(tools_image())
    server = pick_server_image(local_images(), "mysql")
    if not tools.present or server is None:
        lack = "a MySQL server image" if tools.present else tools.name
        evidence = f"{engine.evidence}, without {lack}"
        return means.Means(name="docker", present=False, evidence=evidence, mend="make images")
    return means.Means(name="docker", present=True, evidence=f"{engine.evidence}, {server.name}, {tools.name}")
