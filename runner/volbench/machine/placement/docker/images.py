"""The container images of cells; a missing server image is pulled, but for one that only the set-up makes."""

from __future__ import annotations

import docker
from docker.errors import DockerException, ImageNotFound

from volbench.core.records.cell import ServerSpec
from volbench.errors import MissingPrerequisite
from volbench.machine.placement.docker import image_names

OFFICIAL_IMAGES = {"mysql": ("mysql", "8.4"), "mariadb": ("mariadb", "11.4")}


def server_image(client: docker.DockerClient, server: ServerSpec, *, pull: bool = True) -> str:
    """Return a server's image: the named one, else the newest local one of flavor and version, else the official.

    Raises MissingPrerequisite if there is no local image and none can be pulled.
    """
    if server.image:
        return _present_or_pulled(client, server.image, pull=pull)
    flavor = "mysql" if server.flavor == "any" else server.flavor
    local = image_names.pick_server_image(_local_names(client), flavor, server.version or None)
    if local is not None:
        return local.name
    repository, version = OFFICIAL_IMAGES[flavor]
    return _present_or_pulled(client, f"{repository}:{server.version or version}", pull=pull)


def tools_image(client: docker.DockerClient, named: str = "") -> str:
    """Return the named tools image, else the image of exactly this code.

    Raises MissingPrerequisite if the engine does not have it; another image would run other code.
    """
    name = named or image_names.tools_image()
    try:
        client.images.get(name)
    except ImageNotFound as error:
        raise MissingPrerequisite(
            "this machine has no tools image of this code",
            where="docker target",
            evidence=f"no image {name}",
            next_step="run `make images`",
        ) from error
    except DockerException as error:
        raise _no_answer(error) from error
    return name


def _local_names(client: docker.DockerClient) -> list[str]:
    try:
        # One request for all images: with one request each, an image removed in between would be an error.
        return [
            tag for image in client.api.images() for tag in image.get("RepoTags") or () if tag != "<none>:<none>"
        ]
    except DockerException as error:
        raise _no_answer(error) from error


def _present_or_pulled(client: docker.DockerClient, image: str, *, pull: bool = True) -> str:
    try:
        client.images.get(image)
    except ImageNotFound as missing:
        if image_names.is_local(image):
            raise MissingPrerequisite(
                f"image {image} is not on this machine, and no registry has it",
                where="docker target",
                evidence=str(missing)[:300],
                next_step="run `make images`, which builds images, or name one of `docker images`",
            ) from missing
        try:
            if not pull:
                raise missing
            client.images.pull(image)
        except DockerException as error:
            raise MissingPrerequisite(
                f"image {image} is not on this machine and cannot be pulled",
                where="docker target",
                evidence=str(error)[:300],
                next_step="run `make images`, which builds images if no registry answers",
            ) from error
    except DockerException as error:
        raise _no_answer(error) from error
    return image


def _no_answer(error: DockerException) -> MissingPrerequisite:
    return MissingPrerequisite(
        "the Docker engine does not answer",
        where="docker target",
        evidence=str(error)[:300],
        next_step="start it: `make engine`",
    )
