"""Where the scheduler may put a cell's pod: on the node of its run's holder, and away from what others measure.

Nodes are named by the pods on them and never by name: Karpenter and EKS Auto Mode refuse pods whose affinity names
`metadata.name` or `kubernetes.io/hostname`, so such a pod would never get a node of theirs.
"""

from __future__ import annotations

from typing import Any

from volbench.machine.cluster.names import LABEL_RUN
from volbench.machine.placement.kubernetes.cell_objects import CellObjects

CELL, HOLDER = "cell", "holder"
"""Components: what measures, and what keeps a node for its run."""
COMPONENT = "app.kubernetes.io/component"
LABEL_HOLDER = "volbench.org/holder"
"""Of a holder: which of its run's nodes it keeps."""
NODE_OF_RUN = "volbench.org/node"
"""Annotation of a cell's pod: name of the node of the holder that it follows."""
FURTHER_NODE = "volbench.org/further-node"
"""Annotation of a cell's pod that must be on a node of its own, apart from those of the run's holders."""
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_VOLBENCH = {"app.kubernetes.io/name": "volbench"}


def affinity_of(cell: CellObjects) -> dict[str, Any]:
    """Return the pod's affinity: to its run's holder, against cells and holders of other runs."""
    affinity: dict[str, Any] = {"podAntiAffinity": {_REQUIRED: list(_apart(cell))}}
    if cell.near:
        labels = {**_VOLBENCH, COMPONENT: HOLDER, LABEL_RUN: cell.run_id, LABEL_HOLDER: cell.near}
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
        affinity["podAffinity"] = (
            {_REQUIRED: [term]} if cell.pinned else {_PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}
        )
    return affinity


def apart_from_other_runs(run_id: str) -> dict[str, Any]:
    """Return the term that keeps cells and holders of other runs off the node, in all namespaces.

    The scheduler keeps it, so that a run whose orchestrator is away is not disturbed either.
    """
    expressions = [
        {"key": COMPONENT, "operator": "In", "values": [CELL, HOLDER]},
        {"key": LABEL_RUN, "operator": "NotIn", "values": [run_id]},
    ]
    return _term({"matchLabels": _VOLBENCH, "matchExpressions": expressions}, namespaceSelector={})


def near_cells_of(run_id: str) -> dict[str, Any]:
    """Return the affinity of a pod that had better be on the node of the run's cell."""
    term = _term({"matchLabels": {**_VOLBENCH, COMPONENT: CELL, LABEL_RUN: run_id}})
    return {"podAffinity": {_PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}}


def away_from_cells() -> dict[str, Any]:
    """Return the affinity of a pod that had better not be where anything is measured, in any namespace."""
    measured = [{"key": COMPONENT, "operator": "In", "values": [CELL, HOLDER]}]
    term = _term({"matchLabels": _VOLBENCH, "matchExpressions": measured}, namespaceSelector={})
    return {"podAntiAffinity": {_PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}}


def _apart(cell: CellObjects) -> list[dict[str, Any]]:
    terms = [apart_from_other_runs(cell.run_id)]
    if cell.apart:
        terms.append(_term({"matchLabels": {**_VOLBENCH, COMPONENT: CELL, LABEL_RUN: cell.run_id}}))
    if cell.further:
        terms.append(_term({"matchLabels": {**_VOLBENCH, COMPONENT: HOLDER, LABEL_RUN: cell.run_id}}))
    return terms


def _term(selector: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"labelSelector": selector, **fields, "topologyKey": "kubernetes.io/hostname"}
