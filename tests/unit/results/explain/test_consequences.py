"""A finding that another one makes stands only where it shows without that one, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from recorded_step import recorded_step

from volbench.core.records.report import EvidenceRow
from volbench.results.explain.arbitration import Arbitration
from volbench.results.explain.calibration import Evidence
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.consequences import without_consequences
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

WAIT, NEIGHBOUR = "host.io_wait", "interference.io"


def step(seconds: int = 30, slowest_ms: float = 100.0) -> Case:
    """A step with a slowest transaction of one length in each second."""
    t_s = np.arange(1.0, seconds + 1)
    grid = align(
        {
            SeriesKey(source="client", metric=metric, entity=""): Series(t_s=t_s, value=np.full(seconds, value))
            for metric, value in (("tps", 100.0), ("latency_ms_max", slowest_ms))
        }
    )
    return Case(name="load", grid=grid, cell_grid=grid, threads=8)


def cause(name: str, begin_s: float, end_s: float, share: float | None = 0.5) -> Cause:
    return Cause(
        cause=name,
        window_s=(begin_s, end_s),
        share=share,
        checks=(True,),
        evidence=(),
        advice="",
        decided_by="before and after",
    )


def left(case: Case, *findings: Cause, without: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Names that stand, and why others do not, where these causes are named in the time without a neighbour."""
    arbitration = without_consequences(
        case,
        Arbitration(findings=findings, refuted=()),
        CAUSES,
        lambda part: [cause(name, *part.window_s) for name in without],
    )
    return [finding.cause for finding in arbitration.findings], [refuted.text for refuted in arbitration.refuted]


BOTH = (cause(NEIGHBOUR, 10.0, 20.0), cause(WAIT, 0.0, 30.0))


def test_a_wait_that_shows_only_while_others_use_the_disk_is_their_doing() -> None:
    """Recorded: a copy by another process, and a wait above the device that was as sure."""
    assert left(step(), *BOTH) == (
        [NEIGHBOUR],
        ["it does not show in the 18 s without interference.io: it is that one's doing"],
    )


def test_a_wait_that_shows_without_them_stands() -> None:
    assert left(step(), *BOTH, without=[WAIT]) == ([NEIGHBOUR, WAIT], [])
    assert left(step(), *BOTH, without=["host.io_limit"])[0] == [NEIGHBOUR]


def test_without_a_time_to_compare_the_one_that_says_what_makes_it_stands() -> None:
    """Five intervals are compared, four are not."""
    for end_s, reason in ((24.0, "it does not show in the 5 s"), (25.0, "interference.io is there as long")):
        names, reasons = left(step(), cause(NEIGHBOUR, 0.0, end_s), BOTH[1])
        assert names == [NEIGHBOUR]
        assert reasons[0].startswith(reason)
    assert left(step(), cause(NEIGHBOUR, 0.0, 24.0), BOTH[1], without=[WAIT])[0] == [NEIGHBOUR, WAIT]
    assert left(step(), cause(NEIGHBOUR, 0.0, 25.0), BOTH[1], without=[WAIT])[0] == [NEIGHBOUR]


@pytest.mark.parametrize(
    ("neighbour", "wait_stands"),
    [
        (cause(NEIGHBOUR, 10.0, 20.0, 0.16), False),
        (cause(NEIGHBOUR, 10.0, 20.0, None), False),
        (cause(NEIGHBOUR, 10.0, 20.0, 0.14), True),  # it explains little
        (replace(cause(NEIGHBOUR, 10.0, 20.0), confidence_max=0.51), False),
        (replace(cause(NEIGHBOUR, 10.0, 20.0), confidence_max=0.49), True),  # it is not likely itself
        (replace(cause(NEIGHBOUR, 10.0, 20.0), one_of_two=True), True),
        (cause(NEIGHBOUR, 30.0, 40.0), True),  # it has another time
        (cause("storage.stall", 10.0, 20.0), True),  # it makes no such wait
    ],
)
def test_only_a_likely_cause_that_explains_enough_makes_another_one(neighbour: Cause, wait_stands: bool) -> None:
    assert (WAIT in left(step(), neighbour, BOTH[1])[0]) is wait_stands


@pytest.mark.parametrize(("slowest_ms", "first_after"), [(100.0, 22.0), (1400.0, 22.0), (4000.0, 25.0)])
def test_what_waited_meanwhile_ends_later(slowest_ms: float, first_after: float) -> None:
    """Seconds beside the neighbour's are partly its own, and a wait is counted when it ends."""
    compared: list[float] = []

    def noting(part: Case) -> Sequence[Cause]:
        compared.extend(part.grid.t_s.tolist())
        return ()

    without_consequences(step(slowest_ms=slowest_ms), Arbitration(findings=BOTH, refuted=()), CAUSES, noting)
    assert compared == [*np.arange(1.0, 10.0), *np.arange(first_after, 31.0)]


def test_a_wait_above_the_device_is_made_by_what_has_a_name() -> None:
    assert CAUSES[WAIT].effect_of == {"host.io_limit", "interference.backup", NEIGHBOUR}


def stand(begin_s: float, end_s: float, stalled_s: float) -> Cause:
    """All clients stood for some seconds between two times."""
    stood = EvidenceRow(metric="stalled_s", value=stalled_s, unit="s", text="no client got an answer")
    return replace(cause("server.stall", begin_s, end_s), evidence=(stood,))


@pytest.mark.parametrize(
    ("stalled_s", "stands"), [(14.0, False), (6.0, True)], ids=["most of their time", "a part of their time"]
)
def test_a_stand_that_fills_the_time_of_others_is_their_doing(stalled_s: float, stands: bool) -> None:
    """A pause of a server is no doing of a neighbour who is there for longer without one."""
    names, reasons = left(step(), cause(NEIGHBOUR, 10.0, 30.0), stand(12.0, 30.0, stalled_s))
    assert names == [NEIGHBOUR, "server.stall"] if stands else names == [NEIGHBOUR]
    assert bool(reasons) is not stands


def test_a_stand_of_the_volume_that_shows_only_beside_others_is_their_doing() -> None:
    """Recorded in the lab: a copy by another process fills the device, which holds operations for 5 s."""
    both = (cause(NEIGHBOUR, 10.0, 18.0), cause("storage.stall", 10.0, 18.0))
    assert left(step(), *both)[0] == [NEIGHBOUR]
    assert left(step(), *both, without=["storage.stall"])[0] == [NEIGHBOUR, "storage.stall"]
    assert left(step(), both[0], cause("storage.stall", 2.0, 4.0))[0] == [NEIGHBOUR, "storage.stall"]


def test_a_stand_beside_others_and_without_them_is_the_servers() -> None:
    both = (cause(NEIGHBOUR, 10.0, 20.0), stand(0.0, 30.0, 12.0))
    assert left(step(), *both, without=["server.stall"]) == ([NEIGHBOUR, "server.stall"], [])


def test_a_scheduler_that_serves_a_neighbour_first_lets_all_clients_stand() -> None:
    """io.cost gives a neighbour ten times the server's weight: clients stand for 12.5 of its 18 s (recorded)."""
    explanation = explain_case(recorded_step("weight-neighbour-commits"))
    assert explanation.findings[0].cause == NEIGHBOUR
    assert "server.stall" not in [finding.cause for finding in explanation.findings]
    assert any(refuted.cause.cause == "server.stall" for refuted in explanation.refuted)


def test_a_server_that_is_paused_stands_by_itself() -> None:
    assert explain_case(recorded_step("server-paused")).findings[0].cause == "server.stall"


@pytest.mark.parametrize(
    ("waited", "stood", "decided_by", "stands"),
    [
        (0.97, 0.97, "counted", False),  # recorded: FLUSH TABLES WITH READ LOCK for 4 of 15 s
        (0.91, 0.99, "counted", False),  # recorded: LOCK TABLES
        (0.60, 0.79, "counted", True),  # 0.39 of 0.79 at least: less than half
        (0.60, 0.81, "counted", False),
        (0.97, 0.97, "level", True),  # no counter says that sessions waited for it
        (0.30, 0.60, "counted", True),  # they may have other times
    ],
)
def test_a_stand_in_which_sessions_count_waits_for_a_lock_is_the_locks(
    waited: float, stood: float, decided_by: Evidence, stands: bool
) -> None:
    """Two shares of one time that sum to more than all of it lie over each other by the rest at least."""
    lock = replace(cause("lock.metadata_contention", 0.0, 30.0, waited), decided_by=decided_by)
    both = (lock, replace(stand(12.0, 18.0, 4.4), share=stood))
    assert ("server.stall" in left(step(), *both)[0]) is stands
