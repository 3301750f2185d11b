"""Counts in sentences of the labs' pages and of docs/response.md are those of the rows that the pages list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from volbench.results.response.prediction import NEAR_AND_FAR

ROOT = Path(__file__).parents[3]
LAB = ROOT / "results/examples/lab"
SLOPES = (LAB / "response.md").read_text(encoding="utf-8")
DOCUMENTATION = " ".join((ROOT / "docs/response.md").read_text(encoding="utf-8").split())
SECTIONS = SLOPES.split("\n## ")
LOADS = ("point-select", "read-only", "read-write", "write-only")
Row = Mapping[str, str]


def rows_of(text: str, first: str) -> list[Row]:
    """Rows of the table whose first head has this name; a head that is there twice gets a number."""
    table = [line for line in text.splitlines() if line.startswith("|")]
    lines = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table]
    head = next(cells for cells in lines if cells[0] == first)
    names = [f"{name} 2" if name in head[:number] else name for number, name in enumerate(head)]
    return [
        dict(zip(names, cells, strict=True)) for cells in lines if len(cells) == len(head) and cells[0] != first
    ]


def slopes(*sections: int, holds: str = "holds") -> dict[str, tuple[int, int]]:
    """Of reads, of syncs and of all: slopes that hold their count, and slopes."""
    rows = [row for section in sections for row in rows_of(SECTIONS[section], "seed") if "---" not in row["seed"]]
    kinds: dict[str, list[bool]] = {"read": [], "log_sync": [], "": []}
    for row in rows:
        kinds[row["each ms of"]].append(row[holds] == "yes")
        kinds[""].append(row[holds] == "yes")
    return {kind: (sum(column), len(column)) for kind, column in kinds.items()}


def test_each_section_of_slopes_counts_its_rows() -> None:
    assert len(SECTIONS) == 5
    for number, section in enumerate(SECTIONS):
        (reads, syncs) = (slopes(number)[kind] for kind in ("read", "log_sync"))
        assert f"`read`: {reads[0]} of {reads[1]} slopes hold" in section
        assert f"`log_sync`: {syncs[0]} of {syncs[1]} slopes hold" in section
    without = slopes(4, holds="holds 2")
    last = SECTIONS[4].partition("Without waits for CPUs:\n")[2]
    assert "`read`: {} of {} slopes hold".format(*without["read"]) in last
    assert "`log_sync`: {} of {} slopes hold".format(*without["log_sync"]) in last


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        ((0,), "{0[0]} of {0[1]} slopes hold the server's count in their 95 % interval"),
        ((1,), "{0[0]} of {0[1]} slopes hold: {1[0]} of {1[1]} for reads (81 %, where 95 % is claimed)"),
        ((1,), "(81 %, where 95 % is claimed) and {2[0]} of {2[1]} for syncs"),
        ((2, 3), "{0[0]} of {0[1]} slopes hold, {1[0]} of {1[1]} for reads (83 %, where 95 % is claimed)"),
        ((2, 3), "(83 %, where 95 % is claimed) and {2[0]} of {2[1]} for syncs"),
        ((4,), "{0[0]} of {0[1]} slopes hold: {2[0]} of {2[1]} for syncs"),
    ],
)
def test_the_documentation_counts_the_same_slopes(sections: tuple[int, ...], sentence: str) -> None:
    counted = slopes(*sections)
    assert sentence.format(counted[""], counted["read"], counted["log_sync"]) in DOCUMENTATION


def test_the_documentation_counts_slopes_without_waits_for_cpus() -> None:
    (holding, of), (before, _) = slopes(4, holds="holds 2")[""], slopes(4)[""]
    assert f"Of the {of} slopes of the five runs" in DOCUMENTATION
    assert f"{before} hold their count as they are, and {holding} without the wait for CPUs" in DOCUMENTATION


def pairs_of(page: str) -> tuple[list[Row], list[Row]]:
    """Pairs of a source and another volume, and controls, whose volume is set as the source was."""
    rows = [row for row in rows_of(page, "pair") if "---" not in row["pair"]]
    controls = [row for row in rows if row["pair"].endswith("-0")]
    return [row for row in rows if row not in controls], controls


def within(rows: Iterable[Row], column: str) -> str:
    """How many forecasts are within 15 %: what is beyond is bold, and a dash is no forecast."""
    texts = [row[column] for row in rows if "%" in row[column]]
    return f"{sum(not text.startswith('**') for text in texts)} of {len(texts)}"


@pytest.mark.parametrize("name", ["forecasts.md", "forecasts-busy.md", "forecasts-known.md"])
def test_the_pages_of_forecasts_count_their_pairs(name: str) -> None:
    page = (LAB / name).read_text(encoding="utf-8")
    pairs, controls = pairs_of(page)
    groups = {"controls, set as their source was": controls, "all pairs": pairs}
    groups |= {load: [row for row in pairs if row["load"] == load] for load in LOADS}
    for group, rows in groups.items():
        assert f"- {group}, transactions/s: {within(rows, 'off')} within 15%" in page
        assert f"- {group}, p50: {within(rows, 'off 2')} within 15%" in page
    for row in pairs:
        off = abs(float(re.sub(r"[*%+ ]", "", row["off"]))) if "%" in row["off"] else 0.0
        assert off >= 15 if row["off"].startswith("**") else off <= 15


def test_the_documentation_counts_the_same_pairs() -> None:
    pairs, _ = pairs_of((LAB / "forecasts.md").read_text(encoding="utf-8"))
    right, _, number = within(pairs, "off").split()
    assert f"Of {number} pairs on a machine that did little else" in DOCUMENTATION
    assert f"the rate was within 15 % in {right} (83 %; 90 % asked)" in DOCUMENTATION
    assert f"and p50 in {within(pairs, 'off 2')}," in DOCUMENTATION
    busy, _ = pairs_of((LAB / "forecasts-busy.md").read_text(encoding="utf-8"))
    assert f"{within(busy, 'off')} rates were within 15 %" in DOCUMENTATION


def test_a_forecast_far_off_says_how_often_such_forecasts_were_right() -> None:
    page = (LAB / "forecasts.md").read_text(encoding="utf-8")
    far = re.search(r"- beyond, transactions/s: (\d+ of \d+) within", page)
    near = re.search(r"- waiting times within twice those of the signal, transactions/s: (\d+ of \d+) within", page)
    assert far is not None
    assert near is not None
    assert f"{far[1]} rates were within 15 % so far off, nearer {near[1]}" in NEAR_AND_FAR
