"""Facts of a claim and its PersistentVolume: which volume it is, and on which nodes a pod can use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from volbench.core.records.facts import VolumeFacts
from volbench.errors import MissingPrerequisite

if TYPE_CHECKING:  # the client is an extra, which the options of a plan do without
    from volbench.machine.cluster.client import Cluster

Object = dict[str, Any]
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_STORAGE = "/apis/storage.k8s.io/v1"
_NODE_KEYS = ("kubernetes.io/hostname", "metadata.name")


def persistent_volume(cluster: Cluster, claim: Object) -> Object | None:
    """Return what the claim is bound to; None if it is not bound, or this user may not read PersistentVolumes."""
    name = claim["spec"].get("volumeName")
    if not name:
        return None
    volume: Object | None = cluster.ask_if_allowed(
        f"/api/v1/persistentvolumes/{name}", doing=f"reading the volume of claim {claim['metadata']['name']}"
    )
    return volume


def identity(claim: Object, volume: Object | None) -> dict[str, str | None]:
    """Return the fields of VolumeFacts that tell one volume from another."""
    return {
        "claim": claim["metadata"]["name"],
        "claim_uid": claim["metadata"].get("uid"),
        "persistent_volume": claim["spec"].get("volumeName") or None,
        "persistent_volume_uid": volume["metadata"].get("uid") if volume else None,
    }


def asked_for(cluster: Cluster, claim: Object, volume: Object | None) -> dict[str, object]:
    """Return the fields of VolumeFacts for what the claim's class asks for; none where it may not be read."""
    name, doing = claim["spec"].get("storageClassName"), f"reading the class of claim {claim['metadata']['name']}"
    storage_class = name and cluster.ask_if_allowed(f"{_STORAGE}/storageclasses/{name}", doing=doing)
    if not storage_class:
        return {}
    parameters = dict(storage_class.get("parameters") or {})
    current = claim.get("status", {}).get("currentVolumeAttributesClassName")
    if current:
        attributes = cluster.ask_if_allowed(f"{_STORAGE}/volumeattributesclasses/{current}", doing=doing)
        if attributes is None:
            return {}  # the volume has been changed to what nobody may read
        parameters |= attributes.get("parameters") or {}
    made, bound = (
        item["metadata"].get("creationTimestamp", "") for item in (storage_class, volume or {"metadata": {}})
    )
    return {
        "class_driver": storage_class.get("provisioner"),
        "class_parameters": {key: str(value) for key, value in parameters.items() if "secret" not in key.lower()},
        "class_is_newer": bool(made and bound and made > bound),
    }


def changed_volume(measured: VolumeFacts, present: VolumeFacts | None) -> MissingPrerequisite | None:
    """Return the refusal if the claim's volume is not the one that earlier cells measured.

    Args:
        measured: facts of an earlier cell's result.
        present: facts of the claim as it is; None: the claim does not exist.
    """
    if measured.claim_uid is None or (present is not None and _is_same(measured, present)):
        return None
    return MissingPrerequisite(
        f"claim {measured.claim} is not on the volume that the cells of this run measured",
        evidence=f"then {_description(measured)}; now {_description(present)}",
        next_step="start a new run: a new volume's cells must not be pooled with those of the old one",
        cause="volume_gone",
    )


def _is_same(measured: VolumeFacts, present: VolumeFacts) -> bool:
    """Return a claim is bound once.

    A claim made anew may be bound to the old volume: only the volume's uid tells.
    """
    if measured.persistent_volume_uid and present.persistent_volume_uid:
        return measured.persistent_volume_uid == present.persistent_volume_uid
    return measured.claim_uid == present.claim_uid


def _description(facts: VolumeFacts | None) -> str:
    if facts is None:
        return "the claim does not exist"
    uid = f" (uid {facts.persistent_volume_uid})" if facts.persistent_volume_uid else ""
    volume = f"PersistentVolume {facts.persistent_volume}{uid}" if facts.persistent_volume else "no volume bound"
    return f"claim uid {facts.claim_uid}, {volume}"


def fits_node(
    claim: Object, volume: Object | None, node: Object | None, node_name: str, storage_class: Object | None
) -> bool:
    """Return whether a pod with this claim can certainly run on the node.

    False also where this is unknown: without the right to read PersistentVolumes or nodes.

    Args:
        volume, node: None if unknown.
        node_name: the node's name.
        storage_class: of the claim, None if it has none.
    """
    if not claim["spec"].get("volumeName"):
        waits = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        return waits and _matches_any((storage_class or {}).get("allowedTopologies"), node, _topology_matches)
    if claim["metadata"].get("annotations", {}).get(SELECTED_NODE) == node_name:
        return True
    if volume is None:
        return False
    return _matches_any(_node_terms(volume), node, _term_matches)


def only_nodes(volume: Object) -> list[str]:
    """Return the names of the nodes that alone can use a PersistentVolume; empty: not named one by one."""
    names: list[str] = []
    for term in _node_terms(volume):
        expressions = [*term.get("matchExpressions", []), *term.get("matchFields", [])]
        of_term = [
            expression["values"]
            for expression in expressions
            if expression["key"] in _NODE_KEYS and expression["operator"] == "In"
        ]
        if not of_term:
            return []
        names += of_term[0]
    return list(dict.fromkeys(names))


def excludes_node(volume: Object, node: Object) -> bool:
    """Return whether a PersistentVolume certainly cannot be used on the node."""
    return not _matches_any(_node_terms(volume), node, _term_matches)


def _node_terms(volume: Object) -> list[Object]:
    required: Object = volume["spec"].get("nodeAffinity", {}).get("required", {})
    terms: list[Object] = required.get("nodeSelectorTerms") or []
    return terms


def _matches_any(
    terms: list[Object] | None, node: Object | None, matches: Callable[[Object, Object], bool]
) -> bool:
    if not terms:
        return True
    return node is not None and any(matches(term, node) for term in terms)


def _topology_matches(term: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels", {})
    return all(
        labels.get(expression["key"]) in expression["values"]
        for expression in term.get("matchLabelExpressions", [])
    )


def _term_matches(term: Object, node: Object) -> bool:
    labels, fields = node["metadata"].get("labels", {}), {"metadata.name": node["metadata"]["name"]}
    return all(_matches(expression, labels) for expression in term.get("matchExpressions", [])) and all(
        _matches(expression, fields) for expression in term.get("matchFields", [])
    )


def _matches(expression: Object, values: Mapping[str, str]) -> bool:
    """Return what the scheduler decides, but False for Gt and Lt, which no volume needs."""
    value, allowed = values.get(expression["key"]), expression.get("values", [])
    answers = {
        "In": value in allowed,
        "NotIn": value not in allowed,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return answers.get(expression["operator"], False)
