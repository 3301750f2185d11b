"""Score what `explain --from` says of recordings whose truth is known.

A finding is true when it is among the causes that the condition makes. An acquittal (`none`) is false when the
condition makes the volume the cause.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from volbench.core.records.report import FindingRow
from volbench.results.explain import calibration as calibrated
from volbench.results.explain.calibration import SECOND, Calibration, Counted, Counts, Kind
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.explain.thresholds import STALL_COMPLETIONS_MAX

TOOLS = (("sar.txt",), ("iostat.txt",), ("sar.txt", "iostat.txt"))
"""What a DBA may have: one of the texts, or both."""
NONE = "none"
MENDED_ON, CHECKED_ON = (1, 2, 3, 4, 5, 6), (7, 8, 10)
"""Seeds of recordings whose verdicts were known while rules were mended, and of those made after that.

Seed 10 is the lab's (tests/fixtures/lab-recordings).
"""
_CHECKS = re.compile(r"(?P<hold>\d+) of (?P<all>\d+) checks hold(?:, (?P<unmade>\d+) could not be made)?")
BEFORE_S = 7
"""Seconds of the client's log before the recording."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was said of one recording from some of its files. `kinds` are what each finding's checks came to."""

    recording: str
    seed: int
    tools: tuple[str, ...]
    volume_is_cause: bool
    truth: tuple[str, ...]
    causes: tuple[str, ...]
    kinds: tuple[str, ...]
    checks: tuple[str, ...]
    evidence: tuple[str, ...]
    confidences: tuple[float, ...]

    @property
    def true(self) -> tuple[bool, ...]:
        """Of each finding: whether it is so."""
        return tuple(not self.volume_is_cause if cause == NONE else cause in self.truth for cause in self.causes)

    @property
    def falsely_acquitted(self) -> bool:
        """Whether the volume was cleared although it is the cause."""
        return self.volume_is_cause and NONE in self.causes


def outcomes(directory: Path) -> Iterator[Outcome]:
    """Read each recording from each choice of its files."""
    for parent in sorted(path.parent for path in directory.glob("*/truth.json")):
        truth = json.loads((parent / "truth.json").read_text())
        yield from readings(
            parent,
            recording=parent.name,
            seed=truth["seed"],
            device=truth["device"],
            volume_is_cause=truth["volume_is_cause"],
            truth=(*truth["truth"], *(["storage.stall"] if _stood_still(truth["tps"]) else [])),
        )


def readings(
    directory: Path, *, recording: str, seed: int, device: str, volume_is_cause: bool, truth: tuple[str, ...]
) -> Iterator[Outcome]:
    """What is named for one recording from each choice of its files.

    Args:
        directory: of the texts.
        recording: its name.
        device: kernel name of the volume's block device.
        truth: causes that were made.
    """
    for tools in TOOLS:
        findings = explain_recorded([directory / name for name in tools], device=device).findings
        yield Outcome(
            recording=recording,
            seed=seed,
            tools=tools,
            volume_is_cause=volume_is_cause,
            truth=truth,
            causes=tuple(finding.cause for finding in findings),
            kinds=tuple(_value(finding, "checks") for finding in findings),
            checks=tuple(_checks_of(finding) for finding in findings),
            evidence=tuple(_value(finding, "decided_by") for finding in findings),
            confidences=tuple(finding.confidence or 0.0 for finding in findings),
        )


def _value(finding: FindingRow, metric: str) -> str:
    return next(str(row.value) for row in finding.evidence if row.metric == metric)


def _checks_of(finding: FindingRow) -> str:
    """How many of a finding's checks hold and how many could be made, such as `4 of 6 hold, 1 not made`."""
    text = next(row.text for row in finding.evidence if row.metric == "checks")
    matched = _CHECKS.match(text)
    if matched is None:
        raise ValueError(f"the evidence of checks has another form: {text}")
    return f"{matched['hold']} of {matched['all']} hold, {matched['unmade'] or 0} not made"


def _stood_still(tps: Sequence[float]) -> bool:
    """Whether the client nearly stood still for a second: the kernel freezes I/O when a limit is cut."""
    during = tps[BEFORE_S : BEFORE_S + 30]
    return any(item <= STALL_COMPLETIONS_MAX * sorted(during)[len(during) // 2] for item in during)


def interval(true: int, findings: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson)."""
    z2 = 1.96**2
    share, scale = true / findings, 1 + z2 / findings
    middle = (share + z2 / (2 * findings)) / scale
    half = 1.96 * math.sqrt(share * (1 - share) / findings + z2 / (4 * findings**2)) / scale
    return max(0.0, middle - half), min(1.0, middle + half)


def counts_of(result: Sequence[Outcome], seeds: Sequence[int]) -> Counts:
    """Findings and how many were true; a cause that several files of one recording show counts once."""
    once = {
        (item.recording, cause, kind, evidence): true
        for item in result
        for cause, kind, evidence, true in zip(item.causes, item.kinds, item.evidence, item.true, strict=True)
    }

    def counted(location: int) -> dict[str, Counted]:
        names = sorted({key[location] for key in once})
        pairs = {name: [true for key, true in once.items() if key[location] == name] for name in names}
        return {name: Counted(true=sum(value), findings=len(value)) for name, value in pairs.items()}

    return Counts.model_validate(
        {
            "runs": len({outcome.recording for outcome in result}),
            "seeds": tuple(seeds),
            "kinds": counted(2),
            "causes": counted(1),
            "by_evidence": calibrated.fit(
                (cause, evidence, true) for (_, cause, _, evidence), true in once.items()
            ),
            "checks": {f"{kind}: {checks}": item for (kind, checks), item in counts_by_checks(result).items()},
        }
    )


def counts_by_checks(result: Sequence[Outcome]) -> dict[tuple[str, str], Counted]:
    """The same by kind and number of the checks; a cause that several files of a recording show counts once.

    Of causes that cannot be told apart, the likelier one and the others are two kinds.
    """
    once = {
        (item.recording, cause, SECOND if evidence == SECOND else kind, checks): true
        for item in result
        for cause, kind, checks, evidence, true in zip(
            item.causes, item.kinds, item.checks, item.evidence, item.true, strict=True
        )
    }
    groups: dict[tuple[str, str], list[bool]] = {}
    for (_, _, kind, checks), true in once.items():
        groups.setdefault((kind, checks), []).append(true)
    return {key: Counted(true=sum(group), findings=len(group)) for key, group in sorted(groups.items())}


def calibration_of(scored: Sequence[Outcome]) -> Calibration:
    """Confidences from the recordings that rules were mended on, checked on the others."""
    derived, checked = (counts_of(of_seeds(scored, seeds), seeds) for seeds in (MENDED_ON, CHECKED_ON))
    made = Calibration(
        source="tests/fixtures/recordings",
        counted_in="recordings of sar and iostat beside MariaDB",
        derived=derived,
    )
    inside = [
        low <= made.confidence(kind) <= high
        for kind, item in checked.kinds.items()
        for low, high in [interval(item.true, item.findings)]
    ]
    return made.model_copy(update={"checked": checked, "agrees": all(inside)})


def of_seeds(scored: Sequence[Outcome], seeds: Sequence[int]) -> list[Outcome]:
    """Those of some seeds."""
    return [outcome for outcome in scored if outcome.seed in seeds]


def cross_validated(result: Sequence[Outcome], group: Callable[[Outcome], str]) -> list[tuple[float, bool]]:
    """(stated, true) of each finding, its confidence counted on the recordings of all other groups.

    Args:
        found: outcomes of all recordings.
        group: what is left out together: a recording, or a condition.
    """
    pairs = []
    for name in sorted({group(item) for item in result}):
        remainder = [item for item in result if group(item) != name]
        fitted = Calibration(source="", derived=counts_of(remainder, ()))
        pairs += _pairs([item for item in result if group(item) == name], fitted)
    return pairs


def _pairs(result: Sequence[Outcome], fitted: Calibration) -> list[tuple[float, bool]]:
    once = {
        (item.recording, cause, kind, checks, evidence == SECOND): true
        for item in result
        for cause, kind, checks, evidence, true in zip(
            item.causes, item.kinds, item.checks, item.evidence, item.true, strict=True
        )
    }
    return [
        (fitted.by_checks(cast(Kind, kind), _checks_from(checks), is_second=is_second), true)
        for (_, _, kind, checks, is_second), true in once.items()
    ]


def _checks_from(text: str) -> list[bool | None]:
    """The checks of `4 of 6 hold, 1 not made`."""
    hold, of, unmade = (int(number) for number in re.findall(r"\d+", text))
    return [True] * hold + [None] * unmade + [False] * (of - hold - unmade)


def recording_of(item: Outcome) -> str:
    """Its name."""
    return item.recording


def condition_of(item: Outcome) -> str:
    """What its recording is of."""
    return item.recording.rpartition("-")[0]


def stated_and_true(result: Sequence[Outcome]) -> list[tuple[float, bool]]:
    once = {
        (item.recording, cause, kind, evidence): (confidence, true)
        for item in result
        for cause, kind, evidence, confidence, true in zip(
            item.causes, item.kinds, item.evidence, item.confidences, item.true, strict=True
        )
    }
    return list(once.values())
