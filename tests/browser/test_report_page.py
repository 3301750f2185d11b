"""The report in a real browser: quiet, self-contained, linked, readable in the dark and on a phone."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from every_page import twelve
from playwright.sync_api import Browser, Page, ViewportSize

pytestmark = pytest.mark.browser

READY = "html[data-charts=ready]"
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
CHART_IS_WIDE = "document.querySelector('.panel:not([hidden]) .live canvas').getBoundingClientRect().width > 300"
BOUND_S = 180.0
"""For what a browser draws or does; only a browser that hangs takes as long."""
PANELS = ("latency", "throughput", "iops", "throughput_mib", "await", "queue", "util", "cpu", "pressure")


@contextmanager
def opened(
    browser: Browser, file: Path, *, anchor: str = "", **options: Any
) -> Iterator[tuple[Page, list[str], list[str]]]:
    """The page with its charts drawn, what its console complained of, and what it asked the network for."""
    with browser.new_context(**{"viewport": DESKTOP, **options}) as context:
        page = context.new_page()
        page.set_default_timeout(BOUND_S * 1000)
        complaints: list[str] = []
        requests: list[str] = []
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{file.as_uri()}#{anchor}" if anchor else file.as_uri())
        page.wait_for_selector(READY, state="attached")
        yield page, complaints, requests


def until(page: Page, condition: str) -> None:
    """Ask until it is true. The page's own policy forbids what Playwright's wait_for_function does."""
    deadline = time.monotonic() + BOUND_S
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"not within {BOUND_S} s: {condition}"
        page.wait_for_timeout(20)


def readouts(page: Page) -> dict[str, str]:
    """The values beside each chart's title."""
    result: dict[str, str] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.readout')].map(e => [e.dataset.panel, e.textContent]))"
    )
    return result


def point_at(page: Page, panel: str, share: float) -> None:
    """Move the mouse over a chart to a share of its width."""
    figure = page.locator(f"#panel-{panel}")
    figure.scroll_into_view_if_needed()
    box = figure.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] * 0.6)


def time_range(page: Page) -> list[float]:
    result: list[float] = page.evaluate("timelines.shown()")
    return result


def line(page: Page, panel: str, key: str, volume: int) -> dict[str, Any]:
    """Times and values of one line as it is drawn."""
    result: dict[str, Any] = page.evaluate(
        f"timelines.content.lines.find(l => l.panel === '{panel}' && l.line === '{key}' && l.group === {volume})"
    )
    return result


def test_the_console_is_quiet_and_nothing_is_fetched(browser: Browser, page_file: Path) -> None:
    """The only request is the file itself; also after every control was used."""
    with opened(browser, page_file) as (page, complaints, requests):
        page.select_option("#pick-repeat", "2")
        page.select_option("#pick-step", "dump")
        page.select_option("#pick-step", "")
        page.uncheck("#pick-volumes input[value='0']")
        page.click("#zoom-out")
        page.wait_for_timeout(200)  # whatever a control starts would be fetched or fail by now
        assert complaints == []
        assert requests == [page_file.as_uri()]


def test_every_chart_is_drawn(browser: Browser, page_file: Path) -> None:
    """A canvas in each panel, with ink on it."""
    with opened(browser, page_file) as (page, _, _):
        assert page.locator(".panel").count() == len(PANELS)
        for panel in PANELS:
            box = page.locator(f"#panel-{panel}").bounding_box()
            assert box is not None
            assert box["height"] > 100
            assert box["width"] > 1000
        assert len(line(page, "latency", "p95", 0)["x"]) > 60


def test_the_cursor_moves_in_all_charts_together(browser: Browser, page_file: Path) -> None:
    """Over one chart, the values of all charts change, to those of the same second."""
    with opened(browser, page_file) as (page, _, _):
        at_rest = readouts(page)
        point_at(page, "iops", 0.30)
        until(page, "document.getElementById('cursor-time').textContent.startsWith('at ')")
        first = readouts(page)
        displayed = page.text_content("#cursor-time")
        point_at(page, "iops", 0.62)
        until(page, f"document.getElementById('cursor-time').textContent !== '{displayed}'")
        second = readouts(page)
        for panel in ("latency", "throughput", "iops", "throughput_mib", "util"):
            assert len({at_rest[panel], first[panel], second[panel]}) == 3, panel


def test_the_cursor_line_is_drawn_in_the_other_charts(browser: Browser, page_file: Path) -> None:
    """Pixels of the chart above change while the mouse is over one below."""
    with opened(browser, page_file) as (page, _, _):
        page.locator("#panel-iops").scroll_into_view_if_needed()
        canvas = page.locator("#panel-throughput .u-over")
        point_at(page, "iops", 0.30)
        until(page, "document.getElementById('cursor-time').textContent.startsWith('at ')")
        before = canvas.screenshot()
        displayed = page.text_content("#cursor-time")
        point_at(page, "iops", 0.62)
        until(page, f"document.getElementById('cursor-time').textContent !== '{displayed}'")
        assert canvas.screenshot() != before


def drag_until_zoomed(page: Page, total: list[float]) -> list[float]:
    """Drag over a chart, as a user does; again where a busy page merged the moves into one, which is a click."""
    deadline = time.monotonic() + BOUND_S
    while time_range(page) == total:
        assert time.monotonic() < deadline, f"a drag does not zoom within {BOUND_S} s"
        point_at(page, "iops", 0.4)
        page.mouse.down()
        for share in (0.45, 0.5, 0.55, 0.6):
            point_at(page, "iops", share)
        page.mouse.up()
        page.wait_for_timeout(200)
    return time_range(page)


def test_zoom_is_linked_and_undone(browser: Browser, page_file: Path) -> None:
    """Dragging over one chart zooms the time of all; the button shows everything again."""
    with opened(browser, page_file) as (page, _, _):
        total = time_range(page)
        point_at(page, "iops", 0.4)
        until(page, "document.getElementById('cursor-time').textContent.startsWith('at ')")  # it listens by now
        zoomed = drag_until_zoomed(page, total)
        assert total[0] < zoomed[0] < zoomed[1] < total[1]
        ranges = page.evaluate(
            f"{list(PANELS)}.map(name => timelines.charts.get(name).scales.x).map(x => [x.min, x.max])"
        )
        assert ranges == [zoomed] * len(PANELS)
        page.click("#zoom-out")
        until(page, f"timelines.shown()[1] === {total[1]}")
        assert time_range(page) == total


def test_the_stall_is_a_gap_in_latency(browser: Browser, page_file: Path) -> None:
    """Volume a stalls 24 s into the measured time: no number, not zero; b goes on."""
    with opened(browser, page_file) as (page, _, _):
        drawn = line(page, "latency", "p95", 0)
        stalled = {round(t): value for t, value in zip(drawn["x"], drawn["y"], strict=True)}
        assert stalled[26] is None
        assert stalled[20] is not None
        stalls = page.evaluate("timelines.content.bands.filter(band => band.group === 0).map(band => band.from)")
        assert stalls == [24]


def test_an_invalid_repeat_is_named_and_not_shown_first(browser: Browser, page_file: Path) -> None:
    """Repeat 1 of a is invalid, so the page opens with repeat 2."""
    with opened(browser, page_file) as (page, _, _):
        assert page.input_value("#pick-repeat") == "2"
        assert "1 (invalid: a)" in page.locator("#pick-repeat option").all_text_contents()


def test_dark_mode_has_other_colours(browser: Browser, page_file: Path) -> None:
    """Ground, text and lines of charts; also when the reader changes it while the page is open."""
    ink = "getComputedStyle(document.body).color"
    ground = "getComputedStyle(document.body).backgroundColor"
    stroke = "timelines.charts.get('latency').series[1].stroke()"
    observed = {}
    for scheme in ("light", "dark"):
        with opened(browser, page_file, color_scheme=scheme) as (page, _, _):
            observed[scheme] = [page.evaluate(subject) for subject in (ink, ground, stroke)]
            alternative: Literal["dark", "light"] = "dark" if scheme == "light" else "light"
            page.emulate_media(color_scheme=alternative)
            until(page, f"{stroke} !== '{observed[scheme][2]}'")
    assert all(light != dark for light, dark in zip(observed["light"], observed["dark"], strict=True))


@pytest.mark.parametrize("file", ["page_file", "hostile_file"])
def test_a_phone_has_no_sideways_scrolling(browser: Browser, file: str, request: pytest.FixtureRequest) -> None:
    """390 px wide, names as long as they come; charts as wide as the screen."""
    options: dict[str, Any] = {"viewport": PHONE, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
    with opened(browser, request.getfixturevalue(file), **options) as (page, complaints, _):
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.click("#timelines summary")
        until(page, CHART_IS_WIDE)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        box = page.locator(".panel:not([hidden])").first.bounding_box()
        assert box is not None
        assert 300 < box["width"] <= 390
        assert complaints == []


ANSWER_MAX_PX = 6_000
"""What a phone shows of a report before a section is asked for: seven screens; the demo's had 15,664 px."""


def test_a_phone_shows_the_answer_and_opens_what_is_asked_for(browser: Browser, page_file: Path) -> None:
    options: dict[str, Any] = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
    height = "document.documentElement.scrollHeight"
    closed = "[...document.querySelectorAll('main > section > .fold:not([open])')].map(e => e.parentElement.id)"
    with opened(browser, page_file, **options) as (page, complaints, _):
        assert page.locator("h1").is_visible()
        assert page.locator("#findings article").first.is_visible()
        assert {"comparisons", "cells", "timelines", "latency", "settings"} <= set(page.evaluate(closed))
        assert page.evaluate(height) <= ANSWER_MAX_PX
        page.click("nav a[href='#comparisons']")
        assert page.locator("#comparisons table").first.is_visible()
        assert "comparisons" not in page.evaluate(closed)
        page.click("#findings a.to-chart >> nth=0")
        until(page, CHART_IS_WIDE)
        assert complaints == []
    for anchor in ("cells", "findings"):  # from a link to a part of the page
        with opened(browser, page_file, anchor=anchor, **options) as (page, _, _):
            assert anchor not in page.evaluate(closed)
    with opened(browser, page_file) as (page, _, _):
        assert page.locator(".fold").count() == 0


def test_paper_has_everything_but_the_controls(browser: Browser, page_file: Path) -> None:
    """Black on white also for a reader in the dark; a PDF of several pages."""
    with opened(browser, page_file, color_scheme="dark") as (page, _, _):
        page.emulate_media(media="print")
        assert not page.locator("#controls").is_visible()
        assert page.locator("#comparisons table").first.is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert len(page.pdf()) > 20_000


A4_WITHIN_MARGINS: ViewportSize = {"width": 703, "height": 1030}
"""210 mm less twice 12 mm, at 96 dots an inch."""


@pytest.mark.parametrize("file", ["page_file", "hostile_file"])
def test_nothing_is_cut_on_a4(browser: Browser, file: str, request: pytest.FixtureRequest) -> None:
    """No chart and no table is wider than the paper, and none hides a part of itself."""
    with opened(browser, request.getfixturevalue(file), viewport=A4_WITHIN_MARGINS) as (page, _, _):
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        wide = page.evaluate(
            "[...document.querySelectorAll('table, svg, figure, .scroll')].filter(e =>"
            " e.getBoundingClientRect().right > innerWidth + 1 ||"
            " (getComputedStyle(e).overflowX !== 'visible' && e.scrollWidth > e.clientWidth + 1))"
            ".map(e => `${e.tagName} ${e.className.baseVal ?? e.className} ${e.getBoundingClientRect().right}`)"
        )
        assert wide == []


def sheets(page: Page) -> int:
    """Sheets of A4 that the page prints on."""
    return len(re.findall(rb"/Type */Page\b", page.pdf(prefer_css_page_size=True)))


def test_closed_sections_are_printed_only_when_asked_for(browser: Browser, page_file: Path) -> None:
    """Nobody pays for sheets of tables that were not opened; the link, or `#print-all`, prints them, too."""
    displayed = "[...document.querySelectorAll('details')].map(d => d.lastElementChild.checkVisibility())"
    with opened(browser, page_file) as (page, _, _):
        assert page.locator("details:not([open])").count() > 3
        few = sheets(page)
        page.emulate_media(media="print")
        assert not any(page.evaluate(displayed))
        page.emulate_media(media="screen")
        page.click("#print-all")
        page.emulate_media(media="print")
        assert all(page.evaluate(displayed))
        assert sheets(page) > few


def test_timelines_on_paper_reach_their_last_second(browser: Browser, page_file: Path) -> None:
    """Each chart is a still picture whose line ends where the cell's step does, and the choice is named."""
    with opened(browser, page_file, viewport=A4_WITHIN_MARGINS) as (page, _, _):
        page.select_option("#pick-repeat", "3")
        page.emulate_media(media="print")
        assert not page.locator(".panel .live").first.is_visible()
        for panel in PANELS:
            assert page.locator(f"#paper-{panel} svg").is_visible()
            drawn = page.evaluate(
                f"[...document.querySelectorAll('#paper-{panel} polyline')]"
                ".map(e => e.getBoundingClientRect().right)"
            )
            inside = page.evaluate(f"document.querySelector('#paper-{panel} svg').getBoundingClientRect().right")
            assert drawn
            assert inside - 30 < max(drawn) <= inside
        chosen = page.locator("#printed-choice")
        assert chosen.is_visible()
        assert re.search(
            r"Step read-write, repeat 3 \(a: cell \S+-a-r3; b: cell \S+-b-r3\)", chosen.text_content() or ""
        )


def test_a_page_printed_before_its_charts_are_ready_has_them(browser: Browser, page_file: Path) -> None:
    """What is printed does not wait for the drawing library, and nothing is shown that was not measured."""
    without_library = re.sub(
        r"<script>(?!\s*\"use strict\").*?</script>", "", page_file.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    early = page_file.with_name("early.html")
    early.write_text(without_library, encoding="utf-8")
    with browser.new_context(viewport=A4_WITHIN_MARGINS) as context:
        page = context.new_page()
        page.goto(early.as_uri())
        page.emulate_media(media="print")
        assert page.evaluate("typeof uPlot") == "undefined"
        assert page.locator("#paper-latency polyline").count() > 0
        assert page.locator("#printed-choice").is_visible()


def test_log_axes_have_ticks_where_the_data_are(browser: Browser, page_file: Path) -> None:
    with opened(browser, page_file) as (page, _, _):
        ticks = page.evaluate("timelines.charts.get('latency').axes[1]._splits")
        drawn = [line(page, "latency", level, volume)["y"] for level in ("p50", "p95", "p99") for volume in (0, 1)]
        values = [value for values in drawn for value in values if value is not None]
        assert len(ticks) >= 2
        assert min(values) / 1.2 <= min(ticks)
        assert max(ticks) <= max(values) * 1.2


def test_a_finding_leads_to_its_chart(browser: Browser, page_file: Path) -> None:
    """The link chooses the step and the cell that the finding is about."""
    with opened(browser, page_file) as (page, _, _):
        page.select_option("#pick-step", "")
        link = page.locator("#findings a.to-chart").first
        step, cell = link.get_attribute("data-step"), link.get_attribute("data-cell")
        assert cell is not None
        link.click()
        assert page.input_value("#pick-step") == step
        assert page.input_value("#pick-repeat") == cell.rpartition("-r")[2]
        target = (link.get_attribute("href") or "").removeprefix("#")
        until(page, f"Math.abs(document.getElementById('{target}').getBoundingClientRect().top) < innerHeight")


@pytest.mark.parametrize("section", ["findings", "costs"])
def test_the_navigation_has_every_section(browser: Browser, page_file: Path, section: str) -> None:
    with opened(browser, page_file) as (page, _, _):
        assert page.locator(f"nav a[href='#{section}']").count() == page.locator(f"section#{section}").count() == 1


def test_no_column_on_a_phone_is_one_letter_wide(browser: Browser, page_file: Path) -> None:
    """Words of tables break between letters only where a name is longer than the screen."""
    options: dict[str, Any] = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
    with opened(browser, page_file, **options) as (page, _, _):
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        narrow = page.evaluate(
            "[...document.querySelectorAll('td, th')].filter(e => {"
            " const r = document.createRange(); r.selectNodeContents(e);"
            " const words = Math.max(0, ...e.textContent.trim().split(/\\s+/).map(w => w.length));"
            " const box = e.getBoundingClientRect();"
            " return box.width > 0 && words > 3 && box.width < 30 && box.height > 60; }).map(e => e.textContent)"
        )
        assert narrow == []


def test_names_are_inert(browser: Browser, hostile_file: Path) -> None:
    """No script of a name runs, no image of a name is asked for, in text, attributes, data or controls."""
    with opened(browser, hostile_file) as (page, complaints, requests):
        page.select_option("#pick-step", "")
        page.locator("summary").first.click()
        assert "owned" not in page.title().split("·")[0]
        assert page.evaluate("document.images.length") == 0
        assert page.evaluate("document.querySelectorAll('[onerror]').length") == 0
        assert page.evaluate("document.title") == page.evaluate("document.querySelector('title').textContent")
        assert complaints == []
        assert requests == [hostile_file.as_uri()]


def test_without_scripts_the_tables_are_there(browser: Browser, page_file: Path) -> None:
    """And the page says what is missing."""
    with browser.new_context(java_script_enabled=False, viewport=DESKTOP) as context:
        page = context.new_page()
        page.goto(page_file.as_uri())
        assert page.locator("noscript").count() == 1
        assert page.locator("#comparisons tbody tr").first.is_visible()
        assert page.locator(".dots").first.is_visible()


def test_marks_lead_to_findings_and_findings_to_marks(browser: Browser, page_file: Path) -> None:
    """A numbered line in each chart, a list that says what it is, and a link to the finding; on paper, too."""
    with opened(browser, page_file) as (page, complaints, _):
        page.locator("a.to-chart").first.click()
        marks = page.locator("#marks li")
        assert marks.count() > 0
        assert "second" in (marks.first.text_content() or "")
        for link in marks.locator("a").all():
            assert page.locator(link.get_attribute("href") or "").is_visible()
        numbers = page.evaluate("timelines.marks().map(mark => mark.number)")
        assert numbers == [str(number) for number in range(1, marks.count() + 1)]
        assert page.locator("#paper-iops line.mark").count() == marks.count()
        page.select_option("#pick-step", "")
        assert "second" not in (marks.first.text_content() or "")
        assert complaints == []


def test_no_two_of_twelve_volumes_look_alike(browser: Browser, tmp_path: Path) -> None:
    """The seventh volume had the colour of the first, and paper without colours told none apart."""
    (file,) = twelve(tmp_path)
    with opened(browser, file) as (page, complaints, _):
        legend = "[...document.querySelectorAll('.readout[data-panel=throughput] b')]"
        looks = page.evaluate(f"{legend}.map(b => [b.className, b.querySelector('.glyph').textContent])")
        assert len({tuple(look) for look in looks}) == len(looks) == 12
        page.emulate_media(media="print")
        drawn = page.evaluate("[...document.querySelectorAll('#paper-throughput .glyph')].map(m => m.textContent)")
        assert {glyph for _, glyph in looks} == set(drawn)
        assert complaints == []


def test_paper_without_colours_tells_two_volumes_apart(browser: Browser, page_file: Path) -> None:
    with opened(browser, page_file) as (page, _, _):
        page.emulate_media(media="print")
        legend = page.locator(".readout[data-panel=throughput] .glyph").all_text_contents()
        drawn = page.locator("#paper-throughput .glyph").all_text_contents()
        assert set(legend) == set(drawn)
        assert len(set(legend)) == 2
