"""Scores of the lab: pure functions from runs to figures, by family of mechanisms and over all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from causes.observed import Finding, Run
from explain.scoring import LEVEL, Bar, brier, exact_interval
from volbench.results.explain.calibration import SECOND, Calibration, Counted, Counts
from volbench.results.explain.calibration import fit as fit_evidence

Key = TypeVar("Key")
NONE, NOTHING = "none", "(nothing named)"
ONE_OF_TWO = "one of two"
STORAGE = ("storage.", "host.", "instance.")
FOREIGN = ("interference.io", "interference.backup", "interference.shared_volume")
SURE = 0.9
ONSET_S_MAX, CAP_ERROR_MAX = 2.0, 0.03
MET_MIN, MET_MAX = 0.95, 1.05
"""Outside these shares of a limit, what was counted is not the limit's own figure."""
TOP = 3
PRIOR_FINDINGS, PRIOR_MAX, ONE_OF_TWO_MAX, SECOND_MAX = 2.0, 0.85, 0.75, 0.5
"""As results/explain/calibration.py counts."""
_CAP_ROWS = {
    "read iops": ("read_iops_max", "read_iops", "iops"),
    "read mib": ("read_mib_per_s_max", "read_throughput", "throughput", "level"),
    "write iops": ("write_iops_max", "write_iops", "iops"),
    "write mib": ("write_mib_per_s_max", "write_throughput", "throughput", "level"),
    "all iops": ("iops",),
    "all mib": ("throughput",),
}
"""Evidence rows that state a limit, the first that is there counts."""


def alternatives(truth: str) -> tuple[str, ...]:
    """The names that are right for one cause that was made."""
    return tuple(truth.split("|"))


def true_causes(run: Run) -> frozenset[str]:
    """All names that are right."""
    return frozenset(cause for truth in run.truth for cause in alternatives(truth))


def first(run: Run) -> str:
    """The first cause named."""
    return run.findings[0].cause if run.findings else NOTHING


def is_named(run: Run) -> bool:
    """Whether one cause is named; saying nothing, or one of two, is to abstain."""
    return bool(run.findings) and run.findings[0].checks != ONE_OF_TWO


def is_right(run: Run) -> bool:
    """Whether the first cause named is one that was made."""
    return first(run) in true_causes(run)


def is_one_of_two_right(run: Run) -> bool:
    """An abstention that has the cause among the two it leaves open."""
    pair = [finding.cause for finding in run.findings if finding.checks == ONE_OF_TWO]
    return bool(run.findings) and not is_named(run) and any(cause in true_causes(run) for cause in pair)


def is_wrong_and_sure(run: Run) -> bool:
    """A first cause that was not made, with a confidence from SURE on; less a rounding error is SURE."""
    return is_named(run) and not is_right(run) and round(run.findings[0].confidence or 0.0, 6) >= SURE


def names_storage(cause: str) -> bool:
    """Whether a cause has to do with storage: a limit, a wait, others' I/O; not others on the CPUs."""
    return cause.startswith(STORAGE) or cause in FOREIGN


def is_storage(run: Run) -> bool:
    """Whether something with storage was made: a truth whose every alternative has to do with storage."""
    return any(all(map(names_storage, alternatives(truth))) for truth in run.truth)


def is_acquittal(run: Run) -> bool:
    """Storage was the cause, and what is named has nothing to do with it."""
    named = [finding.cause for finding in run.findings]
    return is_storage(run) and bool(named) and not any(names_storage(cause) for cause in named)


def is_clean(run: Run) -> bool:
    """Whether nothing was made."""
    return run.truth == (NONE,)


def is_accusation(run: Run) -> bool:
    """A cause named for a run in which nothing was made, save what counters say was there too."""
    return is_clean(run) and any(
        finding.cause != NONE and finding.cause not in run.accepted for finding in run.findings
    )


def onset_error(run: Run) -> float | None:
    """Seconds from the foreign programs' first I/O to the begin that is named; None: not named."""
    begins = [
        finding.window_s[0]
        for finding in run.findings
        if finding.cause.startswith(FOREIGN) and finding.window_s is not None
    ]
    return min((begin - (run.onset_s or 0.0) for begin in begins), key=abs, default=None)


def has_onset(run: Run) -> bool:
    """Whether other programs began to read or write in the window."""
    return run.onset_s is not None and any(cause.startswith(FOREIGN) for cause in true_causes(run))


def cap_error(run: Run) -> float | None:
    """Relative error of the limit that a true finding states, against what was counted; None: not stated."""
    for finding in run.findings:
        if finding.cause in true_causes(run):
            stated = [finding.evidence[row] for row in _CAP_ROWS.get(run.cap_of, ()) if row in finding.evidence]
            if stated and isinstance(stated[0], int | float):
                return float(stated[0]) / run.measured["cap"] - 1
    return None


def has_cap(run: Run) -> bool:
    """Whether a limit was met all the time, and the first cause named is right: its figure can be asked for."""
    cap = run.measured.get("cap")
    met = cap is not None and MET_MIN <= cap / run.measured.get("cap_set", cap) <= MET_MAX
    return met and bool(run.cap_of) and is_right(run)


def confusion(runs: Iterable[Run], row: Callable[[Run], str]) -> dict[str, Counter[str]]:
    """By row, how often each cause was named first; abstentions between two are marked."""
    table: dict[str, Counter[str]] = {}
    for run in runs:
        named = first(run) if is_named(run) or not run.findings else f"{first(run)} ({ONE_OF_TWO})"
        table.setdefault(row(run), Counter())[named] += 1
    return table


def recall(runs: Iterable[Run], at: int = TOP) -> tuple[int, int]:
    """Of the causes of compounds, how many are among the first `at` named."""
    anies = [
        any(finding.cause in alternatives(truth) for finding in run.findings[:at])
        for run in runs
        if len(run.truth) > 1
        for truth in run.truth
    ]
    return sum(anies), len(anies)


def in_top(run: Run, at: int = TOP) -> bool:
    """Whether a cause that was made is among the first `at` named."""
    return any(finding.cause in true_causes(run) for finding in run.findings[:at])


def judged(runs: Iterable[Run], confidence: Callable[[Run, Finding], float | None]) -> list[tuple[float, bool]]:
    """(confidence, true) of all findings; what is accepted beside the truth counts as true."""
    pairs = []
    for run in runs:
        for finding in run.findings:
            stated = confidence(run, finding)
            if stated is not None:
                pairs.append((stated, finding.cause in true_causes(run) or finding.cause in run.accepted))
    return pairs


def judged_first(
    runs: Iterable[Run], confidence: Callable[[Run, Finding], float | None]
) -> list[tuple[float, bool]]:
    """(confidence, right) of the first finding of each run, strictly: what is accepted is not right here."""
    pairs = []
    for run in runs:
        stated = confidence(run, run.findings[0]) if run.findings else None
        if stated is not None:
            pairs.append((stated, is_right(run)))
    return pairs


def stated(run: Run, item: Finding) -> float | None:
    """The confidence that the report states."""
    return item.confidence


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Confidences counted on some families: by cause and evidence, drawn towards the rate of the kind of checks."""

    kinds: Mapping[str, tuple[int, int]]
    causes: Mapping[tuple[str, str], tuple[int, int]]

    def confidence(self, one: Finding) -> float:
        """Of a finding; formula of results/explain/calibration.py."""
        true, of = self.kinds.get(one.checks, (0, 0))
        prior = min((true + 0.5) / (of + 1), PRIOR_MAX)
        true, of = self.causes.get((one.cause, evidence_key(one)), (0, 0))
        value = (true + PRIOR_FINDINGS * prior) / (of + PRIOR_FINDINGS)
        if one.checks != ONE_OF_TWO:
            return value
        return min(value, SECOND_MAX if evidence_key(one) == SECOND else ONE_OF_TWO_MAX)


def evidence_key(item: Finding) -> str:
    """What decides a finding, or that nothing does; what its checks came to where the report does not say."""
    return str(item.evidence.get("decided_by", item.checks))


def fit(runs: Iterable[Run]) -> Fitted:
    """Counts of all findings of some runs."""
    result = [
        (finding, finding.cause in true_causes(run) or finding.cause in run.accepted)
        for run in runs
        for finding in run.findings
    ]
    return Fitted(
        kinds=_counted((finding.checks, true) for finding, true in result),
        causes=_counted(((finding.cause, evidence_key(finding)), true) for finding, true in result),
    )


def calibrated(source: str, derived: Sequence[Run], checked: Sequence[Run] = ()) -> Calibration:
    """The confidences that explain states, from some runs; checked on others where there are any.

    They agree when, for each kind of checks, the rate of `derived` lies in the exact interval of the rate of
    `checked`, all kinds together at 95 % (Bonferroni).
    """
    made, second = _counts(derived), _counts(checked)
    if not checked:
        return Calibration(source=source, derived=made)
    level = 1 - (1 - LEVEL) / max(1, len(second.kinds))
    inside = [
        low <= made.kinds[kind].rate <= high
        for kind, counts in second.kinds.items()
        if kind in made.kinds
        for low, high in [exact_interval(counts.true, counts.findings, level)]
    ]
    return Calibration(source=source, derived=made, checked=second, agrees=all(inside))


def _counts(runs: Sequence[Run]) -> Counts:
    """What all findings of some runs came to: by their checks, by cause, by cause and evidence."""
    outcomes = [
        (finding, finding.cause in true_causes(run) or finding.cause in run.accepted)
        for run in runs
        for finding in run.findings
    ]

    def rows(key: Callable[[Finding], str]) -> dict[str, Counted]:
        return {
            name: Counted(true=true, findings=count)
            for name, (true, count) in sorted(_counted((key(item), true) for item, true in outcomes).items())
        }

    return Counts.model_validate(
        {
            "runs": len(runs),
            "seeds": tuple(sorted({run.lab_seed for run in runs})),
            "kinds": rows(lambda finding: finding.checks),
            "causes": rows(lambda finding: finding.cause),
            "by_evidence": fit_evidence((finding.cause, evidence_key(finding), true) for finding, true in outcomes),
        }
    )


def _counted(outcomes: Iterable[tuple[Key, bool]]) -> dict[Key, tuple[int, int]]:
    counts: dict[Key, tuple[int, int]] = {}
    for key, true in outcomes:
        before = counts.get(key, (0, 0))
        counts[key] = before[0] + true, before[1] + 1
    return counts


def left_out(runs: Sequence[Run], counted_on: Sequence[Run] = ()) -> Callable[[Run, Finding], float | None]:
    """Confidences of each family, counted on all the others.

    Args:
        runs: whose findings are asked for.
        counted_on: other runs, to count on; empty: on `runs` themselves.
    """
    counted = [run for run in counted_on or runs if run.injected]
    families = {run.family for run in runs}
    fitted = {family: fit(run for run in counted if run.family != family) for family in families}
    return lambda run, item: fitted[run.family].confidence(item)


def figures(runs: Sequence[Run], confidence: Callable[[Run, Finding], float | None] = stated) -> list[Bar]:
    """All figures that are asked for, of the runs whose injection was proven."""
    counted = [run for run in runs if run.injected]
    named = [run for run in counted if is_named(run)]
    storage, clean = [run for run in counted if is_storage(run)], [run for run in counted if is_clean(run)]
    onsets = [onset_error(run) for run in counted if has_onset(run)]
    caps = [cap_error(run) for run in counted if has_cap(run)]
    cap_errors = [abs(error) for error in caps if error is not None]
    result, of = recall(counted)
    sure = [
        run
        for run in counted
        if is_named(run) and not is_right(run) and (confidence(run, run.findings[0]) or 0.0) >= SURE
    ]
    pairs, firsts = judged(counted, confidence), judged_first(counted, confidence)
    return [
        _share("first cause right, of runs where one is named", sum(map(is_right, named)), len(named), 0.90),
        _share("named", len(named), len(counted), 0.85),
        _share(f"wrong with confidence >= {SURE}", len(sure), len(counted), 0.02, at_least=False),
        _share("storage acquitted wrongly", sum(map(is_acquittal, storage)), len(storage), 0.02, at_least=False),
        _share("clean accused", sum(map(is_accusation, clean)), len(clean), 0.02, at_least=False),
        _share(
            "foreign I/O named, its start within 2 s",
            sum(error is not None and abs(error) <= ONSET_S_MAX for error in onsets),
            len(onsets),
            0.90,
        ),
        Bar(
            name="error of a cap's figure, median",
            value=median(cap_errors) if cap_errors else None,
            limit=CAP_ERROR_MAX,
            at_least=False,
            of=len(cap_errors),
            meaning=f"{sum(error <= CAP_ERROR_MAX for error in cap_errors)} of {len(cap_errors)} within 3 %;"
            f" not stated in {len(caps) - len(cap_errors)} of {len(caps)} runs whose cause was named",
        ),
        _share("top-3 recall of two causes", result, of, 0.85),
        Bar(
            name="Brier score, all findings",
            value=brier(pairs),
            limit=0.08,
            at_least=False,
            of=len(pairs),
            unit=" ",
            meaning="what is accepted beside the cause counts as true",
        ),
        Bar(
            name="Brier score, first findings",
            value=brier(firsts),
            limit=0.08,
            at_least=False,
            of=len(firsts),
            unit=" ",
            meaning="only the cause itself counts as true",
        ),
        Bar(
            name="runs",
            value=float(len(counted)),
            limit=300,
            at_least=True,
            of=len(runs),
            unit="runs",
            meaning=f"with proven injection; {sum(bool(run.failure) for run in runs)} failed,"
            f" {sum(bool(run.missing) and not run.failure for run in runs)} not injected",
        ),
    ]


def _share(name: str, piece: int, total: int, limit: float, *, at_least: bool = True) -> Bar:
    if not total:
        return Bar(name=name, value=None, limit=limit, at_least=at_least, of=0, meaning="nothing to measure it on")
    low, high = exact_interval(piece, total)
    meaning = f"{piece} of {total}; 95 % interval {low:.1%} to {high:.1%}"
    return Bar(name=name, value=piece / total, limit=limit, at_least=at_least, of=total, meaning=meaning)


def family_row(runs: Sequence[Run], confidence: Callable[[Run, Finding], float | None]) -> dict[str, float | None]:
    """One family's counts."""
    counted = [run for run in runs if run.injected]
    return {
        "runs": len(runs),
        "failed": sum(bool(run.failure) for run in runs),
        "not_injected": sum(bool(run.missing) and not run.failure for run in runs),
        "scored": len(counted),
        "named": sum(map(is_named, counted)),
        "right": sum(is_named(run) and is_right(run) for run in counted),
        "top3": sum(map(in_top, counted)),
        "abstained": sum(not is_named(run) for run in counted),
        "abstained_right": sum(map(is_one_of_two_right, counted)),
        "wrong_and_sure": sum(map(is_wrong_and_sure, counted)),
        "acquitted": sum(map(is_acquittal, counted)),
        "accused": sum(map(is_accusation, counted)),
        "brier_stated": brier(judged(counted, stated)),
        "brier_left_out": brier(judged(counted, confidence)),
    }
