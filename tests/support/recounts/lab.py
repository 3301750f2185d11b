"""Counts of the labs' pages, from runs that are kept, or from the rows that a page lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from printed_counts import ROOT, plain
from stored_files import stored_text

from causes import families
from causes.first_sight import FILES, FIRST, LATEST, STOPPED, runs_of
from causes.observed import Run, run_from
from causes.scoring import SURE, figures, is_named, is_right, left_out

LAB = ROOT / "results/examples/lab"
MECHANISMS, MENDED = ROOT / "tests/fixtures/first-sight/mechanisms.json.xz", "rules of the same day"
EARLIER = "runs whose verdicts were known"
GROUP_HIDDEN = ", without the limits of the server's group"
OWN_HIDDEN = ", without the volume's own counters"


def loaded(name: str) -> dict[str, Any]:
    """A file of the lab."""
    data: dict[str, Any] = json.loads(stored_text(LAB / name))
    return data


def rows(page: str) -> list[list[str]]:
    """Cells of all rows of a page's tables, without marks."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    return [[plain(cell) for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("|")]


def seeds_9_and_10() -> Iterator[str]:
    """First causes, which the lab's own file has as a share of its runs."""
    together = [0, 0]
    for seed in (9, 10):
        scores = loaded(f"seed-{seed}.json.xz")["scores"]
        first, hidden = (_right(scores[f"test split{which}"]) for which in ("", OWN_HIDDEN))
        yield f"| {seed} | {first[1]} | {first[0]} ({_percent(*first)}"
        yield f"{hidden[0]} ({_percent(*hidden)})"
        together = [together[0] + first[0], together[1] + first[1]]
    yield f"{together[0]} of {together[1]} ({_percent(*together)};"
    bars = loaded("seed-10.json.xz")["scores"]["test split"]["bars"]
    pairs = next(bar for bar in bars if "recall" in bar["name"])
    yield f"{round(pairs['value'] * pairs['of'])} of {pairs['of']} causes of pairs among the first three"


def _right(scores: dict[str, Any]) -> tuple[int, int]:
    bar = next(bar for bar in scores["bars"] if bar["name"] == "top-1")
    return round(bar["value"] * bar["of"]), bar["of"]


def _percent(count: int, runs: int) -> str:
    return "100 %" if count == runs else f"{100 * count / runs:.1f} %"


@cache
def _meanings(hidden: str) -> dict[str, str]:
    return {bar.name: bar.meaning for bar in figures(_fresh(hidden), left_out(_fresh(hidden), _earlier()))}


@cache
def _fresh(hidden: str = "") -> list[Run]:
    return [*map(run_from, loaded("causes/unseen.json.xz")["runs"][f"fresh runs{hidden}"])]


@cache
def _earlier() -> list[Run]:
    return [*map(run_from, loaded("causes/lab.json.xz")["runs"][EARLIER])]


def seeds_of_causes() -> Iterator[str]:
    """Scores of seeds 10 and 12, again from their runs."""
    names = {
        "first cause right, of runs where one is named": "first cause right, of runs where one is named | 90 % | ",
        "named": "| named | 85 % | ",
        "wrong with confidence >= 0.9": "wrong with a confidence of 0.9 or more | 2 % | ",
        "storage acquitted wrongly": "storage acquitted wrongly | 2 % | ",
        "clean accused": "clean runs accused | 2 % | ",
        "foreign I/O named, its start within 2 s": "I/O of others named, its start within 2 s | 90 % | ",
        "top-3 recall of two causes": "both causes of pairs among the first three | 85 % | ",
    }
    for name, row in names.items():
        yield row + _count(_meanings("")[name])
    caps = _meanings("")["error of a cap's figure, median"]
    yield f"({_count(caps)} within 3 %)"
    proven = [run for run in _fresh() if run.injected]
    stated = sum(
        is_named(run) and not is_right(run) and (run.findings[0].confidence or 0.0) >= SURE for run in proven
    )
    yield f"by the confidences as printed {stated} ({100 * stated / len(proven):.1f} %)"
    yield f"{len(_fresh())} runs; in {len(proven)} of them the injection was proven"
    yield f"{_count(_meanings(GROUP_HIDDEN)['first cause right, of runs where one is named'])} are right"


def _count(meaning: str) -> str:
    match = re.match(r"\d+ of \d+", meaning)
    assert match is not None
    return match[0]


def fresh_p95() -> Iterator[str]:
    """How often p95 followed at first sight of the latest seed."""
    count, share = _figure(LATEST, FIRST, "p95")
    yield f"p95 is rebuilt within 25 % in {count} sure findings ({share} %"


def p95_by_stops() -> Iterator[str]:
    """The same of all three seeds, by the rules that the last one was not looked at for."""
    latest, share = _figure(LATEST, STOPPED, "p95")
    before, _ = _figure(LATEST, FIRST, "p95")
    fitted = [_figure(file, STOPPED, "p95")[0] for file in FILES]
    yield f"p95 follows in {latest} findings with a confidence of 0.9 and more ({share} %;"
    yield f"interval in {before}), and of seeds 703 and 704, to which the laws were made, in {' and '.join(fitted)}"


def fresh_p95_by_stops() -> Iterator[str]:
    """The same, as the page of fresh runs says it."""
    latest, share = _figure(LATEST, STOPPED, "p95")
    fitted = [_figure(file, STOPPED, "p95")[0] for file in FILES]
    yield f"it is {latest} ({share} %), and {' and '.join(fitted)} of seeds 703 and 704"


def _figure(file: Path, reading: str, name: str) -> tuple[str, str]:
    """A row of the page of families: `40 of 59`, and its per cents."""
    lines = families.page(runs_of(file, reading), "").splitlines()
    line = next(line for line in lines if line.startswith(f"| {name}"))
    match = re.search(r"(\d+ of \d+) \((\d+)%\) \|$", line)
    assert match is not None
    return match[1], match[2]


def mechanisms() -> Iterator[str]:
    """Rows of mechanisms that no rule was made for: at first sight, and by rules that were mended on them."""
    pages = (families.page(runs_of(MECHANISMS, reading), "").splitlines() for reading in (FIRST, MENDED))
    for first, mended in zip(*pages, strict=False):
        cells, again = first.strip("| ").split(" | "), mended.strip("| ").split(" | ")
        if len(cells) == len(again) == 3 and cells[2].endswith("%)"):
            yield f"| {cells[0]} | {cells[1]} | {cells[2]} | {again[2]} |"


def sums_of_families() -> Iterator[str]:
    """The two rows that add up those of families; how a run is counted only the lab's own runs tell."""
    of_page = [row for row in rows("results/examples/lab/shapes.md") if len(row) == 8]
    for kind, name in (("yes", "fitted"), ("no", "left out")):
        columns = [row[2:] for row in of_page if row[1] == kind]
        sums = [_added([row[number] for row in columns]) for number in range(6)]
        yield f"| {name} | | {' | '.join(sums)} |"


def _added(cells: list[str]) -> str:
    numbers = [[int(number) for number in cell.split(" of ")] for cell in cells]
    return " of ".join(str(sum(column)) for column in zip(*numbers, strict=True))


def verdicts_of_rows() -> Iterator[str]:
    """Runs of the first table by what they are."""
    of_page = [row for row in rows("results/examples/lab/verdicts.md") if len(row) == 9 and row[1].isdigit()]
    equal = [row for row in of_page if row[0].startswith("equal")]
    unnamed = sum(row[2] == "open" for row in equal)
    demos = [row for row in of_page if row[0] == "demo"]
    right = sum(row[2] == "worse" for row in demos)
    slower = [row for row in of_page if row[0].startswith("20 % slower")]
    yield f"Equal pairs: {unnamed} of {len(equal)} unnamed. Demos: {right} of {len(demos)} right"
    yield f"20 % slower: {sum(row[2] == 'worse' for row in slower)} of {len(slower)}, in 520 s"


def incidents_in_all() -> Iterator[str]:
    """The sum of the rows of incidents; each row's rounds are not kept."""
    counts = [row[1] for row in rows("docs/observe.md") if len(row) == 3 and re.fullmatch(r"\d+ of \d+", row[1])]
    yield f"{_added(counts)} are named"
