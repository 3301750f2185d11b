"""Pages without charts: decisions to sign, the lab's scores, a credit balance. Dark, on a phone and on paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from stored_files import stored_text

from explain import page as lab_page
from score_files import DATA_FILE
from volbench.core.records.goals.gate import ConditionRow, Gate, GroupRow
from volbench.core.records.validation.result import Validation
from volbench.results.report.formats.gate import render_gate
from volbench.results.report.formats.validation import validation_html

pytestmark = pytest.mark.browser

EXAMPLES = Path(__file__).parents[2] / "results" / "examples"
LONG = "a_name_without_any_place_to_break_it_" * 6


def gate_page() -> str:
    group = GroupRow(volume="b", step="read-write", parameters={}, decision="no-go", text=LONG, cells=5)
    condition = ConditionRow(
        check="latency_ms_p95 <= 20 ms", where="policy.yaml:3", rationale=LONG, decision="no-go", groups=(group,)
    )
    gate = Gate(
        decision="no-go",
        reason="one condition does not hold",
        policy="move",
        policy_sha256="0" * 64,
        run_id="20260302T093000Z-compare-0a1b2c",
        suite="compare",
        report_sha256="1" * 64,
        current="a",
        candidates=("b",),
        emulated=(),
        complete=True,
        confidence=0.95,
        conditions=(condition,),
        volbench_version="0.2.0",
    )
    return render_gate(gate, "html")


def validation_page() -> str:
    return validation_html(
        Validation.model_validate_json((EXAMPLES / "validation/planted/validation.json").read_text())
    )


def lab_scores() -> str:
    return lab_page.html(json.loads(stored_text(EXAMPLES / "lab" / DATA_FILE)))


PAGES: list[Callable[[], str]] = [gate_page, validation_page, lab_scores]


@pytest.fixture(params=PAGES, ids=lambda make: make.__name__)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(request.param(), encoding="utf-8")
    return path


def test_it_is_dark_in_the_dark_and_white_on_paper(browser: Browser, file: Path) -> None:
    grounds = {}
    with browser.new_context(color_scheme="dark") as context:
        page = context.new_page()
        page.goto(file.as_uri())
        for media in ("screen", "print"):
            page.emulate_media(media=media, color_scheme="dark")
            look = "getComputedStyle(document.body)"
            grounds[media] = page.evaluate(f"[{look}.backgroundColor, {look}.color]")
    assert brightness(grounds["screen"][0]) < 60
    assert brightness(grounds["screen"][1]) > 180
    assert grounds["print"][0] == "rgb(255, 255, 255)"
    assert brightness(grounds["print"][1]) < 60


def brightness(colour: str) -> float:
    """The mean of `rgb(r, g, b)`."""
    pieces = [float(field) for field in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(pieces) / 3


def test_a_phone_has_no_sideways_scrolling(browser: Browser, file: Path) -> None:
    with browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
