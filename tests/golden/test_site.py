"""The documentation site is built from this repository alone, and each of its links leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documentation_site import documentation_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return documentation_site(tmp_path_factory)


def test_it_has_the_pages_the_references_and_the_examples(site: Path) -> None:
    for page in (
        "index.html",
        "docs/causes.html",
        "runner/ARCHITECTURE.html",
        "suites/index.html",
        "results/examples/quick/report.html",
        "results/examples/fargate-efs-cold-read/report.html",
        "docs/pictures/report.png",
        "LICENSE",
    ):
        assert (site / page).is_file(), page
    commands = (site / "reference/commands.html").read_text()
    assert "volbench volume probe" in commands
    assert "--what-if" in commands
    volumes = (site / "reference/volumes.html").read_text()
    assert "iops_per_gib = 3" in volumes
    assert "docker-volume:NAME" in volumes


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\s>]+")
    assert [page.name for page in site.rglob("*.html") if loads.search(page.read_text())] == []
