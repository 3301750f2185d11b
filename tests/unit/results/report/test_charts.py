"""The stored figures are Bokeh's own, so that a report needs no Bokeh."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from chart_skeleton import documents_of, renamed

from volbench.results.report.views.charts import charts
from volbench.results.report.views.panels import PANELS


def roots_of(script: str) -> Any:
    match = re.match(r"Bokeh\.safely\(\(\) => Bokeh\.embed\.embed_items\((.*), \[\{\"docid\"", script)
    assert match is not None
    return json.loads(match[1])["charts"]["roots"]


@pytest.mark.parametrize(
    ("keys", "volumes"),
    [([panel.key for panel in PANELS], 1), (["latency"], 2), (["throughput", "iops", "cpu"], 3)],
)
def test_figures_are_those_that_bokeh_makes(keys: list[str], volumes: int) -> None:
    """All parts and references of the document, apart from the numbers in ids."""
    panels = [panel for panel in PANELS if panel.key in keys]
    made = roots_of(charts(panels, volumes).script)
    assert renamed(made) == renamed(documents_of(panels, volumes))


def test_each_figure_has_its_element() -> None:
    """The ids of roots and elements match, and the library is there."""
    made = charts(list(PANELS[:2]), 2)
    text = made.script.rsplit(", [", 1)[1]
    items = json.loads(f"[{text[: text.rindex(']') + 1]}")
    for root, (_, element) in zip(items[0]["root_ids"], made.panels, strict=True):
        assert f'id="{items[0]["roots"][root]}"' in element
    assert "Bokeh" in made.library
    assert charts([], 2).panels == ()


def test_a_report_needs_no_bokeh() -> None:
    """Nor what it brings along."""
    code = (
        "import sys, volbench.results.report.render;"
        "print({'bokeh', 'pandas', 'duckdb', 'sqlglot'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "set()"
