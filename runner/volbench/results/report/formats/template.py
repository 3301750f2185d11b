"""The template engine of the HTML report, and the functions that its templates call."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from volbench.core.base import text
from volbench.results.report import wording
from volbench.results.report.formats.engine import page_engine, visible
from volbench.results.report.formats.packed import packed
from volbench.results.report.rows import prediction, response, storage_classes
from volbench.results.report.rows.forecast import FORECAST_RULE
from volbench.results.report.views.causes import sentence
from volbench.results.report.views.cost_tables import nothing_text, remark_on, signed
from volbench.results.report.views.effects_tables import effects_note
from volbench.results.report.views.sharing import sharing_lines


@cache
def template_environment() -> Environment:
    """Return the engine of the report's templates, with their filters."""
    environment = page_engine("volbench.results.report", lstrip_blocks=True)
    environment.filters |= {function.__name__: function for function in _FILTERS}
    environment.filters |= {
        "counted": text.counted,
        "nowrap": keep_units_together,
        "code_marked": code_marked,
        "prediction_subject": prediction.subject,
        "prediction_value": prediction.value_text,
        "prediction_mark": prediction.mark_text,
        "prediction_accepted": prediction.accepted_text,
    }
    environment.globals |= {"forecast_rule": FORECAST_RULE, "prediction_rule": prediction.PREDICTION_RULE}
    return environment


def keep_units_together(phrase: str) -> str:
    """Return the text with no-break spaces, so that numbers stay on one line with their unit and in brackets."""
    percents = r"(?<=\d) (?=%)|(?<=%,) (?=[\d+\N{MINUS SIGN}])"
    factors = r"(?<=×) (?=\d)|(?<=\d,) (?=×)"
    return re.sub(f"{percents}|{factors}", "\N{NO-BREAK SPACE}", phrase)


def code_marked(phrase: str) -> Markup:
    """Return a sentence with what stands between backticks as code; everything else is escaped."""
    escaped = str(Markup.escape(visible(phrase)))
    return Markup(re.sub(r"`([^`<>]+)`", r"<code>\1</code>", escaped))  # noqa: S704 - escaped above


def breakable(step: str) -> Markup:
    """Return a step's name that may be broken after a slash, and nowhere within a word."""
    return Markup("<wbr>").join(Markup.escape(visible(piece)) for piece in re.split(r"(?<=/)", step))


def fact(value: Any, name: str) -> str:
    """Return a fact as text: yes and no, GiB, lists with commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("_bytes") and value >= 1 << 20:
        return f"{text.number(value / 2**30)} GiB"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return wording.parameter_text(value)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


_FILTERS = (
    *(text.change, text.duration, text.interval, text.number, text.percent, text.quantity),
    *(wording.cells_text, wording.confidence_text, wording.table_notes, wording.data_text),
    *(wording.fault_text, wording.label),
    *(
        wording.damage_text,
        wording.decides_text,
        wording.open_reason,
        wording.p95_during_text,
        wording.parameter_text,
        wording.recovery_text,
        wording.speed_text,
        wording.window_text,
    ),
    *(storage_classes.recovery, storage_classes.loss_text, storage_classes.notes, storage_classes.standing_text),
    *(response.counted_text, response.count_note, response.cost_text, response.slope_text),
    *(breakable, effects_note, fact, nothing_text, packed, remark_on, sentence, sharing_lines, signed),
)
"""Templates call them by their own names."""
