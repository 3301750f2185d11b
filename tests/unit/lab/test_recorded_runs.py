"""Scores of sar's and iostat's texts of the lab's runs, on texts that were recorded beside a real server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from explain.injection import DEVICE_FILE
from explain.recorded import recorded_outcomes, scores_of
from explain.runner import DONE_FILE, RECORDING, TRUTH_FILE
from recordings.tools import IOSTAT_TEXT, SAR_TEXT

FIXTURES = Path(__file__).parents[2] / "fixtures" / "recordings"


def lab_run(root: Path, name: str, recording: str, truth: list[str], failure: str = "") -> None:
    """A directory as the lab leaves it, with the texts of a recording."""
    condition, _, number = name.partition("/")
    texts = root / name / RECORDING
    texts.mkdir(parents=True)
    for file in (SAR_TEXT, IOSTAT_TEXT):
        shutil.copy(FIXTURES / recording / file, texts / file)
    device = json.loads((FIXTURES / recording / "truth.json").read_text())["device"]
    (texts / DEVICE_FILE).write_text(f"{device}\n")
    content = {"condition": condition, "number": int(number), "lab_seed": 1, "truth": truth, "accepted": []}
    (root / name / TRUTH_FILE).write_text(json.dumps(content))
    (root / name / DONE_FILE).write_text(json.dumps({"failure": failure}))


def test_each_recording_is_read_from_each_choice_of_its_texts(tmp_path: Path) -> None:
    lab_run(tmp_path, "iops-cap/1", "iops-cap-1", ["storage.iops_limit"])
    lab_run(tmp_path, "cpu-server/1", "cpu-bound-1", ["cpu.server_saturated"])
    lab_run(tmp_path, "iops-cap/2", "iops-cap-2", ["storage.iops_limit"], failure="the server did not start")
    scored = scores_of(recorded_outcomes(tmp_path))
    assert (scored["recordings"], scored["readings"]) == (2, 6)
    assert scored["volume_is_cause"]["readings"] == 3
    assert {row["recording"] for row in scored["rows"]} == {"iops-cap/1", "cpu-server/1"}
    assert scored["confidence"]["findings"] > 0


def test_an_acquittal_is_false_where_a_cause_of_storage_was_made(tmp_path: Path) -> None:
    """The same texts under two labels: whatever clears the volume is right in one and wrong in the other."""
    lab_run(tmp_path / "guilty", "cap/1", "iops-cap-1", ["storage.iops_limit"])
    lab_run(tmp_path / "innocent", "cpu/1", "iops-cap-1", ["cpu.server_saturated"])
    guilty, innocent = (scores_of(recorded_outcomes(tmp_path / side)) for side in ("guilty", "innocent"))
    assert guilty["volume_is_cause"]["recordings"] == 1
    assert guilty["volume_is_cause"]["falsely_acquitted"] == []
    assert innocent["volume_is_cause"] == {
        "readings": 0,
        "falsely_acquitted_readings": 0,
        "readings_with_a_cause": 0,
        "recordings": 0,
        "falsely_acquitted": [],
        "at_most": None,
    }
    assert guilty["confidence"]["true"] > innocent["confidence"]["true"]
