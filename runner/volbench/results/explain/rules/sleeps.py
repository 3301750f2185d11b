"""The rule that names waits that the server is set to make: delays of group commits, replicas, admission, purge.

None of them is I/O, and most have no instrument: their time is in what neither a wait nor a CPU explains. Each kind
of wait has a bound from its setting and the server's own counters. It is named as far as the time that nothing else
explains lies within its bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from volbench.core.records.named_metrics import Innodb, PerformanceSchema
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import VOLUME_CHANGES_LITTLE, Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.layers import server_flow
from volbench.results.explain.rule import Rule
from volbench.results.explain.rules.shared_evidence import context
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import mean, median

CONFIGURED_WAIT = "server.configured_wait"
MOST_OF = 0.5
"""Of the time that nothing else explains, what a setting must be able to make, to be more than one of two."""
POOL_FULL = 0.75
"""Of a thread pool's threads, those that run at the ticks, where its clients wait for one: a listener and one that
has just ended a statement do not."""
_PURGE_STEP_US = 10_000.0
"""InnoDB's delay of a change: (history / innodb_max_purge_lag - 0.5) of so many microseconds.
Source: trx_purge_dml_delay in storage/innobase/trx/trx0purge.cc (MySQL 8.4, MariaDB 10.11)."""
_ON = frozenset({"ON", "1"})

CAUSES = (
    CauseInfo(
        name="server.configured_wait",
        group="the server or the client",
        title="Statements wait because the server is set to wait",
        panels=("latency", "innodb"),
        accounts_for=frozenset({"writes of files", "replication"}),
        options=frozenset(
            {
                "binlog_group_commit_sync_delay",
                "binlog_commit_wait_usec",
                "binlog_commit_wait_count",
                "innodb_thread_concurrency",
                "thread_pool_max_threads",
                "innodb_max_purge_lag",
                "innodb_max_purge_lag_delay",
            }
        ),
        all_along=True,
        meaning=(
            "Sessions wait for something that is no I/O and no lock: the server is set to delay group commits, to"
            " wait for replicas, to admit few threads, or to slow changes down while purge is behind."
        ),
        signs=(
            "The variable is set (`binlog_group_commit_sync_delay`; `binlog_commit_wait_usec` with"
            " `binlog_commit_wait_count`; `innodb_thread_concurrency` below the running threads;"
            " `innodb_max_purge_lag` below the history list's length), or the server counts such waits"
            " (semi-synchronous replication, Galera's flow control). At least 20 % of statement time is explained"
            " by no other wait and no CPU time, and the setting can make it: a group's delay times the groups that"
            " are synced; the threads beyond the limit; the delay of a change times the statements. Where it can"
            " make less than half of that time, it is one of two. A closed loop of more clients than the thread"
            " pool has threads (`thread_handling`, `thread_pool_max_threads`), nearly all of which run, waits"
            " before its statements."
        ),
        advice=(
            "Lower the delay, raise the limit, or look at what is behind (replicas, purge: an old transaction). A"
            " faster volume does not help."
        ),
        waits="even in its share",
        wait_time="",
    ),
)


@dataclass(frozen=True, kw_only=True)
class _Sleep:
    """One kind of wait: `most` of statement time at most, in words, with its variable; `counted` by the server."""

    variable: str
    most: float
    text: str
    advice: str
    counted: bool = False


def configured_waits(case: Case) -> Iterator[Cause]:
    """The wait of a setting that explains most of the time that nothing else explains."""
    budget = case.budget
    if budget is None:
        return
    # Followers of a group commit have an instrument in MySQL: they wait for its leader, which sleeps.
    unknown = (case.unseen_share or 0.0) + budget.share("binlog_group")
    sleeps = sorted(_sleeps(case), key=lambda sleep: -sleep.most)
    for sleep in sleeps[:1]:
        share = sleep.most if sleep.counted else min(sleep.most, unknown)
        if share < limit.UNSEEN_SHARE_MIN:
            continue
        enough = sleep.most >= MOST_OF * unknown
        text = f"{percent(unknown)} of statement time is no other wait that is seen and no CPU time"
        yield Cause(
            cause=CONFIGURED_WAIT,
            decided_by="counted" if sleep.counted else "level",
            window_s=case.window_s,
            share=share,
            checks=(True, enough, case.unseen_share is not None or None),
            one_of_two=not enough,
            evidence=(
                row(sleep.variable, sleep.most, "1", sleep.text),
                row("unexplained_share", unknown, "1", text),
                *context(case),
            ),
            advice=sleep.advice,
            volume_advice=VOLUME_CHANGES_LITTLE,
        )


def pool_waits(case: Case) -> Iterator[Cause]:
    """The thread pool: of N clients that ask again at once, all but its T threads wait before their statements."""
    threads, running = _number(case, "thread_pool_max_threads"), mean(case.at(Innodb.threads_running))
    has_pool = case.variables.get("thread_handling", "") == "pool-of-threads" and threads > 0
    if not has_pool or not case.threads or case.rate is not None or running is None:
        return
    share = 1 - threads / case.threads
    if share < limit.UNSEEN_SHARE_MIN or running < POOL_FULL * threads:
        return
    text = (
        f"the thread pool has {number(threads)} threads, of which {number(running)} run, and {case.threads} clients"
        f" ask again at once: {percent(share)} of their time they wait for a thread"
    )
    yield Cause(
        cause=CONFIGURED_WAIT,
        decided_by="level",
        window_s=case.window_s,
        share=share,
        of_clients=True,
        checks=(True, True),
        evidence=(row("thread_pool_max_threads", threads, "1", text), *context(case)),
        advice="Raise thread_pool_max_threads (and thread_pool_size), or shorten what holds its threads.",
        volume_advice="",
    )


def _sleeps(case: Case) -> Iterator[_Sleep]:
    yield from _group_commits(case)
    yield from _replicas(case)
    yield from _admission(case)
    yield from _purge(case)


def _number(case: Case, name: str) -> float:
    text = case.variables.get(name, "")
    return float(text) if text.lstrip("-").isdecimal() else 0.0


def _group_commits(case: Case) -> Iterator[_Sleep]:
    """A leader sleeps D seconds before each sync: of a second, D times the groups; meanwhile all others wait."""
    delay_us, name = _number(case, "binlog_group_commit_sync_delay"), "binlog_group_commit_sync_delay"
    if not delay_us and _number(case, "binlog_commit_wait_count") > 0:
        delay_us, name = _number(case, "binlog_commit_wait_usec"), "binlog_commit_wait_usec"
    if delay_us <= 0 or case.variables.get("log_bin", "").upper() not in _ON:
        return
    syncs, commits = server_flow(case.grid, "sync", ("binlog",)), mean(case.at(Innodb.commits_per_s))
    rates = [rate for rate in (None if syncs is None else mean(syncs.rate), commits) if rate is not None]
    if not rates:
        return
    most = min(1.0, min(rates) * delay_us / 1e6)
    text = (
        f"{name} is {number(delay_us)} us: with {number(min(rates))} groups of commits a second a leader sleeps in"
        f" up to {percent(most)} of the time before it syncs, and the other sessions of its group wait for it"
    )
    advice = f"Lower {name}: it saves syncs where many sessions commit, and costs few sessions its full length."
    yield _Sleep(variable=name, most=most, text=text, advice=advice)


def _replicas(case: Case) -> Iterator[_Sleep]:
    """Waits that the server counts: acknowledgements of replicas, and Galera's flow control."""
    waited, paused = (
        mean(case.at(Innodb.semi_sync_wait_s_per_s)),
        mean(case.at(Innodb.flow_control_paused_ratio)),
    )
    statements = None if case.budget is None else mean(case.budget.statement_s)
    if waited and statements:
        most = min(1.0, waited / statements)
        text = f"{percent(most)} of statement time commits wait for a replica's acknowledgement (semi-synchronous)"
        advice = "Look at the replicas and the way to them (rpl_semi_sync_*_timeout, wait_for_*_count)."
        yield _Sleep(variable="semi_sync_wait_share", most=most, text=text, advice=advice, counted=True)
    if paused:
        text = f"Galera's flow control paused writes in {percent(paused)} of the time: a node is behind"
        advice = "Look at the node that is behind (wsrep_local_recv_queue, its own volume)."
        yield _Sleep(
            variable="flow_control_paused_ratio", most=min(1.0, paused), text=text, advice=advice, counted=True
        )


def _admission(case: Case) -> Iterator[_Sleep]:
    """Of N running threads, all but T wait to enter InnoDB."""
    admitted, running = _number(case, "innodb_thread_concurrency"), mean(case.at(Innodb.threads_running))
    clients = min(running or 0.0, float(case.threads)) if case.threads else running or 0.0
    if admitted <= 0 or clients <= admitted:
        return
    most = 1 - admitted / clients
    text = (
        f"innodb_thread_concurrency admits {number(admitted)} threads and {number(clients)} run: the others,"
        f" {percent(most)}, wait to enter InnoDB"
    )
    yield _Sleep(
        variable="innodb_thread_concurrency",
        most=most,
        text=text,
        advice="Raise innodb_thread_concurrency, or set it to 0: InnoDB admits all threads.",
    )


def _purge(case: Case) -> Iterator[_Sleep]:
    """A change waits in proportion to the history list, up to innodb_max_purge_lag_delay."""
    lag, history = _number(case, "innodb_max_purge_lag"), median(case.at(Innodb.history_list_length))
    if lag <= 0 or history is None or history <= lag:
        return
    delay_us, most_us = (history / lag - 0.5) * _PURGE_STEP_US, _number(case, "innodb_max_purge_lag_delay")
    delay_us = min(delay_us, most_us) if most_us > 0 else delay_us
    statements_s = None if case.budget is None else mean(case.budget.statement_s)
    rate = mean(case.at(PerformanceSchema.statements_per_s))
    most = 1.0 if not statements_s or rate is None else min(1.0, rate * delay_us / 1e6 / statements_s)
    text = (
        f"innodb_max_purge_lag is {number(lag)} and the history list has {number(history)}: a change waits"
        f" for up to {number(delay_us / 1000)} ms"
    )
    yield _Sleep(
        variable="innodb_max_purge_lag",
        most=most,
        text=text,
        advice="Let purge catch up (end old transactions, innodb_purge_threads), or raise innodb_max_purge_lag.",
    )


RULES = (
    Rule(
        name="settings that make sessions wait", causes=frozenset({"server.configured_wait"}), find=configured_waits
    ),
    Rule(
        name="a thread pool that is full",
        causes=frozenset({"server.configured_wait"}),
        find=pool_waits,
        yields_to=frozenset({"settings that make sessions wait"}),
    ),
)
