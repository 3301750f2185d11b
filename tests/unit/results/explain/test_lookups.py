"""Every series that a rule looks up is named by its descriptor: a misspelt one fails in mypy, and at import.

`case.at(CPU.user_ratio)`, `grid.column(*Diskstats.reads_per_s.of(source))`: no look-up has a text of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import volbench
from volbench.core.records import named_metrics
from volbench.core.records.named_metrics import Diskstats, NamedMetric
from volbench.core.records.sources import SOURCES
from volbench.results.store.series import SeriesKey

RUNNER = Path(volbench.__file__).parent
LOCATIONS = ("results/explain", "results/response", "observe")
LOOKS_UP = ("at", "column", "entities")


def modules() -> list[Path]:
    return sorted(path for location in LOCATIONS for path in (RUNNER / location).rglob("*.py"))


def lookups(tree: ast.Module) -> Iterator[ast.Call]:
    """Each call that looks up a series, or makes the key of one."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in (*LOOKS_UP, "sources_with", "SeriesKey"):
            yield call


def texts(call: ast.Call) -> list[str]:
    """The texts of which a look-up makes a source or a metric; an entity is the last argument, and any text."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("source", "metric")]
    first = (
        call.args[:1] if name == "at" or (call.args and isinstance(call.args[0], ast.Starred)) else call.args[:2]
    )
    return [
        ast.unparse(part)
        for argument in (*named, *(first if name != "SeriesKey" else ()))
        for part in ast.walk(argument)
        if isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
    ]


def by_text(tree: ast.Module) -> list[str]:
    return [f"line {call.lineno}: {text}" for call in lookups(tree) for text in texts(call)]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(RUNNER)))
def test_a_look_up_is_by_a_descriptor(path: Path) -> None:
    assert by_text(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    ("code", "texts_in_it"),
    [
        ('grid.column("client", "tqs")', 2),
        ('grid.column(source, "tqs", entity)', 1),
        ('grid.column(source, f"{way}s_per_s")', 2),
        ('grid.entities(device.source, "reads_per_s")', 1),
        ('grid.column(*("client", "tqs"))', 2),
        ('case.at(NamedMetric("client", "tqs"))', 2),
        ('SeriesKey(source="client", metric=name)', 1),
        ('sources_with("balance", *VIEWS)', 1),
        ('case.at(Tasks.cpus_used, "cell")', 0),
        ('grid.column(*PerformanceSchema.file_read_ms, "data")', 0),
        ("grid.column(*Diskstats.reads_per_s.of(source), entity)", 0),
        ("SeriesKey.of(Client.tps)", 0),
    ],
)
def test_a_text_in_a_look_up_is_seen(code: str, texts_in_it: int) -> None:
    assert len(by_text(ast.parse(code))) == texts_in_it


def test_most_modules_look_something_up() -> None:
    looking = [path for path in modules() if [*lookups(ast.parse(path.read_text()))]]
    assert len(looking) > 30


def named_ones() -> Iterator[tuple[str, NamedMetric]]:
    for name, group in vars(named_metrics).items():
        if isinstance(group, type):
            yield from ((name, metric) for metric in vars(group).values() if isinstance(metric, NamedMetric))


def test_a_metric_is_named_as_it_is() -> None:
    for name, metric in named_ones():
        assert vars(getattr(named_metrics, name))[metric.name] is metric


def test_every_metric_of_a_source_has_a_name() -> None:
    named = {tuple(metric) for _, metric in named_ones()}
    assert {(name, metric) for name, source in SOURCES.items() for metric in source.metrics} <= named


def test_a_metric_of_another_source_keeps_its_name() -> None:
    assert Diskstats.reads_per_s.of("emulator") == ("emulator", "reads_per_s")
    assert SeriesKey.of(Diskstats.reads_per_s, "sda") == SeriesKey(
        source="diskstats", metric="reads_per_s", entity="sda"
    )
