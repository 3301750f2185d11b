"""The files of an observation: observation.json, and incident.json of each incident."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from volbench.core.base import safe_files
from volbench.core.records.base import Epoch, Moment, Offset, Record
from volbench.core.records.facts import HostFacts, ServerFacts, VolumeFacts
from volbench.errors import RunUnreadable

OBSERVATION_FILE, INCIDENT_FILE, INCIDENTS = "observation.json", "incident.json", "incidents"


class Observation(Record):
    """observation.json: what is observed, and how."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    volbench_version: str
    started_at: Moment = Field(description="UTC, of t_s 0.")
    zero_epoch_s: Epoch = Field(description="Seconds since 1970 at t_s 0.")
    zero_monotonic_ns: int
    interval_s: float
    server_address: str
    server: ServerFacts
    hostname: str = Field(description="As the server says.")
    host: HostFacts | None = Field(default=None, description="None: the server's host is not seen from here.")
    volume: VolumeFacts | None = None
    server_pid: int | None = None
    triggers: tuple[str, ...] = ()
    keep_s: float
    bytes_max: int
    notes: tuple[str, ...] = Field(default=(), description="What is missing, and what it takes.")


class Incident(Record):
    """incident.json: one incident. `window_s` is what is kept of it; `end_s` None: it was going on."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    name: str
    trigger: str
    metric: str
    unit: str
    limit: float
    worst: float
    onset_s: Offset
    end_s: Offset | None
    window_s: tuple[Offset, Offset]
    is_complete: bool = Field(
        default=True,
        alias="complete",
        description="False: there was no room for all of its readings.",
    )


def read_observation(directory: Path) -> Observation:
    """The record of an observation's directory. Raises RunUnreadable."""
    try:
        return Observation.model_validate_json(safe_files.read_given(directory / OBSERVATION_FILE))
    except (OSError, ValidationError) as error:
        raise RunUnreadable(
            "this is no directory of an observation",
            where=str(directory),
            evidence=str(error)[:300],
            next_step="give the directory that `volbench observe` named",
        ) from error


def read_incidents(directory: Path) -> list[Incident]:
    """All incidents in order of time; one whose file is damaged is left out."""
    incidents = []
    for path in sorted((directory / INCIDENTS).glob(f"*/{INCIDENT_FILE}")):
        try:
            incidents.append(Incident.model_validate_json(safe_files.read_given(path)))
        except (OSError, ValidationError):
            continue
    return sorted(incidents, key=lambda incident: incident.onset_s)
