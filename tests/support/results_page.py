"""results/README.md: its regions about steps, metrics and sources, generated from their descriptors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping

from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.sources import SOURCES
from volbench.core.records.steps import STEP_KINDS
from volbench.core.suite.docs import field_meaning


def results_page(text: str) -> str:
    """Return the page with its generated regions, each between `<!-- NAME: ... -->` and `<!-- end -->`, rewritten.

    Raises ValueError for a page without one of these regions.
    """
    for name, lines in REGIONS.items():
        region = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end -->)", re.DOTALL)
        body = "\n".join(lines())
        text, count = region.subn(lambda match: f"{match[1]}{body}\n{match[2]}", text)  # noqa: B023 - called at once
        if count != 1:
            raise ValueError(f"the page has {count} regions {name!r}, expected 1")
    return text


def _steps() -> Iterator[str]:
    for kind in STEP_KINDS.values():
        yield f"### Step {kind.name} (`{kind.model.__name__}`)"
        yield from inspect.cleandoc(kind.model.__doc__ or "").split("\n\n")[1:]
        yield ""
        yield "| field | meaning |"
        yield "|---|---|"
        for name, field in kind.model.model_fields.items():
            key = field.alias or name
            yield _row(f"`{key}`", f"`{kind.name}`" if key == "kind" else field_meaning(key, field))
        yield ""


def _metrics() -> Iterator[str]:
    yield "| metric | unit | better | what it is |"
    yield "|---|---|---|---|"
    for metric in CATALOGUE.values():
        yield _row(f"`{metric.name}`", metric.unit, metric.better, metric.text)


def _sources() -> Iterator[str]:
    for source in SOURCES.values():
        if source.sampled:
            yield f"### source `{source.name}`"
            yield source.text
            yield ""
            yield "| metric | unit | meaning |"
            yield "|---|---|---|"
            for name, metric in source.metrics.items():
                yield _row(
                    f"`{name}`", metric.unit, metric.text + (f" (by {metric.entity})" if metric.entity else "")
                )
            yield ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


REGIONS: Mapping[str, Callable[[], Iterator[str]]] = {"steps": _steps, "metrics": _metrics, "sources": _sources}
