"""Large closed sections are packed: the same elements and texts, nothing but these, and a tenth of the size."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from markupsafe import Markup, escape
from packed_rows import PACKED, packed_sections, unpacked
from synthetic_run import HOSTILE

from volbench.core.records.report import Report
from volbench.results.report.formats import html as html_format
from volbench.results.report.formats import packed as packed_format
from volbench.results.report.formats.packed import ATTRIBUTES, DRAWN_TAGS, NOTE, PACKED_FROM, TAGS, packed
from volbench.results.report.render import render
from volbench.results.report.wording import label
from volbench.results.store.run_directory import RunDirectory

ROW = Markup('<tr class="worse"><td title="p 0.01">{}</td>\n<td class="num">1.75&nbsp;s</td></tr>\n')


def table(rows: int, text: str = "dd/<wbr>write") -> Markup:
    body = Markup().join(ROW.format(text.format(at)) for at in range(rows))
    return Markup('<div class="scroll" tabindex="0"><table>\n<tbody>\n{}</tbody>\n</table></div>\n').format(body)


def squeezed(page: str) -> str:
    """The page without spaces between tags, which no browser shows there."""
    return re.sub(r"\s*(<[^>]*>)\s*", r"\1", re.sub(r"[ \n\t]+", " ", page))


def whole_page(report: Report, run: RunDirectory, monkeypatch: pytest.MonkeyPatch, packed_from: int) -> str:
    monkeypatch.setattr(packed_format, "PACKED_FROM", packed_from)
    return render(report, run, "html")


def test_a_small_section_needs_no_script() -> None:
    assert packed(table(3)) == table(3)


def test_a_large_one_takes_a_tenth_and_says_where_its_figures_are() -> None:
    text_of_all = table(1 + PACKED_FROM // len(ROW), "step {}")
    text = packed(text_of_all)
    assert len(text) < len(text_of_all) / 10
    assert PACKED.fullmatch(text)
    assert NOTE in text
    assert "report.json" in NOTE


def test_a_packed_section_has_the_elements_and_the_texts_that_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_format, "PACKED_FROM", 0)
    assert packed_sections(packed(table(1))) == [
        [
            [
                "div",
                {"class": "scroll", "tabindex": "0"},
                [
                    "table",
                    {},
                    [
                        "tbody",
                        {},
                        [
                            "tr",
                            {"class": "worse"},
                            ["td", {"title": "p 0.01"}, "dd/<wbr>write"],
                            ["td", {"class": "num"}, "1.75\xa0s"],
                        ],
                    ],
                ],
            ],
            " ",
        ]
    ]


@pytest.mark.parametrize("name", ["pair", "troubled", "hostile_run", "single"])
def test_a_page_whose_closed_sections_are_packed_is_the_same_page(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: RunDirectory = request.getfixturevalue(name)
    report: Report = request.getfixturevalue(f"{name}_report")
    plain = whole_page(report, run, monkeypatch, 1 << 40)
    text = whole_page(report, run, monkeypatch, 0)
    assert not PACKED.search(plain)
    assert len(packed_sections(text)) >= (1 if name == "single" else 2)
    assert squeezed(unpacked(text)) == squeezed(plain)


def test_long_tables_and_charts_are_closed_after_the_first(
    pair: RunDirectory, pair_report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """121 comparisons of nine volumes took 10,000 px, the headline's metric among them."""
    figure = pair_report.summary.figure
    assert figure is not None
    primary = [row for row in pair_report.comparisons if row.primary]
    for name in ("ROWS_OPEN", "DISTRIBUTIONS_OPEN", "SESSIONS_OPEN"):
        monkeypatch.setattr(html_format, name, 1)
    page = render(pair_report, pair, "html")
    rows = unpacked(page).split('id="comparisons"')[1].split('<tr class="')[1:]
    assert str(escape(label(figure.metric))) in rows[0]
    assert len(primary) > 1
    assert f"<summary>{len(primary) - 1} more comparisons</summary>" in page
    assert page.split("more comparisons</summary>")[0].split('id="comparisons"')[1].count('<tr class="') == 1


def test_a_strangers_name_stays_a_text(
    hostile_run: RunDirectory, hostile_run_report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed rows hold it as a string of JSON; no element and no attribute is made of it."""
    page = whole_page(hostile_run_report, hostile_run, monkeypatch, 0)
    assert HOSTILE not in page
    assert HOSTILE in json.dumps(packed_sections(page), ensure_ascii=False).replace('\\"', '"')
    assert str(escape(HOSTILE)) in unpacked(page)


@pytest.mark.parametrize(
    "markup",
    [
        Markup("<table><tr><td><script>alert(1)</script></td></tr></table>"),
        Markup('<table><tr><td onclick="x">1</td></tr></table>'),
        Markup('<table><tr><td><a href="https://example.org">1</a></td></tr></table>'),
        Markup('<table><tr><td><img src="x"></td></tr></table>'),
        Markup("<table><tr><td>1</tr></table>"),
        Markup("<table><tr><td>1</td></tr>"),
    ],
)
def test_what_the_script_does_not_make_is_refused(markup: Markup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_format, "PACKED_FROM", 0)
    with pytest.raises(ValueError, match=r"packed\.js|closes something else|is not closed"):
        packed(markup)


def test_the_script_makes_what_is_packed_and_nothing_else() -> None:
    script = (Path(html_format.__file__).parents[1] / "page" / "packed.js").read_text()
    lists = [json.loads(text) for text in re.findall(r"new Set\((\[.*?\])\)", script)]
    assert list(map(sorted, lists)) == [sorted(TAGS), sorted(DRAWN_TAGS), sorted(ATTRIBUTES)]
    assert not any(
        token in script for token in ("innerHTML", "insertAdjacentHTML", "DOMParser", "eval", "document.write")
    )
