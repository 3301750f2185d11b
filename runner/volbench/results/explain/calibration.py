"""How often findings are true: counted on runs of the lab whose causes were made on purpose, not chosen.

calibration.json is written by `python -m causes calibrate` from the data of the lab of other mechanisms: runs whose
verdicts were known while rules were mended, and later fresh ones as they were named at first sight (`derived`).
`checked` are other fresh runs; without them, or where they disagree, confidences are not called calibrated. How
well those of some families of mechanisms hold for another one is in the lab's page: there, each family's are
counted on all the others.

A confidence is of one cause named by one kind of evidence (`fit`). Small counts are drawn towards a prior: with t
of n findings true,

    confidence = (t + PRIOR_FINDINGS * prior) / (n + PRIOR_FINDINGS)

the mean of a Beta posterior whose prior has the weight of PRIOR_FINDINGS findings. The prior is the rate of all
findings of that kind of checks, at most PRIOR_MAX: what was never counted is never called very likely.

Of recordings most checks cannot be made, and their number says more than the cause: confidences are of findings
with as many checks of one kind, drawn towards those of that kind, these towards all findings, by the same formula
at each level (`by_checks`). Nothing bounds them from above: they are how often such findings came true. It is the
m-estimate (Cestnik: Estimating probabilities, a crucial task in machine learning, ECAI 1990); levels that draw
towards each other are those of empirical Bayes (Efron and Morris, JASA 70, 1975). m is fixed, not fitted. How far
stated and true rates are apart when each recording, and each condition, is left out in turn, is in
results/examples/lab/recordings.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Literal

from pydantic import Field

from volbench.core.base.text import percent
from volbench.core.records.base import Record

Kind = Literal["all held", "some not made", "some failed", "one of two"]
Evidence = Literal["counted", "metered", "before and after", "level"]
"""What names a cause: a counter or a configured limit that says so, a rate as regular as a meter's, a change at one
time with the rest of the step as its control, or a figure beyond a threshold."""
UNDECIDED: tuple[Kind, ...] = ("some failed", "one of two")
"""Kinds of checks that say more than the evidence does: they are counted by themselves."""
SECOND = "one of two, not the likelier"
FILE = "calibration.json"
RECORDINGS_FILE = "calibration_recordings.json"
"""The same of recordings: tests/fixtures/recordings, counted by `tests/lab/recordings/score.py --calibrate`."""
PRIOR_FINDINGS = 2.0
PRIOR_MAX = 0.85
"""Below the 0.9 from which a confidence is shown as `very likely`."""
ONE_OF_TWO_MAX, SECOND_MAX = 0.75, 0.5
"""Of causes that the evidence does not tell apart, the one that is likelier by what was counted, and any other."""
CONFIDENCE_MAX = 0.99
"""Nothing is certain: what is counted on a few hundred runs is never given as 100 %."""
Left = Literal["rebuilt", "not rebuilt", "not known", "objected"]
"""What the check leaves of a finding: p95 is rebuilt from its pieces; it is another one; it cannot be rebuilt; or
something speaks against it without refuting it."""
CheckOutcome = Literal["compared", "not known", "objected"]
"""What findings are counted by. Whether p95 follows is no part of it: as many come true where it does not."""
OUTCOMES: dict[Left, CheckOutcome] = {
    "rebuilt": "compared",
    "not rebuilt": "compared",
    "not known": "not known",
    "objected": "objected",
}
CHECK_FILE = "calibration_check.json"
LEFT_MAX: dict[CheckOutcome, float] = {"objected": 0.7, "not known": PRIOR_MAX}
"""Below the 0.9 of `very likely`: a figure speaks against it, or nothing could be rebuilt and compared."""
_MOST = {"some failed": PRIOR_MAX, "one of two": ONE_OF_TWO_MAX}


class Counted(Record):
    """Findings, and how many of them were true."""

    true: int
    findings: int

    @property
    def rate(self) -> float:
        """(true + 1/2) / (findings + 1): the mean of Jeffreys's posterior; 1/2 where nothing was counted."""
        return (self.true + 0.5) / (self.findings + 1)


class Counts(Record):
    """Findings of some runs of the lab, by what their checks came to, by cause, and by cause and evidence."""

    runs: int
    seeds: tuple[int, ...]
    kinds: dict[Kind, Counted]
    causes: dict[str, Counted]
    by_evidence: dict[str, dict[str, Counted]] = Field(default_factory=dict)
    checks: dict[str, Counted] = Field(default_factory=dict)
    """By kind and number of checks, see `checks_key`: of recordings, in which many checks cannot be made."""


class LeftCounts(Record):
    """First findings of runs of the lab by what the check left of them."""

    source: str
    left: dict[CheckOutcome, Counted]

    def confidence(self, outcome: CheckOutcome) -> float:
        """(t + PRIOR_FINDINGS x PRIOR_MAX) / (n + PRIOR_FINDINGS), at most CONFIDENCE_MAX or LEFT_MAX."""
        counted = self.left.get(outcome, _NOTHING)
        rate = (counted.true + PRIOR_FINDINGS * PRIOR_MAX) / (counted.findings + PRIOR_FINDINGS)
        return without_rounding_error(min(rate, LEFT_MAX.get(outcome, CONFIDENCE_MAX)))

    def describe(self, outcome: CheckOutcome) -> str:
        """What was counted, in words."""
        counted, such = self.left.get(outcome, _NOTHING), _SUCH.get(outcome, "such findings")
        if not counted.findings:
            return f"{such} were never counted in volbench's lab"
        return f"{counted.true} of {counted.findings} {such} were true in volbench's lab"


class Calibration(Record):
    """Where confidences come from. `agrees`: what was checked does not contradict them; None: nothing was."""

    source: str
    derived: Counts
    checked: Counts | None = None
    agrees: bool | None = None
    counted_in: str = "volbench's lab"

    def confidence(
        self,
        kind: Kind,
        cause: str = "",
        decided_by: Evidence = "level",
        *,
        is_second: bool = False,
        checks: Sequence[bool | None] = (),
    ) -> float:
        """How sure a finding of a cause is.

        Args:
            kind: what its checks came to.
            cause: its name; empty: any cause.
            decided_by: the evidence that names it.
            is_second: of causes that cannot be told apart, one that is named after a likelier one.
            checks: what each of its checks came to, for a calibration that counts by their number.

        A calibration without counts by evidence has those of all causes by what their checks came to; a cause that
        is not among its causes gets PRIOR_MAX at most, and so does one of which a check failed. One of two causes
        is never surer than ONE_OF_TWO_MAX, and than SECOND_MAX where a likelier one is named before it. With counts
        by checks, see `by_checks`.
        """
        if self.derived.checks and cause:
            return without_rounding_error(self.by_checks(kind, checks, is_second=is_second))
        pooled = self.derived.kinds.get(kind, _NOTHING).rate
        prior = min(pooled, PRIOR_MAX)
        if not cause:
            return pooled
        value = pooled if cause in self.derived.causes else prior
        if self.derived.by_evidence:
            counted = self._counted(kind, cause, decided_by, is_second=is_second)
            value = (counted.true + PRIOR_FINDINGS * prior) / (counted.findings + PRIOR_FINDINGS)
        return without_rounding_error(min(value, SECOND_MAX if is_second else _MOST.get(kind, 1.0)))

    def by_checks(self, kind: Kind, checks: Sequence[bool | None], *, is_second: bool = False) -> float:
        """The rate of findings with as many checks of one kind, drawn to those of the kind, these to all findings.

        Args:
            kind: what its checks came to.
            checks: what each of them came to.
            is_second: of causes that cannot be told apart, one that is named after a likelier one.
        """
        alike = checks_key(kind, checks, is_second=is_second)
        name = alike.partition(":")[0]
        of_kind = [counted for key, counted in self.derived.checks.items() if key.partition(":")[0] == name]
        rate = _sum(self.derived.checks.values()).rate
        for counted in (_sum(of_kind), self.derived.checks.get(alike, _NOTHING)):
            rate = (counted.true + PRIOR_FINDINGS * rate) / (counted.findings + PRIOR_FINDINGS)
        return rate

    def _counted(self, kind: Kind, cause: str, decided_by: Evidence, *, is_second: bool) -> Counted:
        """What was counted of findings of a cause by such evidence."""
        return self._of_evidence(cause, evidence_kind(kind, decided_by, is_second=is_second))

    def _of_evidence(self, cause: str, evidence: str) -> Counted:
        return self.derived.by_evidence.get(cause, {}).get(evidence, _NOTHING)

    def is_counted(self, kind: Kind, cause: str, evidence: str) -> bool:
        """Whether a confidence is a count: of such findings of the cause, or a rate of all such below PRIOR_MAX.

        Otherwise it is PRIOR_MAX, for what was never counted.

        Args:
            kind: what its checks came to.
            cause: its name.
            evidence: what it is counted by, see `evidence_kind`.
        """
        if self.derived.checks or self._of_evidence(cause, evidence).findings:
            return True
        return self.derived.kinds.get(kind, _NOTHING).rate < PRIOR_MAX

    def describe_counts(
        self,
        kind: Kind,
        cause: str = "",
        decided_by: Evidence = "level",
        *,
        is_second: bool = False,
        checks: Sequence[bool | None] = (),
        confidence: float = 1.0,
    ) -> str:
        """What was counted, for the evidence of a finding; of any cause where nothing was counted of this one.

        `confidence`: what is said of the finding; where it is less than the share that came true, the text says so.
        """
        counted = self._counted(kind, cause, decided_by, is_second=is_second)
        such = "such findings of this cause"
        if self.derived.checks:
            counted = self.derived.checks.get(checks_key(kind, checks, is_second=is_second), _NOTHING)
            such = "findings with as many checks"
        if not counted.findings:
            counted, such = self.derived.kinds.get(kind, _NOTHING), "such findings"
        text = f"{counted.true} of {counted.findings} {such} were true in {self.counted_in}"
        new = None if self.checked is None else self.checked.kinds.get(kind)
        if self.agrees and new is not None:
            text += f", {new.true} of {new.findings} in its other runs, which confirm it"
        unchecked = {None: ", not checked on new runs yet", False: ", and new runs of it did not agree"}
        text += f" (other faults, machines and loads may differ{unchecked.get(self.agrees, '')})"
        less = counted.findings and confidence < counted.true / counted.findings - _ALIKE
        return f"{text}, so it is taken for {percent(confidence)} sure at most" if less else text


_NOTHING = Counted(true=0, findings=0)
_SUCH: dict[CheckOutcome, str] = {"compared": "findings that nothing speaks against, whether p95 follows or not,"}
_ROUNDING = 1e-9
_ALIKE = 0.01
"""Two shares that read alike."""


def without_rounding_error(confidence: float) -> float:
    """Return what is printed with two digits where no more than rounding of sums is between both.

    Words such as `very likely` begin at 0.9, and 0.8999999999999999 is printed as 0.90.
    """
    printed = round(confidence, 2)
    return printed if abs(printed - confidence) <= _ROUNDING else confidence


def evidence_kind(kind: Kind, decided_by: Evidence, *, is_second: bool = False) -> str:
    """The key of a finding among those of its cause: what decides it, or that its checks do not.

    Of causes that cannot be told apart, the likelier one is named first: the others are counted by themselves.
    """
    if kind == "one of two" and is_second:
        return SECOND
    return kind if kind in UNDECIDED else decided_by


def _sum(counts: Iterable[Counted]) -> Counted:
    """All of them together."""
    listed = list(counts)
    return Counted(true=sum(item.true for item in listed), findings=sum(item.findings for item in listed))


def checks_key(kind: Kind, checks: Sequence[bool | None], *, is_second: bool = False) -> str:
    """The key of `Counts.checks`, such as `some not made: 4 of 6 hold, 2 not made`."""
    name = SECOND if kind == "one of two" and is_second else kind
    passed, unmade = sum(check is True for check in checks), sum(check is None for check in checks)
    return f"{name}: {passed} of {len(checks)} hold, {unmade} not made"


def fit(outcomes: Iterable[tuple[str, str, bool]]) -> dict[str, dict[str, Counted]]:
    """Counts by cause and kind of evidence, for `Counts.by_evidence`; `Calibration.confidence` shrinks them.

    Args:
        outcomes: for each finding its cause, its kind of evidence (the value of its evidence row `decided_by`),
            and whether it was true.
    """
    counts: dict[str, dict[str, Counted]] = {}
    for cause, evidence, is_true in outcomes:
        of_cause = counts.setdefault(cause, {})
        before = of_cause.get(evidence, _NOTHING)
        of_cause[evidence] = Counted(true=before.true + is_true, findings=before.findings + 1)
    return {cause: dict(sorted(of_cause.items())) for cause, of_cause in sorted(counts.items())}


def read_calibration(name: str = FILE) -> Calibration:
    """A file that lies beside this module."""
    text = resources.files("volbench.results.explain").joinpath(name).read_text(encoding="utf-8")
    return Calibration.model_validate_json(text)


def read_left_counts() -> LeftCounts:
    """What the check's verdicts came to: calibration_check.json."""
    text = resources.files("volbench.results.explain").joinpath(CHECK_FILE).read_text(encoding="utf-8")
    return LeftCounts.model_validate_json(text)


CALIBRATION = read_calibration()
LEFT_COUNTS = read_left_counts()
RECORDINGS = read_calibration(RECORDINGS_FILE)
