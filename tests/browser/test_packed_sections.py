"""Large closed sections of a report in a real browser: their rows are there, inert, printed when asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

READY = "html[data-sections=ready]"
BOUND_MS = 180_000
TEXTS = "[...document.querySelectorAll('details')].map(d => d.innerText.replaceAll(/\\s+/g, ' ').trim())"


@contextmanager
def opened(browser: Browser, file: Path) -> Iterator[tuple[Page, list[str], list[str]]]:
    """The page with its sections made, what its console complained of, and what it asked the network for."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.set_default_timeout(BOUND_MS)
        complaints: list[str] = []
        requests: list[str] = []
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector(READY, state="attached")
        yield page, complaints, requests


@pytest.fixture
def packed_file(packed_and_plain: tuple[Path, Path]) -> Path:
    assert [" data-packed=" in page.read_text() for page in packed_and_plain] == [True, False]
    return packed_and_plain[0]


def test_packed_sections_show_what_plain_ones_show(browser: Browser, packed_and_plain: tuple[Path, Path]) -> None:
    texts = []
    for file in packed_and_plain:
        with opened(browser, file) as (page, complaints, requests):
            assert page.locator("[data-packed]").count() == 0
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            texts.append(page.evaluate(TEXTS))
            assert complaints == []
            assert requests == [file.as_uri()]
    assert texts[0] == texts[1]


def test_names_in_packed_sections_are_inert(browser: Browser, packed_file: Path) -> None:
    with opened(browser, packed_file) as (page, _, _):
        assert "owned" not in page.title().split("·")[0]
        assert page.evaluate("document.images.length") == 0
        assert page.evaluate("document.querySelectorAll('details script, [onerror]').length") == 0


def test_packed_sections_are_printed_when_they_are_asked_for(browser: Browser, packed_file: Path) -> None:
    def sheets(page: Page) -> int:
        return len(re.findall(rb"/Type */Page\b", page.pdf(prefer_css_page_size=True)))

    with opened(browser, packed_file) as (page, _, _):
        few = sheets(page)
        page.click("#print-all")
        assert sheets(page) > few


def test_without_scripts_a_packed_section_says_where_its_figures_are(browser: Browser, packed_file: Path) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(packed_file.as_uri())
        section = page.locator("#comparisons details")
        section.locator("summary").click()
        assert "report.json" in section.locator("[data-packed]").inner_text()
