"""`pvc:CLAIM/PATH`: where a dataset lies on a claim of a cluster, and where a pod has that claim."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from volbench.core.profile.spec import parse_volume
from volbench.core.records.own_files import CLAIM_PREFIX, is_on_claim
from volbench.errors import UsageError

DATASET = "/volbench/dataset"
"""In a pod that loads the dataset: the claim that it lies on, read-only."""
CLAIM_EXAMPLE = "dataset.path: pvc:CLAIM/dumps/shop.sql.gz"


@dataclass(frozen=True, kw_only=True)
class ClaimPath:
    """A file or directory on a claim; `path` is relative, and empty for all of the claim."""

    claim: str
    path: str

    @property
    def in_pod(self) -> PurePosixPath:
        """Where it is in a pod."""
        return PurePosixPath(DATASET) / self.path


def parse_claim_path(text: str) -> ClaimPath | None:
    """Return the claim and the path of `pvc:CLAIM/PATH`; None for a path on this machine. Raise UsageError."""
    if not is_on_claim(text):
        return None
    claim, _, path = text.removeprefix(CLAIM_PREFIX).partition("/")
    where = f"dataset.path {text!r}"
    try:
        parse_volume(f"{CLAIM_PREFIX}{claim}", name="dataset")
    except UsageError as error:
        raise UsageError(error.what, where=where, next_step=f"for instance {CLAIM_EXAMPLE}") from error
    if path.startswith("/") or ".." in path.split("/") or not path.isprintable():
        raise UsageError(
            f"{path!r} is not a path in the claim",
            where=where,
            next_step=f"name it from the claim's own root, without `..`: {CLAIM_EXAMPLE}",
        )
    return ClaimPath(claim=claim, path=str(PurePosixPath(path)) if path else "")
