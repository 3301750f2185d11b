"""Files that are made from the code are those that the code makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated import ROOT, generated_files

FILES = dict(generated_files())


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_generated_file_is_up_to_date(path: Path) -> None:
    """After a change of what it is made from: `make docs`."""
    assert (ROOT / path).read_text() == FILES[path]


def test_every_schema_that_is_shipped_is_generated() -> None:
    shipped = {path.relative_to(ROOT) for path in (ROOT / "results/schema").iterdir()}
    assert shipped == {path for path in FILES if path.parts[:2] == ("results", "schema")}
