"""The table of statements of `observe report`, against the lines of the ring."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from raw_observation import Counters, digest_readings, ticks
from synthetic_observation import Digests, build
from typer.testing import CliRunner

from sentences import plain, value_of
from volbench.cli.main import app

LENGTH, EVERY = 200, 10
FIELDS = ("count", "ps", "lock_ps", "cpu_ps", "rows_examined", "rows_sent", "rows_affected", "tmp_disk_tables")
ROW = re.compile(
    r"^\| `(?P<text>[^`]+)` \| (?P<share>under 1|[\d.,]+) % \| (?P<count>[\d,]+) \| (?P<mean>[\d,.]+)"
    r" \| (?P<cpu>[\d,.]+) \| (?P<waited>[\d,.]+) \| (?P<examined>[\d,]+) \| (?P<sent>[\d,.]+) \|$",
    re.MULTILINE,
)
TOP = re.compile(r"^Most (?P<heading>[a-z ]+): (?P<texts>.*)$", re.MULTILINE)
OF_TOP = re.compile(r"(?P<value>[\d,.]+) by `(?P<text>[^`]+)`")
HEADINGS = {
    "rows examined": "rows_examined",
    "rows changed": "rows_affected",
    "temporary tables on disk": "tmp_disk_tables",
}


def load(tick: int) -> tuple[float, float, float]:
    """A volume whose waits change from five seconds to five seconds."""
    return 300.0 + tick % 7, (1.0, 2.5, 0.6, 1.7)[tick // 5 % 4], 1.0


def digests(tick: int) -> Digests:
    """Three texts; the third is in some readings only."""
    if tick % EVERY:
        return {}
    grown = {
        "aa": (
            "SELECT `c` FROM `orders` WHERE `id` = ?",
            (400 + tick, 9 * 10**11 + tick, 10**9, 10**11, 9000, 400),
        ),
        "bb": ("UPDATE `orders` SET `paid` = ?", (90, 6 * 10**11, 5 * 10**10, 2 * 10**10, 90, 0)),
    }
    if tick // EVERY % 3 == 0:
        grown["cc"] = ("SELECT * FROM `notes` ORDER BY `text`", (3, 2 * 10**11, 0, 15 * 10**10, 70_000, 21))
    return {
        digest: (text, dict(zip(FIELDS, (*sums, 7 * len(digest), sums[0] // 50), strict=True)))
        for digest, (text, sums) in grown.items()
    }


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = build(tmp_path_factory.mktemp("statements") / "o", LENGTH, load, digests=digests)
    result = CliRunner().invoke(app, ["observe", "report", str(made)], catch_exceptions=False)
    assert result.exit_code == 0
    return made


@pytest.fixture(scope="module")
def text(directory: Path) -> str:
    return plain((directory / "report.md").read_text())


@pytest.fixture(scope="module")
def counters(directory: Path) -> dict[int, Counters]:
    return ticks(directory)


@pytest.fixture(scope="module")
def sums(directory: Path) -> dict[str, dict[str, float]]:
    """Text -> its counters over all readings but the first, which nothing was read before."""
    readings = digest_readings(directory)
    totals: dict[str, dict[str, float]] = {}
    for tick in sorted(readings)[1:]:
        for statement, grown in readings[tick].items():
            of_text = totals.setdefault(statement, dict.fromkeys(FIELDS, 0.0))
            for name, value in grown.items():
                of_text[name] += value
    return totals


def test_every_figure_of_a_statement_is_that_of_its_readings(
    text: str, sums: dict[str, dict[str, float]], counters: dict[int, Counters]
) -> None:
    rows = {row["text"]: row for row in ROW.finditer(text)}
    assert {name.replace("`", "") for name in sums} == set(rows)
    first, last = min(counters), max(counters)
    every_ps = counters[last]["performance_schema", "statement_ps"]
    every_ps -= counters[first]["performance_schema", "statement_ps"]
    together_ps = max(every_ps, sum(of_text["ps"] for of_text in sums.values()))
    for name, of_text in sums.items():
        row = rows[name.replace("`", "")]
        assert value_of(row["count"]) == of_text["count"]
        time_s, cpu_s, lock_s = (of_text[field] / 1e12 for field in ("ps", "cpu_ps", "lock_ps"))
        assert value_of(row["mean"]) == pytest.approx(1000 * time_s / of_text["count"], rel=0.0051)
        assert value_of(row["cpu"]) == pytest.approx(cpu_s, rel=0.0051)
        assert value_of(row["waited"]) == pytest.approx(time_s - cpu_s - lock_s, rel=0.0051)
        assert value_of(row["examined"]) == of_text["rows_examined"]
        assert value_of(row["sent"]) == of_text["rows_sent"]
        share = 100 * of_text["ps"] / together_ps
        assert share < 1 if row["share"] == "under 1" else value_of(row["share"]) == pytest.approx(share, abs=0.51)


def test_the_statements_with_most_of_a_figure_are_those(text: str, sums: dict[str, dict[str, float]]) -> None:
    stated = {match["heading"]: OF_TOP.findall(match["texts"]) for match in TOP.finditer(text)}
    assert set(stated) == set(HEADINGS)
    for heading, rows in stated.items():
        field = HEADINGS[heading]
        most = [name for name in sorted(sums, key=lambda name: -sums[name][field]) if sums[name][field] >= 1][:3]
        assert [name for _, name in rows] == [name.replace("`", "") for name in most]
        assert [value_of(value) for value, _ in rows] == pytest.approx(
            [sums[name][field] for name in most], rel=0.0051
        )
