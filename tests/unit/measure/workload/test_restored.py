"""The step `restored`: when p95 is normal, and which volumes and servers it refuses."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from step_context import Kept, context_on

from volbench.core.records.series import SeriesRow
from volbench.core.records.steps.restored import RestoredStep, WarmUpPlan
from volbench.errors import StepFailed, UsageError
from volbench.measure.workload.oltp import restored
from volbench.measure.workload.oltp.restored import Restored, warm_up_of


def seconds(*levels: tuple[int, float], start_s: float = 100.0) -> list[tuple[float, float]]:
    values = np.concatenate([np.full(count, level) for count, level in levels])
    noise = np.random.default_rng(1).lognormal(0, 0.05, len(values))
    return [(start_s + index + 1, float(value)) for index, value in enumerate(values * noise)]


def test_p95_is_normal_from_the_second_on_in_which_it_stays_at_the_end() -> None:
    result = warm_up_of(seconds((40, 200.0), (80, 20.0)))
    assert result is not None
    assert result.normal_from_s == pytest.approx(140, abs=4)
    assert result.normal_ms == pytest.approx(20, rel=0.05)
    assert result.first_ms == pytest.approx(200, rel=0.05)


def test_a_load_that_is_fast_at_once_is_normal_at_once() -> None:
    result = warm_up_of(seconds((90, 20.0)))
    assert result is not None
    assert result.normal_from_s == pytest.approx(101, abs=1)


def test_a_relapse_counts() -> None:
    result = warm_up_of(seconds((20, 200.0), (20, 20.0), (15, 90.0), (60, 20.0)))
    assert result is not None
    assert result.normal_from_s == pytest.approx(155, abs=4)


def test_one_slow_second_is_no_relapse() -> None:
    rows = seconds((20, 200.0), (80, 20.0))
    rows[60] = (rows[60][0], 500.0)
    result = warm_up_of(rows)
    assert result is not None
    assert result.normal_from_s == pytest.approx(120, abs=4)


def test_a_load_that_still_becomes_faster_has_no_normal_time() -> None:
    falling = [(float(at), 200.0 * 0.97**at) for at in range(1, 91)]
    result = warm_up_of(falling)
    assert result is not None
    assert result.normal_from_s is None


def of_no_transaction(count: int, start_s: float) -> list[tuple[float, float]]:
    return [(start_s + index + 1, math.inf) for index in range(count)]


def test_seconds_without_a_transaction_are_not_left_out_of_the_first_ones() -> None:
    """All clients waited for blocks: the first transaction ended after 12 s, and the load was fast from then on."""
    rows = [*of_no_transaction(11, 100.0), (112.0, 11_500.0), *seconds((60, 20.0), start_s=112.0)]
    result = warm_up_of(rows)
    assert result is not None
    assert result.first_ms is None
    assert result.normal_ms == pytest.approx(20, rel=0.05)
    assert result.normal_from_s == pytest.approx(113, abs=4)


def test_a_stall_is_not_the_one_slow_second_in_which_it_ends() -> None:
    before, after = seconds((20, 20.0)), seconds((60, 20.0), start_s=131.0)
    result = warm_up_of([*before, *of_no_transaction(10, 120.0), (131.0, 10_000.0), *after])
    assert result is not None
    assert result.first_ms == pytest.approx(20, rel=0.05)
    assert result.normal_from_s == pytest.approx(131, abs=4)


def test_a_load_that_ends_in_a_stall_has_no_normal_p95() -> None:
    assert warm_up_of([*seconds((30, 20.0)), *of_no_transaction(30, 130.0)]) is None


def test_a_second_without_a_latency_is_kept_as_an_infinite_one() -> None:
    inner = Kept()
    recorder = restored._P95Kept(inner)
    rows = [SeriesRow(t_s=1.0, source="client", metric="tps", value=0.0)]
    recorder.series(iter(rows))
    answered = [
        SeriesRow(t_s=2.0, source="client", metric="tps", value=3.0),
        SeriesRow(t_s=2.0, source="client", metric="latency_ms_p95", value=7.0),
    ]
    recorder.series(iter(answered))
    assert recorder.rows == [(1.0, math.inf), (2.0, 7.0)]
    assert inner.rows == [*rows, *answered]


def test_a_few_seconds_tell_nothing() -> None:
    assert warm_up_of(seconds((9, 20.0))) is None
    assert warm_up_of([]) is None


@pytest.mark.parametrize("socket", [None, Path("/run/volume/control.sock")])
def test_a_volume_whose_blocks_are_all_there_is_refused(
    tmp_path: Path, socket: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restored, "ask_socket", lambda *_: {"parameters": {"latency": {}}})
    context, _ = context_on(tmp_path)
    with pytest.raises(UsageError, match="made from a snapshot"):
        Restored().check(RestoredStep(name="r"), dataclasses.replace(context, emulator_socket=socket))


def test_each_plan_has_its_own_reading() -> None:
    assert set(restored._PLANS) == set(get_args(WarmUpPlan))


class PoolServer:
    """Answers what the plan `pool` asks: pages in the pool, the percent of a dump, how dump and load go on."""

    def __init__(self, *, status: str = "Buffer pool(s) dump completed") -> None:
        self.pages, self.percent, self.status = 5120, 25, status
        self.asked: list[str] = []

    def query(self, sql: str) -> list[tuple[object, ...]]:
        self.asked.append(sql)
        if sql.startswith("SET GLOBAL innodb_buffer_pool_dump_pct = "):
            self.percent = int(sql.rpartition(" ")[2])
        if "@@GLOBAL.innodb_buffer_pool_dump_pct" in sql:
            return [(self.percent,)]
        if "pages_data" in sql:
            return [("Innodb_buffer_pool_pages_data", str(self.pages))]
        return [("status", self.status)] if sql.startswith("SHOW") else []


@pytest.mark.parametrize(("asked", "listed"), [(None, 25), (100, 100), (40, 40)])
def test_a_dump_lists_what_the_step_asks_for_else_what_the_server_is_set_to(
    tmp_path: Path, asked: int | None, listed: int
) -> None:
    server = PoolServer()
    context, _ = context_on(tmp_path, server=server)
    dump = restored._dump_pool(RestoredStep(name="r", plan="pool", dump_pct=asked), context)
    assert (dump.pages, dump.percent) == (5120, listed)
    assert (f"SET GLOBAL innodb_buffer_pool_dump_pct = {asked}" in server.asked) is (asked is not None)


def test_a_dump_of_a_part_of_the_pool_is_said_with_the_servers_own_counts() -> None:
    (text,) = restored._dump_notes(restored.PoolDump(pages=5120, percent=25), 1402)
    assert "25 % of the pool's 5,120 pages" in text
    assert "held 1,402 as the load began" in text
    assert list(restored._dump_notes(restored.PoolDump(pages=5120, percent=100), 5200)) == []


@pytest.mark.parametrize(
    "status",
    [
        "Cannot open './ib_buffer_pool' for reading: No such file or directory",
        "Error parsing './ib_buffer_pool', unable to load buffer pool (stage 1)",
        "Buffer pool(s) load aborted on request",
    ],
)
def test_a_list_that_the_server_cannot_load_ends_the_step_with_what_it_says(tmp_path: Path, status: str) -> None:
    context, _ = context_on(tmp_path, server=PoolServer(status=status))
    with pytest.raises(StepFailed) as failure:
        restored._until(context, restored._POOL_STATUS, math.inf, "the buffer pool's pages were not loaded")
    assert failure.value.evidence == status


def test_a_percent_of_a_dump_is_of_the_plan_that_makes_one() -> None:
    with pytest.raises(ValueError, match="makes no dump"):
        RestoredStep(name="r", plan="tables", dump_pct=100)
