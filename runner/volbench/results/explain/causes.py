"""The causes that a finding may name, and rules that need no other: both are stated by the modules of `rules`.

Each module with `CAUSES` below that package adds causes, and one with `RULE` a rule. Reports, policies, the order
of findings and docs/causes.md read the descriptors, so a new cause needs no other list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from volbench.results.explain import rules
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import GROUPS, CauseInfo

Rule = Callable[[Case], Iterable[Cause]]


def _modules() -> tuple[ModuleType, ...]:
    return tuple(import_module(module.name) for module in walk_packages(rules.__path__, f"{rules.__name__}."))


def _causes(modules: Iterable[ModuleType]) -> Mapping[str, CauseInfo]:
    causes = [cause for module in modules for cause in getattr(module, "CAUSES", ())]
    causes.sort(key=lambda cause: (GROUPS.index(cause.group), cause.name))
    return {cause.name: cause for cause in causes}


_MODULES = _modules()
CAUSES: Mapping[str, CauseInfo] = _causes(_MODULES)
"""Every cause by its name, in the order of docs/causes.md."""
RULES: tuple[Rule, ...] = tuple(module.RULE for module in _MODULES if hasattr(module, "RULE"))
"""Rules that depend on no other rule's findings. Rules of the volume and of the server call each other."""
