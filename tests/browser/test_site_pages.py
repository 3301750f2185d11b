"""The documentation site in a real browser, served as `make docs` says: quiet, from one place, on a phone too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from documentation_site import documentation_site
from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    out = documentation_site(tmp_path_factory)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(out))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    "page", ["index", "docs/validation", "runner/ARCHITECTURE", "reference/commands", "suites/index"]
)
def test_a_page_is_quiet_and_fits(browser: Browser, address: str, page: str, width: int, colours: str) -> None:
    with browser.new_context(viewport={"width": width, "height": 844}, color_scheme=colours) as context:  # type: ignore[arg-type]
        tab = context.new_page()
        complaints: list[str] = []
        requests: list[str] = []
        tab.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(f"{address}/{page}.html", wait_until="networkidle")
        assert complaints == []
        assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_the_search_answers(browser: Browser, address: str) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        tab = context.new_page()
        tab.goto(f"{address}/index.html", wait_until="networkidle")
        tab.locator(".md-search__input").click()
        tab.locator(".md-search__input").press_sequentially("burst_exhausted")
        tab.locator(".md-search-result__item").first.wait_for(timeout=60_000)
        assert "Causes" in tab.locator(".md-search-result__list").inner_text()
