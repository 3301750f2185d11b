"""What the comparisons of two volumes say together: better, worse, mixed, equivalent, or not yet decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from volbench.results.compare.comparison import Comparison, GroupKey, group_key
from volbench.results.stats.corrections import hommel
from volbench.results.stats.sample_size import runs_for_level
from volbench.results.stats.sequential import relative_p
from volbench.results.stats.statistics import Verdict

PairVerdict = Literal["candidate_better", "candidate_worse", "equivalent", "mixed", "inconclusive"]
OverallVerdict = PairVerdict | Literal["single_volume"]


@dataclass(frozen=True, kw_only=True)
class PairSummary:
    """What the comparisons of one candidate with the baseline say together.

    Only primary metrics count, when there are any. One metric better and none worse is `candidate_better`; some
    of each is `mixed`; all equivalent is `equivalent`; anything else is `inconclusive`.

    A step alone may err in 5 %, and ten steps would name a winner of two equal volumes far more often. So the
    verdict of the pair counts a step's differences only where they hold after Hommel's correction over the steps;
    `alone` has the others. `p_value` is the smallest corrected one,
    `relative_p` the same relative to the error that the pair may make.
    `low_power` says that something is open that these few runs could not have decided, whatever their values;
    `runs_needed` is the largest number that an open comparison needs.
    """

    baseline: str
    candidate: str
    verdict: PairVerdict
    better: tuple[Comparison, ...]
    worse: tuple[Comparison, ...]
    equivalent: tuple[Comparison, ...]
    inconclusive: tuple[Comparison, ...]
    alone: tuple[Comparison, ...]
    families: int
    p_value: float | None
    low_power: bool
    runs_needed: int | None
    relative_p: float | None = None

    @property
    def winner(self) -> str | None:
        """The volume that is better, when one is."""
        return {"candidate_better": self.candidate, "candidate_worse": self.baseline}.get(self.verdict)


def summarise(comparisons: Iterable[Comparison]) -> list[PairSummary]:
    """Return one summary for each pair of volumes, in order of appearance."""
    pairs: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        pairs.setdefault((comparison.baseline, comparison.candidate), []).append(comparison)
    return [_summarise_pair(*pair, of_pair) for pair, of_pair in pairs.items()]


def certain_among(pairs: Sequence[PairSummary]) -> frozenset[str]:
    """Return the candidates whose verdict holds among all pairs, and not in the pair's own test only.

    A pair errs in 5 % by itself, so of many equal volumes one is named soon. Of the volumes in this set at most 5 %
    are wrong on average, and where all are equal it has any in at most 5 % of runs: the false discovery rate of
    Benjamini and Hochberg, for better and for worse each by itself. p-values are relative to the error of all
    looks. Pairs share the baseline's cells, which makes their tests of one direction positively
    dependent, as the procedure allows.

    Source: Benjamini and Hochberg, JRSS B 57 (1995); Benjamini and Yekutieli, Annals of Statistics 29 (2001).
    """
    certain: set[str] = set()
    for verdict in ("candidate_better", "candidate_worse"):
        relative = sorted(
            (pair.relative_p, pair.candidate)
            for pair in pairs
            if pair.verdict in (verdict, "mixed") and pair.relative_p is not None
        )
        ranks = [rank for rank, (relative_p, _) in enumerate(relative, 1) if relative_p <= rank / len(pairs)]
        certain.update(candidate for _, candidate in relative[: max(ranks, default=0)])
    return frozenset(certain)


def overall(pairs: Sequence[PairSummary]) -> OverallVerdict:
    """Return the verdict of all pairs: the one they share, else `mixed`; `single_volume` when there is no pair."""
    verdicts = {pair.verdict for pair in pairs}
    if not verdicts:
        return "single_volume"
    return verdicts.pop() if len(verdicts) == 1 else "mixed"


def _summarise_pair(baseline: str, candidate: str, comparisons: Sequence[Comparison]) -> PairSummary:
    counted = [c for c in comparisons if c.primary] or list(comparisons)
    by_verdict: dict[Verdict, tuple[Comparison, ...]] = {
        verdict: tuple(c for c in counted if c.verdict == verdict)
        for verdict in ("better", "worse", "equivalent", "inconclusive")
    }
    families: dict[GroupKey, float] = {}
    for c in counted:
        if c.p_adjusted is not None:
            families[group_key(c)] = min(families.get(group_key(c), 1.0), c.p_adjusted)
    corrected = dict(zip(families, hommel(list(families.values())), strict=True))
    alone = tuple(
        c for name in ("better", "worse") for c in by_verdict[name] if corrected[group_key(c)] >= 1 - c.confidence
    )
    of_pair: dict[Verdict, tuple[Comparison, ...]] = {
        verdict: tuple(c for c in of_verdict if c not in alone) for verdict, of_verdict in by_verdict.items()
    }
    needed = [c.runs_needed for c in by_verdict["inconclusive"] if c.runs_needed is not None]
    return PairSummary(
        baseline=baseline,
        candidate=candidate,
        verdict=_pair_verdict(of_pair, alone=alone),
        better=of_pair["better"],
        worse=of_pair["worse"],
        equivalent=by_verdict["equivalent"],
        inconclusive=by_verdict["inconclusive"],
        alone=alone,
        families=len(families),
        p_value=min(corrected.values(), default=None),
        low_power=any(
            min(c.runs) < runs_for_level(level=(1 - c.confidence) / max(1, len(families)), blocks=c.nodes)
            for c in (*by_verdict["inconclusive"], *alone)
        ),
        runs_needed=max(needed, default=None),
        relative_p=min(
            (
                relative_p(corrected[group_key(c)], min(c.runs), 1 - c.confidence, nodes=c.nodes)
                for c in counted
                if c.p_adjusted is not None
            ),
            default=None,
        ),
    )


def _pair_verdict(
    by_verdict: Mapping[Verdict, Sequence[Comparison]], *, alone: Sequence[Comparison]
) -> PairVerdict:
    if by_verdict["better"] and by_verdict["worse"]:
        return "mixed"
    if by_verdict["better"]:
        return "candidate_better"
    if by_verdict["worse"]:
        return "candidate_worse"
    if by_verdict["equivalent"] and not by_verdict["inconclusive"] and not alone:
        return "equivalent"
    return "inconclusive"
