"""Quantities in suites: units, bare numbers, and what is refused; frozen records without unknown keys."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from volbench.core.records.base import parse_duration_s, parse_fraction, parse_size_bytes
from volbench.core.records.cell import ValidityLimits
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.metrics import CATALOGUE, PRIMARY_METRICS, metric
from volbench.core.records.steps.cold_read import ColdReadStep
from volbench.core.records.steps.oltp import OltpStep


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1.5m", 90), ("250 ms", 0.25), ("2h", 7200), ("1d", 86400), (7, 7), ("7", 7)],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 64 << 20), ("50 GiB", 50 << 30), ("1K", 1024), ("3.6GB", 3_600_000_000), (4096, 4096), ("0B", 0)],
)
def test_sizes(text: str | int, size: int) -> None:
    """K, M, G and T are binary, as in my.cnf; GB is decimal, as vendors mean it."""
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), (0.05, 0.05), ("0.05", 0.05)])
def test_shares(text: str | float, share: float) -> None:
    assert parse_fraction(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "s", "5 parsecs", "-3s", "1e3s", True, None, "5%", "1:30"])
def test_what_is_no_duration_is_refused_with_the_units(text: object) -> None:
    with pytest.raises(ValueError, match=r"is not a duration such as .*units: ms, s"):
        parse_duration_s(text)


def test_records_are_frozen_and_know_their_keys() -> None:
    with pytest.raises(ValidationError):
        DatasetSpec.model_validate({"row": 3})
    with pytest.raises(ValidationError):
        ValidityLimits().client_cpu = 1.0  # type: ignore[misc]


def test_a_file_may_use_the_alias_or_the_name() -> None:
    assert OltpStep.model_validate({"duration": "5s"}) == OltpStep.model_validate({"duration_s": 5})


def test_every_primary_metric_is_catalogued_with_a_direction() -> None:
    for names in PRIMARY_METRICS.values():
        assert all(CATALOGUE[name].better in ("higher", "lower") for name in names)
    with pytest.raises(KeyError):
        metric("tpss", 1.0)


def test_parameters_tell_two_rows_of_a_step_apart() -> None:
    step, two = OltpStep(threads=(8,)), OltpStep(threads=(8,), rate=50, options={"range_size": 10})
    assert two.parameters().items() - step.parameters().items() == {("rate", 50.0), ("range_size", 10)}
    assert "timeout_s" not in ColdReadStep().parameters()
