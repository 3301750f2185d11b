"""Labels and annotations of the user on every object that volbench makes: policies of a cluster may demand them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Labels and annotations of objects, and of the pods that they make."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def on(self, manifest: Object) -> Object:
        """Return the manifest with the marks; what it says itself stays. One that is no object stays as it is."""
        if "metadata" not in manifest or not (self.labels or self.annotations):
            return manifest
        marked = {**manifest, "metadata": self._metadata(manifest["metadata"])}
        template = manifest.get("spec", {}).get("template")
        if template is None:
            return marked
        pod = {**template, "metadata": self._metadata(template.get("metadata", {}))}
        return {**marked, "spec": {**manifest["spec"], "template": pod}}

    def _metadata(self, metadata: Object) -> Object:
        own = {"labels": self.labels, "annotations": self.annotations}
        marks = {kind: {**values, **metadata.get(kind, {})} for kind, values in own.items() if values}
        return {**metadata, **marks}
