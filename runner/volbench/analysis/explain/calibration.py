"""How often findings are true: counted on runs of the lab whose causes were made on purpose, not chosen.

calibration.json is written by `python -m explain calibrate` from the lab's own data. `derived` are the runs that
rules were mended on: confidences come from them. `checked` are runs that nobody had seen while rules were mended;
without them, or when they disagree, confidences are not called calibrated.
"""

from __future__ import annotations

from importlib import resources
from typing import Literal

from volbench.records.base import Record

Kind = Literal["all held", "some not made", "some failed", "one of two"]
FILE = "calibration.json"
RECORDINGS_FILE = "calibration_recordings.json"
"""The same of recordings: tests/fixtures/recordings, counted by `tests/lab/recordings/score.py --calibrate`."""


class Counted(Record):
    """Findings, and how many of them were true."""

    true: int
    findings: int


class Counts(Record):
    """Findings of some runs of the lab, by what their checks came to and by cause."""

    runs: int
    seeds: tuple[int, ...]
    kinds: dict[Kind, Counted]
    causes: dict[str, Counted]


class Calibration(Record):
    """Where confidences come from. `agrees`: what was checked does not contradict them; None: nothing was."""

    source: str
    derived: Counts
    checked: Counts | None = None
    agrees: bool | None = None
    place: str = "volbench's lab"

    def confidence(self, kind: Kind) -> float:
        """(true + 1/2) / (findings + 1): the mean of Jeffreys's posterior; 1/2 of a kind that was never seen."""
        counted = self.derived.kinds.get(kind, Counted(true=0, findings=0))
        return (counted.true + 0.5) / (counted.findings + 1)

    def said(self, kind: Kind) -> str:
        """What was counted, for the evidence of a finding of this kind."""
        counted = self.derived.kinds.get(kind, Counted(true=0, findings=0))
        seen = None if self.checked is None else self.checked.kinds.get(kind)
        text = f"{counted.true} of {counted.findings} such findings were true in {self.place}"
        if self.agrees and seen is not None:
            text += f", {seen.true} of {seen.findings} in runs of it that no rule was mended on"
        unchecked = {None: ", not checked on new runs yet", False: ", and new runs of it did not agree"}
        return f"{text} (other faults, machines and loads may differ{unchecked.get(self.agrees, '')})"


def read_calibration(name: str = FILE) -> Calibration:
    """A file that lies beside this module."""
    text = resources.files("volbench.analysis.explain").joinpath(name).read_text(encoding="utf-8")
    return Calibration.model_validate_json(text)


CALIBRATION = read_calibration()
RECORDINGS = read_calibration(RECORDINGS_FILE)
