"""A small sample of the lab's raw runs that is kept with the code, and scored again with the rules as they are.

python -m causes.sample pack OUT ...   adds proven runs of the lab's directories to tests/fixtures/lab-runs
python -m causes.sample score          scores the sample
python -m causes.sample calibrate      counts findings by what the check left of them: here, and at first sight
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from causes import first_sight
from causes.observed import TRUTH_FILE
from causes.runner import STEP
from score_files import say
from volbench.core.records.report import FindingRow, RefutedRow
from volbench.results.explain import calibration as calibration_module
from volbench.results.explain.calibration import CHECK_FILE, CheckOutcome, Counted, Left, LeftCounts
from volbench.results.explain.run import explain_run
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

SAMPLE = Path(__file__).parents[2] / "fixtures" / "lab-runs"
SUFFIX = ".tar.xz"
SURE = 0.9
NONE = "none"
VOLUMES = ("storage.", "host.", "instance.")
_RECORDS = ("run.json", "journal.jsonl")
_OF_CELL = ("cell.json", "result.json", "series.parquet")
_PATHS = re.compile(rb'"/(?:var/tmp|root|work|tmp)/[^"]*"')
SOURCE = (
    "the lower one of what was right at first sight (tests/fixtures/first-sight, seeds 703 and 704) and what is"
    " right by the rules as they are (tests/fixtures/lab-runs)"
)
COUNTED_SEEDS = frozenset({101, 401})
"""Of their runs no verdict was known when the check was made; rules were fitted to those of seed 201."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run of the sample: what was made, and what is named for it now.

    Args:
        name: condition, seed and number.
        lab_seed: of the lab.
        family: what makes the cause.
        truth: names that are right for the first cause.
        accepted: names that may stand beside it.
        findings: of the measured step, the first one first.
        refuted: what would have been named.
    """

    name: str
    lab_seed: int
    family: str
    truth: frozenset[str]
    accepted: frozenset[str]
    findings: tuple[FindingRow, ...]
    refuted: tuple[RefutedRow, ...]

    @property
    def first(self) -> str:
        """The first cause named; empty where none is, or one of two."""
        return self.findings[0].cause if self.findings and self.kind != "one of two" else ""

    @property
    def kind(self) -> str:
        """What the checks of the first finding came to."""
        return _value(self.findings[0], "checks") if self.findings else ""

    @property
    def is_right(self) -> bool:
        """Whether the first cause named is one that was made."""
        return self.first in self.truth

    @property
    def is_wrong_and_sure(self) -> bool:
        """Whether it is another one with a confidence of SURE and more."""
        return bool(self.first) and not self.is_right and (self.findings[0].confidence or 0.0) >= SURE

    @property
    def is_acquitted_wrongly(self) -> bool:
        """Whether the volume is acquitted though it, or the way to it, was made slow."""
        return self.first == NONE and any(cause.startswith(VOLUMES) for cause in self.truth)


def pack(directory: Path, to: Path) -> bool:
    """Add one run of the lab to the sample; False for one whose cause is not proven, or that has no cell.

    Args:
        place: the run's directory, scored once (it has truth.json).
        to: the sample's directory.
    """
    truth = json.loads((directory / TRUTH_FILE).read_text(encoding="utf-8"))
    runs = [*directory.glob("results/*/run.json")]
    if not truth["injected"] or len(runs) != 1:
        return False
    remaining = {
        key: truth[key] for key in ("condition", "family", "shape", "number", "lab_seed", "truth", "accepted")
    }
    files = {TRUTH_FILE: json.dumps(remaining, indent=1).encode()}
    for file in [runs[0].with_name(name) for name in _RECORDS] + [
        cell / name for cell in sorted(runs[0].parent.glob("cells/[0-9]*")) for name in _OF_CELL
    ]:
        content = file.read_bytes()
        is_text = file.suffix != ".parquet"
        files[str(file.relative_to(runs[0].parent))] = _PATHS.sub(b'"/volume"', content) if is_text else content
    to.mkdir(parents=True, exist_ok=True)
    name = f"{truth['condition']}-{truth['lab_seed']}-{truth['number']}{SUFFIX}"
    with tarfile.open(to / name, "w:xz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return True


def outcomes(sample: Path = SAMPLE) -> Iterator[Outcome]:
    """Yield each run of the sample, explained with the rules as they are."""
    for archive in sorted(sample.glob(f"*{SUFFIX}")):
        with tempfile.TemporaryDirectory(prefix="volbench-sample-") as scratch:
            yield _outcome(archive, Path(scratch))


def _outcome(archive: Path, scratch: Path) -> Outcome:
    with tarfile.open(archive, "r:xz") as opened:
        for member in opened.getmembers():
            content = opened.extractfile(member)
            target = (scratch / member.name).resolve()
            if content is None or not target.is_relative_to(scratch.resolve()):
                raise ValueError(f"{archive.name}: {member.name} is no file of a run")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
    truth = json.loads((scratch / TRUTH_FILE).read_text(encoding="utf-8"))
    explained = explain_run(load_run(RunDirectory(scratch)))
    return Outcome(
        name=archive.name.removesuffix(SUFFIX),
        lab_seed=truth["lab_seed"],
        family=truth["family"],
        truth=frozenset(name for alike in truth["truth"] for name in alike.split("|")),
        accepted=frozenset(truth["accepted"]),
        findings=tuple(row for row in explained.findings if row.step == STEP),
        refuted=tuple(row for row in explained.refuted if row.step == STEP),
    )


def counts(scored: Sequence[Outcome], *, without: str = "") -> LeftCounts:
    """Count first findings by what the check left of them, of the runs of COUNTED_SEEDS.

    Args:
        scored: runs.
        without: a family that is left out.
    """
    used = [outcome for outcome in scored if outcome.lab_seed in COUNTED_SEEDS and outcome.family != without]
    return first_sight.counted(named_first(used), SOURCE)


def named_first(scored: Sequence[Outcome]) -> Iterator[tuple[Left, bool]]:
    """Yield what the check left of each first finding, and whether it is right."""
    for item in scored:
        if item.first:
            yield cast(Left, _value(item.findings[0], "check")), item.is_right


def counts_at_first_sight() -> LeftCounts:
    """Count the same of fresh runs, as rules named them that were made before."""
    runs = [run for file in first_sight.FILES for run in first_sight.runs_of(file)]
    return first_sight.counted(first_sight.named_first(runs), SOURCE)


def calibrated(at_first_sight: LeftCounts, again: LeftCounts) -> LeftCounts:
    """Return what was right at first sight, with the counts of today's rules where these make findings less sure.

    Rules were changed since on the runs that are scored again: that more of them are right says nothing of new
    runs, and makes no finding surer.

    Args:
        at_first_sight: `counts_at_first_sight`.
        again: `counts` of today.
    """
    lower = {
        outcome: min((counted, again.left[outcome]), key=lambda item: _confidence(outcome, item))
        for outcome, counted in at_first_sight.left.items()
    }
    return at_first_sight.model_copy(update={"left": lower})


def _confidence(outcome: CheckOutcome, counted: Counted) -> float:
    return LeftCounts(source="", left={outcome: counted}).confidence(outcome)


def figures(scored: Sequence[Outcome]) -> Mapping[str, float]:
    """The figures of a sample: shares of its runs, by name."""
    named = [item for item in scored if item.first]
    innocent = [outcome for outcome in scored if outcome.truth == {NONE}]
    guilty = [outcome for outcome in scored if any(cause.startswith(VOLUMES) for cause in outcome.truth)]
    sure = [outcome for outcome in named if (outcome.findings[0].confidence or 0.0) >= SURE]
    right = [outcome for outcome in named if outcome.is_right]
    return {
        "runs": len(scored),
        "named": len(named) / len(scored),
        "right_of_named": len(right) / len(named),
        "wrong_and_sure": sum(item.is_wrong_and_sure for item in scored) / len(scored),
        "acquitted_wrongly": sum(item.is_acquitted_wrongly for item in guilty) / len(guilty),
        "clean_accused": sum(item.first not in ("", NONE) for item in innocent) / len(innocent),
        "clean_acquitted": sum(item.first == NONE for item in innocent) / len(innocent),
        "right_and_sure": sum(item in sure for item in right) / len(right),
    }


def _value(row: FindingRow, metric: str) -> str:
    return next((str(item.value) for item in row.evidence if item.metric == metric), "")


def _line(item: Outcome) -> str:
    named = ", ".join(f"{row.cause} {row.confidence or 0:.2f}" for row in item.findings) or "-"
    refuted = "".join(f"; not {row.cause}" for row in item.refuted)
    verdict = "right" if item.is_right else "abstained" if not item.first else "WRONG"
    return f"{verdict:9} {item.name}: made {'|'.join(sorted(item.truth))}; named {named}{refuted}"


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("pack", "score", "calibrate"))
    parser.add_argument("places", nargs="*", type=Path, help="for pack: directories of lab runs")
    options = parser.parse_args()
    if options.what == "pack":
        for root in options.places:
            for truth in sorted(root.glob(f"seed-*/*/*/{TRUTH_FILE}")):
                say(f"{'packed' if pack(truth.parent, SAMPLE) else 'left out'} {truth.parent}")
        return 0
    scored = [*outcomes()]
    for item in scored:
        say(_line(item))
    for name, figure in figures(scored).items():
        say(f"{name}: {figure:.3g}")
    if options.what == "calibrate":
        file = Path(calibration_module.__file__).with_name(CHECK_FILE)
        content: dict[str, Any] = calibrated(counts_at_first_sight(), counts(scored)).model_dump(mode="json")
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
