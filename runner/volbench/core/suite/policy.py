"""Loads a policy file as strictly as a suite: every fault at once, with its line and the nearest match."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volbench.core.records.goals.policy import PolicyFile
from volbench.core.suite.document import parse_document
from volbench.core.suite.load import check_model, read_file


@dataclass(frozen=True, kw_only=True)
class LoadedPolicy:
    """A policy, its text, and the file and line of each condition."""

    policy: PolicyFile
    text: str
    origins: tuple[str, ...]
    name: str


def load_policy(path: Path) -> LoadedPolicy:
    """Return the policy in a file. Raises UsageError listing every fault with file and line."""
    return check_policy(read_file(path, noun="policy"), name=str(path))


def check_policy(text: str, *, name: str) -> LoadedPolicy:
    """Return the policy in a text. Raises UsageError as `load_policy` does."""
    document = parse_document(text, name=name)
    policy = check_model(
        document, PolicyFile, noun="policy", next_step="see suites/policies/README.md for every key"
    )
    origins = tuple(document.origin(("conditions", number)) for number in range(len(policy.conditions)))
    return LoadedPolicy(policy=policy, text=text, origins=origins, name=name)
