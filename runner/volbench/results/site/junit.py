"""Regressions for a pipeline: a test case for each history, a failure where its level became worse of late."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from volbench.core.base.text import change, counted, quantity
from volbench.results.report import wording
from volbench.results.report.formats.junit import clean
from volbench.results.site.history import RECENT_RUNS, MetricHistory


def junit(histories: Sequence[MetricHistory], *, recent: int = RECENT_RUNS) -> str:
    """Return the XML. A history too short for a change point is skipped: it proves nothing.

    Args:
        recent: a change within so many of the latest runs is a regression.
    """
    root = Element("testsuites", name="volbench history")
    suite = SubElement(root, "testsuite", name="regressions", tests=str(len(histories)))
    failures = skipped = 0
    for history in histories:
        case = SubElement(
            suite,
            "testcase",
            classname=clean(f"{history.suite}.{history.identity}"),
            name=clean(history.group.metric),
        )
        text = regression_text(history, recent=recent)
        if text:
            failures += 1
            SubElement(case, "failure", type="regression", message=clean(text))
        elif len(history.points) < RUNS_NEEDED:
            skipped += 1
            SubElement(
                case, "skipped", message=f"{counted(len(history.points), 'run')}; {RUNS_NEEDED} can show a change"
            )
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


RUNS_NEEDED = 10
"""Five runs before and five after, all worse, are the fewest whose best split has a p-value below 1 %."""


def regression_text(history: MetricHistory, *, recent: int = RECENT_RUNS) -> str:
    """Return one sentence on a regression; empty without one."""
    point = history.regression(recent)
    if point is None:
        return ""
    run = history.points[point.index]
    unit = history.group.unit
    title = wording.label(history.group.metric)
    return (
        f"{title} of {history.suite} on {history.group.volume} ({history.group.step}) is worse since {run.run}: "
        f"{quantity(point.before, unit)} \u2192 {quantity(point.after, unit)} ({change(point.ratio)}), "
        f"p {point.p_value:.2g}"
    )
