"""Committed example reports with sentences and pages of this version: `python tests/support/example_pages.py`.

Runs of the examples are not kept. What a stored report has stays: figures, findings, advice, caveats. Its headline,
its sentence and its layout are made anew from its rows; lines over time come from the data of the page before.
A caveat on the page says so.
"""

from __future__ import annotations

import json
import re
import shlex
from itertools import accumulate
from typing import Any, cast

from proofread import EXAMPLES, about_of, headline_anew, sentence_anew
from pydantic_core import to_json
from shared_assets import remove_unused, shared
from stored_files import REPORT, store_text, stored_text
from timeline_data import timeline_data

from volbench.core.records.base import Record
from volbench.core.records.report import ComparisonRow, Report, SweepRow
from volbench.core.records.run import ComparisonSpec
from volbench.core.records.sweep import SweepSpec
from volbench.core.records.validation.result import Validation
from volbench.results.compare.compared_cells import compared_cells
from volbench.results.compare.figures import figure_rows
from volbench.results.report.formats.html import html
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.formats.validation import validation_html
from volbench.results.report.page_data import PageData
from volbench.results.report.rows.cells import used_within_bounds
from volbench.results.report.rows.effects_text import describe_effects
from volbench.results.report.rows.prediction import judged, missed_sentences
from volbench.results.report.rows.reproduce import reproduce_lines
from volbench.results.report.rows.time_budget import difference_sentences
from volbench.results.report.rows.totals import with_parts
from volbench.results.report.rows.verdict.comparisons import comparison_rows
from volbench.results.report.rows.verdict.sweep import leading_effect
from volbench.results.report.views.timeline import CellTimeline, TimeLine, Timelines, Window

MADE_ANEW_BEGIN = "Measured and explained by volbench "
MADE_ANEW = (
    MADE_ANEW_BEGIN + "{version}, and the raw files are not kept: findings and advice are those of"
    " that version. A later one made the headline, the sentence below it, the tables and the layout."
)
CEPH = re.compile(r"(emulated:ceph-rbd\?(?!\S*write_ios)\S*?osds=\d+)")


def rendered_again(report: Report) -> Report:
    """Return the report with the headline and the sentence that this version makes of its rows."""
    report = _totals_judged(report)
    headline = headline_anew(report)
    step = headline.figure.step if headline.figure else ""
    note = MADE_ANEW.format(version=report.volbench_version)
    predictions = tuple(judged(row) for row in report.predictions)
    missed = tuple(missed_sentences(predictions, report.forecasts))
    judged_before = tuple(missed_sentences(report.predictions, report.forecasts))
    old = [
        text
        for text in report.summary.caveats
        if not text.startswith(MADE_ANEW_BEGIN) and text not in judged_before
    ]
    summary = report.summary.model_copy(
        update={
            "headline": "; ".join((headline.text, *_doubts(report))),
            "figure": headline.figure,
            "sentence": sentence_anew(report) or _conclusions(report)[0],
            "box": difference_sentences(report.time_differences, of_step=step),
            "time_difference": _time_difference(report, step),
            "caveats": (note, *missed, *(_singular(text) for text in old if text not in missed)),
        }
    )
    return report.model_copy(
        update={
            "summary": summary,
            "predictions": predictions,
            "sweep": _sweep(report),
            "figures": figure_rows(report.cells),
            "reproduce": _reproduce(report),
        }
    )


def _doubts(report: Report) -> list[str]:
    """Return what the headline ends with and no row says: of the run's limits, and of the volumes' disks."""
    clauses = report.summary.headline.split("; ")
    return [text for text in clauses if text == "validity limits were raised" or " lie on the same " in text]


def _totals_judged(report: Report) -> Report:
    """Return the report with totals as valid as their least part, and the comparisons of these totals made anew."""
    cells = with_parts(report.cells)
    changed = {cell.step for cell, before in zip(cells, report.cells, strict=True) if cell != before}
    if not changed or not report.comparisons:
        return report.model_copy(update={"cells": cells})
    first = report.comparisons[0]
    spec = ComparisonSpec(margin=first.margin, confidence=first.confidence)
    comparisons = compared_cells(cells, [volume.name for volume in report.volumes], spec)
    anew = {_key(row): row for row in comparison_rows(comparisons) if row.step in changed}
    rows = tuple(anew.get(_key(row), row) for row in report.comparisons)
    return report.model_copy(update={"cells": used_within_bounds(cells, comparisons), "comparisons": rows})


def _key(row: ComparisonRow) -> tuple[str, str, str, str]:
    return row.candidate, row.step, str(sorted(row.parameters.items())), row.metric


def _reproduce(report: Report) -> tuple[str, ...]:
    first, about = (CEPH.sub(r"\1&write_ios=1", line) for line in report.reproduce[:2])
    rows = report.effects if report.sweep is not None else report.comparisons
    _, *others = reproduce_lines(shlex.split(first), about.removeprefix("# "), rows)
    return (first, *others)


def _conclusions(report: Report) -> tuple[str, ...]:
    """Return a sweep's sentences, made anew from its effects."""
    if report.sweep is None:
        return ()
    bases = [finding for finding in report.findings if finding.volume in {row.volume for row in report.effects}]
    leading = leading_effect(report.effects, about_of(report.suite))
    return tuple(describe_effects(cast("SweepSpec", report.sweep), report.effects, bases, leading=leading))


def _sweep(report: Report) -> SweepRow | None:
    return report.sweep and report.sweep.model_copy(update={"conclusions": _conclusions(report)})


def _singular(text: str) -> str:
    text = text.replace("did not recover from 1 of the power cuts", "did not recover from a cut")
    return re.sub(r"^(1 of \d+ step results) are", r"\1 is", text)


def _time_difference(report: Report, step: str) -> tuple[str, ...]:
    """Return what the extra time is, made anew from its rows, and the other sentences that name their step."""
    old = report.summary.time_difference
    sentences = difference_sentences(report.time_differences, first=step)
    return (*sentences, *(text for text in old if text.startswith("Step "))) if sentences else old


def timelines_of(page: str) -> Timelines:
    """Return the lines over time that a page has; none where it has none."""
    if (data := timeline_data(page)) is None:
        return Timelines(cells=(), unreadable=())
    return Timelines(cells=tuple(_cell(cell, data["volumes"]) for cell in data["cells"]), unreadable=())


def _cell(cell: dict[str, Any], volumes: list[str]) -> CellTimeline:
    return CellTimeline(
        cell_id=cell["id"],
        volume=volumes[cell["volume"]],
        repeat=cell["repeat"],
        valid=cell["valid"],
        length_s=cell["length"],
        windows=tuple(Window(step=w[0], from_s=w[1], t0_s=w[2], t1_s=w[3]) for w in cell["windows"]),
        lines={name: _line(_grids(cell), line) for name, line in cell["lines"].items()},
        stalls_s=tuple((begin, end) for begin, end in cell["stalls"]),
    )


def _grids(cell: dict[str, Any]) -> list[list[float]]:
    """Return a cell's times; a page of an earlier version has them as seconds, and not as steps."""
    if "grids" in cell:
        return list(cell["grids"])
    return [[ms / 1000 for ms in accumulate(steps)] for steps in cell["grids_ms"]]


def _line(grids: list[list[float]], line: list[Any]) -> TimeLine:
    number, *columns = line
    value, low, high = (tuple(column) for column in (columns if len(columns) == 3 else (columns[0], (), ())))
    return TimeLine(t_s=tuple(grids[number]), value=value, low=low, high=high)


def _row_stored(stored: dict[str, Any], row: Record) -> dict[str, Any]:
    """Return the row; one that says what it said stays as it was written."""
    return stored if type(row).model_validate(stored) == row else row.model_dump(mode="json", by_alias=True)


def _stored(stored: dict[str, Any], report: Report) -> str:
    """Return report.json with what is made anew, and every other key as it was."""
    anew_keys = ("headline", "figure", "sentence", "box", "time_difference", "caveats")
    summary = report.summary.model_dump(mode="json")
    stored["summary"] |= {name: summary[name] for name in anew_keys}
    if report.sweep is not None:
        stored["sweep"]["conclusions"] = list(report.sweep.conclusions)
    stored["reproduce"] = list(report.reproduce)
    for name, rows in (("cells", report.cells), ("comparisons", report.comparisons)):
        stored[name] = list(map(_row_stored, stored[name], rows))
    return to_json(stored, indent=1).decode() + "\n"


def main() -> None:
    """Rewrite every committed report that has its JSON, and the pages of validations."""
    for path in sorted(EXAMPLES.rglob("validation.json")):
        outcome = Validation.model_validate_json(path.read_text())
        path.with_suffix(".html").write_text(validation_html(outcome))
    for path in sorted(EXAMPLES.rglob(REPORT)):
        stored = stored_text(path)
        report = rendered_again(Report.model_validate_json(stored))
        page = path.with_name("report.html")
        store_text(path, _stored(json.loads(stored), report))
        path.with_name("report.md").write_text(markdown(report))
        if page.is_file():
            data = PageData(
                timelines=timelines_of(page.read_text()),
                distributions=(),
                small_multiples=(),
                session_charts=(),
                source_problems=(),
            )
            page.write_text(shared(html(report, data), EXAMPLES, page.parent))
    remove_unused(EXAMPLES)


if __name__ == "__main__":
    main()
