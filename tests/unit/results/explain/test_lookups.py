"""Every series that a rule looks up is one that a source has: a misspelt one would be absent, and never a cause.

A look-up is by a named metric, `case.at(CPU.user_ratio)`, `grid.column(*CPU.user_ratio)`, so that mypy refuses a
misspelt one. Where a part of its name is computed, the values that names and loops over literals have are checked.
"""

from __future__ import annotations

import ast
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import volbench
from volbench.core.records import named_metrics
from volbench.core.records.named_metrics import NamedMetric

RUNNER = Path(volbench.__file__).parent
LOCATIONS = ("results/explain", "results/response", "observe")
COMPUTED_MAX = 0.25
"""Of all look-ups: those whose names are computed, which are not looked at."""


def modules() -> list[Path]:
    return sorted(path for location in LOCATIONS for path in (RUNNER / location).rglob("*.py"))


def lookups(path: Path) -> Iterator[tuple[int, list[str] | None, list[str] | None]]:
    """Line, sources and metrics of each look-up of a module; None for what is computed."""
    tree = ast.parse(path.read_text())
    dotted = ".".join(path.relative_to(RUNNER.parent).with_suffix("").parts).removesuffix(".__init__")
    constants = vars(importlib.import_module(dotted))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        loops = _loops(function)
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("column", "entities"):
                continue
            values = [_values(argument, loops, constants) for argument in call.args]
            if len(values) >= 2 and not isinstance(call.args[0], ast.Starred):
                yield call.lineno, values[0], values[1]


def _loops(function: ast.FunctionDef) -> dict[str, list[str]]:
    """Names that loop over literals, or that a literal is assigned to; without those that do so twice."""
    named: dict[str, list[list[str]]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.comprehension | ast.For) and isinstance(node.target, ast.Name):
            texts = _texts(node.iter.elts) if isinstance(node.iter, ast.Tuple | ast.List) else []
            named.setdefault(node.target.id, []).append(texts)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, []).append(_texts([node.value]))
    return {name: texts[0] for name, texts in named.items() if len(texts) == 1 and texts[0]}


def _texts(nodes: list[ast.expr]) -> list[str]:
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return texts if len(texts) == len(nodes) else []


def _values(node: ast.expr, loops: dict[str, list[str]], constants: dict[str, object]) -> list[str] | None:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Name(id=name):
            is_known = constants.get(name)
            return loops.get(name) or ([is_known] if isinstance(is_known, str) else None)
        case ast.JoinedStr(values=parts):
            each = [_values(piece, loops, constants) for piece in parts]
            known_parts = [piece for piece in each if piece is not None]
            if len(known_parts) < len(each):
                return None
            return ["".join(chosen) for chosen in itertools.product(*known_parts)]
        case ast.FormattedValue(value=inner):
            return _values(inner, loops, constants)
    return None


METRICS = {
    (metric.source, metric.name)
    for group in vars(named_metrics).values()
    if isinstance(group, type)
    for metric in vars(group).values()
    if isinstance(metric, NamedMetric)
}


def is_known(source: str, metric: str) -> bool:
    return (source, metric) in METRICS


def by_text(path: Path) -> Iterator[str]:
    """Look-ups whose source and metric are both written as texts."""
    for line, sources, metrics in lookups(path):
        if sources and metrics and len(sources) == len(metrics) == 1:
            yield f"{path.name}:{line}: {sources[0]}.{metrics[0]}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(RUNNER)))
def test_a_look_up_is_by_a_named_metric(path: Path) -> None:
    """What is not computed is no text, which nothing would check."""
    assert [*by_text(path)] == []


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(RUNNER)))
def test_a_series_that_is_looked_up_is_one_that_a_source_has(path: Path) -> None:
    unknown = [
        f"{path.name}:{line}: {source}.{metric}"
        for line, sources, metrics in lookups(path)
        if metrics is not None
        for source in sources or []
        for metric in metrics
        if not is_known(source, metric)
    ]
    assert unknown == []


def test_most_look_ups_are_looked_at() -> None:
    text = "".join(path.read_text() for path in modules())
    named = sum(text.count(f"{group}.{metric.name}") for group, metric in named_ones())
    computed = [metric for path in modules() for metric in lookups(path) if metric[1] is None or metric[2] is None]
    assert named > 150
    assert len(computed) <= COMPUTED_MAX * (named + len(computed))


def named_ones() -> Iterator[tuple[str, NamedMetric]]:
    for name, group in vars(named_metrics).items():
        if isinstance(group, type):
            yield from ((name, metric) for metric in vars(group).values() if isinstance(metric, NamedMetric))


def test_a_metric_is_named_as_it_is() -> None:
    for name, metric in named_ones():
        assert vars(getattr(named_metrics, name))[metric.name] is metric


@pytest.mark.parametrize("wrong", ["tqs", "statement_s_per_second"])
def test_a_misspelt_name_is_seen(wrong: str) -> None:
    assert not is_known("client", wrong)
    assert not is_known("performance_schema", wrong)
    assert is_known("performance_schema", "statement_s_per_s")
    assert not is_known("perfomance_schema", "statement_s_per_s")
