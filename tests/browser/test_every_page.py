"""Every kind of page in a browser: quiet, not empty, accessible, no wider than its screen, on paper too.

`make test` opens each kind, and the smallest committed page; `-m slow` opens every committed page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from every_page import KINDS, ROOT, committed_pages
from playwright.sync_api import Browser, Page, ViewportSize

pytestmark = pytest.mark.browser

PACKAGE = ROOT / "runner/volbench/results"
BOUND_MS = 180_000
TEXT_MIN = 60
"""Characters of a page's visible text. The smallest page, which asks for two runs, has 68."""
SHEETS_MAX = 25
HEIGHT_MAX_PX = 30_000
"""Of a page on a phone: some forty screens, for a report of hundreds of figures; fargate's had 59,000."""
REPORT_HEIGHT_MAX_PX = 12_000
"""Of a report that this version writes: its sections are closed on a phone until they are asked for."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """One way to look at a page. `rules` are axe's; empty: all of them.

    Args:
        options: of the browser's context that opens the page.
        media: what is emulated once it is open.
    """

    name: str
    width: int
    options: dict[str, Any] = field(default_factory=dict)
    media: dict[str, Any] = field(default_factory=dict)
    is_paper: bool = False
    rules: tuple[str, ...] = ()


PHONE_RULES = ("scrollable-region-focusable", "target-size", "meta-viewport", "color-contrast")
LOOKS = (
    (
        Look(name="desktop", width=1280),
        Look(name="dark", width=1280, media={"color_scheme": "dark"}, rules=("color-contrast",)),
    ),
    (Look(name="phone", width=390, options={"is_mobile": True, "has_touch": True}, rules=PHONE_RULES),),
    (Look(name="A4", width=703, media={"media": "print"}, is_paper=True, rules=("color-contrast",)),),
)
"""Looks at a page, together those for which it is opened once."""


def test_every_template_of_a_whole_page_is_filled_by_a_kind() -> None:
    """A new kind of page is opened, too, or this fails."""
    total = {
        str(template.relative_to(PACKAGE))
        for template in PACKAGE.rglob("*.html.j2")
        if re.search(r"<!doctype|{% extends", template.read_text())
    }
    assert total == {name for _, names in KINDS.values() for name in names}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_page_is_sound(browser: Browser, kind: str, tmp_path: Path) -> None:
    maker, templates = KINDS[kind]
    pages = maker(tmp_path)
    assert pages
    high = REPORT_HEIGHT_MAX_PX if "report/page/report.html.j2" in templates else HEIGHT_MAX_PX
    assert [fault for page in pages for fault in faults_of(browser, page, height_max_px=high)] == []


def test_the_smallest_committed_page_is_sound(browser: Browser) -> None:
    assert list(faults_of(browser, committed_pages()[0])) == []


@pytest.mark.slow
@pytest.mark.parametrize("file", committed_pages(), ids=lambda file: str(file.relative_to(ROOT)))
def test_a_committed_page_is_sound(browser: Browser, file: Path) -> None:
    assert list(faults_of(browser, file)) == []


def faults_of(browser: Browser, file: Path, *, height_max_px: int = HEIGHT_MAX_PX) -> Iterator[str]:
    """Yield what is wrong with a page, in each look."""
    for looks in LOOKS:
        viewport: ViewportSize = {"width": looks[0].width, "height": 900}
        with browser.new_context(viewport=viewport, **looks[0].options) as context:
            page = context.new_page()
            page.set_default_timeout(BOUND_MS)
            complaints: list[str] = []
            _listen(page, complaints)
            page.goto(file.as_uri())
            for look in looks:
                page.emulate_media(**look.media)
                faults = [*_faults(page, look, height_max_px), *complaints]
                yield from (f"{file.name}, {look.name}: {fault}" for fault in faults)
                complaints.clear()


def _listen(page: Page, complaints: list[str]) -> None:
    page.on("console", lambda message: complaints.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("requestfailed", lambda request: complaints.append(f"not had: {request.url}"))


def _faults(page: Page, look: Look, height_max_px: int) -> Iterator[str]:
    text = page.locator("body").inner_text()
    if len(text.strip()) < TEXT_MIN:
        yield f"{len(text.strip())} characters of text"
    if page.evaluate("typeof LineCharts") != "undefined":
        panels = page.evaluate("document.querySelectorAll('.panel:not([hidden])').length")
        drawn = ".paper svg" if look.is_paper else ".live canvas"
        if (result := page.locator(f".panel {drawn}").count()) < panels:
            yield f"{result} of {panels} charts"
    width, height = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    if width > look.width:
        yield f"{width} px wide"
    if not look.is_paper and height > (height_max_px if look.name == "phone" else HEIGHT_MAX_PX):
        yield f"{height} px high"
    if look.is_paper:
        sheets = len(re.findall(rb"/Type */Page\b", page.pdf(prefer_css_page_size=True, format="A4")))
        if sheets > SHEETS_MAX:
            yield f"{sheets} sheets"
    yield from _axe_faults(page, look.rules)


def _axe_faults(page: Page, rules: tuple[str, ...]) -> Iterator[str]:
    options: dict[str, Any] = {"resultTypes": ["violations"], "iframes": False, "preload": False}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    page.evaluate(AXE_SCRIPT)
    result = page.evaluate("options => axe.run(document, options)", options)
    for violation in result["violations"]:
        nodes = violation["nodes"]
        yield f"{violation['id']} ({len(nodes)}): {nodes[0]['html'][:120]} {nodes[0]['failureSummary'][:200]}"
