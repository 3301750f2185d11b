"""The report as JUnit XML for a CI: cells that failed, steps that are invalid, comparisons that got worse."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from volbench.core.base.text import escape_controls, quantity
from volbench.core.records.report import CellRow, ComparisonRow, Report
from volbench.results.report.wording import change_text, label, parameter_text

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """Return suites `cells` (a case for each step of a cell; invalid is an error), `failures`, `comparisons`.

    A primary comparison that is worse is a failure; an open one proves nothing and is skipped.
    """
    root = Element("testsuites", name=clean(f"volbench {report.suite}"))
    _suite(root, "cells", map(_cell_case, report.cells), report)
    _suite(root, "failures", map(_failure_case, report.failures), report)
    _suite(root, "comparisons", (_comparison_case(row) for row in report.comparisons if row.primary), report)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: Element, name: str, cases: Iterable[Element], report: Report) -> None:
    elements = list(cases)
    counts = {
        kind: str(sum(case.find(tag) is not None for case in elements))
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    about = {"name": clean(f"{report.suite}.{name}"), "tests": str(len(elements)), **counts}
    suite = SubElement(root, "testsuite", {**about, "timestamp": clean(report.started_at)})
    suite.extend(elements)


def _cell_case(cell: CellRow) -> Element:
    length_s = 0.0 if cell.window_s is None else cell.window_s[1] - cell.window_s[0]
    case = _case(f"cells.{cell.volume}", f"{cell.cell_id} {cell.step}")
    case.set("time", f"{length_s:.3f}")
    if not cell.valid:
        SubElement(case, "error", type="invalid", message=clean("; ".join(cell.invalid_reasons)))
    lines = [f"{name}: {quantity(metric.value, metric.unit)}" for name, metric in cell.metrics.items()]
    SubElement(case, "system-out").text = clean("\n".join(lines))
    return case


def _failure_case(failure: dict[str, object]) -> Element:
    case = _case(f"failures.{failure['volume']}", f"{failure['cell_id']} attempt {failure['attempt']}")
    if failure.get("done_later"):  # a pipeline need not stop for it
        SubElement(
            case, "skipped", message=clean(f"a later attempt is done; this one failed: {failure['message']}")
        )
        return case
    message = SubElement(case, "failure", type=clean(str(failure["cause"])), message=clean(str(failure["message"])))
    message.text = clean(f"{failure['evidence']}\nnext step: {failure['next_step']}")
    return case


def _comparison_case(row: ComparisonRow) -> Element:
    name = f"{row.step} {parameter_text(row.parameters)} {row.metric}"
    case = _case(f"comparisons.{row.candidate} against {row.baseline}", name)
    text = f"{label(row.metric)} {change_text(row)}: {row.verdict}; {row.reason}"
    if row.verdict == "worse":
        SubElement(case, "failure", type="worse", message=clean(text))
    elif row.verdict == "inconclusive":
        SubElement(case, "skipped", message=clean(text))
    else:
        SubElement(case, "system-out").text = clean(text)
    return case


def _case(classname: str, name: str) -> Element:
    return Element("testcase", classname=clean(classname), name=clean(name))


def clean(text: str) -> str:
    """Return the text with escapes for control characters, and without others that XML does not allow."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", escape_controls(text))
