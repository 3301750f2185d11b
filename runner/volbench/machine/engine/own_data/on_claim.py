"""A dataset on a claim of the user, as the pod that loads it has it: there, whole, and readable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from volbench.core.profile.claim_path import DATASET, parse_claim_path
from volbench.core.records.dataset import DatasetSpec
from volbench.errors import MissingPrerequisite

_FILES_MAX = 100_000
"""Of a dump or a copy that are looked at before it is loaded."""
_NAMES_MAX = 10
"""In a message."""
_UNREADABLE = "the pod's user may not read the dataset on the claim"
_LET_READ = "let others read the files, or run the pods as their user: --target-option user=UID"


def located(dataset: DatasetSpec, root: Path = Path(DATASET)) -> DatasetSpec:
    """Return a dataset with the path at which this pod has it; one that lies on no claim as it is.

    Args:
        root: where the claim is mounted.

    Raises MissingPrerequisite for a path that the claim does not have, or that this user may not read.
    """
    claim_path = parse_claim_path(dataset.path)
    if claim_path is None:
        return dataset
    where, path = f"dataset.path {dataset.path!r}", root / claim_path.path
    try:
        real = path.resolve(strict=True)
    except PermissionError as error:
        raise MissingPrerequisite(_UNREADABLE, where=where, evidence=str(error), next_step=_LET_READ) from error
    except OSError as error:
        raise MissingPrerequisite(
            f"claim {claim_path.claim} has no {claim_path.path}",
            where=where,
            evidence=f"{error.strerror}; at the claim's root: {_names(root)}",
            next_step="name the path from the claim's own root",
        ) from error
    if not real.is_relative_to(root.resolve()):
        raise MissingPrerequisite(
            f"{claim_path.path} is a link out of claim {claim_path.claim}",
            where=where,
            next_step="name the file itself",
        )
    unreadable = next((file for file in islice(_walk(real), _FILES_MAX) if not os.access(file, os.R_OK)), None)
    if unreadable is not None:
        status, name = unreadable.lstat(), unreadable.relative_to(root.resolve())
        evidence = f"{name} is of user {status.st_uid}, mode {status.st_mode & 0o7777:04o}"
        raise MissingPrerequisite(
            _UNREADABLE, where=where, evidence=f"{evidence}; the pod is user {os.geteuid()}", next_step=_LET_READ
        )
    return dataset.model_copy(update={"path": str(path)})


def _walk(path: Path) -> Iterator[Path]:
    """Yield a path, and the files and directories below it, each directory before what it has."""
    yield path
    for directory, directories, files in os.walk(path):
        yield from (Path(directory, name) for name in (*directories, *files))


def _names(root: Path) -> str:
    try:
        return ", ".join(sorted(path.name for path in root.iterdir())[:_NAMES_MAX]) or "nothing"
    except OSError as error:
        return str(error.strerror)
