"""Rules that name the network between client and server, by the account of `evidence.network`."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from volbench.core.base.text import counted
from volbench.core.records.named_metrics import Client
from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.accounts.time_budget import time_budget
from volbench.results.explain.case import Case
from volbench.results.explain.cause import VOLUME_CHANGES_LITTLE, Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.layers import stretches
from volbench.results.explain.evidence.network import RESEND_S, NetworkAccount, network_account
from volbench.results.explain.rule import (
    CLIENT_BUSY,
    CLIENT_HELD,
    CONNECTION,
    CPUS,
    SERVER_HELD,
    SYNCS_ON_CPUS,
    Rule,
)
from volbench.results.explain.rules.shared_evidence import effect_rows, loss_rows
from volbench.results.explain.wording import clock, number, percent, row
from volbench.results.stats.grid import Mask, mean, median, quantile

CAUSES = (
    CauseInfo(
        name="network.latency",
        claims=frozenset({"distance"}),
        group="the way to the server",
        title="The server is far away: statements wait for the network",
        panels=("throughput", "statement"),
        accounts_for=frozenset({"network"}),
        explains_fall=True,
        share_of="clients",
        meaning="The client is far from the server, and each statement waits for a round trip.",
        signs=(
            "With `--target attach` over TCP, volbench sends an empty statement ten times a second during the"
            " load. The shortest one of each second takes at least 0.5 ms (0.1 to 0.5 ms is usual within a data"
            " centre). Round trips a second times that time is the number of clients that wait for the network"
            " (Little's law): at least 15 % of all clients, and no more than are outside of statements. A delay"
            " that begins or ends within the step has its time. A proxy or a tunnel on the way counts as network."
            " Where the cell's tasks wait for a CPU for half as long for each statement as the shortest one takes,"
            " or under a quota where nobody counts that, the finding is less sure."
        ),
        advice=(
            "Send fewer statements for a transaction, or bring the client nearer. The finding computes what"
            " round trips of 0.5 ms would give."
        ),
        waits="even",
        wait_time="between statements",
    ),
    CauseInfo(
        name="network.stalls",
        group="the way to the server",
        title="The network between client and server stands still at times",
        panels=("throughput", "statement"),
        accounts_for=frozenset({"network"}),
        explains_fall=True,
        share_of="clients",
        meaning="The connection to the server stalls at times: packets are lost or delayed.",
        signs=(
            "Clients wait outside of statements for at least 15 % of their time beyond distance and CPUs, and a"
            " witness explains most of that: TCP of the client's machine had retransmission timeouts (each at"
            " least 200 ms, before which Linux sends no lost packet again), or the empty statement took 200 ms"
            " and more now and then. Where the client's CPUs are saturated and nobody counted its waiting for"
            " them, a finding without TCP's counters is one of two. The statements themselves are as fast as"
            " ever. Not named for a load at a rate of its own."
        ),
        advice=(
            "Look for retransmissions on both hosts (`nstat -az TcpRetransSegs TcpExtTCPTimeouts`, `ss -ti`),"
            " and at proxies and firewalls between them."
        ),
        waits="stalls of the way",
        wait_time="between statements",
    ),
)


LATENCY, STALLS = "network.latency", "network.stalls"
_WITNESSED = 0.5
"""Of the clients' unexplained time outside of statements, what a witness explains at least: the larger part."""
_LOST = (
    "Packets are lost between client and server: look at both hosts' retransmissions (nstat -az TcpRetransSegs"
    " TcpExtTCPTimeouts; ss -ti), at the links' error counters (ip -s link), at a link or a firewall that is"
    " overloaded."
)
_DECIDE = (
    "the CPUs are saturated, and an empty statement that waits for one would look alike; this decides: the same run"
    " while the client's machine has CPUs to spare"
)
_PAUSED = (
    "Something between client and server stands still at times: a proxy or a firewall that is overloaded, a pause"
    " of the server's machine, packets that the server's side sends again (nstat -az TcpRetransSegs on its host)."
)
_CHANGED = 4.0
"""Rise of the shortest round trip that is a change: both sides are then a factor of 2 from their middle."""
_TOO_MANY = 1.25
"""Clients on the way against those outside of statements: with more, the law of conservation does not hold."""


def network_findings(case: Case) -> Iterator[Cause]:
    """A server that is far away, and a connection that stalls at times."""
    account = network_account(case.grid, threads=case.threads, rate=case.rate)
    if account is not None and not case.concurrent:
        yield from _latency(case, account)
        yield from _stalls(case, account)


def _latency(case: Case, account: NetworkAccount) -> Iterator[Cause]:
    """Round trips that take long each: the distance. The clients on the way are at most those outside."""
    far = _far(account)
    if int(far.sum()) < limit.FOREIGN_SAMPLES:
        return
    on_the_way, outside = account.share(account.distance, far), account.share(account.outside, far)
    share = min(on_the_way, outside)
    if share < limit.SHARE_MIN:
        return
    during = _in_grid(account, far)
    bounded = not far.all()
    effects = [effect for effect in effect_rows(case, during) if effect.is_worse] if bounded else []
    window_s = _window_s(case, during)
    yield Cause(
        cause=LATENCY,
        decided_by="counted",
        window_s=window_s,
        share=share,
        checks=(True, on_the_way <= _TOO_MANY * outside, True if effects else None if bounded else True),
        evidence=(
            *_latency_rows(case, account, far, window_s if bounded else None),
            *_outside_row(account),
            *(effect.evidence for effect in effects),
            *loss_rows(effects),
        ),
        advice=_nearer(case, account, far),
        volume_advice=VOLUME_CHANGES_LITTLE,
    )


def _far(account: NetworkAccount) -> Mask:
    """Intervals in which the server is far away, shape (buckets,).

    Where the distance changes clearly, those nearer to the long one than to the short one (geometric mean), without
    single ones: all of a second's round trips may wait for a CPU.
    """
    shortest = account.shortest_ms
    low, high = quantile(shortest, 0.1) or 0.0, quantile(shortest, 0.9) or 0.0
    edge_ms = math.sqrt(low * high) if high >= _CHANGED * low else 0.0
    far: Mask = shortest >= max(limit.ROUND_TRIP_SLOW_MS, edge_ms)
    spans = stretches(far, gap=1, least=limit.FOREIGN_SAMPLES)
    together = np.zeros(len(far), dtype=np.bool_)
    for first, last in spans:
        together[first:last] = True
    return together if edge_ms and spans else far


def _latency_rows(
    case: Case, account: NetworkAccount, far: Mask, window_s: tuple[float, float] | None
) -> Iterator[EvidenceRow]:
    when = "" if window_s is None else f"from {_span(case, window_s)} "
    least_ms = median(account.shortest_ms[far]) or 0.0
    text = f"{when}an empty statement takes {number(least_ms)} ms from the client to the server and back at least"
    yield row("round_trip_ms", least_ms, "ms", text)
    each = _statements_each(case, account)
    if each is not None:
        text = (
            f"a transaction makes {number(each)} round trips, one after the other: {number(each * least_ms)} ms"
            " that neither server nor volume can shorten"
        )
        yield row("round_trips", each, "1", text)


def _stalls(case: Case, account: NetworkAccount) -> Iterator[Cause]:
    """Time outside of statements that neither distance nor CPUs between statements explain, with a witness.

    Witnesses are TCP's own counters, or the empty statement: each of the load's round trips is delayed as its are
    on average (packets lost at random), or all clients stand still while it does (a pause of the way), whichever
    is more. Where the CPUs are saturated and nobody counted the cell's waits for one, these delay the empty
    statement as well: then a pause is one of two, and delays of single round trips say nothing.
    """
    if case.rate is not None:
        return
    left = account.share(account.outside) - account.share(account.distance) - _cpu_between_share(case)
    resent = 0.0 if account.resending is None else min(left, account.share(account.resending))
    delayed = min(left, _delayed_share(case, account))
    share = max(resent, delayed)
    if share < max(limit.SHARE_MIN, _WITNESSED * left):
        return
    counted = resent >= _WITNESSED * left
    doubtful = _cpus_are_unknown(case) and not counted
    yield Cause(
        cause=STALLS,
        decided_by="counted" if counted else "level",
        window_s=case.window_s,
        share=share,
        checks=(True, delayed >= _WITNESSED * left or None, counted or None),
        evidence=(
            *_stall_rows(account),
            *_resent_rows(account),
            *_outside_row(account),
            *((row("decide", None, "1", _DECIDE),) if doubtful else ()),
        ),
        one_of_two=doubtful,
        advice=_LOST if counted else _PAUSED,
        volume_advice=VOLUME_CHANGES_LITTLE,
    )


def _cpus_are_unknown(case: Case) -> bool:
    """Whether the CPUs are saturated and the cell's waits for one are not counted."""
    return case.cpu_bound and case.cpu_cycle_share is None


def _delayed_share(case: Case, account: NetworkAccount) -> float:
    """What the empty statement's delays come to, as a share of the clients' time."""
    if not (account.longest_ms >= limit.RETRANSMISSION_MS).any():
        return 0.0
    paused = account.share(account.probe_delayed * account.clients)
    return paused if _cpus_are_unknown(case) else max(account.share(account.delayed), paused)


def _stall_rows(account: NetworkAccount) -> Iterator[EvidenceRow]:
    longest_ms, slow = float(account.longest_ms.max()), account.longest_ms >= limit.RETRANSMISSION_MS
    text = (
        f"an empty statement took up to {number(longest_ms)} ms from the client to the server and back, and"
        f" {number(median(account.shortest_ms) or 0.0)} ms at least; it took {number(limit.RETRANSMISSION_MS)} ms"
        f" and more in {int(slow.sum())} of {counted(len(slow), 'interval')}"
    )
    yield row("round_trip_ms_max", longest_ms, "ms", text)


def _resent_rows(account: NetworkAccount) -> Iterator[EvidenceRow]:
    """How often TCP of this machine waited in vain."""
    if account.resending is None:
        return
    per_s = float(account.resending.mean()) / RESEND_S
    text = (
        f"TCP of this machine waited for an acknowledgement in vain {number(per_s)} times a second"
        f" ({number(limit.RETRANSMISSION_MS)} ms or more each): {number(float(account.resending.mean()))} of"
        f" {number(float(account.clients.mean()))} clients at a time"
    )
    yield row("resent_per_s", per_s, "1/s", text)


def _cpu_between_share(case: Case) -> float:
    """Share of the clients' time on and before CPUs between statements, at most; 0 where it is not known."""
    budget, tps = time_budget(case), mean(case.at(Client.tps))
    if budget is None or not tps or not case.threads:
        return 0.0
    return budget.cpu_between_ms / (1000 * case.threads / tps)


def _outside_row(account: NetworkAccount) -> Iterator[EvidenceRow]:
    share = account.share(account.outside)
    text = f"for {percent(share)} of their time the clients wait outside of statements: no wait of the server"
    yield row("outside_share", share, "1", text)


def _statements_each(case: Case, account: NetworkAccount) -> float | None:
    """Statements of a transaction."""
    tps = case.at(Client.tps)
    total = 0.0 if tps is None else float(np.nansum(tps[account.counted]))
    return float(account.statements_per_s.sum()) / total if total > 0 else None


def _nearer(case: Case, account: NetworkAccount, far: Mask) -> str:
    """What fewer and shorter round trips give: in a closed loop of C clients, C / X less the time that is saved."""
    fewer = (
        "Fewer round trips (several rows in a statement, batches, prepared statements, a procedure on the server),"
        " or the client nearer to the server (the same zone)."
    )
    each, tps = _statements_each(case, account), mean(case.at(Client.tps))
    least_ms = median(account.shortest_ms[far])
    if each is None or not tps or least_ms is None or case.rate is not None or not far.all():
        return fewer
    now_ms = 1000 * float(account.clients.mean()) / tps
    saved_ms = min(each * (least_ms - limit.ROUND_TRIP_SLOW_MS), account.share(account.outside) * now_ms)
    most = tps * now_ms / max(1e-9, now_ms - saved_ms)
    return (
        f"{fewer} With round trips of {number(limit.ROUND_TRIP_SLOW_MS)} ms a transaction would take about"
        f" {number(now_ms - saved_ms)} ms in place of {number(now_ms)}: {number(tps)} to {number(most)} tps, less"
        " where the server limits first."
    )


def _in_grid(account: NetworkAccount, intervals: Mask) -> Mask:
    during = np.zeros(len(account.counted), dtype=np.bool_)
    during[account.counted] = intervals
    return during


def _window_s(case: Case, during: Mask) -> tuple[float, float]:
    inside = np.flatnonzero(during)
    return float(case.grid.t_s[inside[0]]) - case.grid.width_s, float(case.grid.t_s[inside[-1]])


def _span(case: Case, window_s: tuple[float, float]) -> str:
    begin, end = (clock(t_s, case.clock_zero_s) for t_s in window_s)
    return f"{begin} to {end}"


RULES = (
    Rule(
        name=CONNECTION,
        causes=frozenset({LATENCY, STALLS}),
        find=network_findings,
        yields_to=frozenset({CLIENT_BUSY, CLIENT_HELD}),
        one_of_two_with=frozenset({CPUS, SERVER_HELD, SYNCS_ON_CPUS}),
    ),
)
