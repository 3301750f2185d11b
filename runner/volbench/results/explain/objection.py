"""One thing that speaks against a finding: the law that it breaks, and both figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from volbench.results.explain.evidence.device import Direction

Law = Literal["conservation", "sufficiency", "consistency", "time", "acquittal"]
"""What a finding has to obey; docs/causes.md says what each asks for."""
Claim = Literal[
    "limit",
    "latency",
    "no limit",
    "at the device",
    "foreign",
    "short operations",
    "own CPU",
    "distance",
    "innocent",
    "episode",
    "instance",
]
"""What a cause claims, and what is therefore checked: see `objections`."""
Suggestion = Literal["", "limit", "limit that began", "memory reclaim"]
"""What else makes the figure of an objection; empty: it suggests nothing."""


@dataclass(frozen=True, kw_only=True)
class Objection:
    """A figure that speaks against a finding.

    Args:
        law: what is broken.
        text: a clause that follows "but", with both figures.
        claimed, recorded: the figures, in the unit that the text has.
        refutes: the finding cannot be true; else it is only less sure.
        suggests: what makes the same figure, so that the finding is one of two where that is named.
        level: operations a second of the limit that it suggests; None: it suggests none.
        direction: of the operations that the level is about; None: all.
    """

    law: Law
    text: str
    claimed: float
    recorded: float
    refutes: bool = True
    suggests: Suggestion = ""
    level: float | None = None
    direction: Direction | None = None
