"""The site of all runs in a browser: filters, two runs side by side, narrow and dark, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from synthetic_history import slower_from, write_history

from volbench.core.base.text import change as change_text
from volbench.results.site.build import build_site

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("history")
    write_history(base / "results", 25, levels={"gp3": slower_from(20, 1.4)})
    write_history(base / "results", 2, suite="compare", seed=2)
    build_site(base / "results", base / "site")
    return base / "site"


@pytest.fixture(params=[1280, 390])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": request.param, "height": 900})
    opened = context.new_page()
    errors: list[str] = []
    opened.on("console", lambda message: errors.append(message.text))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    assert errors == []
    context.close()


def displayed(page: Page) -> list[str]:
    rows = page.locator("#run-table tbody tr")
    return [str(row.get_attribute("data-run")) for row in rows.all() if row.is_visible()]


def assert_fits(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_filters_leave_the_runs_that_match(page: Page, site: Path) -> None:
    page.goto(f"file://{site}/index.html")
    assert len(displayed(page)) == 27
    page.select_option("select[name=suite]", "compare")
    assert {name.split("-")[1] for name in displayed(page)} == {"compare"}
    assert page.text_content("#count") == "2 runs"
    page.select_option("select[name=suite]", "")
    page.fill("input[name=text]", "quick-000014 gp3")
    (name,) = displayed(page)
    assert name.endswith("quick-000014")
    page.fill("input[name=text]", "no such run")
    assert displayed(page) == []
    assert_fits(page)


def test_two_chosen_runs_are_shown_side_by_side(page: Page, site: Path) -> None:
    page.goto(f"file://{site}/index.html")
    button = page.locator("#compare")
    assert button.is_disabled()
    boxes = page.locator("#run-table tbody tr[data-suite=quick] input")
    boxes.first.check()
    boxes.last.check()
    button.click()
    page.wait_for_selector("#comparison:not([hidden])")
    message = str(page.text_content("#compare-message"))
    assert message.index("quick-000000") < message.index("quick-000018"), "the older one is before"
    results = page.locator("#results tbody tr")
    assert results.count() == 6
    (change,) = [
        text for text in results.all_text_contents() if text.startswith("gp3") and "transactions/s" in text
    ]
    assert "−" in change.replace("gp3", ""), change
    assert "| gp3 read-write" in page.input_value("#markdown")
    texts = [page.evaluate(f"change(1, {ratio})") for ratio in (12.3, 1.38, 0.73, 1 / 13.9)]
    assert texts == [change_text(ratio) for ratio in (12.3, 1.38, 0.73, 1 / 13.9)]
    assert_fits(page)


def test_a_run_that_is_not_there_is_told(browser: Browser, site: Path) -> None:
    opened = browser.new_page()
    opened.goto(f"file://{site}/compare.html?a=x&b=y")
    opened.wait_for_function("document.getElementById('compare-message').textContent.startsWith('There is no run')")
    opened.close()


def test_a_history_shows_its_points_levels_and_change(page: Page, site: Path) -> None:
    (history,) = site.glob("history/quick-gp3-*.html")
    page.goto(f"file://{history}")
    charts = page.locator("figure svg")
    assert charts.count() == 3
    assert charts.first.locator(".point").count() == 25
    assert charts.first.locator(".level").count() == 2
    assert charts.first.locator(".mark.worse").count() == 1
    box = charts.first.bounding_box()
    assert box is not None
    assert box["width"] > 200
    assert_fits(page)


def test_dark_and_print_have_readable_colours(browser: Browser, site: Path) -> None:
    """Text against its ground: a contrast of 7 and more."""
    for scheme, media in (("dark", "screen"), ("light", "print"), ("dark", "print")):
        opened = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
        opened.emulate_media(media=media)  # type: ignore[arg-type]
        opened.goto(f"file://{site}/index.html")
        ground, ink = opened.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        assert contrast(ground, ink) >= 7, (scheme, media, ground, ink)
        opened.close()


def contrast(first: str, second: str) -> float:
    """WCAG's ratio of two colours such as rgb(1, 2, 3)."""

    def luminance(colour: str) -> float:
        shares = [int(field) / 255 for field in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)
