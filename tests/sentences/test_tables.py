"""Sentences that say what a table of the same page says, held against the table, and sums of what is printed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import pytest
from proofread import headline_anew, reports

from sentences import plain, ratio_of_change, value_of
from volbench.core.records.report import Report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.rows.time_budget import difference_sentences
from volbench.results.report.rows.verdict.settings import variant_names

REPORTS = dict(reports())
ROUNDED = 0.0051
"""Of a figure with three digits."""
TIME = re.compile(
    r"A transaction takes (?P<long>[\d,.]+) ms on (?P<slower>\S+) and (?P<short>[\d,.]+) ms on (?P<faster>\S+)"
    r" \((?P<step>[^,;()]+)(?:, (?P<threads>\d+) threads?)?[;)]"
)
EXTRA = re.compile(r"(?:Of t|T)he (?P<of>extra|other) (?P<ms>[\d,.]+) ms: ")
NO_PIECE = re.compile(r"No piece of the extra (?P<ms>[\d,.]+) ms is shown to differ")
KNEE = re.compile(
    r"saturated from about (?P<knee>[\d,.]+) requests in flight on, at (?P<iops>[\d,.]+) IOPS;"
    r" a single request takes (?P<ms>[\d,.]+) ms"
)
QUEUE = "waiting for a free client thread"
GROUPS = ("one large file", "small files", "MySQL's tables")


def table(report: Report, head: str) -> Iterator[list[str]]:
    """Yield head and rows of the Markdown tables whose first line begins like this."""
    inside = False
    for line in plain(markdown(report)).splitlines():
        inside = line.startswith("|") and (inside or line.startswith(head))
        if inside and not line.startswith("|---"):
            yield [cell.strip() for cell in line.split("|")[1:-1]]


@pytest.mark.parametrize("name", REPORTS)
def test_a_sentence_on_times_has_the_sums_and_pieces_of_the_budgets(name: str) -> None:
    report = REPORTS[name]
    for text in map(plain, difference_sentences(report.time_differences)):
        match = TIME.match(text)
        assert match is not None, text
        pieces: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for row in report.time_budgets:
            if (row.step, str(row.threads)) == (match["step"], str(match["threads"])):
                pieces[row.volume][row.title] += row.ms
        slower, faster = pieces[match["slower"]], pieces[match["faster"]]
        assert value_of(match["long"]) == pytest.approx(sum(slower.values()), rel=ROUNDED)
        assert value_of(match["short"]) == pytest.approx(sum(faster.values()), rel=ROUNDED)
        differences = {title: slower[title] - faster[title] for title in {*slower, *faster}}
        if none := NO_PIECE.search(text):
            assert value_of(none["ms"]) == pytest.approx(sum(differences.values()), rel=ROUNDED)
            continue
        extra = EXTRA.search(text)
        assert extra is not None, text
        total = sum(differences.values()) - (differences.get(QUEUE, 0.0) if extra["of"] == "other" else 0.0)
        assert value_of(extra["ms"]) == pytest.approx(total, rel=ROUNDED)
        titles = "|".join(sorted(map(re.escape, differences), key=len, reverse=True))
        stated = re.findall(
            rf"([\d,.]+) ms(?: \(([\d.]+) %\))? (?:(less|more) in )?(?:what is )?({titles})", text[extra.end() :]
        )
        assert stated or "no piece explains a tenth" in text
        for ms, share, direction, title in stated:
            assert (-1 if direction == "less" else 1) * value_of(ms) == pytest.approx(
                differences[title], rel=ROUNDED
            ), text
            assert direction or value_of(ms) <= 1.005 * total, text
            assert not share or float(share) == pytest.approx(100 * differences[title] / total, abs=0.51), text


@pytest.mark.parametrize("name", REPORTS)
def test_only_pieces_whose_interval_leaves_out_0_are_stated_without_a_doubt(name: str) -> None:
    report = REPORTS[name]
    titles = "|".join(sorted({re.escape(row.title) for row in report.time_differences}, key=len, reverse=True))
    piece = re.compile(
        rf"\d ms(?: \([\d.]+ %\)| more in)? (?:what is )?(?P<title>{titles})(?P<doubt> \(uncertain\))?"
    )
    for text in map(plain, difference_sentences(report.time_differences)):
        match = TIME.match(text)
        assert match is not None, text
        rows = {
            row.title: row
            for row in report.time_differences
            if (row.step, str(row.threads)) == (match["step"], str(match["threads"]))
            if {row.baseline, row.candidate} == {match["slower"], match["faster"]}
        }
        for stated in piece.finditer(text):
            ci = rows[stated["title"]].ci
            assert bool(stated["doubt"]) == (ci is not None and ci[0] <= 0 <= ci[1]), text


@pytest.mark.parametrize("name", REPORTS)
def test_a_sentence_on_files_has_the_least_and_the_largest_of_its_table(name: str) -> None:
    report = REPORTS[name]
    rows = list(table(report, "| files | step |"))
    lines = [line for line in plain(markdown(report)).splitlines() if line.startswith("Against the baseline, ")]
    assert bool(rows) == bool(lines)
    for line in lines:
        (volume,) = re.findall(r"^Against the baseline, (\S+) takes ", line)
        column = rows[0].index(f"{volume} takes")
        for group in GROUPS:
            ratios = sorted(ratio_of_change(row[column]) for row in rows if row[0] == group and row[column] != "–")
            clause = re.search(rf"for {group} (?:from )?([\d,.]+)(?: to ([\d,.]+))? times as long", line)
            if clause is not None:
                ends = value_of(clause[1]), value_of(clause[2] or clause[1])
                assert ends == pytest.approx((ratios[0], ratios[-1]), rel=2 * ROUNDED), line


@pytest.mark.parametrize("name", REPORTS)
def test_an_error_of_a_prediction_is_that_of_its_figures(name: str) -> None:
    lines = list(table(REPORTS[name], "| predicted before"))
    for row in lines[1:]:
        forecast, measured, error = (row[lines[0].index(title)] for title in ("forecast", "measured", "error"))
        if error != "–":
            first = [figure_of(row[0], text) for text in (forecast, measured)]
            assert ratio_of_change(error) == pytest.approx(first[1] / first[0], rel=0.02), row


def figure_of(subject: str, text: str) -> float:
    """A figure of a prediction; that of a pair of volumes is the ratio which a change states."""
    return ratio_of_change(text) if " against " in subject else value_of(re.findall(r"[\d,]*\.?\d+", text)[0])


@pytest.mark.parametrize("name", REPORTS)
def test_met_and_missed_follow_from_the_range_on_the_line(name: str) -> None:
    """`+29 %, met` stood above `-9.7 %, missed`: each had a range of its own, and the table had none."""
    lines = list(table(REPORTS[name], "| predicted before"))
    for row in lines[1:]:
        range_text, measured, mark = (row[lines[0].index(title)] for title in ("range asked", "measured", "met"))
        if re.match("met|missed", mark):
            low, high = sorted(figure_of(row[0], text) for text in range_text.split(" to "))
            value = figure_of(row[0], measured)
            slack = ROUNDED if mark.startswith("met") else -ROUNDED
            is_inside = low * (1 - slack) <= value <= high * (1 + slack)
            assert is_inside == mark.startswith("met"), row
        else:
            assert (range_text == "–") == mark.startswith("input"), row


@pytest.mark.parametrize("name", REPORTS)
def test_no_two_rows_of_backups_are_of_one_thing(name: str) -> None:
    rows = [tuple(row[:3]) for row in table(REPORTS[name], "| volume | step | backup |")]
    assert len(set(rows)) == len(rows)
    assert bool(rows) == bool(REPORTS[name].backups)


@pytest.mark.parametrize("name", REPORTS)
def test_a_knee_is_that_of_littles_law(name: str) -> None:
    lines = [line for line in plain(markdown(REPORTS[name])).splitlines() if ": saturated from about " in line]
    for line in lines:
        match = KNEE.search(line)
        assert match is not None, line
        needed = value_of(match["iops"]) * value_of(match["ms"]) / 1000
        assert value_of(match["knee"]) == pytest.approx(needed, rel=3 * ROUNDED), line


@pytest.mark.parametrize("name", REPORTS)
def test_a_headline_with_losses_has_a_note_on_who_lost_none(name: str) -> None:
    report = REPORTS[name]
    costs = ("lost_commits", "failed_recoveries", "torn_or_damaged")
    safe = [row for row in report.durability if not any(getattr(row, cost) for cost in costs)]
    notes = " ".join(headline_anew(report).sentences)
    settings = variant_names(report.effects, report.cells)
    if len(safe) < len(report.durability):
        if len(safe) > 2:
            total = sum(row.acknowledged_commits for row in safe)
            assert f"the other {len(safe)} lost none of {total:,}" in notes
        for row in safe if len(safe) <= 2 else ():
            assert f"{settings.get(row.volume, row.volume)} lost none of {row.acknowledged_commits:,}" in notes


def test_the_tables_that_are_read_are_there() -> None:
    """A check of no row cannot fail: the examples have each of these tables."""
    heads = ("| files | step |", "| predicted before", "| volume | step | backup |", "| time of a transaction: ")
    for head in heads:
        assert any(list(table(report, head)) for report in REPORTS.values()), head
    assert any(KNEE.search(markdown(report)) for report in REPORTS.values())
