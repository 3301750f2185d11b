"""What moves with p95 and the first cause of a step are one story: each sentence says what the metric is to it."""

from __future__ import annotations

import re

import pytest
from proofread import reports

from sentences import plain
from volbench.core.records.report import Report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.views.cost_tables import RHO, correlation_sentences

REPORTS = {name: report for name, report in reports() if report.associations}
SENTENCE = re.compile(
    rf"(?P<step>\S+) on (?P<volume>\S+): p95 (?:follows|rises when there is less) (?P<metric>.+?) \({RHO} "
)
CAUSE = re.compile(r"first cause, (?P<cause>[\w.]+)")
SHARE = re.compile(r"explains (?P<share>[\d.]+) % of the variance")


@pytest.mark.parametrize("name", REPORTS)
def test_each_sentence_names_the_first_cause_of_its_step_or_says_why_it_is_none(name: str) -> None:
    """In 9 of 17 sentences stood a metric that the first cause is not about, and not what it is then."""
    report: Report = REPORTS[name]
    sentences = correlation_sentences(report)
    assert len(sentences) == len({(row.volume, row.step) for row in report.associations})
    for text in sentences:
        match, stated = SENTENCE.match(text), CAUSE.search(text)
        assert match, text
        named = [row.cause for row in report.findings if (row.volume, row.step) == (match["volume"], match["step"])]
        if "; no cause: " in text:
            assert stated is None, text
        elif not named:
            assert text.endswith("; no cause is named")
        else:
            assert stated is not None, text
            assert stated["cause"] == named[0], text


@pytest.mark.parametrize("name", REPORTS)
def test_a_share_of_the_variance_is_that_of_the_row(name: str) -> None:
    report = REPORTS[name]
    for text in correlation_sentences(report):
        if share := SHARE.search(text):
            shares = [100 * row.rho**2 for row in report.associations]
            assert any(float(share["share"]) == pytest.approx(each, abs=0.51) for each in shares), text


@pytest.mark.parametrize("name", REPORTS)
def test_all_forms_of_a_report_say_the_same(name: str) -> None:
    report = REPORTS[name]
    for text in correlation_sentences(report):
        assert plain(text) in plain(markdown(report)) or len(correlation_sentences(report)) > 3
        assert plain(text) in plain("\n".join(summary_lines(report)))
