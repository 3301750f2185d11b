"""`python -m recordings DIRECTORY...`: what `explain --from` names for recordings whose truth is known.

Prints a line for each reading and the sums; `--calibrate` writes the counts that confidences of recordings come
from, `--table FILE` the page of stated confidences against what came true.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from recordings.page import table
from recordings.score import (
    CHECKED_ON,
    MENDED_ON,
    Outcome,
    calibration_of,
    counts_by_checks,
    counts_of,
    interval,
    of_seeds,
    outcomes,
)
from volbench.results.explain import calibration as calibrated


def main() -> None:
    """Print the scores, or write the calibration or the table."""
    parser = argparse.ArgumentParser(prog="recordings", description=__doc__)
    parser.add_argument("directories", type=Path, nargs="+", help="of recordings")
    parser.add_argument("--table", type=Path, help="the file for a table of stated confidences against the truth")
    parser.add_argument("--calibrate", action="store_true", help="write the counts that confidences come from")
    options = parser.parse_args()
    scored = [outcome for directory in options.directories for outcome in outcomes(directory)]
    if options.table is not None:
        options.table.write_text(table(scored), encoding="utf-8")
        return
    if options.calibrate:
        file = Path(calibrated.__file__).with_name(calibrated.RECORDINGS_FILE)
        file.write_text(calibration_of(scored).model_dump_json(indent=1) + "\n", encoding="utf-8")
        return
    for name, seeds in (("mended on", MENDED_ON), ("unseen", CHECKED_ON)):
        _print(name, of_seeds(scored, seeds))


def _print(name: str, result: Sequence[Outcome]) -> None:
    for item in result:
        named = ", ".join(
            f"{cause} {confidence:.2f} ({kind}) {'true' if true else 'FALSE'}"
            for cause, kind, confidence, true in zip(
                item.causes, item.kinds, item.confidences, item.true, strict=True
            )
        )
        print(f"{item.recording:20s} {'+'.join(tool[:-4] for tool in item.tools):11s} {named or 'nothing named'}")
    guilty = [outcome for outcome in result if outcome.volume_is_cause]
    false = sum(outcome.falsely_acquitted for outcome in guilty)
    with_cause = sum(bool(outcome.causes) for outcome in guilty)
    print(f"{name}: {false} false acquittals in {len(guilty)} readings of recordings whose volume is the cause;")
    print(f"  a cause is named in {with_cause} of them")
    for kind, counted in counts_of(result, ()).kinds.items():
        low, high = interval(counted.true, counted.findings)
        stated = calibrated.RECORDINGS.confidence(kind)
        share = counted.true / counted.findings
        came = f"{counted.true} of {counted.findings} ({share:.2f}, 95 % {low:.2f} to {high:.2f})"
        print(f"  {kind}: {came}, stated {stated:.2f}")
    for (checked, checks), counted in counts_by_checks(result).items():
        low, high = interval(counted.true, counted.findings)
        print(f"  {checked}, {checks}: {counted.true} of {counted.findings}, 95 % {low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main()
