"""results/README.md says every field of every file, and nothing that is not there."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from record_schemas import MODELS

from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.sources import SAMPLED
from volbench.results.report.views.panels import LATENCY_LEVELS, PANELS
from volbench.results.store.histograms import HISTOGRAM_COLUMNS
from volbench.results.store.query_views import VIEWS
from volbench.results.store.series import SERIES_COLUMNS

README = (Path(__file__).resolve().parents[4] / "results/README.md").read_text()


def models_below(annotation: Any, above: frozenset[Any] = frozenset()) -> Iterator[type[BaseModel]]:
    """Every model that an annotation mentions, and those of its fields; one may mention itself."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in above:
        yield annotation
        for field in annotation.model_fields.values():
            yield from models_below(field.annotation, above | {annotation})
    for arg in typing.get_args(annotation):
        yield from models_below(arg, above)


ALL = sorted({model for root in MODELS.values() for model in models_below(root)}, key=lambda model: model.__name__)


def section(heading: str) -> str:
    match = re.search(rf"^#+ {heading}\n(.*?)(?=^#)", README, re.DOTALL | re.MULTILINE)
    assert match is not None, f"no section {heading}"
    return match[1]


def first_column(text: str) -> set[str]:
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__)
def test_a_models_fields_are_those_of_its_section(model: type[BaseModel]) -> None:
    """By the names that the files have, aliases included."""
    fields = {field.alias or name for name, field in model.model_fields.items()}
    assert first_column(section(rf".*\(`{model.__name__}`\)")) == fields


def test_metrics_are_those_of_the_catalogue() -> None:
    """With units and directions."""
    text = section("Metrics")
    assert first_column(text) == set(CATALOGUE)
    for name, metric in CATALOGUE.items():
        assert f"| `{name}` | {metric.unit} | {metric.better} | {metric.text} |" in text


@pytest.mark.parametrize("source", SAMPLED)
def test_series_are_those_of_the_samplers(source: str) -> None:
    """By source, with units."""
    text = section(rf"source `{source}`")
    assert first_column(text) == set(SAMPLED[source])
    for name, metric in SAMPLED[source].items():
        assert f"| `{name}` | {metric.unit} |" in text


@pytest.mark.parametrize("source", ["client", "replica"])
def test_what_charts_show_of_a_step_is_described(source: str) -> None:
    """Steps have no sampler that would describe their series."""
    names = {name for panel in PANELS if source in panel.sources for line in panel.lines for name in line.metrics}
    described = first_column(section(rf"source `{source}`"))
    assert names - set(LATENCY_LEVELS) <= described


def test_columns_of_tables_and_names_of_views() -> None:
    """Parquet columns, SQL views."""
    assert first_column(section(r"cells/\*/series.parquet")) == set(SERIES_COLUMNS.names)
    assert first_column(section(r"cells/\*/histograms.parquet")) == set(HISTOGRAM_COLUMNS.names)
    assert all(f"`{view}`" in README for view in VIEWS)
