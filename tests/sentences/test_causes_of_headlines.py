"""The cause that a headline names is the largest that its page shows, or the headline says why it is not."""

from __future__ import annotations

import re

import pytest
from proofread import headline_anew, reports

from sentences import plain, value_of
from volbench.core.records.report import FindingRow, Report
from volbench.results.explain.causes import CAUSES

REPORTS = dict(reports())
NAMED = re.compile(r"likely cause on (?:both \S+ and )?(?P<volume>\S+): (?P<title>[^;]+)")
SHARE = re.compile(r"explains (?P<first>[\d.]+) % of the latency; next, (?P<next>[\d.]+) %: (?P<title>[^;]+)")
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


def objection(report: Report, text: str) -> str:
    """What a headline has wrong about the cause that it names; empty: nothing, or it names none."""
    match = NAMED.search(text)
    if match is None:
        return ""
    causes = likely(report, match["volume"])
    named = [finding for finding in causes if names(finding, match["title"])]
    if not named:
        return "" if not causes else f"not one of the step's causes: {match['title']}"
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
        assert objection(report, plain(headline_anew(report).text)) == ""


def test_shares_that_change_places_change_the_headline() -> None:
    """The check can fail: the headline of the shares as they are is wrong of those in the other order."""
    report = REPORTS[GP2]
    first, second = likely(report, "gp2")
    text = plain(headline_anew(report).text)
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
    assert objection(changed, plain(headline_anew(changed).text)) == ""
