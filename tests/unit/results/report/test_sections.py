"""Sections of a page apart from the report: the same words as Markdown and as HTML, and figures on pages alone."""

from __future__ import annotations

from volbench.results.report.formats.sections import CODE_CHARACTERS, sections_markdown, sections_page
from volbench.results.report.views.sections import Bars, Document, Heading, Items, Lines, Section, Table, Text
from volbench.results.report.views.time_budget import segments

LONG = "SELECT `a` FROM t WHERE a | b " + "or a " * 40
PIECES = [("cpu", "CPU", 1.0), ("outside", "out", 1.0)]
DOCUMENT = Document(
    kind="a test",
    title="What *x* does",
    about=("About it.",),
    sections=(
        Section("", (Items(("first, of all", "second"), ("begin", "end")),)),
        Section("Begin", (Text("`SELECT 1` and <b>"), Heading("Costs <i>")), "begin"),
        Section("Figures", (Bars((("bar", "2 ms", segments(PIECES, 2.0, 2.0)),)),)),
        Section(
            "End",
            (
                Table(heads=("statement", "n"), rows=((LONG, "1"), ("DO 1", "2")), has_code=True),
                Table(heads=("piece", "ms"), rows=(("CPU", "1"), ("client", "2")), pieces=("cpu", "outside")),
                Table(heads=("file", "kind"), rows=(("a|b", "sar"),), has_figures=False),
                Lines("a   b\nc"),
            ),
            "end",
        ),
    ),
)


def test_markdown_has_the_words_and_no_markup_from_outside() -> None:
    lines = sections_markdown(DOCUMENT).splitlines()
    assert lines[:3] == [r"# What \*x\* does", "", "About it."]
    assert "- first, of all" in lines
    assert r"`SELECT 1` and \<b\>" in lines
    assert r"### Costs \<i\>" in lines
    assert "|---|--:|" in lines
    assert r"| a\|b | sar |" in lines
    assert "|---|---|" in lines


def test_code_of_a_table_is_one_short_span() -> None:
    (line,) = (line for line in sections_markdown(DOCUMENT).splitlines() if "SELECT a" in line)
    code = line.removeprefix("| `").removesuffix("...` | 1 |")
    assert len(code.replace(r"\|", "|")) == CODE_CHARACTERS
    assert "`" not in code


def test_a_section_of_figures_is_no_section_of_markdown() -> None:
    assert "Figures" not in sections_markdown(DOCUMENT)
    assert "<h2>Figures</h2>" in sections_page(DOCUMENT)


def test_a_terminal_shows_the_text_as_it_is() -> None:
    assert "`SELECT 1` and <b>" in sections_markdown(DOCUMENT, str).splitlines()


def test_the_page_has_each_section_and_links_to_it() -> None:
    page = sections_page(DOCUMENT)
    assert '<a href="#begin">first</a>, of all' in page
    assert page.count('<h2 id="begin">Begin</h2>') == 1
    assert "<code>SELECT 1</code> and &lt;b&gt;" in page
    assert '<span class="swatch piece-outside"></span>client' in page
    assert "<pre>a   b\nc</pre>" in page
    assert 'aria-label="bar: CPU: 1.00 ms, 50 %; out: 1.00 ms, 50 %"' in page
    assert "chart-data" not in page
    assert "Print all" not in page
