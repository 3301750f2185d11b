"""Sentences that this version makes of the rows of committed examples, and the page for a person."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from pathlib import Path

import pytest
from command_line import ROOT
from example_pages import rendered_again
from packed_rows import unpacked
from proofread import EXAMPLES, page, reports, sentences_of, validations
from stated_headline import CLAUSES_MAX, clauses_of, without_intervals

from sentences import CHANGE, WORDS, plain, states, value_of
from volbench.core.records.report import Report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.formats.terminal import cause_lines
from volbench.results.report.rows.verdict.settings import variant_names
from volbench.results.report.views.ranking import ranking

REPORTS = dict(reports())
LENGTH_MAX = 300
"""Characters of a headline: three lines of a wide screen."""
PAGES = [path.relative_to(ROOT) for path in sorted(EXAMPLES.rglob("report.html"))]


@pytest.mark.parametrize("name", REPORTS)
def test_a_headline_has_size_and_decision_of_the_rows(name: str) -> None:
    """Above differences of 12 to 205 times stood `not decided yet`."""
    report: Report = REPORTS[name]
    texts = dict(sentences_of(report))
    headline = texts["headline"]
    assert "No verdict yet" not in headline
    assert len(clauses_of(headline)) <= CLAUSES_MAX
    assert len(headline) <= LENGTH_MAX
    changes = [match[0] for match in WORDS.finditer(without_intervals(plain(headline), report))]
    ratios = [row.ratio for row in report.comparisons if row.ratio]
    ratios += [row.ratio for row in report.effects if row.ratio]
    assert changes or not ratios
    assert all(any(states(change, ratio) for ratio in ratios) for change in changes), headline
    assert re.search(r"better|worse|best|equivalent|matter|told apart", headline) or len(report.volumes) == 1


@pytest.mark.parametrize("name", REPORTS)
def test_a_headline_that_praises_a_setting_says_what_that_setting_lost(name: str) -> None:
    """`mode async matters most, 8.87 times lower` stood above a server that lost 10,680 of 10,680 commits."""
    report = REPORTS[name]
    headline = dict(sentences_of(report))["headline"]
    settings = variant_names(report.effects, report.cells)
    for row in report.durability:
        subject = settings.get(row.volume, row.volume)
        is_safe = not (row.lost_commits or row.failed_recoveries or row.torn_or_damaged)
        if match := re.search(r"not safe: in the crash tests all but (.+?) (lost|did not recover)", headline):
            assert (subject in re.split(", | and ", match[1])) == is_safe, headline
            if not is_safe and headline.startswith(f"{subject} is b"):
                assert re.search(rf"lost acknowledged commits, {re.escape(subject)} too(;|$)", headline), headline
        elif not is_safe:
            losing = rf"not safe: (.*[;,] |.* and )?{re.escape(subject)}(?![\w.-]).* (lost|recover|torn)"
            assert re.search(losing, headline), headline
    assert ("acknowledged" in headline) == any(row.lost_commits for row in report.durability)


def test_a_page_that_is_rendered_again_keeps_the_doubts_of_its_headline() -> None:
    """`both worse; validity limits were raised` ended with `both worse`."""
    summary = rendered_again(REPORTS["efs-small-files"]).summary
    assert summary.headline.endswith("; validity limits were raised")
    assert summary.notes == ()
    again = REPORTS["efs-small-files"].model_copy(update={"summary": summary})
    assert rendered_again(again).summary == summary


def test_a_page_that_is_rendered_again_keeps_what_a_millisecond_costs() -> None:
    """No row of a stored report has these sentences: the box below the headline lost them."""
    report = REPORTS["quick"]
    (text,) = report.summary.response
    assert text in report.summary.box
    assert text in rendered_again(report).summary.box


@pytest.mark.parametrize("name", REPORTS)
def test_no_sentence_that_is_made_anew_has_what_was_objected_to(name: str) -> None:
    for kind, text in sentences_of(REPORTS[name]):
        if kind in ("headline", "sentence", "finding"):
            assert "no bound" not in text
            assert not re.search(r"\N{MINUS SIGN}100 %", text), text
            assert not re.search(r"\([^()]*\([^()]*\)", text), text
            assert not re.search(r"1 threads\b|\b1 cells\b", text), text


@pytest.mark.parametrize("name", REPORTS)
def test_no_change_is_said_as_less_than_once_as_much(name: str) -> None:
    """`0.169 times` worse, `0.458 times as long`; each other change was said as `5.92 times`."""
    made_anew = [text for kind, text in sentences_of(REPORTS[name]) if kind in ("headline", "sentence", "finding")]
    tables = [line for line in plain(markdown(REPORTS[name])).splitlines() if line.startswith(("|", "Against"))]
    assert [text for text in (*made_anew, *tables) if re.search(r"(?<![\d.])0\.\d+ times", text)] == []


@pytest.mark.parametrize("name", REPORTS)
def test_the_best_of_a_row_is_the_best_of_all_that_is_known(name: str) -> None:
    """The slowest of three was in bold: the figures of the faster ones were of disturbed cells."""
    for row in ranking(REPORTS[name]):
        known = [value for value in row.values if value is not None and value.standing != "invalid"]
        order = max if row.better == "higher" else min
        assert all(value.value == order(each.value for each in known) for value in known if value.best), row


@pytest.mark.parametrize("name", REPORTS)
def test_a_pair_has_one_change_wherever_it_stands(name: str) -> None:
    """`42.3 times` in the ranking and `× 43.4` in the comparison were of one pair, step and metric."""
    stated: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    volumes: list[str] = []
    for line in plain(markdown(REPORTS[name])).splitlines():
        cells = [cell.strip(" *") for cell in line.split("|")[1:-1]]
        if line.startswith("| median |"):
            volumes = cells[1:]
        elif not cells:
            volumes = []
        elif volumes and ": " in cells[0]:
            step, metric = cells[0].rsplit(": ", 1)
            for volume, cell in zip(volumes, cells[1:], strict=True):
                if (change := CHANGE.search(cell)) is not None:
                    stated[step, metric, volume].add(change[0])
        elif len(cells) == 8 and ": " in cells[3]:
            metric, (volume, _) = re.sub(" [↑↓]$", "", cells[1]), cells[3].split(": ", 1)
            stated[cells[0], metric, volume].add(cells[4])
    assert [key for key, changes in stated.items() if len(changes) > 1] == []
    assert stated or not REPORTS[name].comparisons


@pytest.mark.parametrize("name", REPORTS)
def test_causes_that_explain_more_than_all_together_are_said_to_overlap(name: str) -> None:
    """94 % and 70 % of one latency stood below each other."""
    report = REPORTS[name]
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for finding in report.findings:
        sums[finding.volume, finding.step] += finding.share or 0
    over = {key: total for key, total in sums.items() if total > 1.005}
    for text in (plain("\n".join(cause_lines(report))), plain(markdown(report))):
        stated = re.findall(r"Causes on (\S+) \((\S+)\) overlap: together they explain (\d+) % of", text)
        assert bool(stated) == bool(over)
        for volume, step, total in stated:
            assert float(total) == pytest.approx(100 * over[volume, step], abs=0.51)


@pytest.mark.parametrize("name", REPORTS)
def test_each_sentence_of_times_names_its_step(name: str) -> None:
    times = [text for kind, text in sentences_of(REPORTS[name]) if kind == "time"]
    steps = "|".join(re.escape(step) for step in {cell.step for cell in REPORTS[name].cells})
    assert all(
        re.search(rf"\((?:{steps})[,;)]|^Step (?:{steps}): ", text) for text in times if text.startswith("A ")
    ), times


@pytest.mark.parametrize("name", REPORTS)
def test_intervals_ascend_and_hold_their_estimate(name: str) -> None:
    """`[× 1/14.3, × 1/12.2]` would read backwards."""
    text = plain(markdown(REPORTS[name]))
    intervals = re.findall(
        r"([×+\N{MINUS SIGN}]) ?((?:1/)?[\d,.]+)(?: %)? \|? ?\[\1 ?((?:1/)?[\d,.]+)(?: %)?, \1 ?((?:1/)?[\d,.]+)",
        text,
    )
    for sign, estimate, low, high in intervals:
        ends = sorted((value_of(low), value_of(high)))
        assert ends[0] <= value_of(estimate) <= ends[1]
        is_downwards = low.startswith("1/") and high.startswith("1/")
        is_smaller_first = [value_of(low), value_of(high)] == (ends[::-1] if is_downwards else ends)
        assert sign == "\N{MINUS SIGN}" or is_smaller_first


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_no_committed_page_has_an_interval_without_width(path: Path) -> None:
    page = unpacked((ROOT / path).read_text())
    text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]+>", "", page, flags=re.DOTALL)
    assert re.findall(r"\[([^\[\],]{1,20}), \1\]", plain(html.unescape(text))) == []


def test_a_person_reads_all_of_them_on_one_page() -> None:
    text = plain(page())
    assert len(REPORTS) >= 8
    for name in (*REPORTS, *dict(validations())):
        assert f"<h2>{name}" in text
    assert text.count("<b>headline</b>") == len(REPORTS)
