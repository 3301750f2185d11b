"""docs/questions: the suites that pages print are suites, and the refusals and steps in them are the program's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import site_pages
from command_line import ROOT

from volbench.core.plan.step_needs import check_needs
from volbench.core.profile.spec import parse_volume
from volbench.core.suite.load import check_suite

PAGES = ROOT / "docs/questions"
SUITES = [
    pytest.param(page, text, id=f"{page.stem}-{number}")
    for page in sorted(PAGES.glob("*.md"))
    for number, text in enumerate(re.findall(r"```yaml\n(name:.*?)```", page.read_text(), re.DOTALL))
]
"""Those that have a name are whole suites."""


@pytest.mark.parametrize(("page", "text"), SUITES)
def test_a_suite_of_a_page_is_one_and_fits_the_volume_of_its_command(page: Path, text: str) -> None:
    suite = check_suite(text, name=str(page)).resolved()
    command = page.read_text().partition(text)[2].partition("volbench run ")[2].partition("\n")[0]
    volume = re.search(r"--volume (\S+)", command)
    assert volume is not None, command
    spec = parse_volume(volume[1].replace('"', ""))
    target = re.search(r"--target (\S+)", command)
    check_needs(suite.steps, [spec], target[1] if target else "local", cells=suite.repeats)


def test_the_index_names_every_page() -> None:
    index = (PAGES / "README.md").read_text()
    pages = {page.name for page in PAGES.glob("*.md")} - {"README.md"}
    assert {name for name in pages if f"]({name})" not in index} == set()


def test_the_documentation_site_has_every_page_in_its_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    shown = {path for pattern in site_pages.PAGES for path in ROOT.glob(pattern)}
    for page in PAGES.glob("*.md"):
        assert page in shown, page
        assert f": docs/questions/{page.name}\n" in menu, page


def test_there_are_suites_of_pages() -> None:
    assert SUITES
