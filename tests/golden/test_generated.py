"""Files that are made from the code are those that the code makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated import ROOT, generated_files


@pytest.fixture(scope="module")
def files() -> dict[Path, str]:
    """Not while tests are collected: each worker collects all, and few have use for these."""
    return dict(generated_files())


def test_generated_files_are_up_to_date(files: dict[Path, str]) -> None:
    """After a change of what they are made from: `make docs`."""
    assert [path for path, text in files.items() if (ROOT / path).read_text() != text] == []


def test_every_schema_that_is_shipped_is_generated(files: dict[Path, str]) -> None:
    shipped = {path.relative_to(ROOT) for path in (ROOT / "results/schema").iterdir()}
    assert shipped == {path for path in files if path.parts[:2] == ("results", "schema")}
