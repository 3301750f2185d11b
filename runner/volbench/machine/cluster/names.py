"""Names of our objects in a cluster: labels by which they are found, and names that Kubernetes allows."""

from __future__ import annotations

import re

NAME_CHARACTERS = 63
"""At most, of an object's name that is also a label's value."""
LABEL_RUN = "volbench.org/run"
LABEL_CELL = "volbench.org/cell"
LABEL_LANE = "volbench.org/lane"
"""Of a claim that is one lane's alone, such as one node's."""
MANAGED_BY = {"app.kubernetes.io/managed-by": "volbench", "app.kubernetes.io/part-of": "volbench"}


def object_name(*pieces: str) -> str:
    """Return a valid object name: the parts in lower case, with `-` for invalid characters."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(pieces).lower()).strip("-")[:NAME_CHARACTERS].rstrip("-")
