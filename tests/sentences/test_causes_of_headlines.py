"""The cause that a headline names is the largest that its page shows, or the headline says why it is not."""

from __future__ import annotations

import json
import re

import pytest
from command_line import ROOT
from proofread import headline_anew, reports

from sentences import WORDED, plain, states, value_of
from volbench.core.records.report import FindingRow, Report
from volbench.results.explain.causes import CAUSES
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.rows.verdict.lead import certainty

REPORTS = dict(reports())
NAMED = re.compile(
    r"likely cause on (?:both \S+ and )?(?P<volume>[\w.-]+)(?:, (?P<confidence>confidence \d+ %))?"
    r"(?:, [^:]+)?: (?P<title>[^;]+)"
)
BOTH = re.compile(
    r"[Tt]hat limit explains (?P<limit>[\d.]+) % of the (?:latency|statement time), and what uses the volume"
    r" (?P<use>[\d.]+) %"
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


def is_counted(finding: FindingRow) -> bool:
    """Whether the lab has findings of this cause by such evidence, or of such checks a rate below the ceiling."""
    derived = json.loads((ROOT / "runner/volbench/results/explain/calibration.json").read_text())["derived"]
    values = {row.metric: row.value for row in finding.evidence}
    if derived["by_evidence"].get(finding.cause, {}).get(values["decided_by"]):
        return True
    kind = derived["kinds"][values["checks"]]
    return bool((kind["true"] + 0.5) / (kind["findings"] + 1) < 0.85)


def has_confidence_of(stated: str, finding: FindingRow) -> bool:
    """Whether a headline states the confidence of a finding; a kind that was never counted has no figure."""
    if not stated or not is_counted(finding):
        return not stated and not is_counted(finding)
    expected = 100 * min(0.99, finding.confidence or 0)
    return value_of(re.sub("[^0-9.]", "", stated)) == pytest.approx(expected, abs=0.51)


def objection_to_two(causes: list[FindingRow], titles: list[str], confidence: str, text: str) -> str:
    """What a headline has wrong about a limit and what used the volume; it is as sure as the less sure one."""
    both = [finding for title in titles for finding in causes if names(finding, title)]
    stated = BOTH.search(text)
    if len(both) != 2 or stated is None:
        return f"not two of the step's causes: {titles}"
    if not has_confidence_of(confidence, min(both, key=lambda finding: finding.confidence or 0)):
        return f"{confidence} of {[finding.confidence for finding in both]}"
    if max(finding.share or 0 for finding in causes) not in [finding.share for finding in both]:
        return f"{titles} are not the largest"
    expected = [100 * (finding.share or 0) for finding in both]
    figures = [value_of(stated[name]) for name in ("limit", "use")]
    return "" if figures == pytest.approx(expected, abs=0.51) else f"{figures} for {expected}"


def objection(report: Report, text: str) -> str:
    """What a headline has wrong about the cause that it names; empty: nothing, or it names none."""
    match = NAMED.search(text)
    if match is None:
        return ""
    causes = likely(report, match["volume"])
    titles = re.split(r", and (?=a |s)", match["title"])
    return (objection_to_two if len(titles) == 2 else objection_to_one)(
        causes, titles, match["confidence"] or "", text
    )


def objection_to_one(causes: list[FindingRow], titles: list[str], confidence: str, text: str) -> str:
    """What a headline has wrong about one cause."""
    named = [finding for finding in causes if names(finding, titles[0])]
    if not named:
        return "" if not causes else f"not one of the step's causes: {titles[0]}"
    if not has_confidence_of(confidence, named[0]):
        return f"{confidence} of {named[0].confidence}"
    largest = max(finding.share or 0 for finding in causes)
    is_open = "is not decided" in text or f", too, explains {largest:.0%}".replace("%", " %") in text
    if (named[0].share or 0) < largest and not is_open:
        return f"{titles[0]} is not the largest"
    stated = SHARE.search(text)
    if stated is None:
        return ""
    second = [finding for finding in causes if names(finding, stated["title"])]
    expected = [100 * (finding.share or 0) for finding in (*named, *second)]
    figures = [value_of(stated[name]) for name in ("first", "next")]
    return "" if figures == pytest.approx(expected, abs=0.51) else f"{figures} for {expected}"


def test_a_ceiling_is_not_said_as_a_count() -> None:
    """`Confidence 85 %` stood on 70 causes whose kind the lab never had, as if it were counted as 98 % is."""
    findings = [finding for report in REPORTS.values() for finding in report.findings if finding.confidence]
    assert len({is_counted(finding) for finding in findings}) == 2
    for finding in findings:
        assert (f"confidence {100 * (finding.confidence or 0):.0f} %" in certainty(finding)) or not is_counted(
            finding
        )
        assert (", not counted" in certainty(finding)) != is_counted(finding)


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
        stated = re.findall(rf"([\w.-]+) \(({WORDED}) (?:than|as) on", text)
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
    assert BOTH.search(text) is not None
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
