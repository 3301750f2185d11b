"""All headlines and findings of all examples on one page, for a person to read: `make proofread`.

Headlines and lines of causes are made anew from the rows of each report; what was committed stands below.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from stored_files import REPORT, stored_text

from volbench.core.base.text import lower_first
from volbench.core.records.report import Report
from volbench.core.records.validation.result import Validation
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import PairSummary, summarise
from volbench.results.report.formats.terminal import cause_lines
from volbench.results.report.rows.forecast import forecast_text
from volbench.results.report.rows.prediction import prediction_text
from volbench.results.report.rows.saturation import curve_lines
from volbench.results.report.rows.verdict.clauses import LIMITS_RAISED, Headline
from volbench.results.report.rows.verdict.headline import headline_of
from volbench.results.report.rows.verdict.lead import lead
from volbench.results.report.rows.verdict.order import leading_first
from volbench.results.report.rows.verdict.summary import pair_sentence, ranked_sentence, without_pairs
from volbench.results.report.views.contrast import contrast_rows, contrast_sentences
from volbench.results.report.views.cost_tables import correlation_sentences
from volbench.results.report.views.time_budget import shares_note
from volbench.results.report.wording import table_notes

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "results" / "examples"
STYLE = "body{font:16px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}.old{color:#666}"


def reports() -> Iterator[tuple[str, Report]]:
    """Yield every committed report with its place below the examples."""
    for path in sorted(EXAMPLES.rglob(REPORT)):
        yield str(path.parent.relative_to(EXAMPLES)), Report.model_validate_json(stored_text(path))


def sentences_of(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each sentence, made anew by this version from the report's rows."""
    headline = headline_anew(report)
    yield "headline", headline.text
    yield from (("note", text) for text in headline.sentences)
    if sentence := sentence_anew(report):
        yield "sentence", sentence
    yield from (("finding", text) for text in cause_lines(report))
    yield from (("sharing", text) for row in report.sharing for text in row.sentences)
    yield from (("time", text) for text in report.summary.time_difference)
    yield from (("response", text) for text in report.summary.response)
    yield from (("sweep", text) for text in (report.sweep.conclusions if report.sweep else ()))
    yield from (("files", text) for text in contrast_sentences(contrast_rows(report)))
    yield from (("curve", text) for text in curve_lines(report.curves))
    yield from (("forecast", forecast_text(row)) for row in report.forecasts)
    yield from (("prediction", prediction_text(row)) for row in report.predictions)
    yield from (("correlation", text) for text in correlation_sentences(report))
    yield from (("note", text) for text in (shares_note(report), *table_notes(report.comparisons)) if text)
    yield from (("caveat", text) for text in report.summary.caveats)
    yield from (("advice", finding.advice) for finding in report.findings if finding.advice)


def headline_anew(report: Report) -> Headline:
    """Return the headline of a report's rows."""
    names = [volume.name for volume in report.volumes]
    volumes = names[:1] if report.sweep is not None else names
    return headline_of(
        _pairs(report),
        report.cells,
        volumes,
        report.findings,
        effects=report.effects,
        about=about_of(report.suite),
        durability=report.durability,
        doubts=doubts_of(report),
    )


def doubts_of(report: Report) -> list[str]:
    """Return what takes a stored headline's conclusion away and no row says: of the run's limits, of the disks."""
    notes = [lower_first(text.rstrip(".")).removeprefix("volumes ") for text in report.summary.notes]
    clauses = dict.fromkeys((*report.summary.headline.split("; "), *notes))
    return [text for text in clauses if text == LIMITS_RAISED or " lie on the same " in text]


def sentence_anew(report: Report) -> str:
    """Return the sentence below the headline; empty for a sweep, whose conclusions are stored."""
    pairs = _pairs(report)
    figure = headline_anew(report).figure
    if not pairs:
        names = [volume.name for volume in report.volumes]
        return (
            "" if report.sweep else without_pairs(report.cells, names, lead(leading_first(report.findings)), figure)
        )
    return ranked_sentence(pairs) if len(pairs) > 1 else " ".join(pair_sentence(pair, figure) for pair in pairs)


def _pairs(report: Report) -> list[PairSummary]:
    return list(summarise(cast("Iterable[Comparison]", report.comparisons)))


def about_of(suite: str) -> tuple[str, ...]:
    """Return the steps that a suite is about."""
    path = ROOT / "suites" / f"{suite}.yaml"
    loaded: dict[str, Any] = YAML(typ="safe").load(path.read_text()) if path.is_file() else {}
    return tuple(loaded.get("comparison", {}).get("about", ()))


def validations() -> Iterator[tuple[str, Validation]]:
    """Yield every committed validation."""
    for path in sorted(EXAMPLES.rglob("validation.json")):
        yield str(path.parent.relative_to(EXAMPLES)), Validation.model_validate_json(path.read_text())


def page() -> str:
    """Return the page as HTML."""
    pieces = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Proofread</title>",
        f"<style>{STYLE}</style>",
    ]
    for location, report in reports():
        pieces.append(f"<h2>{html.escape(location)}</h2><ul>")
        texts = dict.fromkeys(sentences_of(report))
        pieces += [f"<li><b>{kind}</b> {html.escape(text)}</li>" for kind, text in texts]
        pieces.append(f"<li class=old><b>as committed</b> {html.escape(report.summary.sentence)}</li></ul>")
    for location, validation in validations():
        pieces.append(f"<h2>{html.escape(location)}: {validation.decision}</h2><ul>")
        pieces += [
            f"<li><b>{html.escape(check.decision)}</b> {html.escape(f'{check.check}: {check.text}')}</li>"
            for check in validation.checks
        ]
        pieces.append("</ul>")
    return "\n".join(pieces) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page())
    print(f"written: {target}")  # noqa: T201 - run by hand
