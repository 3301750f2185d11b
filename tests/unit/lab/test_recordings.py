"""What `explain --from` says of sar and iostat texts that were recorded beside a real server.

The false alarms of episodes are counted on the recordings in which nothing changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from recordings.page import EMULATED_CONDITIONS, at_most, table
from recordings.record import CONDITIONS
from recordings.score import (
    CHECKED_ON,
    Outcome,
    calibration_of,
    condition_of,
    cross_validated,
    outcomes,
    recording_of,
)
from volbench.results.explain.calibration import RECORDINGS
from volbench.results.explain.recordings.directory import explain_recorded
from volbench.results.recorded.iostat import parse_iostat
from volbench.results.recorded.sar import merged_by_device, parse_sar

FIXTURES = Path(__file__).parents[2] / "fixtures" / "recordings"
LAB_FIXTURES = FIXTURES.with_name("lab-recordings")
STEADY = ("clean", "clean-reads", "iops-cap", "bytes-cap", "latency-always", "cpu-bound", "row-lock")
FALSE_ALARMS_MAX = 0.1
APART_MAX = 0.05
"""Mean stated confidence against the share that came true."""


@pytest.fixture(scope="module")
def scored() -> list[Outcome]:
    return [*outcomes(FIXTURES), *outcomes(LAB_FIXTURES)]


def test_no_volume_that_is_the_cause_is_acquitted(scored: list[Outcome]) -> None:
    guilty = [outcome for outcome in scored if outcome.volume_is_cause]
    assert len(guilty) >= 60
    assert sum(outcome.falsely_acquitted for outcome in guilty) <= 0.02 * len(guilty)


def test_the_page_says_what_the_recordings_show(scored: list[Outcome]) -> None:
    """As `python -m recordings --table` writes it; conditions of the emulator are those that are recorded on it."""
    page = Path(__file__).parents[3] / "results" / "examples" / "lab" / "recordings.md"
    assert page.read_text(encoding="utf-8") == table(scored)
    emulated = {name for name, condition in CONDITIONS.items() if condition.volume == "emulated"}
    assert emulated == EMULATED_CONDITIONS
    assert at_most(0, 149) <= 0.02 < at_most(0, 148)


def test_no_storage_cause_is_named_where_the_volume_is_none_but_for_one(scored: list[Outcome]) -> None:
    """One reading names a stall beside row locks: some of its checks failed, and its confidence says so."""
    innocent = [outcome for outcome in scored if not outcome.volume_is_cause]
    accused = [
        outcome.recording for outcome in innocent for cause in outcome.causes if cause.startswith("storage.")
    ]
    assert len(innocent) >= 50
    assert len(accused) <= 1


@pytest.mark.parametrize("group", [recording_of, condition_of])
def test_confidences_are_what_comes_true_in_recordings_that_they_were_not_counted_on(
    scored: list[Outcome], group: Callable[[Outcome], str]
) -> None:
    """Left out by recording, and by condition, which is a kind of recording that nothing like it was counted of."""
    pairs = cross_validated(scored, group)
    stated, true = (sum(pair[location] for pair in pairs) / len(pairs) for location in (0, 1))
    assert len(pairs) >= 80
    assert abs(stated - true) <= APART_MAX


def test_stated_confidences_of_new_recordings_are_within_five_points(scored: list[Outcome]) -> None:
    """Counted on seeds 1 to 6. Verdicts of 7 and 8 were known when the method was chosen, those of 10 were not."""
    new = [outcome for outcome in scored if outcome.seed in CHECKED_ON]
    pairs = [pair for item in new for pair in zip(item.confidences, item.true, strict=True)]
    assert abs(sum(pair[0] - pair[1] for pair in pairs) / len(pairs)) <= APART_MAX


def test_confidences_are_what_was_counted(scored: list[Outcome]) -> None:
    assert calibration_of(scored) == RECORDINGS


@pytest.mark.parametrize(
    "directory",
    [LAB_FIXTURES / "lab-throughput-cap-102", FIXTURES / "iops-cap-1", FIXTURES / "latency-doubles-1"],
    ids=lambda directory: directory.name,
)
def test_the_order_of_two_texts_changes_nothing(directory: Path) -> None:
    """Of two tools' figures of one device only one's count: their intervals end at different moments."""
    device = json.loads((directory / "truth.json").read_text())["device"]
    texts = [directory / file for file in ("sar.txt", "iostat.txt")]
    first, second = (explain_recorded(order, device=device) for order in (texts, texts[::-1]))
    named = [(finding.cause, finding.confidence, finding.evidence) for finding in first.findings]
    assert named == [(finding.cause, finding.confidence, finding.evidence) for finding in second.findings]
    if directory.name.startswith("lab-throughput-cap"):
        assert {cause for cause, _, _ in named} == {"storage.throughput_limit", "storage.iops_limit"}


def reports_of(iostat: str, first: int, last: int) -> str:
    """An iostat text without some of its reports; the first of all, since boot, stays."""
    head, since_boot, *reports = re.split(r"(?m)(?=^\d\d/\d\d/\d{2,4} )", iostat)
    return head + since_boot + "".join(reports[first : len(reports) - last])


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 1), (4, 3)])
@pytest.mark.parametrize("name", ["lab-iops-cap-101", "lab-degraded-101", "lab-burst-102"])
def test_tools_that_were_not_started_and_stopped_together_say_the_same(
    name: str, first: int, last: int, tmp_path: Path
) -> None:
    """What one of them has of a few seconds more is no series of its own, and no clock."""
    directory = LAB_FIXTURES / name
    device = json.loads((directory / "truth.json").read_text())["device"]
    cut = tmp_path / "iostat.txt"
    cut.write_text(reports_of((directory / "iostat.txt").read_text(), first, last))
    together = explain_recorded([directory / "sar.txt", directory / "iostat.txt"], device=device)
    apart = explain_recorded([directory / "sar.txt", cut], device=device)
    assert [finding.cause for finding in apart.findings] == [finding.cause for finding in together.findings]
    assert together.findings


def test_operations_that_are_rare_set_no_clock() -> None:
    """Two writes in 24 s have two waiting times, 23 s apart, in a text of one report a second."""
    directory = LAB_FIXTURES / "lab-burst-102"
    device = json.loads((directory / "truth.json").read_text())["device"]
    findings = explain_recorded([directory / "iostat.txt"], device=device).findings
    assert [finding.cause for finding in findings] == ["storage.burst_exhausted"]


def test_all_devices_of_sar_are_no_device_beside_iostat() -> None:
    """sar -b tells the sum; the one disk of a directory is not hidden behind it."""
    directory = LAB_FIXTURES / "lab-iops-cap-101"
    device = json.loads((directory / "truth.json").read_text())["device"]
    lines = (directory / "sar.txt").read_text().splitlines()
    alone = parse_sar("\n".join(line for line in lines if " vda " not in line) + "\n")
    merged = merged_by_device([alone, parse_iostat((directory / "iostat.txt").read_text())])
    assert {key.entity for key in merged if key.source == "diskstats"} <= {device, "all devices"}
    named = explain_recorded([directory / "iostat.txt", directory / "sar.txt"])
    assert "all devices" not in {finding.volume for finding in named.findings}


@pytest.mark.parametrize(("name", "at_s"), [("cap-begins-1", 15), ("cap-begins-2", 15), ("latency-doubles-1", 17)])
def test_a_change_in_the_middle_is_found_to_the_second(name: str, at_s: int) -> None:
    truth = json.loads((FIXTURES / name / "truth.json").read_text())
    hours, minutes, seconds = map(int, truth["started_utc"][11:19].split(":"))
    result = explain_recorded([FIXTURES / name / "iostat.txt"], device=truth["device"])
    assert result.episode is not None
    assert result.episode.t0_s == pytest.approx(hours * 3600 + minutes * 60 + seconds + at_s, abs=2)


def test_where_nothing_changes_an_episode_is_seldom_seen() -> None:
    paths = [path for path in sorted(FIXTURES.iterdir()) if path.name.rpartition("-")[0] in STEADY]
    names = [path.name for path in paths if explain_recorded([path / "iostat.txt"]).episode is not None]
    assert len(paths) >= 25
    assert len(names) <= FALSE_ALARMS_MAX * len(paths)
