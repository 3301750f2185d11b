"""A layout: which of a server's files are on volumes of their own, and what is known of each of those volumes."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from volbench.core.records.base import FileName, Record, Scalar
from volbench.core.records.facts import VolumeFacts

Role = Literal["redo", "binlog", "doublewrite", "undo", "tmp"]
"""Files of a server that may be on a volume of their own; everything else is data."""
ROLES: tuple[Role, ...] = get_args(Role)
DATA = "data"
LOG = "log"
GROUPS: dict[str, tuple[Role, ...]] = {LOG: ("redo", "binlog"), **{role: (role,) for role in ROLES}}
"""By the word of a SPEC: the roles that it gives to a volume."""
ROLE_TEXTS: dict[str, str] = {
    LOG: "redo and binary log",
    "redo": "redo log",
    "binlog": "binary log",
    "doublewrite": "doublewrite files",
    "undo": "undo tablespaces",
    "tmp": "temporary files",
}


class EmulatedSpec(Record):
    """That a volume is emulated, and as what; results say so everywhere."""

    profile: str
    parameters: dict[str, Scalar] = Field(default_factory=dict)


class ComponentPlaces(Record):
    """Where the agent and the server find one component of a layout."""

    name: FileName = Field(description="The component's word in the SPEC, such as log.")
    roles: tuple[Role, ...] = Field(description="What of the server's files it holds, a directory for each.")
    volume_dir: str = Field(description="Our marked directory on the component's volume.")
    server_dir: str = Field(default="", description="volume_dir as the server sees it, when it differs.")
    emulator_socket: str = Field(
        default="", description="Control socket, where the component's volume is emulated."
    )
    emulated: EmulatedSpec | None = None
    host_volume: VolumeFacts | None = Field(
        default=None, description="What the orchestrator found behind it, where it is on its machine."
    )


class ComponentFacts(Record):
    """What is behind a component of a layout."""

    name: FileName
    roles: tuple[Role, ...]
    volume_facts: VolumeFacts


def component_name(volume: str, component: str) -> str:
    """Return the name of a component of a volume in sentences: `a.log`."""
    return f"{volume}.{component}"


def source_of_component(source: str, component: str) -> str:
    """Return the name of a source that samples a component's volume: `diskstats@log`."""
    return f"{source}@{component}"


def base_source(source: str) -> tuple[str, str]:
    """Return a source's name without its component, and the component; empty for the data's own volume."""
    base, _, component = source.partition("@")
    return base, component
