"""Numbers of a headline and of its notes: each against the raw files, intervals against the rows of the report."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import median
from typing import Any

import pytest
from raw_run import RawStep, figure, ratios

from sentences import FACTOR, WORDED, plain, ratio_of_change, states, value_of, without_numbers
from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.report import Report

LABELS = {entry.label: name for name, entry in CATALOGUE.items()}
METRIC = "|".join(sorted(map(re.escape, LABELS), key=len, reverse=True))
SETTING = r"[\w.-]+=[\w.-]+"
_AT = rf"(?: at \d+ deep)?(?: with (?P<setting>{SETTING}))?"
HEADLINE = re.compile(rf"(?P<label>{METRIC}) in (?P<step>[\w/-]+){_AT}(?: (?P<change>{WORDED})|,)")
LOSS = re.compile(r"(?P<volume>[\w.-]+) lost (?P<lost>[\d,]+) of (?P<of>[\d,]+) acknowledged commits")
CLAUSES_MAX = 3
_INTERVAL = re.compile(rf"(?P<change>{WORDED})(?P<than> (?:than|as) on [\w.-]+)? \((?P<inner>[^()]+)\)")
_ADJUSTED, _PLAIN = "adjusted for other work", ", with other work"
_OF_BEST = re.compile(
    rf"(?P<volume>[\w.-]+) (?:is better than \S+ and )?looks best [^:]*: .*? (?P<change>{WORDED}) (?:than|as) "
)
_ON_VOLUME = re.compile(rf"(?P<change>{WORDED}) on (?P<volume>[\w.-]+)")
_WORSE_BY = re.compile(
    rf"but worse by (?P<label>{METRIC}) in (?P<step>[\w/-]+)(?: at \d+ deep)?, (?P<change>{WORDED})"
)
_BY_THE_SAME = re.compile(rf"(?P<volume>[\w.-]+)(?: is the last:)? (?P<change>{WORDED}) (?:than|as) ")
_AS_MEASURED = re.compile(
    rf"as measured, (?P<label>{METRIC}) in (?P<step>[\w/-]+) is (?P<figures>[\d,.]+(?: \S+)? on [^;]+)"
)
_OF_MEASURED = re.compile(r"([\d,.]+)(?: (?:ms|s|MiB/s))? on ([\w.-]+?)(?=,| and |$)")
_OF_EFFECT = re.compile(
    rf"(?P<subject>(?:[Tt]he base|{SETTING}).*?)[:,] (?P<label>{METRIC}) in (?P<step>[\w/-]+) (?P<change>{WORDED})"
    rf"(?: than| as)?(?: with (?P<with>{SETTING}))?"
)
_WORSE = re.compile(
    rf"(?P<level>{SETTING}) is wors(?:e|t of \d+ that are worse): (?P<change>{WORDED}) (?:than|as) with {SETTING}"
)
_BETTER_TOO = re.compile(rf"(?P<change>{WORDED}) with (?P<level>{SETTING}) (?:than|as) with {SETTING}")
_COUNTS = re.compile(
    r"\d+ (?:cells? each|volumes|against \d+ (?:valid )?cells|step results?)|about \d+ (?:each|cells a volume)"
    r"|(?:both|all) \d*|beyond 5 %|all \d+ (?:better|worse)|[\w.-]+=[\w.-]+|\d+ cells of each setting"
    r"|\d+ settings|\d+ of \d+ settings|\d+ cells? with \S+ and \d+ with \S+|about \d+ each would decide"
    r"|measured (?:\d+ times|once|twice) (?:each|(?:on|with) \S+(?: and (?:\d+ times|once|twice) (?:on|with) \S+)?)"
    r"|of \d+ such tests|\d+ of them disturbed|confidence \d+ %|, one of \d+"
    r"|explains [\d.]+ % of the (?:latency|statement time)|what uses the volume [\d.]+ %"
    r"|(?:next|another likely cause), [\d.]+ %:"
    r"|lost none of [\d,]+|the other \d+ lost"
)


def clauses_of(headline: str) -> list[str]:
    """The clauses of a headline; what is in brackets has none of its own."""
    return re.sub(r"\([^()]*\)", "", headline).split("; ")


def without_intervals(text: str, report: Report) -> str:
    """The text without its intervals, each of which is that of a row with the change before it."""
    for match in _INTERVAL.finditer(text):
        bounds = match["inner"].removesuffix(_ADJUSTED).removesuffix(", ")
        rows = _rows(report)
        looks = report.until_decided
        assert not bounds or any(_is_interval_of(match["change"], bounds, row, looks) for row in rows), match[0]
    return _INTERVAL.sub(lambda match: f"{match['change']}{match['than'] or ''}", text)


def headline_remainder(report: Report, steps: list[RawStep]) -> str:
    """What is left of a headline after each figure was recomputed: no number, or a figure has no check."""
    text = without_intervals(LOSS.sub("", plain(report.summary.headline)), report)
    subject = HEADLINE.search(text)
    if report.comparisons and subject is not None:
        text = _without_comparisons(text, report, steps)
    elif report.sweep is not None:
        text = _without_effects(text, steps, _base_of(report))
    elif as_measured := _AS_MEASURED.search(text):
        figures = _OF_MEASURED.findall(as_measured["figures"])
        assert len(figures) in (2, len(report.volumes)), text
        for stated_figure, volume in figures:
            value = figure(steps, volume, as_measured["step"], LABELS[as_measured["label"]])
            assert value_of(stated_figure) == pytest.approx(value, rel=0.0051), text
        text = text.replace(as_measured[0], "")
    else:
        assert not report.comparisons, f"no figure of what was measured: {text}"
        text = _without_ranges(text, steps)
    return _COUNTS.sub("", text)


def notes_remainder(report: Report, steps: list[RawStep]) -> str:
    """What is left of the notes after each figure was recomputed."""
    text = without_intervals(LOSS.sub("", plain(" ".join(report.summary.notes))), report)
    about = report.summary.figure
    for match in _BY_THE_SAME.finditer(text):
        assert about is not None, text
        key = (report.volumes[0].name, match["volume"], about.step, about.metric)
        assert _is_ratio(steps, key, match["change"]), match[0]
        text = text.replace(match[0], "")
    if about is not None and report.sweep is not None:
        for match in _BETTER_TOO.finditer(text):
            of_level = (_base_of(report), match["level"])
            assert _is_effect(steps, *of_level, about.step, about.metric, match["change"]), match[0]
            text = text.replace(match[0], "")
    rows = [row for row in report.comparisons if about and (row.step, row.metric) == (about.step, about.metric)]
    return _COUNTS.sub("", without_numbers(text, [row.verdict for row in rows]))


def _without_effects(text: str, steps: list[RawStep], base: dict[str, Any]) -> str:
    """Of a sweep: each figure is that of the cells with its setting against those of the base."""
    match = _OF_EFFECT.search(text)
    assert match is not None, text
    named = re.search(SETTING, match["subject"])
    level = match["with"] if match["with"] and not re.search(" (?:than|as) with ", match[0]) else named and named[0]
    assert level, text
    of_metric = (match["step"], LABELS[match["label"]])
    assert _is_effect(steps, base, level, *of_metric, match["change"]), text
    if " best " in text or "is better than" in text:
        _assert_best(text, steps, base, *of_metric)
    text = text.replace(match[0], "")
    if worse := _WORSE.search(text):
        assert _is_effect(steps, base, worse["level"], *of_metric, worse["change"]), text
        text = text.replace(worse[0], "")
    return text


def _is_effect(steps: list[RawStep], base: dict[str, Any], level: str, step: str, metric: str, change: str) -> bool:
    of_settings = [replace(item, volume=str(item.setting)) for item in steps]
    ends = (str(base), str(_changed(base, level)))
    return any(states(change, ratio) for ratio in ratios(of_settings, *ends, step, metric))


def _assert_best(text: str, steps: list[RawStep], base: dict[str, Any], step: str, metric: str) -> None:
    """The setting that a headline calls best, or better, has the best figure of all."""
    figures: dict[str, list[float]] = {}
    for item in steps:
        if item.step == step and metric in item.metrics and item.valid:
            figures.setdefault(str(item.setting), []).append(item.metrics[metric])
    order = max if CATALOGUE[metric].better == "higher" else min
    best = order(figures, key=lambda name: median(figures[name]))
    first = text.partition(" is ")[0].partition(" looks ")[0].rpartition(": ")[2]
    assert best == str(base if "base" in first else _changed(base, first)), text


def _base_of(report: Report) -> dict[str, Any]:
    assert report.sweep is not None
    return {name: factor.base for name, factor in report.sweep.factors.items()}


def _changed(base: dict[str, Any], level: str) -> dict[str, Any]:
    """The base with `mode=async` in place of its own value."""
    name, _, value = level.partition("=")
    (key,) = [key for key in base if key == name or key.endswith(f".{name}")]
    return {**base, key: type(base[key])(value)}


def _without_comparisons(text: str, report: Report, steps: list[RawStep]) -> str:
    baseline, *candidates = (volume.name for volume in report.volumes)
    first = HEADLINE.search(text)
    assert first is not None
    step, metric = first["step"], LABELS[first["label"]]
    if (objection := _WORSE_BY.search(text)) and (best := _OF_BEST.search(text)):
        row = (baseline, best["volume"], objection["step"], LABELS[objection["label"]])
        assert _is_ratio(steps, row, objection["change"]), text
        text = text.replace(objection[0], "")
    if len(candidates) == 1:
        subjects = list(HEADLINE.finditer(text))
        assert len(subjects) == (2 if report.summary.verdict == "mixed" else 1), text
        for stated in subjects:
            assert stated["change"], text
            row = (baseline, candidates[0], stated["step"], LABELS[stated["label"]])
            assert _is_ratio(steps, row, stated["change"]), text
            text = text.replace(stated[0], "")
        return text
    if best := _OF_BEST.search(text):
        assert _is_ratio(steps, (baseline, best["volume"], step, metric), best["change"]), text
        text = text.replace(best["change"], "")
    else:
        of_volumes = [match for match in _ON_VOLUME.finditer(text) if match["volume"] in candidates]
        assert of_volumes, text
        for match in of_volumes:
            assert _is_ratio(steps, (baseline, match["volume"], step, metric), match["change"]), text
            text = text.replace(match[0], "")
    rows = [row for row in report.comparisons if (row.step, row.metric) == (step, metric)]
    return without_numbers(text, [row.verdict for row in rows])


def _without_ranges(text: str, steps: list[RawStep]) -> str:
    """Of one volume: the least and the largest of the valid cells, else of all."""
    range_text = r"(?P<low>[\d,.]+)(?: to (?P<high>[\d,.]+))? in step (?P<step>[\w-]+)"
    match = re.search(rf"(?P<label>{METRIC}) {range_text}", text)
    if match is None:
        return text
    of_step = [step for step in steps if step.step == match["step"]]
    values = sorted(step.metrics[LABELS[match["label"]]] for step in ([s for s in of_step if s.valid] or of_step))
    assert value_of(match["low"]) == pytest.approx(values[0], rel=0.006)
    assert value_of(match["high"] or match["low"]) == pytest.approx(values[-1], rel=0.006)
    return text.replace(match[0], "")


def _is_ratio(steps: list[RawStep], row: tuple[str, str, str, str], change: str) -> bool:
    return any(states(change, ratio) for ratio in ratios(steps, *row))


def _rows(report: Report) -> list[tuple[float, float, tuple[float, float] | None, tuple[float, float] | None]]:
    rows = [(row.ratio, row.confidence, row.ci, row.plain_ci) for row in report.comparisons if row.ratio]
    return [*rows, *((row.ratio, row.confidence, row.ci, None) for row in report.effects if row.ratio)]


def _is_interval_of(
    change: str,
    bounds: str,
    row: tuple[float, float, tuple[float, float] | None, tuple[float, float] | None],
    until_decided: bool,
) -> bool:
    ratio, confidence, ci, plain_ci = row
    level, _, ends_text = bounds.partition(": ")
    of_row = plain_ci if level.endswith(_PLAIN) else ci
    if of_row is None or not states(change, ratio):
        return False
    of_all = 0.95 if until_decided else confidence
    if value_of(level.removesuffix(_PLAIN).removesuffix(" %")) != pytest.approx(100 * of_all, abs=0.006):
        return False
    texts = sorted(_end_texts(change, ends_text), key=ratio_of_change)
    return all(states(text, end) for text, end in zip(texts, of_row, strict=True))


def _end_texts(change: str, ends_text: str) -> list[str]:
    """The ends of an interval as changes of their own; two that are alike are said as one."""
    if re.search("higher|lower", ends_text):
        return ends_text.split(" to ")
    numbers = re.findall(FACTOR, ends_text)
    behind = " as high" if " as high" in change else f" % {change.rsplit(' ', 1)[-1]}"
    return [f"{number}{behind}" for number in (numbers[0], numbers[-1])]
