"""suites/README.md is the models' own documentation, and says something of every key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from volbench.core.suite.docs import suite_docs
from volbench.core.suite.load import check_suite
from volbench.core.suite.schema import suite_schema

SHIPPED = Path("suites/README.md")
ROWS = [line for line in suite_docs().splitlines() if line.startswith("| `")]


def test_the_shipped_page_is_the_generated_one() -> None:
    """After a change of the models: `volbench suite docs > suites/README.md`."""
    assert SHIPPED.read_text() == suite_docs()


def test_every_key_of_the_schema_is_there() -> None:
    schema = suite_schema()
    nodes = [schema, *schema["$defs"].values()]
    keys = {key for node in nodes for key in node.get("properties", {})}
    assert keys == {row.split("`")[1] for row in ROWS if row.count(" | ") == 3}


@pytest.mark.parametrize("row", ROWS)
def test_no_cell_of_a_table_is_empty(row: str) -> None:
    assert all(cell.strip() for cell in row.strip("|").split("|")), row


def test_the_example_is_a_suite_and_takes_every_example_of_set() -> None:
    page = suite_docs()
    (example,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    settings = re.findall(r"^--set (\S+)$", page, flags=re.MULTILINE)
    assert len(settings) >= 5
    assert check_suite(example, name="example", settings=settings).repeats == 8
