"""`docker-volume:NAME`: a named volume of the Docker engine; and NFS exports mounted by its local driver."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import docker.errors

from volbench.core.base import docker_engine
from volbench.core.base.nearest import nearest_match
from volbench.core.base.ownership import refuse_data_directory
from volbench.core.base.text import counted
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.run import VolumeSpec
from volbench.errors import MissingPrerequisite
from volbench.machine.volume.facts.discovery import discover
from volbench.machine.volume.interface import OpenVolume, VolumeBase
from volbench.machine.volume.kinds.nfs import driver_options, server_address, split_export

LABEL_OWNED = "org.volbench.owned"
LABEL_RUN = "org.volbench.run"
_DRIVER_OPTION_NAMES = ("type", "o", "device")


class DockerVolume(VolumeBase):
    """An existing named volume, or with `create=yes` a new one that is labelled, and removed at the end."""

    def __init__(self, spec: VolumeSpec, *, run_id: str = "") -> None:
        super().__init__(spec)
        self._run_id = run_id
        self._created: str | None = None
        self._where = f"volume {spec.name}={spec.text}"

    def open(self) -> OpenVolume:
        """Find or create the volume.

        Raises MissingPrerequisite if the engine does not answer or has no such volume.
        """
        with _engine(self._where) as client:
            name = self.spec.location
            if self.spec.options.get("create") == "yes":
                options = {key: self.spec.options[key] for key in _DRIVER_OPTION_NAMES if key in self.spec.options}
                self._create(client, name, driver=self.spec.options.get("driver", "local"), options=options)
            return self._opened(client, name)

    def close(self) -> None:
        """Remove the volume if this process made it, and its label still says so."""
        if self._created is None:
            return
        with _engine(self._where) as client:
            try:
                volume = client.volumes.get(self._created)
                if LABEL_OWNED in (volume.attrs.get("Labels") or {}):
                    volume.remove()
            except docker.errors.NotFound:
                pass
        self._created = None

    def _create(self, client: Any, name: str, *, driver: str, options: dict[str, str]) -> None:
        """Create a volume, or reuse a labelled one of an interrupted run."""
        try:
            labels = client.volumes.get(name).attrs.get("Labels") or {}
        except docker.errors.NotFound:
            labels = {LABEL_OWNED: "1", LABEL_RUN: self._run_id}
            client.volumes.create(name=name, driver=driver, driver_opts=options, labels=labels)
        if LABEL_OWNED in labels:
            self._created = name

    def _opened(self, client: Any, name: str) -> OpenVolume:
        try:
            attributes = client.volumes.get(name).attrs
        except docker.errors.NotFound as error:
            names = [volume.name for volume in client.volumes.list()]
            nearest = nearest_match(name, names)
            raise MissingPrerequisite(
                f"the Docker engine has no volume {name!r}",
                where=self._where,
                evidence=f"the engine has {counted(len(names), 'volume')}"
                + (f", among them {nearest!r}" if nearest else ""),
                next_step=f"`docker volume create {name}`, or add ?create=yes for a temporary volume",
                cause="volume_gone",
            ) from error
        return OpenVolume(
            name=self.spec.name,
            spec=self.spec,
            docker_volume=name,
            docker_driver=attributes.get("Driver"),
            docker_driver_options=attributes.get("Options") or {},
            facts=_facts(attributes),
        )


class DockerNfsVolume(DockerVolume):
    """An NFS export that the engine's local driver mounts into containers."""

    def open(self) -> OpenVolume:
        """Create the named volume; the export itself is mounted when a container first uses it."""
        options = driver_options(self.spec, address=server_address(self.spec))
        with _engine(self._where) as client:
            name = f"volbench-nfs-{self._run_id or secrets.token_hex(4)}-{self.spec.name}"
            self._create(client, name, driver="local", options=options)
            opened = self._opened(client, name)
        server, export = split_export(self.spec.location)
        facts = VolumeFacts(
            path=self.spec.location,
            filesystem=options["type"],
            mount_source=self.spec.location,
            mount_options=tuple(options["o"].split(",")),
            nfs_server=server.strip("[]"),
            nfs_export=export,
            notes=("as requested; the cell records the actual mount",),
        )
        return OpenVolume(
            name=opened.name,
            spec=opened.spec,
            docker_volume=opened.docker_volume,
            docker_driver=opened.docker_driver,
            docker_driver_options=opened.docker_driver_options,
            facts=facts,
        )


def _facts(attributes: dict[str, Any]) -> VolumeFacts | None:
    """Return facts of the volume's directory on this host; None if not visible, or mounted only when used."""
    mount_point = attributes.get("Mountpoint")
    if attributes.get("Driver") != "local" or attributes.get("Options") or not mount_point:
        return None
    path = Path(mount_point)
    try:
        if not path.is_dir():
            return None
    except PermissionError:
        return None
    refuse_data_directory(path)
    return discover(path)


@contextmanager
def _engine(where: str) -> Iterator[Any]:
    """Yield a client of the engine.

    Raises MissingPrerequisite if the engine does not answer or refuses a request.
    """
    try:
        client = docker_engine.connect()
        try:
            yield client
        finally:
            client.close()
    except docker.errors.NotFound:
        raise
    except (docker.errors.DockerException, OSError) as error:
        raise MissingPrerequisite(
            "the Docker engine does not answer or refused the request",
            where=where,
            evidence=str(error),
            next_step="run `volbench doctor`",
            cause="docker_engine",
        ) from error
