"""A recorded load of a volume (CloudWatch, Prometheus, sar, iostat, an observation) as evidence for a choice.

It has operations and bytes, and no transactions: `p95` is of the volume's requests in every hour. Of an observation
it is of statements, whose times the server kept: they stay within it where the volume serves its requests no later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from volbench.core.base.text import counted, duration, number, percent
from volbench.core.profile.limits import latency_s
from volbench.errors import UsageError
from volbench.results.credits.dump import duration_s
from volbench.results.credits.history import History
from volbench.results.credits.work import Work
from volbench.results.recommend.catalogue import Candidate
from volbench.results.recommend.evidence import IndependentCheck, Setting
from volbench.results.recommend.goal import MODEL_DOUBT, Chance, Goal, chance_below
from volbench.results.recommend.lateness import LATE_MAX, SPREAD_DOUBT, RateSpread, late_shares, spread_of
from volbench.results.recommend.second_by_second import SEEDS, keeps
from volbench.results.recommend.settings import volume_settings

DUMP_DOUBT = 1.5
"""Times that a dump may take longer, or shorter, than its forecast, at 95 %: its client's own time is not known."""
_NORMAL = NormalDist()
_FACTOR_MAX = math.exp(3 * SPREAD_DOUBT)


@dataclass(frozen=True, kw_only=True)
class ObservedStatements:
    """What an observation knows of statements.

    Args:
        p95_s: as observed, the worst hour's.
        read_s, write_s: mean time of one operation of the volume, as observed.
    """

    p95_s: float
    read_s: float | None
    write_s: float | None


@dataclass(frozen=True, kw_only=True)
class RecordedLoad:
    """A history as evidence; see `evidence.Evidence`."""

    name: str
    history: History
    source: str
    statements: ObservedStatements | None = None
    more_notes: tuple[str, ...] = ()

    @property
    def work(self) -> Work:
        """The load."""
        return self.history.work

    @cached_property
    def spread(self) -> RateSpread:
        """How its seconds spread."""
        return spread_of(self.work)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read, assumed and left out."""
        of_spread = (
            "its samples are of a second: nothing is assumed about shorter peaks"
            if self.spread.is_recorded
            else f"its samples are means over {duration(2**self.spread.halvings)}; seconds are taken to deviate by"
            f" a factor of {number(math.exp(math.sqrt(self.spread.variance)))} (one standard deviation), as the"
            " recording's own intervals deviate from each other"
        )
        about = (
            "p95 is of statements: with a volume that serves its requests no later, theirs stays as observed"
            if self.statements is not None
            else "p95 is of the volume's requests in every hour: a recording of a volume has no transactions"
        )
        return (f"read: {self.history.text}", about, of_spread, *self.history.warnings, *self.more_notes)

    def chances(self, candidate: Candidate, goal: Goal) -> tuple[Chance, ...]:
        """Return how likely each part of the goal is kept. Raises UsageError for a recovery, which needs a redo."""
        if goal.recovery_s is not None:
            raise UsageError(
                "a recording of a volume has no redo log, so a recovery cannot be forecast from it",
                where=f"--recovery, {self.name}",
                next_step="give a run with a crash step, or omit --recovery",
            )
        verdicts = []
        if goal.p95_s is not None:
            verdicts.append(self._p95(candidate, goal.p95_s))
        if goal.backup is not None and goal.window_s is not None:
            verdicts.append(backup_chance(candidate, goal, self.work.mean()))
        return tuple(verdicts)

    def checks(self, candidate: Candidate, goal: Goal) -> Sequence[IndependentCheck]:
        """Return the load, second by second through the volume's limits as they meter."""
        if goal.p95_s is None:
            return ()
        is_kept, share = keeps(
            candidate.limits.starting_at(1.0), self.work, self.spread, self._slack_s(candidate, goal.p95_s)
        )
        text = (
            f"of {counted(len(SEEDS), 'draw')} of its seconds through the limits of {candidate.spec}, the worst"
            f" hour of the median draw has {percent(share)} of its requests late"
        )
        return (IndependentCheck(name="second by second", keeps=is_kept, text=text),)

    def settings(self, candidate: Candidate, goal: Goal) -> tuple[Setting, ...]:
        """Return what follows from the volume; pool and redo log are not in a recording."""
        del goal
        busiest = float(np.quantile(self.work.reads_per_s[self.work.is_known], 0.95))
        return volume_settings(candidate, reads_per_s=busiest)

    def measurement(self, candidate: Candidate) -> str:
        """Return what would decide: seconds in place of means, else the volume itself."""
        if not self.spread.is_recorded:
            return "volbench observe mysql://USER@HOST --duration 1h, in the busiest hour: it records seconds"
        return f'volbench run suites/oltp.yaml --volume "v=emulated:{candidate.spec}"'

    def _slack_s(self, candidate: Candidate, p95_s: float) -> float:
        """Return how long a request may wait for the limits, beside the slower kind's service time."""
        return p95_s - max(latency_s(candidate.volume, kind, 16_384.0) for kind in ("read", "write"))

    def _p95(self, candidate: Candidate, p95_s: float) -> Chance:
        if self.statements is not None:
            is_kept = self._statements(candidate, self.statements, p95_s)
            if is_kept is not None:
                return is_kept
        if self._slack_s(candidate, p95_s) <= 0:
            return Chance(objective="p95", keeps=0.0, text="one request takes longer than that without any queue")
        worst = self._worst(candidate, 1.0)
        least = self._worst(candidate, 0.0)
        if least > LATE_MAX:
            return Chance(
                objective="p95",
                keeps=MODEL_DOUBT * LATE_MAX / least,  # the later, the less likely: the order of volumes shows
                text=f"even by its means {percent(worst)} of an hour's requests are late",
            )
        chance = self._chance_of_spread(candidate)
        return Chance(objective="p95", keeps=chance, text=f"{percent(worst)} of the worst hour's requests are late")

    def _chance_of_spread(self, candidate: Candidate) -> float:
        """Return the chance that seconds spread less than breaks the objective."""
        if self.spread.variance <= 0 or self._worst(candidate, _FACTOR_MAX) <= LATE_MAX:
            return 1 - MODEL_DOUBT if self._worst(candidate, 1.0) <= LATE_MAX else MODEL_DOUBT
        low, high = -3 * SPREAD_DOUBT, 3 * SPREAD_DOUBT
        for _ in range(10):
            middle = (low + high) / 2
            low, high = (middle, high) if self._worst(candidate, math.exp(middle)) <= LATE_MAX else (low, middle)
        return min(max(_NORMAL.cdf(low / SPREAD_DOUBT), MODEL_DOUBT), 1 - MODEL_DOUBT)

    def _worst(self, candidate: Candidate, factor: float) -> float:
        shares = late_shares(candidate.limits, self.work, self.spread, factor=factor)
        return float(np.nanmax(shares, initial=0.0))

    def _statements(self, candidate: Candidate, statements: ObservedStatements, p95_s: float) -> Chance | None:
        """Return what statements forbid; None where they stay as they were if no request is late."""
        if statements.p95_s > p95_s:
            return Chance(
                objective="p95",
                keeps=0.0,
                text=f"statements had {number(1000 * statements.p95_s)} ms already, and what part of that a faster"
                " volume takes away is not known from an observation",
            )
        for kind, observed_s in (("read", statements.read_s), ("write", statements.write_s)):
            there_s = latency_s(candidate.volume, kind, 16_384.0)
            if observed_s is not None and there_s > observed_s:
                times = there_s / observed_s
                interval = (statements.p95_s, statements.p95_s * times)
                chance = chance_below(p95_s, interval) if times > 1.0 else 1.0
                return Chance(
                    objective="p95",
                    keeps=min(chance, 1 - MODEL_DOUBT),
                    text=f"a {kind} takes {number(1000 * there_s)} ms there, and {number(1000 * observed_s)} ms as"
                    " observed",
                    value=1000 * math.sqrt(interval[0] * interval[1]),
                    interval=(1000 * interval[0], 1000 * interval[1]),
                )
        return None


def backup_chance(candidate: Candidate, goal: Goal, load: Work | None) -> Chance:
    """Return how likely a backup beside a mean load ends within its window; its buckets are full when it begins."""
    if goal.backup is None or goal.window_s is None:
        raise ValueError("no backup is asked about")
    took_s = duration_s(candidate.limits.starting_at(1.0), goal.backup, load)
    if took_s is None:
        return Chance(objective="backup", keeps=0.0, text="the backup never ends under the load")
    interval = (took_s / DUMP_DOUBT, took_s * DUMP_DOUBT)
    return Chance(
        objective="backup",
        keeps=chance_below(goal.window_s, interval),
        text=f"a backup takes {duration(took_s)} under the mean load",
        value=took_s,
        interval=interval,
    )
