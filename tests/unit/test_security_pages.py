"""SECURITY.md, the threat model and the security trials: they name what exists, and agree with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECURITY, MODEL, TRIALS = ROOT / "SECURITY.md", ROOT / "docs/threat-model.md", ROOT / "docs/security-trials.md"
WORDS_MAX = 1300
"""Five minutes of a page that is half a table."""
LOCATIONS = (ROOT, ROOT / "runner" / "volbench")


def rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of the table whose first column has a heading."""
    lines = page.read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    table = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return table


def named(page: Path) -> list[str]:
    """Code spans that are paths of the repository, or tests in them."""
    spans = re.findall(r"`([^`\n]+)`", page.read_text())
    return sorted({span for span in spans if re.fullmatch(r"[\w./-]+\.(py|rs|lock|sh|yml)(::\w+)?", span)})


@pytest.mark.parametrize("page", [SECURITY, MODEL, TRIALS], ids=lambda page: page.name)
def test_each_file_and_test_that_a_page_names_exists(page: Path) -> None:
    names = named(page)
    assert page == SECURITY or len(names) > 20
    missing = []
    for name in names:
        file, _, test = name.partition("::")
        path = next((location / file for location in LOCATIONS if (location / file).is_file()), None)
        if path is None or (test and not re.search(rf"^\s*def {test}\(", path.read_text(), re.MULTILINE)):
            missing.append(name)
    assert missing == []


def test_a_test_that_is_not_there_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`tests/unit/test_house.py::test_that_nobody_wrote` and `base/nothing.py`, `make check`")
    assert named(page) == ["base/nothing.py", "tests/unit/test_house.py::test_that_nobody_wrote"]


def test_each_input_has_a_promise_a_limit_a_mechanism_and_a_test() -> None:
    promises, mechanisms = rows(SECURITY, "input"), rows(MODEL, "input")
    assert sorted(row[0] for row in promises) == sorted(row[0] for row in mechanisms)
    assert len(promises) >= 20
    assert [row for row in promises if len(row) != 4 or not all(row)] == []
    assert [row for row in mechanisms if len(row) != 3 or not all(row) or "tests/" not in row[2]] == []


def test_the_page_is_read_in_five_minutes() -> None:
    assert len(SECURITY.read_text().split()) <= WORDS_MAX


def test_each_trial_tells_how_it_ended() -> None:
    trials = rows(TRIALS, "attack")
    numbers = {int(number) for row in trials if (number := row[0].partition(".")[0]).isdigit()}
    assert numbers == set(range(1, 10))
    assert [row for row in trials if len(row) != 4 or not all(row)] == []
