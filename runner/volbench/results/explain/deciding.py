"""Which findings of rules stand: a pure function of what the rules found and what their descriptors say.

Rules find causes independently of one another, so one thing is found more than once: a limit makes reads slow,
others' I/O makes a queue. Which finding stands is decided here by the sets of `Rule` and by `CauseInfo.suppresses`,
in an order in which all that a rule gives way to is decided before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from volbench.results.explain import thresholds as limit
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.rule import Rule

AFTER = 0.9
"""Of the share of what comes before it: what a finding explains that comes after another one."""


def is_much(finding: Cause) -> bool:
    """Return whether it explains enough for others to give way; also where that is not known."""
    return finding.share is None or finding.share >= limit.SHARE_MIN


def in_order(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules so that each comes after all that it gives way to; by name where that leaves a choice.

    Raises ValueError for rules that wait for each other in a circle, and for two of one name.
    """
    left = sorted(rules, key=lambda rule: rule.name)
    if len({rule.name for rule in left}) < len(left):
        raise ValueError("two rules have one name")
    ordered: list[Rule] = []
    while left:
        ready = [rule for rule in left if not any(_waits_for(rule, rival) for rival in left if rival is not rule)]
        if not ready:
            names = ", ".join(rule.name for rule in left)
            raise ValueError(f"rules give way to each other in a circle: {names}")
        ordered += ready
        left = [rule for rule in left if rule not in ready]
    return tuple(ordered)


def _waits_for(rule: Rule, rival: Rule) -> bool:
    return rival.name in rule.before or not rival.causes.isdisjoint(rule.before)


def decided(findings: Sequence[Cause], rules: Sequence[Rule], causes: Mapping[str, CauseInfo]) -> list[Cause]:
    """Return the findings that stand, in the order of the rules.

    Args:
        findings: of the rules, each with the name of its rule.
        rules: in an order as of `in_order`.
        causes: descriptors by name.
    """
    standing: list[Cause] = []
    for rule in rules:
        own = [
            finding
            for finding in findings
            if finding.rule == rule.name and not _is_within(finding, rule.yields_within, standing)
        ]
        if own and _stands(rule, standing):
            standing = _without_suppressed([*standing, *own], causes)
    by_name = {rule.name: rule for rule in rules}
    for rule in rules:
        standing = _marked(rule, standing)
    sound = [finding for finding in standing if _is_sound(by_name[finding.rule], finding, standing)]
    return _shared_out(sound, by_name)


def _stands(rule: Rule, standing: Sequence[Cause]) -> bool:
    """Return whether nothing that stands makes a rule's findings give way."""
    if any(_matches(rule.yields_to, finding) for finding in standing):
        return False
    much = [finding for finding in standing if is_much(finding)]
    if any(_matches(rule.yields_to_much, finding) for finding in much):
        return False
    if any(_matches(rule.yields_to_leading, finding) and finding.leads for finding in much):
        return False
    return not rule.needs or any(_matches(rule.needs, finding) for finding in standing)


def _is_within(finding: Cause, names: Collection[str], standing: Iterable[Cause]) -> bool:
    """Return whether its time lies within that of a standing finding that is named."""
    begin_s, end_s = finding.window_s
    spans = [rival.window_s for rival in standing if _matches(names, rival)]
    return any(first_s <= begin_s and end_s <= last_s for first_s, last_s in spans)


def _matches(names: Collection[str], finding: Cause) -> bool:
    """Return whether a set names a finding's rule or its cause."""
    return finding.rule in names or finding.cause in names


def _without_suppressed(standing: Sequence[Cause], causes: Mapping[str, CauseInfo]) -> list[Cause]:
    gone = {name for finding in standing if finding.cause in causes for name in causes[finding.cause].suppresses}
    return [finding for finding in standing if finding.cause not in gone]


def _marked(rule: Rule, standing: Sequence[Cause]) -> list[Cause]:
    """Return the findings, those marked that a rule's finding, which is one of two, cannot be told from."""
    own = [finding for finding in standing if finding.rule == rule.name and finding.one_of_two]
    alike = [finding for finding in standing if _matches(rule.one_of_two_with, finding)] if own else []
    if not alike:
        return [*standing]
    return [
        replace(finding, one_of_two=True)
        if _matches(rule.one_of_two_with, finding)
        else replace(finding, share=alike[0].share, of_clients=alike[0].of_clients)
        if finding.rule == rule.name and finding.one_of_two and finding.share is None
        else finding
        for finding in standing
    ]


def _is_sound(rule: Rule, finding: Cause, standing: Iterable[Cause]) -> bool:
    return False not in finding.checks or not any(_matches(rule.sound_beside, rival) for rival in standing)


def _shared_out(standing: Sequence[Cause], rules: Mapping[str, Rule]) -> list[Cause]:
    """Return the findings, with reduced shares of those that come after others."""
    later = [finding for finding in standing if rules[finding.rule].after]
    names = frozenset(name for finding in later for name in rules[finding.rule].after)
    earlier = [finding for finding in standing if _matches(names, finding)]
    if not any(is_much(finding) for finding in earlier):
        return [*standing]
    lead = any(is_much(finding) and finding.leads for finding in earlier)
    shares = [finding.share for finding in (earlier if lead else later) if finding.share is not None]
    most = AFTER * (max(shares) if lead else min(shares)) if shares else 1.0
    return [
        replace(finding, share=min(finding.share, most))
        if finding.share is not None and (bool(rules[finding.rule].after) if lead else _matches(names, finding))
        else finding
        for finding in standing
    ]
