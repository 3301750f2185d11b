"""A headless Chromium, and pages of synthetic runs to show in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from synthetic_run import build_run, hostile, two_volumes

from volbench.results.report.formats import packed
from volbench.results.report.render import write_reports

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests. Without one the tests are skipped, or fail when REQUIRE names `browser`."""
    if CHROMIUM is None:
        if "browser" in os.environ.get("REQUIRE", "").split(","):
            pytest.fail("no Chromium, and REQUIRE=browser: apt-get install chromium")
        pytest.skip("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two volumes, 3 against 3, one cell invalid."""
    expected = two_volumes(repeats=3, invalid={("a", 1): "client CPU-bound"})
    _, paths = write_reports(build_run(tmp_path_factory.mktemp("browser"), expected))
    return paths[2]


@pytest.fixture(scope="session")
def packed_and_plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One report with all closed sections packed, and with none. Every text tries to be markup."""
    run = build_run(tmp_path_factory.mktemp("browser"), hostile())
    pages = []
    for name, packed_from in (("packed", 0), ("plain", 1 << 40)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packed, "PACKED_FROM", packed_from)
            _, paths = write_reports(run)
        pages.append(paths[2].rename(paths[2].with_name(f"{name}.html")))
    return pages[0], pages[1]


@pytest.fixture(scope="session")
def hostile_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every free text tries to be markup."""
    _, paths = write_reports(build_run(tmp_path_factory.mktemp("browser"), hostile()))
    return paths[2]
