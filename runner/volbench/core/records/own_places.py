"""Where containers and pods have the user's own files: below one directory, each at its path on this machine."""

from __future__ import annotations

import os

OWN = "/volbench/own"


def below(path: str) -> str:
    """Return an absolute path as a relative one without `..`, which a ConfigMap's files cannot have."""
    return os.path.normpath(path).lstrip("/")


def inside(path: str) -> str:
    """Return where a container or a pod has a file of this machine."""
    return f"{OWN}/{below(path)}"


def outside(path: str) -> str:
    """Return a file's path on the user's machine, which `inside` was called with; any other path as it is."""
    return path.removeprefix(OWN) if path.startswith(f"{OWN}/") else path
