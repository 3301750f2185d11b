"""The data for the manifests of one cell's attempt, and the labels and names of its objects."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from volbench import __version__
from volbench.core.records.cell import CellPlaces
from volbench.machine.cluster.names import LABEL_CELL, LABEL_RUN, MANAGED_BY, object_name
from volbench.machine.placement.interface import JobKind
from volbench.machine.placement.kubernetes.options import KubernetesOptions

LABEL_ATTEMPT = "volbench.org/attempt"
_CELL_CHARACTERS = 36


@dataclass(frozen=True, kw_only=True)
class PodInput:
    """A volume that the agent alone has, read-only; `source` is the pod's, such as a ConfigMap."""

    name: str
    source: Mapping[str, Any]
    path: str


@dataclass(frozen=True, kw_only=True)
class CellObjects:
    """The data for the manifests of one cell's attempt.

    Args:
        near: key of the holder on the node where the run's cells are compared; empty: any node.
        node: name of that node, for messages.
        pinned: the cell must run on that node; else the node is preferred.
        further: the node must be none that a holder keeps for other blocks of the run.
        apart: concurrent pods of this run must not share a node.
        server_requests: what the server's container requests where no option says so.
        inputs: the user's own data.
        outbound: the pod stores a dump in a bucket, or downloads one.
        emulator_claim: claim with the control socket of the emulated volume, for the agent alone.
    """

    run_id: str
    cell_id: str
    attempt: int
    kind: JobKind
    cell_json: str
    supervisor: str
    claim: str
    server_image: str
    tools_image: str
    paths: CellPlaces
    deadline_s: float
    options: KubernetesOptions
    near: str = ""
    pinned: bool = False
    node: str = ""
    further: bool = False
    apart: bool = False
    emulator_claim: str = ""
    server_requests: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[PodInput, ...] = ()
    outbound: bool = False

    @property
    def name(self) -> str:
        """Of the job and its config map."""
        return cell_name(self.run_id, self.cell_id, self.attempt)

    @property
    def labels(self) -> dict[str, str]:
        """On every object of the cell."""
        return {**labels_of_cell(self.run_id, self.cell_id), LABEL_ATTEMPT: str(self.attempt)}


def cell_name(run_id: str, cell_id: str, attempt: int) -> str:
    """Return `volbench-<run>-<cell>-<attempt>`, at most 63 characters.

    A cell whose name must be changed gets a hash.
    """
    name = object_name(cell_id[:_CELL_CHARACTERS])
    if name != cell_id:
        name = f"{name}-{hashlib.sha256(cell_id.encode()).hexdigest()[:4]}"
    return object_name("volbench", run_id.rsplit("-", 1)[-1], name, str(attempt))


def labels_of_run(run_id: str) -> dict[str, str]:
    """Return the labels of a run's objects, by which they are found and removed."""
    return {
        **MANAGED_BY,
        "app.kubernetes.io/name": "volbench",
        "app.kubernetes.io/instance": run_id.rsplit("-", 1)[-1],
        "app.kubernetes.io/version": __version__,
        LABEL_RUN: run_id,
    }


def labels_of_cell(run_id: str, cell_id: str) -> dict[str, str]:
    """Return the labels of the run and the cell."""
    return {**labels_of_run(run_id), "app.kubernetes.io/component": "cell", LABEL_CELL: cell_id}
