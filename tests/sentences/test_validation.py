"""Numbers of a validation's rows against the stored figures of it and a count of their own.

The stored validation is of two real servers (results/examples/validation). Rows that differ between servers are
counted by the tests of `volbench.validation.data`; here is what the sentences make of the counts.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT
from raw_credits import Gp2

from sentences import NUMBER, plain, value_of
from volbench.core.records.validation.result import Validation
from volbench.results.report.formats.validation import validation_html, validation_markdown

STORED = ROOT / "results/examples/validation/planted/validation.json"
HOUR, DAY, GIB = 3600.0, 86_400.0, 2**30
BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(STORED.read_text())
    return loaded


@pytest.fixture(scope="module")
def texts(stored: dict[str, Any]) -> dict[str, str]:
    return {check["check"]: "\n".join((check["text"], *check["details"])) for check in stored["checks"]}


def numbers(text: str) -> list[str]:
    return [each.strip(" %") for each in NUMBER.findall(text)]


def test_the_forecast_of_credits_is_that_of_a_count_of_seconds(
    stored: dict[str, Any], texts: dict[str, str]
) -> None:
    text, burst = texts["burst"], stored["burst"]
    match = re.search(
        r"run out after ([\d.]+) h \[([\d.]+) h, ([\d.]+) h\] .*, (\d+) h are asked for; "
        r"then it serves (\d+) ?% of it\n"
        r"the log asks for ([\d.]+) requests/s \[([\d.]+), ([\d.]+)\], (\d+) ?% of them reads",
        text,
    )
    assert match is not None, text
    volume = Gp2(gib=10, io_bytes=16 << 10)
    rates = (burst["iops"], burst["iops_high"], burst["iops_low"])
    for stated, iops in zip(match.groups()[:3], rates, strict=True):
        assert value_of(stated) * HOUR == pytest.approx(volume.empty_after_s(iops), rel=0.0051)
    assert value_of(match[5]) == pytest.approx(100 * volume.earns / burst["iops"], abs=0.51)
    assert [value_of(each) for each in match.groups()[5:8]] == pytest.approx(
        [burst["iops"], burst["iops_low"], burst["iops_high"]], rel=0.0051
    )
    assert value_of(match[9]) == pytest.approx(100 * burst["read_share"], abs=0.51)


def test_a_volume_is_full_when_data_and_binary_logs_fill_it(stored: dict[str, Any], texts: dict[str, str]) -> None:
    growth = stored["growth"]
    match = re.search(r"(\d+) ?% of (\d+) GiB are used after ([\d.]+) days", texts["growth"])
    assert match is not None
    room = value_of(match[1]) / 100 * value_of(match[2]) * GIB - growth["used_bytes"]
    days = room / (growth["data_per_day"] + growth["binlog_per_day"])
    assert days < growth["binlog_retention_s"] / DAY
    assert value_of(match[3]) == pytest.approx(days, rel=0.0051)
    rates = re.findall(r"grow by ([\d.]+) (KiB|MiB|GiB) a day", texts["growth"])
    assert [value_of(value) * BYTES[unit] for value, unit in rates] == pytest.approx(
        [growth["data_per_day"], growth["binlog_per_day"]], rel=0.0065
    )


def test_statements_of_a_replay_are_those_of_its_classes(stored: dict[str, Any], texts: dict[str, str]) -> None:
    replay = stored["replay"]
    match = re.match(
        r"([\d,]+) of ([\d,]+) statements in (\d+) s, at most ([\d,]+) due in a second", texts["replay"]
    )
    assert match is not None
    sent = sum(each["statements"] for each in replay["classes"])
    assert [value_of(each) for each in match.groups()] == [
        sent,
        sent,
        round(replay["duration_s"]),
        replay["peak_per_s"],
    ]


def test_a_decision_counts_its_checks(stored: dict[str, Any]) -> None:
    counted = re.findall(r"(\d+) of (\d+) (?:checks|conditions) fails?", stored["reason"])
    rows = (stored["checks"], stored["conditions"])
    assert [(int(failed), int(of)) for failed, of in counted] == [
        (sum(row["decision"] == "no-go" for row in group), len(group)) for group in rows
    ]


def test_the_page_and_the_text_state_the_same_numbers(stored: dict[str, Any]) -> None:
    """Each row of a check stands in both, with the same figures."""
    outcome = Validation.model_validate(stored)
    page = validation_html(outcome)
    body = plain(
        html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)))
    )
    text = plain(html.unescape(validation_markdown(outcome)))
    for check in stored["checks"]:
        assert numbers(check["text"]) == numbers(text[text.index(check["text"]) :][: len(check["text"])])
        assert check["text"] in body


def test_the_stored_validation_is_the_one_that_is_shown() -> None:
    """Beside the JSON lies a page for readers: it has every row of it."""
    page = plain(html.unescape(Path(STORED).with_suffix(".md").read_text()))
    assert all(check["text"] in page for check in json.loads(STORED.read_text())["checks"])
