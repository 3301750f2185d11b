"""Committed example reports with sentences and pages of this version: `python tests/support/example_pages.py`.

The repository has no runs of the examples. What a stored report has stays: figures, findings, advice, caveats. Its
headline, its sentence and its layout are made anew from its rows; lines over time come from the data of the page
before, and so do sections with charts that only the raw runs have. A report of an earlier version says so.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, cast

from proofread import EXAMPLES, about_of, headline_anew, sentence_anew
from pydantic_core import to_json
from shared_assets import remove_unused, shared
from stored_files import REPORT, store_text, stored_text
from timeline_data import timeline_data

from volbench import __version__
from volbench.core.base.text import change
from volbench.core.records.base import Record
from volbench.core.records.report import ComparisonRow, NoResponseRow, Report, SweepRow
from volbench.core.records.run import ComparisonSpec
from volbench.core.records.sweep import SweepSpec
from volbench.core.records.validation.result import Validation
from volbench.results.compare.compared_cells import compared_cells
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import summarise
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
from volbench.results.report.rows.verdict.adjustments import adjustment_caveats
from volbench.results.report.rows.verdict.comparisons import comparison_rows
from volbench.results.report.rows.verdict.settings import leading_effect, variant_names, with_names
from volbench.results.report.views.timeline import CellTimeline, TimeLine, Timelines, Window
from volbench.results.response.estimate import advice_for_load

MADE_ANEW_BEGIN = "Measured and explained by volbench "
MADE_ANEW = (
    MADE_ANEW_BEGIN + "{version}, and the raw files are not kept: findings and advice are those of"
    " that version. A later one made the headline, the sentence below it, the tables and the layout."
)
RAW_SECTIONS = ("time", "latency", "validity")
"""They have charts and rows of the raw runs beside those of the report."""
_MOVES = re.compile(r"(<h3>What moves with p95</h3>\n)(.*?)(?=<p class=\"dim\">Rank correlation)", re.DOTALL)
OF_OTHER_WORK = re.compile(
    r"\b(?:is|are) (?:not )?adjusted for |alike in all cells|^Other work varied from cell to cell"
)
"""Caveats on adjustments, which are made anew from the rows of comparisons."""
OF_MISSES = re.compile(r"^\d+ of \d+ predictions? (?:was|were) missed")
_RATIO = re.compile(r"(?<=<span class=\"dim keep\">)×([\d.]+)(?=</span>)")
"""Of a page before, which wrote `×0.25`."""
_VOLUME = re.compile(r'(<span class="volume v\d+">)([^<]+)</span>')
CEPH = re.compile(r"(emulated:ceph-rbd\?(?!\S*write_ios)\S*?osds=\d+)")


def rendered_again(report: Report) -> Report:
    """Return the report with the headline and the sentence that this version makes of its rows."""
    report = _totals_judged(report)
    headline = headline_anew(report)
    step = headline.figure.step if headline.figure else ""
    is_earlier = report.volbench_version != __version__
    notes = (MADE_ANEW.format(version=report.volbench_version),) if is_earlier else ()
    predictions = tuple(judged(row) for row in report.predictions)
    names = variant_names(report.effects, report.cells)
    missed = tuple(missed_sentences(with_names(predictions, names), report.forecasts))
    old = [
        text
        for text in report.summary.caveats
        if not text.startswith(MADE_ANEW_BEGIN) and not OF_OTHER_WORK.search(text) and not OF_MISSES.search(text)
    ]
    old = [_with_settings(text, names) for text in old]
    old += adjustment_caveats(summarise(cast("Iterable[Comparison]", report.comparisons)))
    undetermined = _undetermined(report)
    responses = _responses(report, undetermined)
    summary = report.summary.model_copy(
        update={
            "headline": headline.text,
            "notes": headline.sentences,
            "figure": headline.figure,
            "sentence": sentence_anew(report) or _conclusions(report)[0],
            "box": _box(report, responses, step),
            "time_difference": _time_difference(report, step),
            "response": responses,
            "caveats": (*notes, *missed, *(_singular(text) for text in old if text not in missed)),
        }
    )
    return report.model_copy(
        update={
            "summary": summary,
            "predictions": predictions,
            "sweep": _sweep(report),
            "figures": figure_rows(report.cells),
            "undetermined_responses": undetermined,
            "reproduce": _reproduce(report),
        }
    )


def _with_settings(text: str, names: Mapping[str, str]) -> str:
    """Return a sentence with the settings of variants in place of the variants' names."""
    for name in sorted(names, key=len, reverse=True):
        text = (
            re.sub(rf"(?:\bvolume )?(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", names[name], text)
            if "." in name
            else (re.sub(rf"\bvolume {re.escape(name)}(?= lost )", names[name], text))
        )
    return text


def _undetermined(report: Report) -> tuple[NoResponseRow, ...]:
    """Return the rows on loads without a response, with commands that fit the load."""
    open_loops = {cell.step for cell in report.cells if cell.parameters.get("rate")}
    return tuple(
        row.model_copy(update={"advice": advice_for_load(row.advice, has_rate=row.step in open_loops)})
        for row in report.undetermined_responses
    )


def _responses(report: Report, undetermined: Sequence[NoResponseRow]) -> tuple[str, ...]:
    """Return the sentences on responses; one without a response has the advice of its row."""
    old = {row.advice: new.advice for row, new in zip(report.undetermined_responses, undetermined, strict=True)}
    return tuple(
        next((text.replace(before, after) for before, after in old.items() if before in text), text)
        for text in report.summary.response
    )


def _box(report: Report, responses: Sequence[str], step: str) -> tuple[str, ...]:
    """Return the sentences below the headline: those on times made anew, others as they were."""
    summary = report.summary
    again = dict(zip(summary.response, responses, strict=True))
    before = [again[text] for text in summary.box if text in again]
    after = [text for text in summary.box if text not in again and text not in summary.time_difference]
    return tuple(dict.fromkeys((*before, *difference_sentences(report.time_differences, of_step=step), *after)))


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
    volumes = data.get("names", data["volumes"])
    return Timelines(cells=tuple(_cell(cell, volumes) for cell in data["cells"]), unreadable=())


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


def with_raw_sections(page: str, before: str) -> str:
    """Return a page with the sections of the page before that only the raw runs have, and new sentences in them.

    Args:
        page: made of the report and its lines over time.
        before: the page that was made of the run.
    """
    for name in RAW_SECTIONS:
        if old := _section(before, name):
            new = _section(page, name)
            page = (
                page.replace(new, old)
                if new
                else page.replace('<section id="cells">', f'{old}\n\n<section id="cells">')
            )
    costs, sentences = _section(before, "costs"), _MOVES.search(page)
    if costs and sentences:
        page = page.replace(_section(page, "costs"), _MOVES.sub(lambda match: match[1] + sentences[2], costs))
    page = _RATIO.sub(lambda match: change(float(match[1])), page)
    return re.sub("<nav>.*?</nav>", lambda _: _nav(before), page, count=1, flags=re.DOTALL)


def with_labels(page: str, names: Mapping[str, str]) -> str:
    """Return a page whose sections of the page before name settings, too, and not the variants of a volume."""
    return _VOLUME.sub(lambda match: f"{match[1]}{names.get(match[2], match[2])}</span>", page)


def _section(page: str, name: str) -> str:
    match = re.search(rf'<section id="{name}">.*?</section>', page, flags=re.DOTALL)
    return match[0] if match else ""


def _nav(page: str) -> str:
    match = re.search("<nav>.*?</nav>", page, flags=re.DOTALL)
    assert match is not None
    return match[0]


def _row_stored(stored: dict[str, Any], row: Record) -> dict[str, Any]:
    """Return the row; one that says what it said stays as it was written."""
    return stored if type(row).model_validate(stored) == row else row.model_dump(mode="json", by_alias=True)


def _stored(stored: dict[str, Any], report: Report) -> str:
    """Return report.json with what is made anew, and every other key as it was."""
    anew_keys = ("headline", "notes", "figure", "sentence", "box", "time_difference", "response", "caveats")
    summary = report.summary.model_dump(mode="json")
    stored["summary"] |= {name: summary[name] for name in anew_keys}
    if report.sweep is not None:
        stored["sweep"]["conclusions"] = list(report.sweep.conclusions)
    stored["reproduce"] = list(report.reproduce)
    for name, rows in (
        ("cells", report.cells),
        ("comparisons", report.comparisons),
        ("predictions", report.predictions),
        ("undetermined_responses", report.undetermined_responses),
    ):
        if rows:
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
            text = with_raw_sections(html(report, data), page.read_text())
            text = with_labels(text, variant_names(report.effects, report.cells))
            page.write_text(shared(text, EXAMPLES, page.parent))
    remove_unused(EXAMPLES)


if __name__ == "__main__":
    main()
