"""The cause that a headline names is the largest that its page shows, or the headline says why it is not."""

from __future__ import annotations

import re

import pytest
from proofread import headline_anew, reports

from sentences import plain, states, value_of
from volbench.core.records.report import FindingRow, Report
from volbench.results.explain.causes import CAUSES
from volbench.results.report.formats.markdown import markdown

REPORTS = dict(reports())
NAMED = re.compile(
    r"likely cause on (?:both \S+ and )?(?P<volume>[\w.-]+), confidence (?P<confidence>\d+) %(?:, [^:]+)?:"
    r" (?P<title>[^;]+)"
)
SHARE = re.compile(
    r"explains (?P<first>[\d.]+) % of the (?:latency|statement time)"
    r"; next, (?P<next>[\d.]+) %: (?P<title>[^;]+)"
)
GP2 = "gp2-credit-exhaustion"


def likely(report: Report, volume: str) -> list[FindingRow]:
    """The causes of a volume in the headline's step that are likely, not one of two, and a fifth of its latency."""
    assert report.summary.figure is not None
    step = report.summary.figure.step
    return [
        finding
        for finding in report.findings
        if (finding.volume, finding.step) == (volume, step)
        and finding.cause != "none"
        and (finding.confidence or 0) >= 0.7
        and (finding.share is None or finding.share >= 0.2)
        and not any(row.value == "one of two" for row in finding.evidence)
    ]


def names(finding: FindingRow, title: str) -> bool:
    """Whether a headline's words are the cause's title."""
    return CAUSES[finding.cause].title.lower() == title.strip().lower()


def stated_causes(report: Report) -> str:
    """The headline with its notes, which say how much causes explain."""
    headline = headline_anew(report)
    return plain("; ".join((headline.text, *headline.notes)))


def objection(report: Report, text: str) -> str:
    """What a headline has wrong about the cause that it names; empty: nothing, or it names none."""
    match = NAMED.search(text)
    if match is None:
        return ""
    causes = likely(report, match["volume"])
    named = [finding for finding in causes if names(finding, match["title"])]
    if not named:
        return "" if not causes else f"not one of the step's causes: {match['title']}"
    if value_of(match["confidence"]) != pytest.approx(100 * min(0.99, named[0].confidence or 0), abs=0.51):
        return f"confidence {match['confidence']} % of {named[0].confidence}"
    largest = max(finding.share or 0 for finding in causes)
    is_open = "is not decided" in text or f", too, explains {largest:.0%}".replace("%", " %") in text
    if (named[0].share or 0) < largest and not is_open:
        return f"{match['title']} is not the largest"
    stated = SHARE.search(text)
    if stated is None:
        return ""
    second = [finding for finding in causes if names(finding, stated["title"])]
    expected = [100 * (finding.share or 0) for finding in (*named, *second)]
    figures = [value_of(stated[name]) for name in ("first", "next")]
    return "" if figures == pytest.approx(expected, abs=0.51) else f"{figures} for {expected}"


@pytest.mark.parametrize("name", REPORTS)
def test_a_headline_names_the_largest_cause_first(name: str) -> None:
    """`Credits ran out; it explains 46 %; the largest cause is another, 54 %`."""
    report = REPORTS[name]
    if report.summary.figure is not None:
        assert objection(report, stated_causes(report)) == ""


def unexplained_of(report: Report) -> set[tuple[str, float]]:
    """Volumes worse by the headline's figure without a cause that is more than a hint, with their ratios."""
    figure = report.summary.figure
    assert figure is not None
    explained = {
        finding.volume
        for finding in report.findings
        if f"{finding.step}/".startswith(f"{figure.step}/")
        and finding.cause != "none"
        and (finding.confidence is None or finding.confidence >= 0.4)
    }
    return {
        (row.candidate, row.ratio)
        for row in report.comparisons
        if (row.step, row.metric, row.verdict) == (figure.step, figure.metric, "worse") and row.ratio
        if row.candidate not in explained
    }


@pytest.mark.parametrize("name", REPORTS)
def test_volumes_whose_figure_has_no_cause_are_named(name: str) -> None:
    """Twelve volumes were ranked, six had causes, and nothing said that of the slowest none was found."""
    report = REPORTS[name]
    if report.summary.figure is None or len(report.volumes) < 3:
        return
    expected = unexplained_of(report)
    texts = [
        text for text in plain(markdown(report)).splitlines() if text.startswith("- No likely cause was found in ")
    ]
    assert bool(texts) == bool(expected)
    for text in texts:
        stated = re.findall(r"([\w.-]+) \(([\d.]+(?: %| times) (?:lower|higher)) than", text)
        assert {volume for volume, _ in stated} == {volume for volume, _ in expected}
        assert all(states(change, ratio) for volume, change in stated for of, ratio in expected if of == volume)


def test_of_the_slowest_class_of_storage_no_cause_is_known() -> None:
    """At least one example has such volumes: else the test above could not fail."""
    assert {volume for volume, _ in unexplained_of(REPORTS["storage-classes"])} >= {"st1", "fsx-sync"}


def test_shares_that_change_places_change_the_headline() -> None:
    """The check can fail: the headline of the shares as they are is wrong of those in the other order."""
    report = REPORTS[GP2]
    first, second = likely(report, "gp2")
    text = stated_causes(report)
    assert SHARE.search(text) is not None
    swapped = {first.cause: second.share, second.cause: first.share}
    changed = report.model_copy(
        update={
            "findings": tuple(
                finding.model_copy(update={"share": swapped[finding.cause], "share_by_cell": ()})
                if finding in (first, second)
                else finding
                for finding in report.findings
            )
        }
    )
    assert objection(changed, text)
    assert objection(changed, stated_causes(changed)) == ""
