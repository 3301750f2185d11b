"""Every series that a rule looks up is one that a source has: a misspelt one would be absent, and never a cause.

Looked at is each call of `case.at(METRIC, SOURCE)`, `grid.column(SOURCE, METRIC)`, `grid.entities(SOURCE, METRIC)`,
with the values that names and loops over literals have.
"""

from __future__ import annotations

import ast
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import volbench
from volbench.core.records.sources import SOURCES

RUNNER = Path(volbench.__file__).parent
LOCATIONS = ("results/explain", "results/response", "observe")
CLIENT = frozenset(
    {
        *(f"latency_ms_{name}" for name in ("avg", "p50", "p95", "p99", "max")),
        *("tps", "queue_length", "threads_running", "errors_per_s", "reconnects_per_s"),
    }
)
"""Series of the client, which no source of counters has; recordings have threads_running."""
RECORDED = frozenset({("cpu", "nice_ratio")})
"""Series that only recordings of other tools have."""
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
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("at", "column", "entities"):
                continue
            values = [_values(argument, loops, constants) for argument in call.args]
            if call.func.attr == "at" and values:
                yield call.lineno, values[1] if len(values) > 1 else ["client"], values[0]
            elif len(values) >= 2:
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
            known_values = constants.get(name)
            return loops.get(name) or ([known_values] if isinstance(known_values, str) else None)
        case ast.JoinedStr(values=parts):
            each = [_values(piece, loops, constants) for piece in parts]
            known_parts = [piece for piece in each if piece is not None]
            if len(known_parts) < len(each):
                return None
            return ["".join(chosen) for chosen in itertools.product(*known_parts)]
        case ast.FormattedValue(value=inner):
            return _values(inner, loops, constants)
    return None


def known(source: str, metric: str) -> bool:
    if source == "client":
        return metric in CLIENT
    return (source, metric) in RECORDED or (source in SOURCES and metric in SOURCES[source].metrics)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(RUNNER)))
def test_a_series_that_is_looked_up_is_one_that_a_source_has(path: Path) -> None:
    unknown = [
        f"{path.name}:{line}: {source}.{metric}"
        for line, sources, metrics in lookups(path)
        if metrics is not None
        for source in sources or []
        for metric in metrics
        if not known(source, metric)
    ]
    assert unknown == []


def test_most_look_ups_are_looked_at() -> None:
    result = [lookup for path in modules() for lookup in lookups(path)]
    computed = sum(sources is None or metrics is None for _, sources, metrics in result)
    assert len(result) > 100
    assert computed <= COMPUTED_MAX * len(result)


@pytest.mark.parametrize("wrong", ["tqs", "statement_s_per_second"])
def test_a_misspelt_name_is_seen(tmp_path: Path, wrong: str) -> None:
    assert not known("client", wrong)
    assert not known("performance_schema", wrong)
    assert known("performance_schema", "statement_s_per_s")
    assert not known("perfomance_schema", "statement_s_per_s")
