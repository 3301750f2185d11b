"""Whether p95 follows from a finding, and whether it would from what another cause claims, or from another time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

from volbench.results.explain import arbitration
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.check.claimed import claimed_quantile
from volbench.results.explain.quantile import Waits, WaitTime
from volbench.results.stats.grid import Mask

CLAIMS: frozenset[tuple[Waits, WaitTime]] = frozenset((info.waits, info.wait_time) for info in CAUSES.values())


@dataclass
class Followed:
    """How often p95 follows: `following` of `tries`, by what was tried."""

    following: Counter[str] = field(default_factory=Counter)
    tries: Counter[str] = field(default_factory=Counter)

    def text(self, name: str) -> str:
        """`28 of 37`."""
        return f"{self.following[name]} of {self.tries[name]}"

    def add(self, case: Case, cause: Cause) -> None:
        """Try a finding whose p95 is known with its own claim and with others."""
        info, inside = CAUSES[cause.cause], _inside(case, cause)
        own = (info.waits, info.wait_time)
        self._try("own", case, inside, own, cause.share)
        self._try("counted", case, inside, ("counted", ""))
        for claim in sorted(CLAIMS - {own}):
            self._try("others", case, inside, claim)
        if not inside.all():
            self._try("own, of a part", case, inside, own, cause.share)
            self._try("later", case, np.roll(inside, len(inside) // 2), own, cause.share)

    def _try(
        self, name: str, case: Case, inside: Mask, claim: tuple[Waits, WaitTime], share: float | None = None
    ) -> None:
        quantile = claimed_quantile(case, inside, 0.95, waits=claim[0], wait_time=claim[1], share=share)
        self.tries[name] += 1
        self.following[name] += quantile is not None and quantile.is_alike


def _inside(case: Case, cause: Cause) -> Mask:
    middle = case.grid.t_s - case.grid.width_s / 2
    inside: Mask = (middle > cause.window_s[0]) & (middle <= cause.window_s[1])
    return inside


@contextmanager
def noting(patched: pytest.MonkeyPatch) -> Iterator[list[tuple[Case, Cause]]]:
    """Note each cause that is checked, with its step."""
    noted: list[tuple[Case, Cause]] = []
    check = arbitration._checked

    def checked(case: Case, cause: Cause, info: CauseInfo | None) -> Cause:
        result = check(case, cause, info)
        noted.append((case, result))
        return result

    patched.setattr(arbitration, "_checked", checked)
    yield noted
