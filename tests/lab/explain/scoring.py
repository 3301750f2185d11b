"""Scores of the lab: pure functions from runs to figures. Every run counts, failed and invalid ones too."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from explain.observed import NONE, Named, Observed
from volbench.results.explain.calibration import Calibration, Counted, Counts

TOP1_MIN, CLEAN_ALARMS_MAX, RECALL_MIN = 0.95, 0.05, 0.85
KNEE_S_MAX, FORECAST_MAX, CAP_MAX, WHAT_IF_MAX = 10.0, 0.05, 0.05, 0.20
RECALL_AT = 3
BINS = 10
LEVEL = 0.95
"""Of exact intervals."""
_CAP_OF = {
    "storage.iops_limit": ("iops", "iops"),
    "storage.throughput_limit": ("throughput", "throughput"),
    "storage.burst_exhausted": ("baseline", "baseline"),
}
"""Cause -> the evidence row with the level named, and the lab's own name of it."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A figure against what is asked for; `value` None: nothing was there to measure it on."""

    name: str
    value: float | None
    limit: float
    at_least: bool
    of: int
    unit: str = ""
    meaning: str = ""

    @property
    def passed(self) -> bool | None:
        """None: not known."""
        if self.value is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """A named level or time against the true one of one run; `named` None: nothing was named."""

    run: str
    what: str
    named: float | None
    true: float

    @property
    def error(self) -> float | None:
        """Relative."""
        return None if self.named is None else self.named / self.true - 1


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """Findings of one range of confidence: how sure they were, how often they were right, its exact interval."""

    low: float
    high: float
    findings: int
    confidence: float
    right: float
    interval: tuple[float, float]


def is_right(run: Observed) -> bool:
    """Whether the first cause named is one that was made."""
    return run.top in run.truth


def confusion(runs: Iterable[Observed]) -> dict[str, Counter[str]]:
    """By condition, how often each cause was named first."""
    table: dict[str, Counter[str]] = {}
    for run in runs:
        table.setdefault(run.condition, Counter())[run.top] += 1
    return table


def top1(runs: Sequence[Observed]) -> float | None:
    """Share of runs whose first cause is right."""
    return _mean([float(is_right(run)) for run in runs])


def clean_alarms(runs: Iterable[Observed]) -> tuple[int, int]:
    """Runs without a cause for which one was named, and all of them. Saying nothing is no alarm."""
    clean = [run for run in runs if run.truth == (NONE,)]
    return sum(any(cause != NONE for cause in run.causes) for run in clean), len(clean)


def compound_recall(runs: Iterable[Observed], at: int = RECALL_AT) -> float | None:
    """Share of the causes of compounds that are among the first `at` named."""
    result = [cause in run.causes[:at] for run in runs if len(run.truth) > 1 for cause in run.truth]
    return _mean([float(item) for item in result])


def spurious(runs: Iterable[Observed]) -> Counter[tuple[str, str]]:
    """(condition, cause) that were named, first or not, and are neither true nor accepted."""
    return Counter(
        (run.condition, cause)
        for run in runs
        for cause in run.causes
        if cause not in run.truth and cause not in run.accepted
    )


def caps(runs: Iterable[Observed]) -> list[Deviation]:
    """Levels that findings name against those that were set, where the cause is true."""
    results = []
    for run in runs:
        for cause in run.truth:
            row, name = _CAP_OF.get(cause, ("", ""))
            if name in run.truths:
                level = next((finding.evidence.get(row) for finding in run.named if finding.cause == cause), None)
                named = float(level) if isinstance(level, int | float) else None
                results.append(Deviation(run=_name(run), what=name, named=named, true=run.truths[name]))
    return results


def knees(runs: Iterable[Observed]) -> list[Deviation]:
    """The second at which credits ran out, as named and as it was."""
    results = []
    for run in runs:
        if "exhausted_at_s" in run.truths:
            finding = next((finding for finding in run.named if finding.cause == "storage.burst_exhausted"), None)
            at = None if finding is None else finding.evidence.get("exhausted_at")
            named = float(at) if isinstance(at, int | float) else None
            results.append(
                Deviation(run=_name(run), what="exhausted_at_s", named=named, true=run.truths["exhausted_at_s"])
            )
    return results


def forecasts(runs: Iterable[Observed]) -> list[Deviation]:
    """Time until credits run out, as forecast from the first seconds of the load, and as it was.

    Of bursts alone: a forecast is of the load that goes on, and a stall ends that.
    """
    return [
        Deviation(
            run=_name(run),
            what="exhausted_after_s",
            named=run.forecast.get("after_s"),
            true=run.truths["exhausted_after_s"],
        )
        for run in runs
        if "exhausted_after_s" in run.truths and run.truth == ("storage.burst_exhausted",)
    ]


def what_ifs(pairs: Iterable[Mapping[str, Any]]) -> list[Deviation]:
    """tps of a load predicted for another volume, and run there: rows of tests/benchmarks/what_if.py."""
    return [
        Deviation(
            run=f"{row['step']}, {row['measured_on']} to {row['predicted_on']}",
            what="tps",
            named=row.get("predicted_tps"),
            true=row["tps"],
        )
        for row in pairs
        if "tps" in row
    ]


def judged(runs: Iterable[Observed]) -> list[tuple[float, bool]]:
    """Confidence of each finding, and whether it is true or accepted."""
    return [(finding.confidence, true) for finding, true in _findings(runs) if finding.confidence is not None]


def _findings(runs: Iterable[Observed]) -> list[tuple[Named, bool]]:
    return [
        (finding, finding.cause in run.truth or finding.cause in run.accepted)
        for run in runs
        for finding in run.named
    ]


def counts(runs: Sequence[Observed]) -> Counts:
    """How many findings were true, by what their checks came to and by cause."""
    findings = _findings(runs)
    return Counts(
        runs=len(runs),
        seeds=tuple(sorted({run.lab_seed for run in runs})),
        kinds=_counted(
            (str(finding.evidence["checks"]), true) for finding, true in findings if "checks" in finding.evidence
        ),
        causes=_counted((finding.cause, true) for finding, true in findings),
    )


def _counted(result: Iterable[tuple[str, bool]]) -> dict[Any, Counted]:
    true: Counter[str] = Counter()
    of: Counter[str] = Counter()
    for name, right in result:
        of[name] += 1
        true[name] += right
    return {name: Counted(true=true[name], findings=of[name]) for name in sorted(of)}


def calibration(source: str, derived: Sequence[Observed], checked: Sequence[Observed]) -> Calibration:
    """Confidences from the runs that rules were mended on, beside what others came to.

    They agree when each kind's confidence lies in the exact interval of the others' frequency, all kinds together
    at LEVEL (Bonferroni).
    """
    made = Calibration(source=source, derived=counts(derived))
    if not checked:
        return made
    observed = counts(checked)
    level = 1 - (1 - LEVEL) / max(1, len(observed.kinds))
    inside = [
        low <= made.confidence(kind) <= high
        for kind, item in observed.kinds.items()
        for low, high in [exact_interval(item.true, item.findings, level)]
    ]
    return made.model_copy(update={"checked": observed, "agrees": all(inside)})


def exact_interval(true: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """Clopper and Pearson's (1934): shares that so many of so many do not contradict, by halving."""
    tail = (1 - level) / 2
    low = 0.0 if true == 0 else _share_where(lambda share: 1 - _at_most(true - 1, of, share) < tail)
    high = 1.0 if true == of else _share_where(lambda share: _at_most(true, of, share) > tail)
    return low, high


def _share_where(below: Callable[[float], bool]) -> float:
    """The share up to which something holds."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low


def _at_most(true: int, of: int, share: float) -> float:
    return math.fsum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(true + 1))


def brier(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Mean squared distance of confidence from 1 where right, 0 where wrong (Brier, 1950)."""
    return _mean([(confidence - right) ** 2 for confidence, right in pairs])


def reliability(pairs: Sequence[tuple[float, bool]], bins: int = BINS) -> list[Reliability]:
    """The rows of a reliability diagram: equal ranges of confidence, empty ones left out."""
    rows = []
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [pair for pair in pairs if low <= pair[0] < high or (number == bins - 1 and pair[0] == 1.0)]
        if inside:
            rows.append(
                Reliability(
                    low=low,
                    high=high,
                    findings=len(inside),
                    confidence=sum(item[0] for item in inside) / len(inside),
                    right=sum(item[1] for item in inside) / len(inside),
                    interval=exact_interval(sum(item[1] for item in inside), len(inside)),
                )
            )
    return rows


def calibration_error(rows: Sequence[Reliability]) -> float | None:
    """Expected calibration error: distance of confidence from frequency, weighted by findings (Naeini, 2015)."""
    total = sum(row.findings for row in rows)
    return sum(row.findings * abs(row.confidence - row.right) for row in rows) / total if total else None


def costs(runs: Iterable[Observed]) -> dict[str, float]:
    """Wall seconds of a run, by condition: the median."""
    by_name: dict[str, list[float]] = {}
    for run in runs:
        by_name.setdefault(run.condition, []).append(run.wall_s)
    return {name: median(values) for name, values in by_name.items()}


def invalid(runs: Iterable[Observed]) -> list[tuple[str, str]]:
    """Runs whose cell is invalid, or that failed, and why."""
    return [
        (_name(run), run.failure or "; ".join(run.invalid_reasons))
        for run in runs
        if run.failure or run.invalid_reasons
    ]


def what_if_bar(pairs: Iterable[Mapping[str, Any]]) -> Bar:
    """The largest error counts."""
    return _worst("what-if, tps", what_ifs(pairs), WHAT_IF_MAX, distance=_relative)


def bars(runs: Sequence[Observed]) -> list[Bar]:
    """All figures of the lab's runs that something is asked of."""
    alarms, clean = clean_alarms(runs)
    compounds = sum(len(run.truth) for run in runs if len(run.truth) > 1)
    return [
        Bar(
            name="top-1",
            value=top1(runs),
            limit=TOP1_MIN,
            at_least=True,
            of=len(runs),
            meaning="runs whose first cause is one that was made",
        ),
        Bar(
            name="false alarms on clean runs",
            value=alarms / clean if clean else None,
            limit=CLEAN_ALARMS_MAX,
            at_least=False,
            of=clean,
            meaning="clean runs for which any cause was named",
        ),
        Bar(
            name="recall@3 of compounds",
            value=compound_recall(runs),
            limit=RECALL_MIN,
            at_least=True,
            of=compounds,
            meaning="causes of compounds among the first three named",
        ),
        _worst("knee of a burst", knees(runs), KNEE_S_MAX, unit="s", distance=_seconds),
        _worst("forecast of exhaustion", forecasts(runs), FORECAST_MAX, distance=_relative),
        _worst("caps named", caps(runs), CAP_MAX, distance=_relative),
    ]


def _worst(
    name: str,
    result: Sequence[Deviation],
    limit: float,
    *,
    distance: Callable[[Deviation], float | None],
    unit: str = "",
) -> Bar:
    values = [value for item in result if (value := distance(item)) is not None]
    silent = len(result) - len(values)
    meaning = f"largest error; median {median(values):.3g}{unit and ' ' + unit}" if values else "nothing to compare"
    if values:
        meaning += (
            f"; {sum(value <= limit for value in values)} of {len(values)} within {limit:g}{unit and ' ' + unit}"
        )
    if silent:
        meaning += f"; none named in {silent} of {len(result)}"
    return Bar(
        name=name,
        value=max(values) if values else None,
        limit=limit,
        at_least=False,
        of=len(values),
        unit=unit,
        meaning=meaning,
    )


def _relative(item: Deviation) -> float | None:
    return None if item.error is None else abs(item.error)


def _seconds(item: Deviation) -> float | None:
    return None if item.named is None else abs(item.named - item.true)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _name(run: Observed) -> str:
    return f"{run.condition}/{run.number}"
