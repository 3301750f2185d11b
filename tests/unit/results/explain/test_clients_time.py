"""A share that reads "of the latency" is of the time that clients wait, not of that of the server's statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from volbench.cli.runs.explain import finding_lines
from volbench.core.records.named_metrics import Client, Diskstats, Innodb, NamedMetric, PerformanceSchema
from volbench.core.records.report import FindingRow
from volbench.results.explain.accounts.statement_part import statement_part
from volbench.results.explain.arbitration import arbitrate
from volbench.results.explain.case import Case
from volbench.results.explain.case_input import ConcurrentActivity
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.causes import findings_of_rules
from volbench.results.explain.clients_time import unaccounted_share
from volbench.results.explain.shares import with_shares_that_fit
from volbench.results.report.rows.verdict.lead import certainty
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SECONDS = 20
Series = Mapping[NamedMetric, float | list[float]]
HALF: Series = {
    PerformanceSchema.statement_s_per_s: 5.0,
    PerformanceSchema.statements_per_s: 1000.0,
    Client.tps: 100.0,
}
"""Of ten clients five are in a statement, and a transaction has 50 ms of them."""
AT_RATE: Series = {**HALF, Client.queue_length: 15.0, Client.latency_ms_p50: 80.0}
GAPS: Series = {
    **HALF,
    PerformanceSchema.statement_s_per_s: [5.0, float("nan")] * 10,
    Client.tps: [50.0, 150.0] * 10,
}
WITHOUT_CLIENT: Series = {key: value for key, value in HALF.items() if key != Client.tps}
DUMP = ConcurrentActivity(name="mysqldump", t0_s=0.0, t1_s=20.0)
DISK = "nvme1n1"


def case_of(series: Series, **facts: Any) -> Case:
    columns = {
        SeriesKey(source=metric.source, metric=metric.name, entity=DISK if metric.source == "diskstats" else ""): (
            np.broadcast_to(np.asarray(value, dtype=np.float64), (SECONDS,)).copy()
        )
        for metric, value in series.items()
    }
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    return Case(name="step", grid=grid, cell_grid=grid, **{"threads": 10, "cpus": 2, **facts})


def finding(share: float, **fields: Any) -> Cause:
    window_s = (0.0, float(SECONDS))
    return Cause(cause="x", share=share, window_s=window_s, checks=(True,), evidence=(), advice="", **fields)


def info(**fields: Any) -> CauseInfo:
    return CauseInfo(
        name="x", group="not the volume", panels=(), title="", meaning="", signs="", advice="", **fields
    )


@pytest.mark.parametrize(
    ("series", "facts", "part"),
    [
        (HALF, {}, 0.5),
        (HALF, {"latency_ms": {"latency_ms_mean": 80.0}}, 0.625),
        (HALF, {"latency_ms": {"latency_ms_mean": 40.0}}, 1.0),
        (HALF, {"latency_ms": {"latency_ms_mean": 120.0}}, 0.5),
        (GAPS, {"latency_ms": {"latency_ms_mean": 80.0}}, 0.625),
        (HALF, {"threads": None}, None),
        (HALF, {"rate": 100.0}, None),
        (AT_RATE, {"rate": 100.0, "latency_ms": {"latency_ms_mean": 250.0}}, 0.5),
        (AT_RATE, {"rate": 100.0, "latency_ms": {"latency_ms_mean": 190.0}}, 1.0),
        ({**AT_RATE, Client.queue_length: 0.0}, {"rate": 100.0}, 0.625),
        (HALF, {"concurrent": (DUMP,)}, None),
        (HALF, {"kind": "fio"}, None),
        ({Client.tps: 100.0}, {}, None),
        ({**HALF, Client.tps: 0.0}, {}, 0.5),
        (WITHOUT_CLIENT, {}, None),
    ],
    ids=[
        "clients of a closed loop",
        "mean latency of the client",
        "statements that began before the window",
        "transactions that began before the window",
        "intervals without statement times",
        "unknown clients",
        "unknown latency at a rate",
        "wait for a client thread",
        "nothing but a wait for a client thread",
        "median at a rate",
        "a dump's statements",
        "no statements",
        "no statement times",
        "no transaction ends",
        "no client",
    ],
)
def test_the_part_of_statements(series: Series, facts: dict[str, Any], part: float | None) -> None:
    """No round trip is sampled here, as over a socket."""
    assert statement_part(case_of(series, **facts)) == (None if part is None else pytest.approx(part))


@pytest.mark.parametrize(
    ("after_s", "part"),
    [(5.0, 0.65), (25.0, 0.675), (65.0, 0.8)],
    ids=["the waits do not end", "half of them end", "all of them end"],
)
def test_a_wait_for_a_lock_counts_once(after_s: float, part: float) -> None:
    """Eight sessions of ten wait in ten intervals; what they waited is in a statement's time when it ends."""
    series: Series = {
        **HALF,
        PerformanceSchema.statement_s_per_s: [5.0] * (SECONDS - 1) + [after_s],
        Innodb.row_lock_current_waits: [8.0] * 10 + [0.0] * 10,
    }
    assert statement_part(case_of(series)) == pytest.approx(part)


def test_a_share_over_a_socket_is_of_the_clients_time() -> None:
    (left,) = arbitrate(case_of(HALF), [finding(0.9)], {}).findings
    assert (left.share, left.share_of) == (pytest.approx(0.45), "latency")


@pytest.mark.parametrize(
    ("facts", "fields", "share_of"),
    [
        ({}, {}, "statement time"),
        ({}, {"of_clients": True}, "latency"),
        ({"kind": "fio"}, {}, "latency"),
        ({"kind": "dump"}, {}, "statement time"),
    ],
)
def test_a_share_that_cannot_be_scaled_says_what_it_is_of(
    facts: dict[str, Any], fields: dict[str, Any], share_of: str
) -> None:
    """Without a client nobody knows a latency; streams of a step without statements wait themselves."""
    (left,) = arbitrate(case_of({}, **facts), [finding(0.9, **fields)], {}).findings
    assert (left.share, left.share_of) == (0.9, share_of)


def test_the_check_compares_statement_time_with_statement_time() -> None:
    """Operations are in flight for a fifth of the time: two of five sessions, and 18 of 20 are claimed.

    After scaling it would be 45 % of the clients' time against 40 % of statement time, which fits.
    """
    series: Series = {
        **HALF,
        Diskstats.util_ratio: 0.2,
        Diskstats.in_flight: 1.0,
        Diskstats.reads_per_s: 100.0,
        Diskstats.r_await_ms: 2.0,
    }
    claims: Any = frozenset({"at the device"})
    left = arbitrate(case_of(series, disk=DISK), [finding(0.9)], {"x": info(claims=claims)})
    assert left.findings == ()
    assert [refuted.cause.share for refuted in left.refuted] == [0.9]
    assert left.refuted[0].text.endswith("at most 40 % of statement time can be waits for it, and not 90 %")


def test_what_nothing_accounts_for_is_a_part_of_the_clients_time() -> None:
    """Shares of causes add up to no more than what else there is of it: half is outside of statements."""
    assert unaccounted_share(case_of(HALF)) == pytest.approx(0.5)
    assert unaccounted_share(case_of(HALF, concurrent=(DUMP,))) == 0.0
    inside = case_of(HALF, latency_ms={"latency_ms_mean": 50.0})
    assert unaccounted_share(inside) == pytest.approx(1.0)


@pytest.mark.parametrize("share_of", ["latency", "statement time"])
def test_every_page_says_what_a_share_is_of(share_of: Any) -> None:
    row = FindingRow(cause="x", volume="v", step="load", cell_ids=("1",), share=0.3, share_of=share_of)
    assert f"explains 30 % of the {share_of}" in certainty(row)
    assert next(finding_lines(row)) == f"x, explains 30 % of the {share_of}"
    claims = [finding(0.9, of_clients=share_of == "latency")] * 2
    (page,) = with_shares_that_fit(claims)
    assert f"it would explain 90 % of the {share_of};" in page[0].evidence[0].text


LAST_QUARTER = np.arange(SECONDS) >= 15
LONGER: Series = {**HALF, PerformanceSchema.statement_s_per_s: [2.0] * 15 + [8.0] * 5}


@pytest.mark.parametrize(("facts", "share"), [({}, 0.25), ({"rate": 100.0}, 40 / 70), ({"threads": None}, 40 / 70)])
def test_clients_of_a_closed_loop_are_always_at_something(facts: dict[str, Any], share: float) -> None:
    """Statements have 40 of 70 s in a quarter of the step, and clients of a closed loop a quarter of their time."""
    assert case_of(LONGER, **facts).clients_share_of(LAST_QUARTER) == pytest.approx(share)


def test_what_a_dump_took_is_a_part_of_the_clients_time_and_not_of_its_own_statements() -> None:
    """The dump's statements were counted into the part of the step in which it ran: 57 % for a quarter."""
    case = case_of(
        {**LONGER, Client.tps: [100.0, 101.0, 99.0] * 5 + [50.0, 51.0, 49.0, 50.0, 51.0]},
        concurrent=(ConcurrentActivity(name="mysqldump", t0_s=15.0, t1_s=20.0),),
    )
    (backup,) = (one for one in findings_of_rules({"step": case}) if one.cause == "interference.backup")
    assert backup.share == pytest.approx(0.5 * 0.25)
