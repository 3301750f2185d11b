"""Evaluates a replay: whether the candidate kept up with the log, and which classes of statements are slower."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from volbench.core.base.text import counted, duration, number, percent
from volbench.core.records.validation.plan import ReplayPlan
from volbench.core.records.validation.result import CheckRow, ReplayClass, Replayed
from volbench.machine.engine.connection import Account
from volbench.measure.workload.replay.schedule import Schedule, schedule
from volbench.measure.workload.replay.sending import (
    NOT_SENT,
    ExecutedStatement,
    Machine,
    WorkerResult,
    send_with_cpu_watch,
)
from volbench.measure.workload.replay.slowlog import appended_meanwhile, slow_log
from volbench.validation.replay.slowdown import ALLOWANCE_MS, LEVELS, STATEMENTS_MIN, SlowdownLimit, rank
from volbench.validation.verdict import decide_check

LATE_S = 0.005
"""A free connection that sent a statement later than this was late because of the client."""
CLIENT_CPU_SHARE_MAX = 0.8
"""A process of the client beyond this share of a CPU adds its own time to the server's."""
FOREIGN_CPU_MAX = 0.1
"""Of all CPUs of the client's machine: beyond this share other work may have made statements slow."""
ALPHA = 0.05


def replay(
    plan: ReplayPlan,
    account: Account,
    *,
    schemas: Collection[str],
    writes: bool,
    progress: Callable[[str, float], None],
) -> Replayed:
    """Replay the plan's log on a server. Raises UsageError for a log that is unreadable or has nothing to send."""
    with slow_log(Path(plan.slow_log)) as log:
        scheduled = schedule(
            log,
            schemas=schemas,
            writes=writes,
            speed=plan.speed,
            seconds=plan.seconds,
            connections_max=plan.connections,
        )
        scheduled = replace(scheduled, skipped={**log.skipped, **scheduled.skipped})
        appended_bytes = log.appended_bytes or None
    shares, machine = send_with_cpu_watch(account, scheduled, writes=writes, progress=progress)
    replayed = summarise(scheduled, shares, plan, writes=writes, machine=machine)
    return replayed.model_copy(update={"log_appended_bytes": appended_bytes})


def summarise(
    schedule: Schedule,
    workers: Sequence[WorkerResult],
    plan: ReplayPlan,
    *,
    writes: bool,
    machine: Machine | None = None,
) -> Replayed:
    """Return the figures of the replay and of the machine during the replay."""
    stretch = server_stretch(machine or Machine())
    executions = [execution for worker in workers for execution in worker.executions]
    sent = [execution for execution in executions if execution.error != NOT_SENT]
    late = sum(execution.started_s - max(execution.statement.at_s, execution.free_s) > LATE_S for execution in sent)
    rtts_ms = sorted(seconds * 1000 for worker in workers for seconds in worker.rtt_s)
    messages = {code: text for worker in workers for code, text in worker.error_messages.items()}
    errors = Counter(execution.error for execution in sent if execution.error)
    return Replayed(
        statements=schedule.statements,
        sent=len(sent),
        excluded=schedule.skipped,
        log_s=schedule.log_s,
        log_from=_utc_text(schedule.first_at_s),
        speed=plan.speed,
        planned_s=schedule.planned_s,
        duration_s=max((execution.ended_s for execution in sent), default=0.0),
        peak_per_s=schedule.peak_per_s,
        connections=len(schedule.connections),
        shared_connections=schedule.shared_connections,
        second_resolution=schedule.whole_seconds,
        writes=writes,
        late=late,
        late_share=late / len(sent) if sent else 0.0,
        client_cpu_share=max((worker.cpu_share for worker in workers), default=0.0),
        errors={f"{code} {messages.get(code, '')}".strip(): count for code, count in errors.most_common()},
        round_trip_ms_p50=rank(rtts_ms, 0.5),
        round_trip_ms_p95=rank(rtts_ms, 0.95),
        foreign_cpu_ratio=machine.cpu.foreign_ratio if machine and machine.cpu else None,
        server_stretch=stretch if 1 < stretch < math.inf else None,
        classes=_classes(schedule.fingerprints, executions, plan.slower, rtts_ms, stretch),
    )


def server_stretch(machine: Machine) -> float:
    """Return (CPU time + wait for a CPU) / CPU time of the candidate's tasks on a busy machine.

    1 on a machine that is not busy, or where the candidate is on another machine: then only the client's own waits
    matter, which are measured for each statement. Infinite where the candidate's tasks are here and not visible.
    """
    share = machine.cpu
    if share is None or not machine.has_server or share.foreign_ratio <= FOREIGN_CPU_MAX:
        return 1.0
    if share.server is None or not share.server.cpu_s:
        return math.inf
    return 1 + share.server.delay_s / share.server.cpu_s


def _utc_text(epoch_s: float | None) -> str:
    """Return the time in UTC, to the second."""
    if epoch_s is None:
        return ""
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def redact_errors(outcome: Replayed) -> Replayed:
    """Return the outcome with errors by code alone, since a server's messages quote values."""
    return outcome.model_copy(
        update={"errors": {text.split(" ")[0]: count for text, count in outcome.errors.items()}}
    )


def replay_check(outcome: Replayed, plan: ReplayPlan) -> CheckRow:
    """Return no-go with a class that is slower beyond doubt, go when no median is beyond the limit, else undecided.

    A median beyond the limit is no go, even where too few or too scattered statements do not prove it. The text of
    a go says for how many classes the intervals prove that it is not.
    """
    errors, doubts = list(_errors(outcome, plan)), list(_doubts(outcome, plan))
    slower = [
        f"{statement_class.slower}: {statement_class.fingerprint[:160]}"
        for statement_class in outcome.classes
        if statement_class.slower
    ]
    undecided = [*_undecided_classes(outcome), *_unproven_classes(outcome)]
    if outcome.sent < outcome.statements:
        count = outcome.statements - outcome.sent
        not_sent = counted(count, "statement was", "statements were")
        unsent = f"{not_sent} not sent: the replay fell behind, or the server is gone"
        (undecided if _machine_was_busy(outcome) else slower).append(unsent)
    judged = sum(map(_has_median, outcome.classes))
    summary = (
        f"{outcome.sent} of {outcome.statements} statements in {outcome.duration_s:.0f} s, at most "
        f"{outcome.peak_per_s} due in a second, {judged} of "
        f"{counted(len(outcome.classes), 'class', 'classes')} judged"
    )
    faults = [*errors, *slower] if errors or not doubts else []
    if faults:
        result = f"; {counted(len(faults), 'fault')}"
    else:
        result = "" if doubts or undecided else _passed(outcome, plan)
    return decide_check(
        "replay",
        compared=judged,
        text=summary + result,
        faults=faults,
        doubts=[*undecided, *doubts] if faults else [*doubts, *slower, *undecided],
        notes=list(_notes(outcome, plan)),
        nothing=f"{summary}: no class has the {STATEMENTS_MIN} statements without an error that a median needs",
    )


def _passed(outcome: Replayed, plan: ReplayPlan) -> str:
    """Return what a go says about the classes, and for how many of them it is proven."""
    judged = [statement_class for statement_class in outcome.classes if _has_median(statement_class)]
    excluded = sum(statement_class.excluded for statement_class in judged)
    text = f"; no median is {plan.slower:g} times the log's"
    if excluded == len(judged):
        return text
    of_judged = f"{excluded} of {len(judged)}" if excluded else "none of them"
    return f"{text}, which is proven for {of_judged}"


def _errors(outcome: Replayed, plan: ReplayPlan) -> Iterator[str]:
    """Yield errors beyond the plan's limit, which the client does not explain."""
    of_each = {
        text: count for text, count in outcome.errors.items() if int(text.split(" ")[0]) not in plan.ignore_errors
    }
    if sum(of_each.values()) > plan.errors_max * outcome.statements:
        for text, count in list(of_each.items())[:5]:
            yield f"{counted(count, 'error')} {text}"


def _doubts(outcome: Replayed, plan: ReplayPlan) -> Iterator[str]:
    if outcome.late_share > plan.late_max:
        yield (
            f"invalid: {percent(outcome.late_share)} started late by the client's own fault, "
            f"{percent(plan.late_max)} is the limit"
        )
    if outcome.client_cpu_share > CLIENT_CPU_SHARE_MAX:
        yield f"invalid: the client took {percent(outcome.client_cpu_share)} of a CPU, so the times are its own"
    if not any(map(_has_median, outcome.classes)):
        yield f"no class has the {STATEMENTS_MIN} statements without an error that a median needs"


def _has_median(statement_class: ReplayClass) -> bool:
    """Return whether enough statements of a class succeeded to judge it."""
    return statement_class.statements - statement_class.errors >= STATEMENTS_MIN


def _machine_was_busy(outcome: Replayed) -> bool:
    return outcome.foreign_cpu_ratio is not None and outcome.foreign_cpu_ratio > FOREIGN_CPU_MAX


def _undecided_classes(outcome: Replayed) -> Iterator[str]:
    """Yield classes that seem slower, and how the machine may have caused that."""
    undecided = [statement_class for statement_class in outcome.classes if statement_class.undecided]
    if not undecided:
        return
    used = (
        ""
        if outcome.foreign_cpu_ratio is None
        else f": other work used {percent(outcome.foreign_cpu_ratio)} of its CPUs"
    )
    stretch = (
        f", the candidate's tasks took {outcome.server_stretch:.1f} times as long" if outcome.server_stretch else ""
    )
    yield (
        f"this machine was too busy to judge {counted(len(undecided), 'class', 'classes')}{used}{stretch}; "
        "repeat the replay on an idle or another machine"
    )
    for statement_class in undecided:
        yield f"undecided: {statement_class.undecided}: {statement_class.fingerprint[:160]}"


def _unproven_classes(outcome: Replayed) -> Iterator[str]:
    """Yield classes whose median is beyond the limit without proof, and what would prove it."""
    unproven = [statement_class for statement_class in outcome.classes if statement_class.unproven]
    if unproven:
        busy = _machine_was_busy(outcome)
        remedy = "repeat the replay on an idle or another machine" if busy else "replay a longer log"
        count = counted(len(unproven), "class", "classes")
        yield f"{count} may be slower than the log: the intervals do not prove it; {remedy}"
    for statement_class in unproven:
        yield f"may be slower: {statement_class.unproven}: {statement_class.fingerprint[:160]}"


def _notes(outcome: Replayed, plan: ReplayPlan) -> Iterator[str]:
    if outcome.log_from:
        yield f"the log: {plan.slow_log}, {duration(outcome.log_s)} from {outcome.log_from} on"
    if outcome.log_appended_bytes:
        yield f"of the log: {appended_meanwhile(outcome.log_appended_bytes)}"
    if outcome.second_resolution:
        yield "the log has whole seconds: statements were spread evenly within each, so bursts may be missing"
    small_classes = [statement_class for statement_class in outcome.classes if not _has_median(statement_class)]
    if small_classes:
        spent_ms = [
            (statement_class.statements * statement_class.logged_ms_p50, statement_class)
            for statement_class in outcome.classes
        ]
        share = sum(ms for ms, statement_class in spent_ms if statement_class in small_classes) / (
            sum(ms for ms, _ in spent_ms) or 1.0
        )
        yield (
            f"{counted(len(small_classes), 'class has', 'classes have')} fewer than {STATEMENTS_MIN} statements "
            f"without an error and {'is' if len(small_classes) == 1 else 'are'} not judged: about "
            f"{percent(share)} of the log's time"
        )
    if outcome.round_trip_ms_p95 is not None and outcome.round_trip_ms_p95 > ALLOWANCE_MS:
        yield f"network round trip: {number(outcome.round_trip_ms_p95)} ms (p95), added to the limit of the times"
    if outcome.shared_connections:
        yield f"{outcome.shared_connections} connections of the log shared a connection"
    for reason, count in outcome.excluded.items():
        yield f"skipped {counted(count, 'statement')} {reason}"
    if outcome.writes:
        yield "the replay wrote to the candidate: restore its data before you use it"


def _classes(
    fingerprints: Sequence[str],
    executions: Sequence[ExecutedStatement],
    factor: float,
    rtts_ms: Sequence[float],
    stretch: float,
) -> tuple[ReplayClass, ...]:
    by_class: list[list[ExecutedStatement]] = [[] for _ in fingerprints]
    for execution in executions:
        by_class[execution.statement.class_index].append(execution)
    judged = sum(len(group) >= STATEMENTS_MIN for group in by_class)
    alpha = ALPHA / (len(LEVELS) * max(1, judged))
    limit = SlowdownLimit(factor=factor, rtts_ms=rtts_ms, alpha=alpha, stretch=stretch)
    rows = [_class(fingerprint, group, limit) for fingerprint, group in zip(fingerprints, by_class, strict=True)]
    return tuple(sorted(rows, key=lambda row: -row.statements * row.logged_ms_p50))


def _class(fingerprint: str, executions: Sequence[ExecutedStatement], limit: SlowdownLimit) -> ReplayClass:
    succeeded = [execution for execution in executions if not execution.error]
    logged = sorted(execution.statement.logged_s * 1000 for execution in executions)
    service = sorted((execution.ended_s - execution.started_s) * 1000 for execution in succeeded)
    response = sorted((execution.ended_s - execution.statement.at_s) * 1000 for execution in succeeded)
    slower_as_measured = limit.describe_slowdown(logged, service, response)
    service_without_client = sorted(
        (execution.ended_s - execution.started_s - execution.cpu_wait_s) * 1000 for execution in succeeded
    )
    response_without_client = sorted(
        (execution.ended_s - execution.statement.at_s - _client_s(execution)) * 1000 for execution in succeeded
    )
    slower = slower_as_measured and limit.describe_slowdown(logged, service_without_client, response_without_client)
    if slower and not limit.beyond_stretch(logged, service_without_client):
        slower = ""
    return ReplayClass(
        fingerprint=fingerprint,
        statements=len(executions),
        errors=len(executions) - len(succeeded),
        logged_ms_p50=rank(logged, 0.5) or 0.0,
        logged_ms_p95=rank(logged, 0.95) or 0.0,
        service_ms_p50=rank(service, 0.5),
        service_ms_p95=rank(service, 0.95),
        response_ms_p50=rank(response, 0.5),
        response_ms_p95=rank(response, 0.95),
        slower=slower,
        undecided="" if slower else slower_as_measured,
        unproven="" if slower_as_measured else limit.describe_unproven(logged, service_without_client),
        excluded=limit.excludes(logged, service),
    )


def _client_s(execution: ExecutedStatement) -> float:
    """Return the client's share of a response time: a late start, and its thread's wait for a CPU."""
    return execution.cpu_wait_s + max(0.0, execution.started_s - max(execution.statement.at_s, execution.free_s))
