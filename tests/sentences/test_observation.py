"""Every number of `observe report` about an incident, as printed, against the lines of the ring."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from raw_observation import Counters, per_second, seconds_without_writes, statement_ms, ticks
from synthetic_observation import ZERO_EPOCH_S, add_incident, build
from typer.testing import CliRunner

from sentences import NUMBER, plain, value_of
from volbench.cli.main import app

ONSET, END = 60, 65
LENGTH = 100
MEANS = re.compile(r"A statement took (?P<during>[\d,.]+) ms in the incident and (?P<before>[\d,.]+) ms before it")
EXTRA = re.compile(r"Of the extra (?P<extra>[\d,.]+) ms: (?P<piece>[\d,.]+) ms \((?P<share>\d+) %\)")
CLOCK = re.compile(r"(?:2025-10-09 )?\d\d:\d\d:\d\d")


def stall(tick: int) -> tuple[float, float, float]:
    """Nothing completes for four seconds."""
    return (0.0, 0.0, 8.0) if ONSET < tick < END else (300.0 + tick % 7, 20.0 if tick == END else 1.0, 1.0)


def slow(tick: int) -> tuple[float, float, float]:
    """Writes take twelve times as long, and half as many are made."""
    return (150.0, 12.0, 2.0) if ONSET < tick <= END else (300.0 + tick % 7, 1.0, 1.0)


@pytest.fixture(scope="module", params=[stall, slow])
def directory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Callable[[int], tuple[float, float, float]]]:
    directory = build(tmp_path_factory.mktemp("observed") / "o", LENGTH, request.param)
    add_incident(directory, float(ONSET), float(END))
    result = CliRunner().invoke(app, ["observe", "report", str(directory)], catch_exceptions=False)
    assert result.exit_code == 0
    return directory, request.param


@pytest.fixture
def counters(directory: tuple[Path, object]) -> dict[int, Counters]:
    return ticks(directory[0])


@pytest.fixture
def text(directory: tuple[Path, object]) -> str:
    return plain((directory[0] / "report.md").read_text())


def of_page(directory: Path) -> str:
    page = (directory / "report.html").read_text()
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return plain(html.unescape(re.sub(r"<[^>]+>", "", body)))


def clock(tick: float) -> str:
    return datetime.fromtimestamp(ZERO_EPOCH_S + tick, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def test_means_of_statements_are_those_of_the_counters(text: str, counters: dict[int, Counters]) -> None:
    """`A statement took 789 ms` and `mean 4.91 ms` were said of one incident. A tick is left for its end."""
    stated = {match[0] for match in MEANS.finditer(text)}
    assert len(stated) == 1
    match = MEANS.search(text)
    assert match is not None
    during, before = statement_ms(counters, ONSET + 1, END + 1), statement_ms(counters, 2, ONSET - 1)
    assert value_of(match["during"]) == pytest.approx(during, rel=0.0051)
    assert value_of(match["before"]) == pytest.approx(before, rel=0.0051)
    level = re.search(r"\| statement, mean of all that ended \| ([\d,.]+) ms \| ([\d,.]+) ms \|", text)
    assert level is not None
    assert (value_of(level[1]), value_of(level[2])) == pytest.approx((before, during), rel=0.0051)
    extra = EXTRA.search(text)
    assert extra is not None
    assert value_of(extra["extra"]) == pytest.approx(during - before, rel=0.0051)
    assert value_of(extra["share"]) == pytest.approx(100 * value_of(extra["piece"]) / (during - before), abs=1)


def test_levels_are_medians_of_the_seconds(text: str, counters: dict[int, Counters]) -> None:
    for label, source, name in (
        ("operations", "diskstats", "writes"),
        ("statements", "performance_schema", "statements"),
    ):
        match = re.search(rf"\| {label} \| ([\d,.]+) 1/s \| ([\d,.]+) 1/s \|", text)
        assert match is not None
        spans = ((2, ONSET), (ONSET + 1, END))
        medians = [per_second(counters, *span, source=source, name=name) for span in spans]
        assert [value_of(each) for each in match.groups()] == pytest.approx(medians, rel=0.0051)


def test_times_and_lengths_are_those_of_the_incident(text: str, counters: dict[int, Counters]) -> None:
    assert f"From {clock(ONSET)} UTC to {clock(END)}, {END - ONSET} s." in text
    assert f"observed from {clock(1)} to {clock(LENGTH)} UTC, {LENGTH - 1} samples" in text
    for stood in re.finditer(r"completed nothing for (\d+) s: (\d+) s from (\d\d:\d\d:\d\d)", text):
        seconds = seconds_without_writes(counters, 2, LENGTH)
        assert (int(stood[1]), int(stood[2]), stood[3]) == (seconds, seconds, clock(ONSET)[11:])


def test_a_share_of_an_incidents_latency_is_not_that_of_the_time_around_it(directory: tuple[Path, object]) -> None:
    """Of a stall of four in five seconds stood `explains 6.2 % of the latency`: of the minute before it, too."""
    stored = json.loads((directory[0] / "report.json").read_text())
    for incident in stored["incidents"]:
        for finding in incident["findings"]:
            assert finding["share"] is None or finding["share"] > 0.5, finding["cause"]


def test_every_sentence_of_the_page_is_in_the_text_and_the_other_way_round(directory: tuple[Path, object]) -> None:
    page, text = of_page(directory[0]), plain((directory[0] / "report.md").read_text())
    assert {match[0] for match in MEANS.finditer(page)} == {match[0] for match in MEANS.finditer(text)}
    assert {match[0] for match in EXTRA.finditer(page)} == {match[0] for match in EXTRA.finditer(text)}


def test_the_headline_has_no_other_number(text: str) -> None:
    (line,) = re.findall(r"^- Incident 001, .*$", text, re.MULTILINE)
    remainder = EXTRA.sub("", MEANS.sub("", CLOCK.sub("", line)))
    assert not NUMBER.search(remainder.replace("Incident 001", "").replace("2025-10-09", "")), remainder
