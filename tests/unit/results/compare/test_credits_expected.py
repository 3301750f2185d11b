"""A suite's forecast of burst credits, against the arithmetic of the vendor's documentation."""

from __future__ import annotations

import pytest

from volbench.core.profile.spec import parse_volume
from volbench.core.records.forecast import ForecastSpec
from volbench.results.credits.expected import expected
from volbench.results.report.rows.forecast import forecast_lines


def spec(**more: object) -> ForecastSpec:
    return ForecastSpec.model_validate({"step": "shop", "iops": 3000, **more})


def test_fifty_gib_of_gp2_burst_for_1895_seconds_and_a_dump_takes_what_150_iops_leave() -> None:
    result = expected(
        spec(dump_size="3.6GB", dump_concurrent_iops=20, window="20m"),
        parse_volume("v=emulated:ebs-gp2?size=50GiB"),
    )
    assert result is not None
    assert result.exhausted_after_s == pytest.approx(5_400_000 / 2850)
    assert result.iops_after == pytest.approx(150)
    assert result.dump_exhausted_s == pytest.approx(3.6e9 / 16384 / (150 - 20))
    text = "\n".join(forecast_lines(spec(dump_size="3.6GB", window="20m"), result))
    assert "credits run out 31 min 35 s after shop begins" in text
    assert "does not fit its window" in text


def test_a_smaller_bucket_runs_out_so_much_sooner_and_is_said() -> None:
    result = expected(spec(), parse_volume("v=emulated:ebs-gp2?size=50GiB&time_scale=100&dir=/var/tmp/x"))
    assert result is not None
    assert result.exhausted_after_s == pytest.approx(54_000 / 2850)
    assert "100 times smaller" in "\n".join(forecast_lines(spec(), result))


def test_a_real_volume_has_the_profile_that_the_suite_names_or_no_forecast() -> None:
    real = parse_volume("v=path:/mnt/gp2")
    assert expected(spec(), real) is None
    result = expected(spec(volume="ebs-gp2?size=50GiB"), real)
    assert result is not None
    assert result.exhausted_after_s == pytest.approx(5_400_000 / 2850)


def test_a_volume_without_credits_has_no_forecast_and_a_small_load_no_end() -> None:
    assert expected(spec(), parse_volume("v=emulated:ebs-gp3")) is None
    small = expected(spec(iops=100), parse_volume("v=emulated:ebs-gp2?size=50GiB"))
    assert small is not None
    assert small.exhausted_after_s is None
