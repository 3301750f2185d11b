"""Which container images cells run: found on the machine, else pulled."""

from __future__ import annotations

from typing import Any

import docker
from docker.errors import DockerException, ImageNotFound

from volbench import __version__
from volbench.errors import EnvironmentLacks
from volbench.records.cell import ServerSpec

TOOLS_REPOSITORY = "volbench/tools"
OUR_REPOSITORIES = {"mysql": "volbench/mysql", "mariadb": "volbench/mariadb"}
OFFICIAL_IMAGES = {"mysql": "mysql:8.4", "mariadb": "mariadb:11.4"}


def server_image(client: docker.DockerClient, server: ServerSpec) -> str:
    """The image for a server: the one named, else ours or the official one for flavor and version.

    Raises EnvironmentLacks when none is here and none can be pulled.
    """
    if server.image:
        return _present_or_pulled(client, server.image)
    official = OFFICIAL_IMAGES[server.flavor]
    if server.version:
        official = f"{official.partition(':')[0]}:{server.version}"
    here = [tag for tag in _tags(client, OUR_REPOSITORIES[server.flavor]) if _fits(tag, server.version)]
    here += [tag for tag in _tags(client, official.partition(":")[0]) if tag == official]
    return here[0] if here else _present_or_pulled(client, official)


def tools_image(client: docker.DockerClient, wanted: str = "") -> str:
    """The tools image named, else the newest one here.

    Raises EnvironmentLacks when there is none; it is never pulled, since it must hold this very volbench.
    """
    if wanted:
        return _present_or_pulled(client, wanted)
    here = _tags(client, TOOLS_REPOSITORY)
    if not here:
        raise EnvironmentLacks(
            "the tools image is not on this machine",
            where="docker target",
            evidence=f"no image of repository {TOOLS_REPOSITORY} (volbench {__version__})",
            next_step="run `make images`",
        )
    return here[0]


def _tags(client: docker.DockerClient, repository: str) -> list[str]:
    """Tags of a repository on this machine, newest image first."""
    try:
        images = client.images.list(name=repository)
    except DockerException as error:
        raise EnvironmentLacks(
            "the Docker engine does not list its images",
            where="docker target",
            evidence=str(error)[:300],
            next_step="start the engine: `make setup`",
        ) from error
    images.sort(key=_created, reverse=True)
    return [tag for image in images for tag in image.tags if tag.rpartition(":")[0] == repository]


def _created(image: Any) -> str:
    return str(image.attrs.get("Created", ""))


def _fits(tag: str, version: str) -> bool:
    return not version or tag.rpartition(":")[2].startswith(version)


def _present_or_pulled(client: docker.DockerClient, image: str) -> str:
    try:
        client.images.get(image)
    except ImageNotFound:
        try:
            client.images.pull(image)
        except DockerException as error:
            raise EnvironmentLacks(
                f"image {image} is not here and cannot be pulled",
                where="docker target",
                evidence=str(error)[:300],
                next_step="run `make images`, which builds them where no registry answers",
            ) from error
    return image
