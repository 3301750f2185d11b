"""The page: one file, bounded, no reference to the outside, nothing from a name becomes markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from synthetic_run import HOSTILE, build_run, two_volumes
from timeline_data import timeline_data

from volbench.core.base.text import TIMES
from volbench.core.records.report import Report
from volbench.results.report.build import build_report
from volbench.results.report.formats import html as html_format
from volbench.results.report.formats.template import code_marked, keep_units_together
from volbench.results.report.render import render
from volbench.results.store.run_directory import HISTOGRAMS_FILE, SERIES_FILE, RunDirectory

VOID = {"meta", "link", "br", "wbr", "hr", "img", "input", "line", "polyline"}


class Page(HTMLParser):
    """Tags, their attributes, visible text; scripts and styles apart. Fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.code: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.code.append(data)
        else:
            self.text += data


@pytest.fixture(scope="module")
def page_text(pair: RunDirectory, pair_report: Report) -> str:
    return render(pair_report, pair, "html")


@pytest.fixture(scope="module")
def page(page_text: str) -> Page:
    return Page(page_text)


def test_the_page_is_below_its_limit(page_text: str) -> None:
    """2 MB for a suite of this size."""
    assert len(page_text.encode()) <= 2_000_000


def test_nothing_is_fetched(page: Page) -> None:
    """No attribute points outside, the policy forbids what a script might try."""
    for tag, name, value in page.attributes:
        if name in ("src", "href", "action", "data", "poster", "srcset"):
            assert value.startswith("#"), (tag, name, value)
    policy = next(value for _, name, value in page.attributes if name == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'")
    assert not any("@import" in code or "url(" in code for code in page.code if "--ground" in code)


def test_the_verdict_comes_first(page: Page, pair_report: Report) -> None:
    """Before any table or chart."""
    assert page.text.index("b is better") < page.text.index("Comparisons")
    assert "Volume b is better for MySQL than a" in page.text.replace("\N{NO-BREAK SPACE}", " ")
    assert page.tags.index("h1") < page.tags.index("table")


def test_tables_tell_everything_without_scripts(page: Page, pair_report: Report) -> None:
    """Every comparison with both values, every differing setting, how to reproduce."""
    for row in pair_report.comparisons:
        assert f"{row.runs[0]} / {row.runs[1]}" in page.text
    for name in pair_report.differing_settings:
        assert name in page.text
    assert pair_report.reproduce[0] in page.text
    assert "noscript" in page.tags


def test_a_change_and_its_interval_have_the_same_form(pair: RunDirectory, pair_report: Report) -> None:
    """The table had +899 % beside [× 9.13, × 10.7], and the headline × 9.99."""
    first, *remaining = pair_report.comparisons
    wide = first.model_copy(update={"ratio": 9.99, "ci": (9.13, 10.7)})
    text = render(pair_report.model_copy(update={"comparisons": (wide, *remaining)}), pair, "html")
    assert "+899" not in text
    assert f"{TIMES}\N{NO-BREAK SPACE}9.99" in text


def test_every_cell_is_a_dot(page: Page) -> None:
    """10 cells, 8 primary metrics."""
    dots = [value for tag, name, value in page.attributes if name == "class" and value.split()[:1] == ["dot"]]
    assert len(dots) == 80


def test_timeline_data_is_there(page_text: str) -> None:
    """All cells, all panels, on one clock."""
    data = timeline_data(page_text)
    assert data is not None
    assert [cell["volume"] for cell in data["cells"]].count(0) == 5
    assert [panel["key"] for panel in data["panels"]][:2] == ["latency", "throughput"]
    stalls = {tuple(map(tuple, cell["stalls"])) for cell in data["cells"] if cell["volume"] == 0}
    assert stalls == {((40.0, 45.0),)}


def test_timeline_data_takes_a_third_of_its_json(page_text: str) -> None:
    """Lines over time were half of a page."""
    (packed,) = re.findall(r'id="timeline-data">([^<]*)<', page_text)
    assert len(packed) < len(json.dumps(timeline_data(page_text), separators=(",", ":"))) / 3


def test_names_never_become_markup(hostile_run: RunDirectory, hostile_run_report: Report) -> None:
    """The page parses to the same tags as with tame names; scripts hold no raw name."""
    text = render(hostile_run_report, hostile_run, "html")
    page = Page(text)
    assert page.tags.count("script") == 5
    assert "img" not in page.tags
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    assert HOSTILE in page.text
    assert not any(HOSTILE in code for code in page.code)


def test_a_page_without_tables_has_no_charts(tmp_path: Path) -> None:
    """No chart without data, and no script library for none."""
    directory = build_run(tmp_path, two_volumes(repeats=1))
    for path in [
        *directory.path.glob(f"cells/*/{SERIES_FILE}"),
        *directory.path.glob(f"cells/*/{HISTOGRAMS_FILE}"),
    ]:
        path.unlink()
    text = render(build_report(directory), directory, "html")
    assert text.count("<script") == 1  # it closes sections on a phone
    assert "uPlot" not in text
    assert len(text.encode()) < 100_000
    assert "Timelines" not in text


@pytest.mark.parametrize("name", [SERIES_FILE, HISTOGRAMS_FILE])
def test_a_damaged_table_is_named_and_costs_one_cell(tmp_path: Path, name: str) -> None:
    """Verdict and numbers are in result.json: the page is there, and says what it could not draw."""
    directory = build_run(tmp_path, two_volumes(repeats=1))
    path = next(directory.path.glob(f"cells/*/{name}"))
    path.write_bytes(path.read_bytes()[:200])
    text = render(build_report(directory), directory, "html")
    assert "Not drawn: " in text
    assert f"{path.parent.name}/{name}" in text
    data = timeline_data(text)
    assert data is not None
    assert len(data["cells"]) == 1


def test_a_run_without_results_has_a_page(tmp_path: Path) -> None:
    """It says so."""
    directory = build_run(tmp_path, two_volumes(repeats=1, not_run=frozenset({("a", 1), ("b", 1)})))
    assert "No verdict: no cell" in Page(render(build_report(directory), directory, "html")).text


def test_the_headline_is_the_title_and_the_heading(pair_report: Report, pair: RunDirectory) -> None:
    text = render(pair_report, pair, "html")
    assert f"<h1>{pair_report.summary.headline}</h1>".replace(" %", "\xa0%") in text
    assert f"<title>{pair_report.summary.headline} · " in text


def test_a_report_of_an_older_version_has_its_sentence_as_heading(pair_report: Report, pair: RunDirectory) -> None:
    older = pair_report.model_copy(
        update={"summary": pair_report.summary.model_copy(update={"headline": "", "sentence": "Volume b wins."})}
    )
    assert "<h1>Volume b wins.</h1>" in render(older, pair, "html")


def test_numbers_stay_with_their_unit() -> None:
    """No line break before a percent sign or within an interval."""
    assert keep_units_together("p95 × 19.1 [× 17.0, × 20.7]") == "p95 ×\xa019.1 [×\xa017.0,\xa0×\xa020.7]"
    assert keep_units_together("tps +38 % [+31 %, +45 %]") == "tps +38\xa0% [+31\xa0%,\xa0+45\xa0%]"


def test_a_command_in_a_sentence_is_code_and_nothing_else_is_markup() -> None:
    """Backticks stood on the page as they do in Markdown."""
    assert code_marked("modulate (`volbench run SUITE --modulate 4`) it") == (
        "modulate (<code>volbench run SUITE --modulate 4</code>) it"
    )
    assert code_marked("`<b>` & `a") == "<code>&lt;b&gt;</code> &amp; `a"


def test_marks_of_volumes_are_the_same_in_tables_and_charts() -> None:
    script = (Path(html_format.__file__).parents[1] / "page" / "charts.js").read_text()
    (glyphs,) = re.findall(r"GLYPHS = (\[.*?\])", script)
    assert "".join(json.loads(glyphs)) == html_format.VOLUME_MARKS
    (hues,) = re.findall(r"HUES = (\d+)", script)
    assert int(hues) == html_format.VOLUME_COLOURS
