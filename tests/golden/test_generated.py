"""Files that are made from the code are those that the code makes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from generated import ROOT, generated_files

from volbench.cli.main import GROUPS


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


def test_the_manual_page_is_installed_and_has_every_command(files: dict[Path, str]) -> None:
    page = Path("docs/man/volbench.1")
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["shared-data"] == {str(page): "share/man/man1/volbench.1"}
    for commands in GROUPS.values():
        for name in commands:
            assert re.search(rf"^\.SS volbench {name}\b", files[page], flags=re.MULTILINE), name
