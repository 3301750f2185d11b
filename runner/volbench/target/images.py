"""Which container images cells run: asked of the engine, the server's pulled when it is not there."""

from __future__ import annotations

import docker
from docker.errors import DockerException, ImageNotFound

from volbench.errors import EnvironmentLacks
from volbench.records.cell import ServerSpec
from volbench.target import image_names

OFFICIAL_IMAGES = {"mysql": ("mysql", "8.4"), "mariadb": ("mariadb", "11.4")}


def server_image(client: docker.DockerClient, server: ServerSpec, *, pull: bool = True) -> str:
    """The image for a server: the one named, else the newest here of its flavor and version, else the official.

    Raises EnvironmentLacks when none is here and none can be pulled.
    """
    if server.image:
        return _present_or_pulled(client, server.image, pull=pull)
    flavor = "mysql" if server.flavor == "any" else server.flavor
    here = image_names.pick_server_image(_local_names(client), flavor, server.version or None)
    if here is not None:
        return here.name
    repository, version = OFFICIAL_IMAGES[flavor]
    return _present_or_pulled(client, f"{repository}:{server.version or version}", pull=pull)


def tools_image(client: docker.DockerClient, wanted: str = "") -> str:
    """The tools image named, else the one that holds exactly this code.

    Raises EnvironmentLacks when it is not here; another one would run other code than this.
    """
    name = wanted or image_names.tools_image()
    try:
        client.images.get(name)
    except ImageNotFound as error:
        raise EnvironmentLacks(
            "the tools image of this code is not on this machine",
            where="docker target",
            evidence=f"no image {name}",
            next_step="run `make images`",
        ) from error
    except DockerException as error:
        raise _no_answer(error) from error
    return name


def _local_names(client: docker.DockerClient) -> list[str]:
    try:
        # One question for all: asked one by one, an image that somebody removes meanwhile would be an error.
        return [
            tag for image in client.api.images() for tag in image.get("RepoTags") or () if tag != "<none>:<none>"
        ]
    except DockerException as error:
        raise _no_answer(error) from error


def _present_or_pulled(client: docker.DockerClient, image: str, *, pull: bool = True) -> str:
    try:
        client.images.get(image)
    except ImageNotFound as missing:
        try:
            if not pull:
                raise missing
            client.images.pull(image)
        except DockerException as error:
            raise EnvironmentLacks(
                f"image {image} is not here and cannot be pulled",
                where="docker target",
                evidence=str(error)[:300],
                next_step="run `make images`, which builds them where no registry answers",
            ) from error
    except DockerException as error:
        raise _no_answer(error) from error
    return image


def _no_answer(error: DockerException) -> EnvironmentLacks:
    return EnvironmentLacks(
        "the Docker engine does not answer",
        where="docker target",
        evidence=str(error)[:300],
        next_step="start it: `make engine`",
    )
