"""The documentation site is built from this repository alone, and each of its links leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly: a page without a place in the menu and a link or an anchor that leads nowhere end it."""
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


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
