"""The causes that a finding may name, and the rules that find them: both are stated by the modules of `rules`.

Each module with `CAUSES` below that package adds causes, and one with `RULES` rules. Reports, policies, the order
of findings and docs/causes.md read the descriptors, so a new cause needs no other list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from volbench.results.explain import rules
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import GROUPS, CauseInfo
from volbench.results.explain.components import data_case
from volbench.results.explain.deciding import decided, in_order
from volbench.results.explain.rule import Rule, Subject


def _modules() -> tuple[ModuleType, ...]:
    return tuple(import_module(module.name) for module in walk_packages(rules.__path__, f"{rules.__name__}."))


def _causes(modules: Iterable[ModuleType]) -> Mapping[str, CauseInfo]:
    causes = [cause for module in modules for cause in getattr(module, "CAUSES", ())]
    causes.sort(key=lambda cause: (GROUPS.index(cause.group), cause.name))
    return {cause.name: cause for cause in causes}


_MODULES = _modules()
CAUSES: Mapping[str, CauseInfo] = _causes(_MODULES)
"""Every cause by its name, in the order of docs/causes.md."""
OF_VOLUME = frozenset(name for name, cause in CAUSES.items() if cause.is_of_volume)
"""Limits and the slowness of the volume itself."""
RULES: tuple[Rule, ...] = in_order(rule for module in _MODULES for rule in getattr(module, "RULES", ()))
"""Every rule, after all rules that it gives way to."""


def findings_of_rules(cases: Mapping[Subject, Case]) -> Iterator[Cause]:
    """Yield what each rule finds by itself, of the subjects that are given."""
    for rule in RULES:
        if rule.subject in cases:
            yield from (replace(cause, rule=rule.name) for cause in rule.find(cases[rule.subject]))


def named(case: Case) -> list[Cause]:
    """Return the causes of a step that stand once rules have given way to each other."""
    return decided([*findings_of_rules({"volume": data_case(case), "step": case})], RULES, CAUSES)


def named_of_volume(case: Case) -> list[Cause]:
    """Return the same of one volume alone, in a step as that volume sees it."""
    return decided([*findings_of_rules({"volume": case})], RULES, CAUSES)
