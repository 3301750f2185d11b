"""What a recommendation is made from: a load, what it makes of a volume, and what can refute that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from volbench.results.recommend.catalogue import Candidate
from volbench.results.recommend.goal import Chance, Goal


@dataclass(frozen=True, kw_only=True)
class IndependentCheck:
    """What an independent computation says of one volume.

    Args:
        keeps: whether the goal is kept by it; None: it cannot tell.
        text: what was computed, and what came out.
    """

    name: str
    keeps: bool | None
    text: str


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A server option for the volume, with its reason; `value` None: nothing tells it, and why."""

    name: str
    value: str | None
    reason: str


class Evidence(Protocol):
    """A load that was measured or recorded."""

    @property
    def name(self) -> str:
        """The run, observation or server."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read, assumed and left out."""

    def chances(self, candidate: Candidate, goal: Goal) -> tuple[Chance, ...]:
        """Return how likely each part of the goal is kept. Raises Undecided where nothing tells it."""

    def checks(self, candidate: Candidate, goal: Goal) -> Sequence[IndependentCheck]:
        """Return what computations that share nothing with `chances` make of the volume."""

    def settings(self, candidate: Candidate, goal: Goal) -> tuple[Setting, ...]:
        """Return the server's options for the volume."""

    def measurement(self, candidate: Candidate) -> str:
        """Return the command that would decide whether the volume keeps the goal."""
