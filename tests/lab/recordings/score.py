"""Score what `explain --from` says of recordings whose truth is known.

A finding is true when it is among the causes that the condition makes. An acquittal (`none`) is false when the
condition makes the volume the cause. `python tests/lab/recordings/score.py DIRECTORY` prints one line for each
recording and the sums; `--calibrate` writes the counts that confidences of recordings come from, `--table FILE` a
table of confidences as stated against what came true.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

from volbench.analysis.explain import calibration as calibrated
from volbench.analysis.explain.calibration import SECOND, Calibration, Counted, Counts, Kind
from volbench.analysis.explain.thresholds import STALL_COMPLETIONS_MAX
from volbench.analysis.recorded.directory import explain_recorded
from volbench.records.report import FindingRow

TOOLS = (("sar.txt",), ("iostat.txt",), ("sar.txt", "iostat.txt"))
"""What a DBA may have: one of the texts, or both."""
NONE = "none"
MENDED_ON, CHECKED_ON = (1, 2, 3, 4, 5, 6), (7, 8)
"""Seeds of recordings whose verdicts were known while rules were mended, and of those made after that."""
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
    for place in sorted(one.parent for one in directory.glob("*/truth.json")):
        truth = json.loads((place / "truth.json").read_text())
        yield from readings(
            place,
            recording=place.name,
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
    return any(one <= STALL_COMPLETIONS_MAX * sorted(during)[len(during) // 2] for one in during)


def interval(true: int, findings: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson)."""
    z2 = 1.96**2
    share, scale = true / findings, 1 + z2 / findings
    middle = (share + z2 / (2 * findings)) / scale
    half = 1.96 * math.sqrt(share * (1 - share) / findings + z2 / (4 * findings**2)) / scale
    return max(0.0, middle - half), min(1.0, middle + half)


def counts_of(found: Sequence[Outcome], seeds: Sequence[int]) -> Counts:
    """Findings and how many were true; a cause that several files of one recording show counts once."""
    once = {
        (one.recording, cause, kind, evidence): true
        for one in found
        for cause, kind, evidence, true in zip(one.causes, one.kinds, one.evidence, one.true, strict=True)
    }

    def counted(place: int) -> dict[str, Counted]:
        names = sorted({key[place] for key in once})
        pairs = {name: [true for key, true in once.items() if key[place] == name] for name in names}
        return {name: Counted(true=sum(one), findings=len(one)) for name, one in pairs.items()}

    return Counts.model_validate(
        {
            "runs": len({one.recording for one in found}),
            "seeds": tuple(seeds),
            "kinds": counted(2),
            "causes": counted(1),
            "by_evidence": calibrated.fit(
                (cause, evidence, true) for (_, cause, _, evidence), true in once.items()
            ),
            "checks": {f"{kind}: {checks}": one for (kind, checks), one in counts_by_checks(found).items()},
        }
    )


def counts_by_checks(found: Sequence[Outcome]) -> dict[tuple[str, str], Counted]:
    """The same by kind and number of the checks; a cause that several files of a recording show counts once.

    Of causes that cannot be told apart, the likelier one and the others are two kinds.
    """
    once = {
        (one.recording, cause, SECOND if evidence == SECOND else kind, checks): true
        for one in found
        for cause, kind, checks, evidence, true in zip(
            one.causes, one.kinds, one.checks, one.evidence, one.true, strict=True
        )
    }
    groups: dict[tuple[str, str], list[bool]] = {}
    for (_, _, kind, checks), true in once.items():
        groups.setdefault((kind, checks), []).append(true)
    return {key: Counted(true=sum(group), findings=len(group)) for key, group in sorted(groups.items())}


def calibration_of(scored: Sequence[Outcome]) -> Calibration:
    """Confidences from the recordings that rules were mended on, checked on the others."""
    derived, checked = (counts_of(_of_seeds(scored, seeds), seeds) for seeds in (MENDED_ON, CHECKED_ON))
    made = Calibration(
        source="tests/fixtures/recordings", place="recordings of sar and iostat beside MariaDB", derived=derived
    )
    inside = [
        low <= made.confidence(kind) <= high
        for kind, one in checked.kinds.items()
        for low, high in [interval(one.true, one.findings)]
    ]
    return made.model_copy(update={"checked": checked, "agrees": all(inside)})


def _of_seeds(scored: Sequence[Outcome], seeds: Sequence[int]) -> list[Outcome]:
    return [one for one in scored if one.seed in seeds]


def cross_validated(found: Sequence[Outcome], group: Callable[[Outcome], str]) -> list[tuple[float, bool]]:
    """(stated, true) of each finding, its confidence counted on the recordings of all other groups.

    Args:
        found: outcomes of all recordings.
        group: what is left out together: a recording, or a condition.
    """
    pairs = []
    for name in sorted({group(one) for one in found}):
        rest = [one for one in found if group(one) != name]
        fitted = Calibration(source="", derived=counts_of(rest, ()))
        pairs += _pairs([one for one in found if group(one) == name], fitted)
    return pairs


def _pairs(found: Sequence[Outcome], fitted: Calibration) -> list[tuple[float, bool]]:
    once = {
        (one.recording, cause, kind, checks, evidence == SECOND): true
        for one in found
        for cause, kind, checks, evidence, true in zip(
            one.causes, one.kinds, one.checks, one.evidence, one.true, strict=True
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


def recording_of(one: Outcome) -> str:
    """Its name."""
    return one.recording


def condition_of(one: Outcome) -> str:
    """What its recording is of."""
    return one.recording.rpartition("-")[0]


EMULATED_CONDITIONS = frozenset({"latency-doubles", "latency-always"})
"""Whose fault is made by volbench's own emulator; all others are the kernel's or the load's."""
BINS = (0.0, 0.3, 0.6, 0.8, 1.0)
"""Of stated confidences, for the table."""


def table(scored: Sequence[Outcome]) -> str:
    """Confidences as stated against what came true, in Markdown; a cause of several files counts once."""
    lines = [
        "# Confidences of recordings",
        "",
        "What `explain --from` says of `sar` and `iostat` texts alone (tests/fixtures/recordings). Confidences are"
        " counted on seeds 1 to 6, whose verdicts were known while rules were mended; seeds 7 and 8 were recorded"
        " after that, at load averages of 42 to 66, and nothing is counted on them. The method was chosen when"
        " their verdicts were known.",
        "",
        "Of one recording there are three readings: sar, iostat, both.",
        "",
        "| seeds | false acquittals in readings | stated | findings | mean stated | came true | 95 % interval |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    for name, seeds in (("1 to 6", MENDED_ON), ("7 and 8", CHECKED_ON)):
        found = _of_seeds(scored, seeds)
        guilty = [one for one in found if one.volume_is_cause]
        acquitted = f"{sum(one.falsely_acquitted for one in guilty)} of {len(guilty)}"
        pairs = sorted(stated_and_true(found))
        for low, high in [*pairwise(BINS), (BINS[0], BINS[-1])]:
            inside = [pair for pair in pairs if low <= pair[0] < high or (high == BINS[-1] and pair[0] >= high)]
            if not inside:
                continue
            true, stated = sum(pair[1] for pair in inside), sum(pair[0] for pair in inside) / len(inside)
            bounds = interval(true, len(inside))
            label = "all" if (low, high) == (BINS[0], BINS[-1]) else f"{low:.1f} to {high:.1f}"
            lines.append(
                f"| {name} | {acquitted} | {label} | {len(inside)} | {stated:.2f} | {true / len(inside):.2f}"
                f" | {bounds[0]:.2f} to {bounds[1]:.2f} |"
            )
    lines += ["", *_apart_lines(scored), "", *_acquittal_lines(scored), "", *_validation_lines(scored)]
    return "\n".join(lines) + "\n"


def _apart_lines(scored: Sequence[Outcome]) -> Iterator[str]:
    yield "Stated less true over all findings, where the goal is within 5 points:"
    for name, seeds in (("1 to 6", MENDED_ON), ("7 and 8", CHECKED_ON)):
        pairs = stated_and_true(_of_seeds(scored, seeds))
        stated, true = (sum(pair[place] for pair in pairs) / len(pairs) for place in (0, 1))
        yield f"seeds {name}: {100 * (stated - true):+.1f} points of {len(pairs)} findings."
    yield "The intervals above are wider than the goal: it is met, and not proven. Within a range of confidences,"
    yield "as the table shows, stated and true are further apart: low confidences are too high, high ones too low."


def _acquittal_lines(scored: Sequence[Outcome]) -> Iterator[str]:
    """By recording: its readings from sar, iostat and both are of one half minute, and no trials of their own."""
    yield "False acquittals by recording, from any of its texts, and by who made the fault:"
    yield ""
    yield "| the volume was made slow by | recordings | falsely acquitted | at most (95 %) |"
    yield "|---|--:|--:|--:|"
    guilty = [one for one in scored if one.volume_is_cause]
    own = {one.recording for one in guilty if condition_of(one) in EMULATED_CONDITIONS}
    every = {one.recording for one in guilty}
    acquitted = {one.recording for one in guilty if one.falsely_acquitted}
    for name, group in (
        ("the kernel (blkio.throttle)", every - own), ("volbench's own emulated volume", own), ("either", every),
    ):  # fmt: skip
        count = len(group & acquitted)
        yield f"| {name} | {len(group)} | {count} | {100 * at_most(count, len(group)):.1f} % |"
    yield ""
    yield "The goal is 2 %. It is met, and not proven: that takes 149 recordings without a false acquittal."
    yield "A latency that rises without a limit is tested against our own emulator only; a limit, the kernel's."
    yield "All is one machine, MariaDB 10.11 and sysstat 12.6.1."


def at_most(count: int, of: int) -> float:
    """The upper end of the one-sided 95 % interval of a share (Clopper and Pearson), by bisection."""
    low, high = count / of, 1.0
    for _ in range(60):
        share = (low + high) / 2
        tail = sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count + 1))
        low, high = (share, high) if tail > 0.05 else (low, share)
    return high


def _validation_lines(found: Sequence[Outcome]) -> Iterator[str]:
    yield "Cross-validation over all recordings: the confidences of each part are counted on all the others"
    yield "(method: `analysis/explain/calibration.py`; nothing is fitted but the counts)."
    yield ""
    yield "| left out in turn | findings | mean stated | came true | apart | Brier score |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name, group in (("each recording", recording_of), ("each condition", condition_of)):
        pairs = cross_validated(found, group)
        stated, true = (sum(pair[place] for pair in pairs) / len(pairs) for place in (0, 1))
        squares = sum((pair[0] - pair[1]) ** 2 for pair in pairs) / len(pairs)
        yield f"| {name} | {len(pairs)} | {stated:.3f} | {true:.3f} | {stated - true:+.3f} | {squares:.3f} |"


def stated_and_true(found: Sequence[Outcome]) -> list[tuple[float, bool]]:
    once = {
        (one.recording, cause, kind, evidence): (confidence, true)
        for one in found
        for cause, kind, evidence, confidence, true in zip(
            one.causes, one.kinds, one.evidence, one.confidences, one.true, strict=True
        )
    }
    return list(once.values())


def main() -> None:
    """Print the scores, or write the calibration or the table."""
    scored = [*outcomes(Path(sys.argv[1]))]
    if "--table" in sys.argv:
        Path(sys.argv[sys.argv.index("--table") + 1]).write_text(table(scored), encoding="utf-8")
        return
    if "--calibrate" in sys.argv:
        file = Path(calibrated.__file__).with_name(calibrated.RECORDINGS_FILE)
        file.write_text(calibration_of(scored).model_dump_json(indent=1) + "\n", encoding="utf-8")
        return
    for name, seeds in (("mended on", MENDED_ON), ("unseen", CHECKED_ON)):
        _print(name, _of_seeds(scored, seeds))


def _print(name: str, found: Sequence[Outcome]) -> None:
    for one in found:
        named = ", ".join(
            f"{cause} {confidence:.2f} ({kind}) {'true' if true else 'FALSE'}"
            for cause, kind, confidence, true in zip(one.causes, one.kinds, one.confidences, one.true, strict=True)
        )
        print(f"{one.recording:20s} {'+'.join(tool[:-4] for tool in one.tools):11s} {named or 'nothing named'}")
    guilty = [one for one in found if one.volume_is_cause]
    false = sum(one.falsely_acquitted for one in guilty)
    with_cause = sum(bool(one.causes) for one in guilty)
    print(f"{name}: {false} false acquittals in {len(guilty)} readings of recordings whose volume is the cause;")
    print(f"  a cause is named in {with_cause} of them")
    for kind, counted in counts_of(found, ()).kinds.items():
        low, high = interval(counted.true, counted.findings)
        stated = calibrated.RECORDINGS.confidence(kind)
        share = counted.true / counted.findings
        came = f"{counted.true} of {counted.findings} ({share:.2f}, 95 % {low:.2f} to {high:.2f})"
        print(f"  {kind}: {came}, stated {stated:.2f}")
    for (checked, checks), counted in counts_by_checks(found).items():
        low, high = interval(counted.true, counted.findings)
        print(f"  {checked}, {checks}: {counted.true} of {counted.findings}, 95 % {low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main()
