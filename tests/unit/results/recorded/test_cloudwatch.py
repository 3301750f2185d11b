from __future__ import annotations

import json
from typing import Any

import pytest

from volbench.results.recorded.cloudwatch import looks_like_cloudwatch, parse_cloudwatch
from volbench.results.store.series import SeriesKey

TIMES = ["2026-01-31T14:00:00+00:00", "2026-01-31T14:01:00+00:00", "2026-01-31T14:02:00+00:00"]


def result(label: str, values: list[float]) -> dict[str, Any]:
    return {
        "Id": "m1",
        "Label": label,
        "Timestamps": TIMES[: len(values)],
        "Values": values,
        "StatusCode": "Complete",
    }


def value(text: str, metric: str, entity: str = "volume") -> list[float]:
    key = SeriesKey(source="cloudwatch", metric=metric, entity=entity)
    return parse_cloudwatch(text).series[key].value.tolist()


DATA = json.dumps(
    {
        "MetricDataResults": [
            result("VolumeReadOps", [180_000, 9000, 0]),
            result("VolumeReadBytes", [62_914_560, 0, 0]),
            result("VolumeTotalReadTime", [180, 90, 0]),
            result("BurstBalance", [40, 1, 0]),
            result("VolumeIOPSExceededCheck", [0, 1, 1]),
        ]
    }
)


def test_sums_become_rates_and_total_times_waiting_times() -> None:
    assert value(DATA, "reads_per_s") == [3000.0, 150.0, 0.0]
    assert value(DATA, "read_mib_per_s") == [1.0, 0.0, 0.0]
    assert value(DATA, "r_await_ms") == [1.0, 10.0]
    assert value(DATA, "balance_percent") == [40.0, 1.0, 0.0]
    assert value(DATA, "volume_exceeded_iops_ratio") == [0.0, 1.0, 1.0]


def test_the_instances_checks_are_told_from_the_volumes() -> None:
    """Of AWS/EC2, by instance: only they say that a larger volume would not help."""
    text = json.dumps(
        {
            "MetricDataResults": [
                result("InstanceEBSIOPSExceededCheck", [0, 1, 1]),
                result("InstanceEBSThroughputExceededCheck", [1, 0, 0]),
            ]
        }
    )
    assert value(text, "instance_exceeded_iops_ratio") == [0.0, 1.0, 1.0]
    assert value(text, "instance_exceeded_throughput_ratio") == [1.0, 0.0, 0.0]


def test_a_time_stamp_is_the_start_of_its_period() -> None:
    key = SeriesKey(source="cloudwatch", metric="reads_per_s", entity="volume")
    assert parse_cloudwatch(DATA).series[key].t_s.tolist() == [50_460.0, 50_520.0, 50_580.0]


def test_statistics_in_any_order_and_several_answers() -> None:
    points = [
        {"Timestamp": TIMES[1], "Sum": 300.0, "Unit": "Count"},
        {"Timestamp": TIMES[0], "Sum": 600.0, "Unit": "Count"},
    ]
    text = json.dumps([{"Label": "VolumeWriteOps", "Datapoints": points}, json.loads(DATA)])
    assert value(text, "writes_per_s") == [10.0, 5.0]
    assert value(text, "reads_per_s")[0] == 3000.0


def test_nothing_in_it_and_something_else() -> None:
    empty = json.dumps({"Label": "VolumeReadOps", "Datapoints": []})
    assert looks_like_cloudwatch(empty)
    assert parse_cloudwatch(empty).series == {}
    assert not looks_like_cloudwatch("tps: 3")
    with pytest.raises(ValueError, match="not an answer"):
        parse_cloudwatch('"Datapoints"')


def test_of_efs_samples_are_operations_and_the_balance_is_bytes() -> None:
    points = [{"Timestamp": at, "Sum": 120 * 2**20, "SampleCount": 600.0, "Unit": "Bytes"} for at in TIMES]
    text = json.dumps(
        [
            {"Label": "DataReadIOBytes", "Datapoints": points},
            {"MetricDataResults": [result("fs-1 BurstCreditBalance", [2.3e12, 2.2e12])]},
            {"MetricDataResults": [result("PermittedThroughput", [105e6, 105e6])]},
        ]
    )
    assert value(text, "read_mib_per_s", "fs-1") == [2.0] * 3
    assert value(text, "reads_per_s", "fs-1") == [10.0] * 3
    assert value(text, "balance_bytes", "fs-1") == [2.3e12, 2.2e12]
    assert value(text, "permitted_mib_per_s", "fs-1")[0] == pytest.approx(105e6 / 2**20)


def test_of_rds_rates_are_rates_already_and_latencies_are_seconds() -> None:
    text = json.dumps({"MetricDataResults": [result("ReadIOPS", [300, 310]), result("ReadLatency", [0.002, 0.01])]})
    assert value(text, "reads_per_s") == [300.0, 310.0]
    assert value(text, "r_await_ms") == [2.0, 10.0]


def test_an_instance_s_balance_is_told_apart_from_the_volume_s() -> None:
    text = json.dumps({"MetricDataResults": [result("EBSIOBalance%", [80, 70]), result("BurstBalance", [10, 5])]})
    series = parse_cloudwatch(text).series
    assert {key.metric: key.entity for key in series} == {
        "instance_io_balance_percent": "instance",
        "balance_percent": "volume",
    }


def test_a_gap_is_told_and_no_value_is_made_up_for_it() -> None:
    times = [f"2026-01-31T14:{minute:02}:00Z" for minute in (0, 1, 2, 10, 11)]
    answer = {"Label": "VolumeReadOps", "Timestamps": times, "Values": [60] * 5}
    cloudwatch = parse_cloudwatch(json.dumps({"MetricDataResults": [answer]}))
    (series,) = cloudwatch.series.values()
    assert series.value.tolist() == [1.0] * 5
    assert any(
        "no points for 7 periods of 60 s, in 1 gap, from 2026-01-31T14:03:00Z" in n for n in cloudwatch.notes
    )


@pytest.mark.parametrize(
    ("answer", "phrase"),
    [
        ({"MetricDataResults": [], "NextToken": "x"}, "only a first page"),
        ({"MetricDataResults": [{"Label": "A", "StatusCode": "InternalError"}]}, "InternalError"),
        ({"MetricDataResults": [{"Label": "A", "Timestamps": TIMES, "Values": [1]}]}, "3 times and 1 value"),
        ({"MetricDataResults": [{"Label": "A", "Timestamps": ["noon"], "Values": [1]}]}, "a time cannot be read"),
    ],
)
def test_an_answer_that_is_not_whole_is_refused(answer: dict[str, Any], phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        parse_cloudwatch(json.dumps(answer))
