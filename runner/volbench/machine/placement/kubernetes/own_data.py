"""The user's own data in a cluster: small files by a ConfigMap of the run, a dump or a copy on a claim of the user.

The agent alone has both, read-only; the claim only while it loads the dataset.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volbench.core.profile.claim_path import DATASET, parse_claim_path
from volbench.core.records.cell import CellSpec
from volbench.core.records.own_files import own_files, with_places
from volbench.core.records.own_places import OWN, below, inside
from volbench.machine.cluster.names import object_name
from volbench.machine.placement.interface import JobKind
from volbench.machine.placement.kubernetes.cell_objects import PodInput, labels_of_run

_COMPONENT = "own-files"
_DIGEST_CHARACTERS = 8


@dataclass(frozen=True, kw_only=True)
class OwnData:
    """What the cells of one run read of the user's own.

    Args:
        files: absolute path on this machine -> bytes that a pod gets.
        claims: names of the claims that datasets lie on.
        measured: names of the user's claims that the run measures.
    """

    run_id: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    claims: Sequence[str] = ()
    measured: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Of the ConfigMap; files that have changed have another one, and pods that run keep theirs."""
        content = hashlib.sha256()
        for path, text in sorted(self.files.items()):
            content.update(f"{path}\0{len(text)}\0".encode() + text)
        digest = content.hexdigest()[:_DIGEST_CHARACTERS]
        return object_name("volbench", self.run_id.rsplit("-", 1)[-1], _COMPONENT, digest)

    def config_map(self) -> dict[str, Any]:
        """Return the ConfigMap with the files."""
        labels = {**labels_of_run(self.run_id), "app.kubernetes.io/component": _COMPONENT}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "labels": labels},
            "immutable": True,
            "binaryData": binary_data(self.files),
        }

    def in_pod(self, cell: CellSpec) -> CellSpec:
        """Return the cell with its files where a pod has them."""
        return with_places(cell, {path: inside(path) for path in self.files})

    def inputs(self, cell: CellSpec, kind: JobKind) -> tuple[PodInput, ...]:
        """Return what the pod of a cell that `in_pod` returned mounts."""
        made = []
        if any(path.is_relative_to(OWN) for path in own_files(cell)):
            made.append(PodInput(name="own", source=files_source(self.name, self.files), path=OWN))
        claim_path = parse_claim_path(cell.dataset.path)
        if claim_path is not None and kind == "prepare":  # a cell starts from the template on its own volume
            source = {"persistentVolumeClaim": {"claimName": claim_path.claim, "readOnly": True}}
            made.append(PodInput(name="dataset", source=source, path=DATASET))
        return tuple(made)


def binary_data(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the `binaryData` of a ConfigMap with files, by their keys there."""
    return {key: base64.b64encode(files[path]).decode() for key, path in _keys(files)}


def files_source(name: str, paths: Iterable[str]) -> dict[str, Any]:
    """Return the source of a pod's volume, to be mounted at OWN: each file of the ConfigMap at its path."""
    return {"configMap": {"name": name, "items": [{"key": key, "path": below(path)} for key, path in _keys(paths)]}}


def _keys(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Return key in the ConfigMap and path of each file: a key takes few characters."""
    return [(f"file-{number}", path) for number, path in enumerate(sorted(paths), start=1)]
