"""Fresh runs at first sight: the page says what the kept readings hold; both outcomes of p95 are right as often."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import get_args

import pytest
from stored_files import stored_text

from causes import families
from causes.__main__ import DEFAULT_TO, KNOWN
from causes.first_sight import CLAIMED, FILES, FIRST, LATEST, add, fisher_p, named_first, right_by_p95, runs_of
from causes.observed import run_from
from causes.scoring import SURE, calibrated, is_named, is_right
from recordings.score import interval
from score_files import DATA_FILE
from volbench.results.explain.calibration import (
    CALIBRATION,
    LEFT_COUNTS,
    OUTCOMES,
    Calibration,
    Counted,
    Evidence,
    Left,
)

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "results/examples/lab/fresh.md").read_text(encoding="utf-8")
CAUSES = (ROOT / "docs/causes.md").read_text(encoding="utf-8")
HEADS = ("| figure ", "| family ", "| run ", "|---")
FIGURE = re.compile(r"\| [<>]= \d+ % \|")


def rows(file: Path) -> list[str]:
    """Rows of a page by family of the runs of one file at first sight."""
    lines = families.page(runs_of(file), "").splitlines()
    return [line for line in lines if line.startswith("| ") and not line.startswith(HEADS)]


def test_the_page_of_fresh_runs_shows_what_was_scored_at_first_sight() -> None:
    listed = [row for row in rows(LATEST) if not FIGURE.search(row)]
    assert len(listed) > 30
    assert [row for row in listed if row not in PAGE.splitlines()] == []


def test_each_figure_of_the_page_is_that_of_its_seed() -> None:
    columns = [[row for row in rows(file) if FIGURE.search(row)] for file in (*FILES, LATEST)]
    assert [len(column) for column in columns] == [10, 10, 10]
    for figure in zip(*columns, strict=True):
        cells = [row.strip("| ").split(" | ") for row in figure]
        assert f"| {' | '.join([*cells[0][:2], *(counts for *_, counts in cells)])} |" in PAGE.splitlines()


def test_the_page_says_how_many_sure_findings_of_the_latest_seed_were_right() -> None:
    """Their confidences were counted on the seeds before."""
    named_runs = [run for run in runs_of(LATEST) if run.injected and is_named(run)]
    confidences = [(round(run.findings[0].confidence, 2), is_right(run)) for run in named_runs]
    sure = [right for confidence, right in confidences if confidence >= SURE]
    surest = [right for confidence, right in confidences if confidence == 0.97]
    phrase = f"Of {len(sure)} findings with 0.9 and more {sum(sure)} were right, of {len(surest)} with 0.97 it was"
    assert f"{phrase} {sum(surest)}:" in PAGE
    assert max(confidence for confidence, _ in confidences) == 0.97


def test_the_documentation_says_how_often_both_outcomes_of_p95_are_right() -> None:
    """Neither is evidence: both have one count, and one confidence."""
    text = " ".join(CAUSES.split())
    follows, differs = right_by_p95(named(CLAIMED))
    phrases = [f"{counted.true} of {counted.findings} ({interval_text(counted)})" for counted in (follows, differs)]
    p = fisher_p(follows, differs)
    assert p > 0.05
    assert f"right in {phrases[0]} where p95 follows and in {phrases[1]} where it does not: p = {p:.2g}" in text
    follows, differs = right_by_p95(named(FIRST))
    p = fisher_p(follows, differs)
    assert p > 0.05
    counts = f"{follows.true} of {follows.findings} and {differs.true} of {differs.findings}"
    assert f"{counts} were (p = {p:.2g})" in text


def named(reading: str) -> list[tuple[Left, bool]]:
    return [pair for file in FILES for pair in named_first(runs_of(file, reading))]


def interval_text(counted: Counted) -> str:
    low, high = interval(counted.true, counted.findings)
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def sure_of(seed: int, counts: Calibration) -> tuple[int, int, int, int]:
    """Right and sure, right, wrong and sure, runs: of a seed at first sight, with confidences of some counts."""
    runs = [run for run in runs_of(FILES[seed]) if run.injected]
    sure, right = [], [run for run in runs if is_named(run) and is_right(run)]
    for run in filter(is_named, runs):
        evidence = run.findings[0].evidence
        by_rule = counts.confidence(
            run.findings[0].checks, run.findings[0].cause, decided_by(evidence["decided_by"])
        )
        if min(by_rule, LEFT_COUNTS.confidence(OUTCOMES[evidence["check"]])) >= SURE:
            sure.append(run)
    return sum(run in right for run in sure), len(right), sum(run not in right for run in sure), len(runs)


def decided_by(key: str) -> Evidence:
    """What decides a finding; of one of which a check failed the report does not say, and its kind counts."""
    return next((name for name in get_args(Evidence) if name == key), "level")


def test_counts_of_one_seed_make_right_findings_of_the_other_surer() -> None:
    data = json.loads(stored_text(DEFAULT_TO / DATA_FILE))
    rows = [row for label, listed in data["runs"].items() if label.startswith(KNOWN) for row in listed]
    earlier = [item for item in map(run_from, rows) if item.injected]
    text = (ROOT / "docs/statistics.md").read_text(encoding="utf-8")
    before, after = [], []
    for seed in (1, 0):
        later = [run for run in runs_of(FILES[1 - seed]) if run.injected]
        before.append(sure_of(seed, calibrated("", earlier)))
        after.append(sure_of(seed, calibrated("", [*earlier, *later])))
    (old, older), (new, newer) = before, after
    assert (
        f"rose from {old[0]} to {new[0]} of {new[1]} (704) and from {older[0]} to {newer[0]} of {newer[1]}" in text
    )
    assert f"fell from {old[2]} to {new[2]} of {new[3]} and stayed {newer[2]} of {newer[3]}" in text
    assert older[2] == newer[2]


def test_the_documentation_says_how_often_a_stand_of_the_volume_came_true() -> None:
    text = (ROOT / "docs/statistics.md").read_text(encoding="utf-8")
    counted = CALIBRATION.derived.by_evidence["storage.stall"]["before and after"]
    assert f"(`storage.stall`) has {counted.true} of {counted.findings} where" in text
    assert CALIBRATION.confidence("all held", "storage.stall", "before and after") < SURE


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [((3, 3), (0, 3), 0.1), ((8, 10), (1, 6), 0.0350), ((5, 5), (5, 5), 1.0), ((0, 4), (0, 9), 1.0)],
)
def test_two_counts_are_compared_exactly(first: tuple[int, int], second: tuple[int, int], p: float) -> None:
    """1 / 20 on both sides; and an example with 9 of 16, as other programs compute it."""
    counts = [Counted(true=true, findings=findings) for true, findings in (first, second)]
    assert fisher_p(*counts) == pytest.approx(p, abs=0.0001)


def test_a_reading_keeps_what_is_counted_and_no_path(tmp_path: Path) -> None:
    stored = next(item for item in runs_of(LATEST) if item.injected and item.findings)
    made = dataclasses.replace(stored, place="/data/runs/1", metrics={"tps": 1.0})
    evidence = {**made.findings[0].evidence, "read_iops": 515}
    made = dataclasses.replace(made, findings=(dataclasses.replace(made.findings[0], evidence=evidence),))
    file = tmp_path / "seed-1.json.xz"
    add(file, FIRST, [made], "c")
    add(file, "later", [dataclasses.replace(made, findings=())], "d")
    (stored_run,) = runs_of(file)
    assert [*named_first([stored_run])] == [*named_first([made])]
    assert (stored_run.place, stored_run.metrics, "read_iops" in stored_run.findings[0].evidence) == ("", {}, False)
    assert runs_of(file, "later")[0].findings == ()
