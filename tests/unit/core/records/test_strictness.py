"""No record of any file holds a number that is none, half a character, a key twice, or nesting without an end."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

import volbench.cli.main
from volbench.core.base.parse import DEPTH_MAX, NUMBER_MAX, parse_json, parse_record_json
from volbench.core.records.base import Record
from volbench.core.records.cell import Phase
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.run import JournalEvent

AT = "2026-03-02T09:30:00Z"


def records(model: type[Record] = Record) -> list[type[Record]]:
    return [record for child in model.__subclasses__() for record in (child, *records(child))]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_no_record_holds_a_number_that_is_none(value: float) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        MetricValue(value=value, unit="s", better="lower")
    with pytest.raises(ValidationError):
        Phase(name="x", t0_s=value, t1_s=0.0)
    with pytest.raises(ValidationError, match="no number"):
        JournalEvent(at=AT, event="run_started", details={"deep": [{"x": value}]})


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_no_record_holds_half_a_character(text: str) -> None:
    with pytest.raises(ValidationError, match="unicode"):
        VolumeFacts(path=text)
    for details in ({"x": text}, {"x": {text: 1}}, {text: 1}):
        with pytest.raises(ValidationError):
            JournalEvent(at=AT, event="run_started", details=details)


def test_every_model_has_the_strict_base() -> None:
    """All modules of commands are imported first, so that their models are known."""
    for name in volbench.cli.main.COMMANDS:
        volbench.cli.main.command_of(name)
    result = records()
    assert len(result) > 100
    assert all(
        model.model_config["allow_inf_nan"] is False
        and model.model_config["extra"] == "forbid"
        and model.model_config["str_min_length"] == 0
        for model in result
    )


REFUSED = (
    '{"a": NaN}',
    '{"a": Infinity}',
    '{"a": -Infinity}',
    '{"a": 1e400}',
    '{"a": -1e400}',
    '{"a": 1e21}',
    '{"a": "\\ud800"}',
    '{"\\udc00": 1}',
    '{"a": 18446744073709551617}',
    '{"a": ' + "9" * 5000 + "}",
    '{"a": ' + "1" * 300 + ".5}",
    "[" * 100_000,
    '{"a":' * 100_000,
    b'{"a": "\xff"}',
    b'{"a": "\xed\xa0\x80"}',
)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: str(text)[:24])
def test_json_that_is_no_value_is_refused(text: str | bytes) -> None:
    for parse in (parse_json, parse_record_json):
        with pytest.raises(ValueError, match=r"."):
            parse(text)
    with pytest.raises(ValidationError):
        JournalEvent.model_validate_json(text)


def test_a_key_that_is_there_twice_is_refused_in_a_record() -> None:
    twice = f'{{"at": "{AT}", "event": "run_started", "event": "run_finished"}}'
    with pytest.raises(ValueError, match="'event' is there twice"):
        parse_record_json(twice)
    with pytest.raises(ValidationError, match="is there twice"):
        JournalEvent.model_validate_json(twice)
    assert parse_json('{"a": 1, "a": 2}') == {"a": 2}  # as other tools print it


@pytest.mark.parametrize(
    "value",
    [{"a": "\U0001f600"}, {"a": 2**64}, {"a": -(2**63)}, {"a": 1.8e19}, {"a": 1e16}, {"a": 0.00012345678901234567}],
)
def test_what_tools_write_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_record_json(json.dumps(value).encode()) == value


def test_details_are_nested_only_so_deep() -> None:
    deep: Any = 1
    for _ in range(DEPTH_MAX + 1):
        deep = [deep]
    with pytest.raises(ValidationError, match="too deep"):
        JournalEvent(at=AT, event="run_started", details={"x": deep})


@pytest.mark.parametrize("at", ["", "x", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "2026-02-30"])
def test_a_time_of_a_record_is_a_time(at: str) -> None:
    with pytest.raises(ValidationError):
        JournalEvent(at=at, event="run_started")


def test_the_largest_measured_number_is_read_back() -> None:
    value = metric("tps", NUMBER_MAX)
    assert MetricValue.model_validate_json(value.model_dump_json()) == value
