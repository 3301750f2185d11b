"""Steps: one workload with its parameters, as a suite states it and as cell.json carries it.

Each module with a `KIND` adds a kind of step. The suite's schema, the plan, the documentation, the analysis and the
reports read the descriptors, so a new kind needs no other list.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from importlib import import_module
from operator import or_
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from volbench.core.records.steps.base import StepBase
from volbench.core.records.steps.kind import StepKind


def _step_kinds() -> Mapping[str, StepKind]:
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    kinds = (getattr(module, "KIND", None) for module in modules)
    return {kind.name: kind for kind in kinds if isinstance(kind, StepKind)}


STEP_KINDS: Mapping[str, StepKind] = _step_kinds()
"""Every kind of step by its name."""

UNKNOWN_KIND = StepKind(model=StepBase, metrics=())
"""Of recordings, of a cluster's placement, and of kinds that another version has."""

if TYPE_CHECKING:
    Step = StepBase
else:
    Step = Annotated[reduce(or_, (kind.model for kind in STEP_KINDS.values())), Field(discriminator="kind")]


def step_kind(name: str) -> StepKind:
    """Return the descriptor of a kind; `UNKNOWN_KIND` if there is none."""
    return STEP_KINDS.get(name, UNKNOWN_KIND)
