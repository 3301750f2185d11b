"""A recommendation as sentences, as a row of a table, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from volbench.core.base.text import counted, duration, number, percent
from volbench.results.credits.prices import Prices
from volbench.results.recommend.choice import Assessed, Recommendation
from volbench.results.recommend.goal import Goal

SCHEMA = 1
COLUMNS = (
    "server",
    "answer",
    "volume",
    "price",
    "currency",
    "keeps",
    "cheaper",
    "cheaper_price",
    "cheaper_keeps",
    "settings",
    "reason",
    "measurement",
    "prices_dated",
)
"""Of the table of several servers."""


def answer_word(answer: Recommendation) -> str:
    """Return the answer in a word: cheapest, sufficient (a cheaper one may be, too), or refused."""
    if answer.chosen is None:
        return "refused"
    return "cheapest" if answer.is_cheapest else "sufficient"


def sentences(answer: Recommendation, prices: Prices) -> Iterator[str]:
    """Yield the answer for one server in reading order."""
    yield f"{answer.name}: objective {goal_text(answer.goal)}"
    for note in answer.notes:
        yield f"Note: {note}."
    if answer.chosen is None:
        yield f"Nothing is recommended: {answer.refusal}."
        if answer.cheaper is not None:
            yield f"The likeliest is {_priced(answer.cheaper, prices)}: {_forecast(answer.cheaper)}."
        if answer.measurement:
            yield f"What would decide: {answer.measurement}"
        return
    yield f"Buy {_priced(answer.chosen, prices)}: it keeps the objective with {percent(answer.chosen.keeps)}."
    yield f"Forecast: {_forecast(answer.chosen)}."
    yield from _checks(answer.chosen)
    for refuted in answer.refuted:
        yield f"Not {_priced(refuted, prices)}, whose forecast keeps it: {_refutation(refuted)}."
    yield from _cheaper(answer, prices)
    for setting in answer.settings:
        value = setting.value if setting.value is not None else "not told"
        yield f"{setting.name} = {value}: {setting.reason}."
    yield f"Prices are list prices ({prices.dated}, {prices.region}) without taxes and discounts; check them first."


def _cheaper(answer: Recommendation, prices: Prices) -> Iterator[str]:
    if answer.cheaper is None:
        yield "No cheaper volume is offered in this size."
        return
    text = f"the likeliest of all cheaper volumes, {_priced(answer.cheaper, prices)}, keeps it with"
    if answer.is_cheapest:
        yield f"It is the cheapest: {text} {percent(answer.cheaper.keeps)} ({_forecast(answer.cheaper)})."
        return
    yield f"A cheaper one may do: {text} {percent(answer.cheaper.keeps)} ({_forecast(answer.cheaper)})."
    if answer.cheaper.is_refuted:
        yield f"A check contradicts that, and says that it breaks the objective: {_refutation(answer.cheaper)}."
    if answer.measurement:
        yield f"What would decide: {answer.measurement}"


def _checks(assessed: Assessed) -> Iterator[str]:
    if not assessed.checks:
        yield "Check: none is possible for this part of the objective."
    for check in assessed.checks:
        outcome = {True: "holds", False: "refuted", None: "says nothing"}[check.keeps]
        yield f"Check by {check.name}: {outcome} ({check.text})."


def _refutation(assessed: Assessed) -> str:
    return "; ".join(check.text for check in assessed.checks if check.keeps is False)


def _forecast(assessed: Assessed) -> str:
    return "; ".join(chance.text for chance in assessed.chances)


def _priced(assessed: Assessed, prices: Prices) -> str:
    assumed = ", partly assumed" if assessed.candidate.cost.assumed else ""
    return f"{assessed.candidate.spec} ({assessed.candidate.cost.month:,.2f} {prices.currency} a month{assumed})"


def goal_text(goal: Goal) -> str:
    """Return an objective in words."""
    objectives = []
    if goal.p95_s is not None:
        objectives.append(f"p95 <= {number(goal.p95_s * 1000)} ms")
    if goal.window_s is not None:
        objectives.append(f"a backup within {duration(goal.window_s)}")
    if goal.recovery_s is not None:
        objectives.append(f"a recovery within {duration(goal.recovery_s)}")
    return ", ".join(objectives)


def row(answer: Recommendation, prices: Prices) -> tuple[object, ...]:
    """Return one server's row, with COLUMNS; None where a value does not exist."""
    chosen, cheaper = answer.chosen, answer.cheaper
    return (
        answer.name,
        answer_word(answer),
        None if chosen is None else chosen.candidate.spec,
        None if chosen is None else round(chosen.candidate.cost.month, 2),
        prices.currency,
        None if chosen is None else round(chosen.keeps, 3),
        None if cheaper is None else cheaper.candidate.spec,
        None if cheaper is None else round(cheaper.candidate.cost.month, 2),
        None if cheaper is None else round(cheaper.keeps, 3),
        " ".join(f"{each.name}={each.value}" for each in answer.settings if each.value is not None) or None,
        answer.refusal or None,
        answer.measurement or None,
        prices.dated,
    )


def total_text(all_of_them: Sequence[Recommendation], prices: Prices) -> str:
    """Return what the recommended volumes of a fleet cost together."""
    bought = [answer.chosen.candidate.cost.month for answer in all_of_them if answer.chosen is not None]
    refused = len(all_of_them) - len(bought)
    text = f"{counted(len(bought), 'server')} with a recommendation: {sum(bought):,.2f} {prices.currency} a month"
    return text + (f"; {counted(refused, 'server')} without one" if refused else "")


def data(answer: Recommendation, prices: Prices) -> dict[str, Any]:
    """Return the whole answer as JSON: unrounded numbers, null where a value does not exist."""
    return {
        "server": answer.name,
        "answer": answer_word(answer),
        "objective": {
            "p95_s": answer.goal.p95_s,
            "backup_bytes": None if answer.goal.backup is None else answer.goal.backup.bytes,
            "backup_window_s": answer.goal.window_s,
            "recovery_s": answer.goal.recovery_s,
        },
        "chosen": _assessed(answer.chosen),
        "cheaper": _assessed(answer.cheaper),
        "refuted": [_assessed(each) for each in answer.refuted],
        "refusal": answer.refusal or None,
        "measurement": answer.measurement or None,
        "settings": [{"name": each.name, "value": each.value, "reason": each.reason} for each in answer.settings],
        "notes": list(answer.notes),
        "prices": {"dated": prices.dated, "region": prices.region, "currency": prices.currency},
    }


def _assessed(assessed: Assessed | None) -> dict[str, Any] | None:
    if assessed is None:
        return None
    return {
        "volume": assessed.candidate.spec,
        "month": assessed.candidate.cost.month,
        "price_assumed": assessed.candidate.cost.assumed,
        "keeps": assessed.keeps,
        "parts": [
            {
                "part": chance.objective,
                "keeps": chance.keeps,
                "value": chance.value,
                "interval": chance.interval,
                "text": chance.text,
            }
            for chance in assessed.chances
        ],
        "checks": [{"name": check.name, "keeps": check.keeps, "text": check.text} for check in assessed.checks],
    }
