"""What-if by the measured response: where waiting times decide, and only there."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated_response import Load, cell

from volbench.core.records.run import VolumeSpec
from volbench.results.explain.accounts.demand import Demand, PredictionUnavailable
from volbench.results.explain.accounts.what_if import OtherVolume, known_volumes, other_volume, predict
from volbench.results.explain.accounts.what_if_response import (
    FAR,
    LIMIT_DECIDES,
    NOT_CONFIRMED,
    SYNCS_UNKNOWN,
    TOO_WIDE,
    WAITS_TO_WRITE,
    awaits_on,
    predict_by_response,
)
from volbench.results.explain.rules.by_response import measured_advice
from volbench.results.explain.tables import what_if_rows
from volbench.results.response.estimate import estimate
from volbench.results.response.levels import LatencySlope, VolumeLoad
from volbench.results.response.measured import MeasuredResponse, measured_response
from volbench.results.response.model import Interval
from volbench.results.response.tails import TailCheck

DEMAND = Demand(
    clients=4,
    tps=4000 / 43,
    response_s=0.043,
    reads=20.0,
    writes=0.0,
    read_bytes=16384.0,
    write_bytes=0.0,
    reads_waited=17.0,
    writes_waited=0.0,
    read_s=0.002,
    write_s=0.0,
    cpu_s_min=0.002,
    cpu_s=0.003,
    cpu_s_max=0.004,
    cpu_known=True,
    cpus=2,
    locks_s=0.0,
    p95_s=0.08,
)
"""Of a load with 20 reads of 2 ms and 3 ms of CPU, whose server counts only 17 waits."""
COST = LatencySlope(term="read", value=20.0, low=19.0, high=21.0, is_measured=True, moved_ms=(0.4, 2.2))
LEVEL = VolumeLoad(
    volume="slow",
    threads=4,
    latency_ms=43.0,
    awaits_ms={"read": 2.0},
    quantiles_ms={0.95: 80.0},
    base_awaits_ms={"read": 2.0},
)
UNCHECKED = TailCheck(statistic="p95", errors=(), reason="p95 is not predicted: nothing checks it")
MEASURED = MeasuredResponse(costs=(COST,), levels=(LEVEL,), tails={0.95: UNCHECKED})
REACH_MS = math.hypot(1.5, 1.96 * 0.1 * 13)
"""Of the slope at 13 ms, and of another run."""
FAST = OtherVolume(name="fast", read_s=0.0005, write_s=0.0005, caps=())


def test_waiting_times_decide_so_the_measured_slope_does() -> None:
    (outlook,) = predict_by_response([DEMAND], FAST, MEASURED, LEVEL).outlooks
    assert (outlook.method, outlook.bound) == ("response", "latency")
    assert outlook.latency_ms == pytest.approx(13.0)
    assert outlook.latency_interval == (pytest.approx(13 - REACH_MS), pytest.approx(13 + REACH_MS))
    assert outlook.tps == pytest.approx(4000 / 13)
    assert outlook.tps_interval == (
        pytest.approx(4000 / (13 + REACH_MS)),
        pytest.approx(4000 / (13 - REACH_MS)),
    )
    assert "20.0 [19.0, 21.0] ms per ms" in outlook.method_text
    assert "13.0 ms [10.0, 16.0] there, in place of 43.0 ms" in outlook.method_text


def test_beyond_the_longest_wait_what_if_uses_the_slope_without_waits_for_cpus() -> None:
    """As `explain --await-ms` and the forecasts do: reads of 2 ms were measured up to 2.2 ms."""
    cost = dataclasses.replace(COST, less_cpu_wait=Interval(value=23.0, low=22.0, high=24.0))
    slower = OtherVolume(name="slower", read_s=0.004, write_s=0.004, caps=())
    measured = dataclasses.replace(MEASURED, costs=(cost,))
    (outlook,) = predict_by_response([DEMAND], slower, measured, LEVEL).outlooks
    assert outlook.latency_ms == pytest.approx(43.0 + 20.0 * 0.2 + 23.0 * 1.8)


def test_a_sync_takes_as_many_writes_and_flushes_there_as_it_takes_here() -> None:
    """On 30 goals with reads and syncs a sync was taken for one write and flush: 1 rate was within 15 %."""
    here = OtherVolume(name="here", read_s=0.0016, write_s=0.001, caps=())
    there = OtherVolume(name="there", read_s=0.003, write_s=0.004, caps=())
    base_ms = {"read": 1.8, "log_sync": 2.5, "write": 1.0}
    assert awaits_on(there, base_ms, here) == {"read": pytest.approx(3.2), "log_sync": pytest.approx(10.0)}
    assert awaits_on(there, base_ms, None) == {"read": pytest.approx(3.0)}


def test_a_volume_with_slower_syncs_is_forecast_by_what_a_sync_takes_on_this_one() -> None:
    level = dataclasses.replace(LEVEL, awaits_ms={"log_sync": 3.0}, base_awaits_ms={"log_sync": 2.5})
    cost = dataclasses.replace(COST, term="log_sync", value=3.0, low=2.9, high=3.1, moved_ms=(2.0, 8.0))
    measured = dataclasses.replace(MEASURED, costs=(cost,), levels=(level,))
    here = dataclasses.replace(FAST, write_s=0.001)
    slower = dataclasses.replace(FAST, write_s=0.002)
    (outlook,) = predict_by_response([DEMAND], slower, measured, level, here).outlooks
    assert outlook.latency_ms == pytest.approx(43.0 + 3.0 * (5.0 - 3.0))


def test_a_queue_at_a_limit_here_is_no_waiting_time_there() -> None:
    level = dataclasses.replace(LEVEL, awaits_ms={"log_sync": 3.0}, base_awaits_ms={"log_sync": 2.5})
    measured = dataclasses.replace(MEASURED, costs=(dataclasses.replace(COST, term="log_sync"),), levels=(level,))
    queued = dataclasses.replace(other_volume("ebs-gp3"), write_s=0.001)
    demand = dataclasses.replace(DEMAND, tps=140.0)  # 2,800 of 3,000 IOPS
    (outlook,) = predict_by_response([demand], FAST, measured, level, queued).outlooks
    assert SYNCS_UNKNOWN in outlook.method_text


def test_the_latencies_of_emulated_volumes_of_a_run_are_known() -> None:
    specs = [
        VolumeSpec(name="disk", kind="path", location="/mnt", text="path:/mnt"),
        VolumeSpec(name="gp3", kind="emulated", location="ebs-gp3", text="emulated:ebs-gp3?iops=6000"),
        VolumeSpec(name="efs", kind="emulated", location="efs-bursting", text="emulated:efs-bursting"),
        VolumeSpec(name="gone", kind="emulated", location="/gone.yaml", text="emulated:/gone.yaml"),
    ]
    known = known_volumes(specs)
    assert set(known) == {"gp3"}
    assert known["gp3"].read_s == other_volume("ebs-gp3").read_s


def test_p95_is_in_proportion_and_widened_by_what_it_was_off() -> None:
    checked = dataclasses.replace(MEASURED, tails={0.95: TailCheck(statistic="p95", errors=(0.1, -0.2))})
    (outlook,) = predict_by_response([DEMAND], FAST, checked, LEVEL).outlooks
    assert outlook.states_p95
    assert outlook.p95_ms == pytest.approx(80 * 13 / 43)
    assert outlook.p95_interval == (
        pytest.approx(0.8 * 80 * (13 - REACH_MS) / 43),
        pytest.approx(1.2 * 80 * (13 + REACH_MS) / 43),
    )


def test_p95_that_was_far_off_has_no_figure_and_no_interval_but_a_reason() -> None:
    failed = TailCheck(statistic="p95", errors=(0.4,), reason="p95 was off by up to 40 %")
    (outlook,) = predict_by_response(
        [DEMAND], FAST, dataclasses.replace(MEASURED, tails={0.95: failed}), LEVEL
    ).outlooks
    assert (outlook.p95_ms, outlook.p95_interval) == (None, None)
    assert failed.reason in outlook.method_text


def test_p95_that_nothing_checks_stays_in_proportion_as_without_a_response() -> None:
    (outlook,) = predict_by_response([DEMAND], FAST, MEASURED, LEVEL).outlooks
    assert outlook.p95_ms == pytest.approx(1000 * 0.08 / 0.043 * 13 / 1000)


BUSY = dataclasses.replace(DEMAND, cpu_s=0.006, cpu_s_max=0.006)
SYNCED = dataclasses.replace(COST, term="write")
COMMITTED = dataclasses.replace(COST, term="log_sync")
WIDE = dataclasses.replace(COST, high=29.0)


@pytest.mark.parametrize(
    ("demand", "volume", "cost", "reason"),
    [
        (DEMAND, other_volume("ebs-gp3"), COST, LIMIT_DECIDES),
        (BUSY, FAST, COST, LIMIT_DECIDES),
        (
            dataclasses.replace(DEMAND, clients=1),
            other_volume("ebs-gp2?size=300GiB&credits=0%"),
            COST,
            LIMIT_DECIDES,
        ),
        (DEMAND, dataclasses.replace(FAST, read_s=0.005), COST, FAR),
        (DEMAND, FAST, WIDE, TOO_WIDE),
        (DEMAND, FAST, SYNCED, WAITS_TO_WRITE),
        (DEMAND, FAST, COMMITTED, SYNCS_UNKNOWN),
    ],
)
def test_where_the_response_does_not_tell_it_the_demand_does_and_says_why(
    demand: Demand, volume: OtherVolume, cost: LatencySlope, reason: str
) -> None:
    level = dataclasses.replace(LEVEL, awaits_ms={cost.term: 2.0}, base_awaits_ms={cost.term: 2.0})
    measured = dataclasses.replace(MEASURED, costs=(cost,))
    (outlook,) = predict_by_response([demand], volume, measured, level).outlooks
    (alone,) = predict([demand], volume).outlooks
    assert outlook == dataclasses.replace(alone, method_text=outlook.method_text)
    assert outlook.method_text.startswith(f"estimated from the load's demand: {reason}")
    assert ("by waiting times alone" in outlook.method_text) == (reason == LIMIT_DECIDES)


def test_busy_cpus_are_in_the_latency_of_a_load_that_gets_slower() -> None:
    """Transactions of 21 ms of CPU keep two CPUs busy at 95 a second; reads of 2.1 ms for 2 ms relieve them."""
    busy = dataclasses.replace(DEMAND, reads_waited=1.0, cpu_s_min=0.021, cpu_s=0.021, cpu_s_max=0.021)
    slower = OtherVolume(name="slower", read_s=0.0021, write_s=0.0021, caps=())
    assert predict([busy], slower).outlooks[0].bound == "CPU"
    (outlook,) = predict_by_response([busy], slower, MEASURED, LEVEL).outlooks
    assert (outlook.method, outlook.bound, outlook.latency_ms) == ("response", "latency", pytest.approx(45.0))


def test_without_a_confirmed_response_each_outlook_says_so() -> None:
    (outlook,) = predict_by_response([DEMAND], FAST, None, None).outlooks
    assert outlook.method == "demand"
    assert NOT_CONFIRMED in outlook.method_text


def test_what_cannot_be_predicted_stays_so() -> None:
    refused = PredictionUnavailable(reason="locks take 40 % of statement time")
    assert predict_by_response([refused], FAST, MEASURED, LEVEL) == predict([refused], FAST)


def test_rows_of_a_run_have_the_method_and_the_mean_latency() -> None:
    """Two volumes with reads of 2 and 0.5 ms, and a third with 0.74 ms that was never measured."""
    samples = {
        volume: {
            f"{number}-{volume}": cell(
                Load(waits={"read": 20.0}, volume=volume),
                {"read": np.full(80, read_ms * np.random.default_rng(number).normal(1, 0.05))},
                rng=np.random.default_rng(10 * number),
                name=f"{number}-{volume}",
            )
            for number in range(5)
        }
        for volume, read_ms in (("slow", 2.0), ("fast", 0.5))
    }
    every = [sample for cells in samples.values() for sample in cells.values()]
    views = {
        (volume, "load"): {
            name: SimpleNamespace(waits=sample, demand=DEMAND, threads=4, valid=True)
            for name, sample in cells.items()
        }
        for volume, cells in samples.items()
    }
    measured = measured_response(estimate(every), every)
    explained: Any = SimpleNamespace(views=views, measured={"load": measured})
    slow, _ = what_if_rows(explained, ["slow", "fast"], [other_volume("ebs-gp3?iops=16000")])
    truth_ms = 3.0 + 20.0 * 1000 * other_volume("ebs-gp3?iops=16000").read_s
    assert (slow.volume, slow.method) == ("slow", "response")
    assert slow.latency_ms_mean == pytest.approx(truth_ms, rel=0.1)
    assert slow.tps == pytest.approx(4000 / truth_ms, rel=0.1)
    assert "by the measured response" in slow.text


def test_advice_says_what_shorter_reads_give_with_the_slopes_interval() -> None:
    text = measured_advice("storage.read_latency", MEASURED, LEVEL, None)
    assert "(reads of 0.3 in place of 2 ms) gives 9 ms a transaction [6.55, 11.4] in place of 43 ms" in text
    assert measured_advice("storage.iops_limit", MEASURED, LEVEL, None) == text
    queued = measured_advice("storage.iops_limit", MEASURED, LEVEL, 0.5)
    assert "without its queue (reads of 0.5 in place of 2 ms) gives 13 ms a transaction [10, 16]" in queued


def test_advice_says_why_its_estimate_of_p95_is_not_by_the_response() -> None:
    """Two figures of one advice are by two models: a reader may see that they differ, and is told why."""
    failed = TailCheck(statistic="p95", errors=(0.4,), reason="p95 was off by up to 40 %")
    held = TailCheck(statistic="p95", errors=(0.1, -0.2))
    for check, why in ((failed, "p95 was off by up to 40 %"), (held, "off by at most 20 % on this run")):
        measured = dataclasses.replace(MEASURED, tails={0.95: check})
        text = measured_advice("storage.read_latency", measured, LEVEL, None, estimates_p95=True)
        assert " The estimate for half of p95 is from the load's demand" in text
        assert text.endswith(f"{why}.")
        assert "demand" not in measured_advice("storage.read_latency", measured, LEVEL, None)


@pytest.mark.parametrize(
    ("cause", "measured", "level", "base_ms"),
    [
        ("storage.read_latency", None, LEVEL, 0.5),
        ("storage.read_latency", MEASURED, None, 0.5),
        ("storage.iops_limit", MEASURED, LEVEL, 1.9),
        ("storage.iops_limit", MEASURED, LEVEL, 0.05),
        ("storage.sync_latency", MEASURED, LEVEL, 0.5),
        ("locks.rows", MEASURED, LEVEL, 0.5),
        ("storage.read_latency", dataclasses.replace(MEASURED, costs=(WIDE,)), LEVEL, 0.5),
        (
            "storage.read_latency",
            dataclasses.replace(MEASURED, costs=(dataclasses.replace(COST, is_measured=False),)),
            LEVEL,
            0.5,
        ),
    ],
)
def test_advice_without_a_measured_slope_or_without_a_gain_is_none(
    cause: str, measured: MeasuredResponse | None, level: VolumeLoad | None, base_ms: float | None
) -> None:
    assert measured_advice(cause, measured, level, base_ms) == ""


def test_a_response_that_the_counts_do_not_confirm_gives_nothing() -> None:
    assert measured_response(None, []) is None
