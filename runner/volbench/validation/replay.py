"""What a replay shows: whether the candidate kept up with the log, and which classes of statements are slower."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist

from volbench.engine.connection import Account
from volbench.records.validation import CheckRow, ReplayClass, Replayed, ReplayPlan
from volbench.validation.arrivals import Schedule, schedule
from volbench.validation.move import spoken_s
from volbench.validation.sending import NOT_SENT, Answer, Machine, Share, send_watched
from volbench.validation.slowlog import slow_log

LATE_S = 0.005
"""A statement that its free connection sent later than this was late by the client's own fault."""
CLIENT_BUSY_MAX = 0.8
"""A process of the client beyond this share of a CPU adds its own time to the server's."""
FOREIGN_CPU_MAX = 0.1
"""Of all CPUs of the client's machine: beyond that others may have made statements slow."""
JUDGED_FROM = 20
"""Fewer statements of a class do not even tell its median; the 95th percentile takes some 200."""
LEVELS = (0.95, 0.5)
ALPHA = 0.05
ALLOWANCE_MS = 1.0
"""Below this the difference of two times is that of the client and the way to it, which the log has not."""
QUEUED_ALLOWANCE_MS = 50.0
"""What statements that follow closely on one connection may add up, by the client's own time for each."""


def replay(
    plan: ReplayPlan,
    account: Account,
    *,
    schemas: Collection[str],
    writes: bool,
    progress: Callable[[str, float], None],
) -> Replayed:
    """Replay the plan's log on a server. Raises UsageError for a log that cannot be read or has nothing to send."""
    with slow_log(Path(plan.slow_log)) as log:
        due = schedule(
            log, schemas=schemas, writes=writes, speed=plan.speed, seconds=plan.seconds,
            connections=plan.connections,
        )  # fmt: skip
        due = replace(due, left_out={**log.left_out, **due.left_out})
    shares, machine = send_watched(account, due, writes=writes, progress=progress)
    return replayed(due, shares, plan, writes=writes, machine=machine)


def replayed(
    due: Schedule, shares: Sequence[Share], plan: ReplayPlan, *, writes: bool, machine: Machine | None = None
) -> Replayed:
    """The figures of what was sent, and of the machine meanwhile."""
    stretch = server_stretch(machine or Machine())
    answers = [answer for share in shares for answer in share.answers]
    sent = [answer for answer in answers if answer.error != NOT_SENT]
    late = sum(answer.began_s - max(answer.due.at_s, answer.free_s) > LATE_S for answer in sent)
    ways = sorted(way_s * 1000 for share in shares for way_s in share.ways_s)
    words = {code: text for share in shares for code, text in share.words.items()}
    errors = Counter(answer.error for answer in sent if answer.error)
    return Replayed(
        statements=due.statements,
        sent=len(sent),
        left_out=due.left_out,
        log_s=due.log_s,
        log_from=_moment(due.began_s),
        speed=plan.speed,
        planned_s=due.planned_s,
        took_s=max((answer.ended_s for answer in sent), default=0.0),
        peak_per_s=due.peak_per_s,
        connections=len(due.lanes),
        shared_connections=due.shared_connections,
        whole_seconds=due.whole_seconds,
        writes=writes,
        late=late,
        late_share=late / len(sent) if sent else 0.0,
        client_cpu_share=max((share.busy for share in shares), default=0.0),
        errors={f"{code} {words.get(code, '')}".strip(): count for code, count in errors.most_common()},
        way_ms_p50=_rank(ways, 0.5),
        way_ms_p95=_rank(ways, 0.95),
        foreign_cpu_ratio=machine.share.foreign_ratio if machine and machine.share else None,
        server_stretch=stretch if 1 < stretch < math.inf else None,
        classes=_classes(due.shapes, answers, plan.slower, ways, stretch),
    )


def server_stretch(machine: Machine) -> float:
    """How many times as long the candidate's tasks took on and waiting for a CPU as on it, on a busy machine.

    1 where others did not use it much, or where the candidate is elsewhere: then our own waiting is all that the
    machine can do, and it is measured for each statement. Infinite where the candidate is here and cannot be seen.
    """
    share = machine.share
    if share is None or not machine.has_server or share.foreign_ratio <= FOREIGN_CPU_MAX:
        return 1.0
    if share.server is None or not share.server.cpu_s:
        return math.inf
    return 1 + share.server.delay_s / share.server.cpu_s


def _moment(epoch_s: float | None) -> str:
    """To the second, as the log has it in UTC."""
    if epoch_s is None:
        return ""
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def without_words(found: Replayed) -> Replayed:
    """Errors by their code alone: a server's words quote values."""
    return found.model_copy(update={"errors": {text.split(" ")[0]: count for text, count in found.errors.items()}})


def replay_check(found: Replayed, plan: ReplayPlan) -> CheckRow:
    """go when every class of enough statements is not slower, undecided when the client could not keep time."""
    errors, doubts = list(_errors(found, plan)), list(_doubts(found, plan))
    slower = [f"{one.slower}: {one.fingerprint[:160]}" for one in found.classes if one.slower]
    disturbed = list(_disturbed(found))
    if found.sent < found.statements:
        unsent = f"{found.statements - found.sent} statements were not sent: far behind, or the server gone"
        (disturbed if _busy(found) else slower).append(unsent)
    judged = sum(one.statements >= JUDGED_FROM for one in found.classes)
    said = (
        f"{found.sent} of {found.statements} statements in {found.took_s:.0f} s, at most {found.peak_per_s} due in "
        f"a second, {judged} of {len(found.classes)} classes judged"
    )
    details = (*errors, *slower, *disturbed, *doubts, *_notes(found, plan))
    if errors or (slower and not doubts):
        text = f"{said}; {len(errors) + len(slower)} faults"
        return CheckRow(check="replay", decision="no-go", text=text, details=details)
    doubts += disturbed
    if doubts:
        return CheckRow(check="replay", decision="undecided", text=f"{said}; {doubts[0]}", details=details)
    return CheckRow(
        check="replay",
        decision="go",
        text=f"{said}; none is {plan.slower:g} times as slow as the log",
        details=details,
    )


def _errors(found: Replayed, plan: ReplayPlan) -> Iterator[str]:
    """More errors than the plan allows; no fault of the client explains them."""
    counted = {
        text: count for text, count in found.errors.items() if int(text.split(" ")[0]) not in plan.ignore_errors
    }
    if sum(counted.values()) > plan.errors_max * found.statements:
        for text, count in list(counted.items())[:5]:
            yield f"{count} errors {text}"


def _doubts(found: Replayed, plan: ReplayPlan) -> Iterator[str]:
    if found.late_share > plan.late_max:
        yield (
            f"invalid: {found.late_share:.1%} started late by the client's own fault, "
            f"{plan.late_max:.1%} is the limit"
        )
    if found.client_cpu_share > CLIENT_BUSY_MAX:
        yield f"invalid: the client took {found.client_cpu_share:.0%} of a CPU, so the times are its own"
    if not any(one.statements >= JUDGED_FROM for one in found.classes):
        yield f"no class has the {JUDGED_FROM} statements that a median needs"


def _busy(found: Replayed) -> bool:
    return found.foreign_cpu_ratio is not None and found.foreign_cpu_ratio > FOREIGN_CPU_MAX


def _disturbed(found: Replayed) -> Iterator[str]:
    """Classes that seem slower, and why the machine can have made them so."""
    open_classes = [one for one in found.classes if one.undecided]
    if not open_classes:
        return
    used = "" if found.foreign_cpu_ratio is None else f": other work used {found.foreign_cpu_ratio:.0%} of its CPUs"
    stretch = (
        f", the candidate's tasks took {found.server_stretch:.1f} times as long" if found.server_stretch else ""
    )
    yield (
        f"this machine was too busy to judge {len(open_classes)} classes{used}{stretch}; replay again when it is "
        "at rest, or from another machine"
    )
    for one in open_classes:
        yield f"undecided: {one.undecided}: {one.fingerprint[:160]}"


def _notes(found: Replayed, plan: ReplayPlan) -> Iterator[str]:
    if found.log_from:
        yield f"the log: {plan.slow_log}, {spoken_s(found.log_s)} from {found.log_from} on"
    if found.whole_seconds:
        yield "the log knows the second only: statements were spread evenly within it, so bursts may be missing"
    few = [one for one in found.classes if one.statements < JUDGED_FROM]
    if few:
        spent_ms = [(one.statements * one.logged_ms_p50, one) for one in found.classes]
        share = sum(ms for ms, one in spent_ms if one in few) / (sum(ms for ms, _ in spent_ms) or 1.0)
        yield (
            f"{len(few)} classes have fewer than {JUDGED_FROM} statements and are not judged: about {share:.1%} of "
            "the log's time"
        )
    if found.way_ms_p95 is not None and found.way_ms_p95 > ALLOWANCE_MS:
        yield f"a statement for nothing took {found.way_ms_p95:.3g} ms (p95) from here, which is allowed for"
    if found.shared_connections:
        yield f"{found.shared_connections} connections of the log had to share one with another"
    for reason, count in found.left_out.items():
        yield f"{count} statements {reason} were left out"
    if found.writes:
        yield "the candidate was written: restore its data before it is used"


def _classes(
    shapes: Sequence[str],
    answers: Sequence[Answer],
    factor: float,
    ways_ms: Sequence[float],
    stretch: float,
) -> tuple[ReplayClass, ...]:
    of: list[list[Answer]] = [[] for _ in shapes]
    for answer in answers:
        of[answer.due.shape].append(answer)
    judged = sum(len(group) >= JUDGED_FROM for group in of)
    alpha = ALPHA / (len(LEVELS) * max(1, judged))
    limit = _Limit(factor=factor, ways_ms=ways_ms, alpha=alpha, stretch=stretch)
    rows = [_class(shape, group, limit) for shape, group in zip(shapes, of, strict=True)]
    return tuple(sorted(rows, key=lambda one: -one.statements * one.logged_ms_p50))


def _class(shape: str, group: Sequence[Answer], limit: _Limit) -> ReplayClass:
    good = [answer for answer in group if not answer.error]
    logged = sorted(answer.due.logged_s * 1000 for answer in group)
    service = sorted((answer.ended_s - answer.began_s) * 1000 for answer in good)
    response = sorted((answer.ended_s - answer.due.at_s) * 1000 for answer in good)
    seems = limit.either(logged, service, response)
    own_service = sorted((answer.ended_s - answer.began_s - answer.held_s) * 1000 for answer in good)
    own_response = sorted((answer.ended_s - answer.due.at_s - _client_s(answer)) * 1000 for answer in good)
    slower = seems and limit.either(logged, own_service, own_response)
    if slower and not limit.beyond_stretch(logged, own_service):
        slower = ""
    return ReplayClass(
        fingerprint=shape, statements=len(group), errors=len(group) - len(good),
        logged_ms_p50=_rank(logged, 0.5) or 0.0, logged_ms_p95=_rank(logged, 0.95) or 0.0,
        service_ms_p50=_rank(service, 0.5), service_ms_p95=_rank(service, 0.95),
        response_ms_p50=_rank(response, 0.5), response_ms_p95=_rank(response, 0.95),
        slower=slower, undecided="" if slower else seems,
    )  # fmt: skip


def _client_s(answer: Answer) -> float:
    """What the client itself took of a response: it began late, or its thread waited for a CPU."""
    return answer.held_s + max(0.0, answer.began_s - max(answer.due.at_s, answer.free_s))


@dataclass(frozen=True, kw_only=True)
class _Limit:
    """From where on a class is slower: a factor, beyond the way to the server; `alpha` for each comparison."""

    factor: float
    ways_ms: Sequence[float]
    alpha: float
    stretch: float = 1.0

    def either(self, logged: Sequence[float], service: Sequence[float], response: Sequence[float]) -> str:
        """How it is slower from when it was sent, or else from when it was due; empty when it is not."""
        return (
            self.slower("", logged, service, ALLOWANCE_MS)
            or self.slower(" from when they were due", logged, response, QUEUED_ALLOWANCE_MS)
        )  # fmt: skip

    def beyond_stretch(self, logged: Sequence[float], service: Sequence[float]) -> bool:
        """Whether a class that seems slower is so however others on the candidate's machine delayed it.

        The candidate's tasks waited so long that its CPU time was stretched `stretch` times in all. By Markov's
        inequality at most half of a class's statements were stretched by more than twice the excess, if the class
        was stretched like all others, so a median beyond the factor after that is the candidate's own. Of a 95th
        percentile nothing of the kind can be said.
        """
        if self.stretch == 1.0:
            return True
        _, high = bounds(logged, 0.5, alpha=self.alpha)
        low, _ = bounds(service, 0.5, alpha=self.alpha)
        if high is None or low is None or math.isinf(self.stretch):
            return False
        most = 1 + 2 * (self.stretch - 1)
        return low > most * self.factor * high + max(ALLOWANCE_MS, self._way_ms(0.5))

    def slower(self, what: str, logged: Sequence[float], seen: Sequence[float], allowance_ms: float) -> str:
        """How it is slower, by the exact bounds of the first level at which that is beyond doubt; else empty."""
        if min(len(logged), len(seen)) < JUDGED_FROM:
            return ""
        for level in LEVELS:
            _, high = bounds(logged, level, alpha=self.alpha)
            low, _ = bounds(seen, level, alpha=self.alpha)
            if high is None or low is None:
                continue
            if low > self.factor * high + max(allowance_ms, self._way_ms(level)):
                was, became = _rank(logged, level) or 0.0, _rank(seen, level) or 0.0
                times = f", {became / was:.2g} times" if was else ""
                return (
                    f"p{level * 100:g} {was:.3g} ms (at most {high:.3g}) in the log became {became:.3g} ms "
                    f"(at least {low:.3g}){what}{times}"
                )
        return ""

    def _way_ms(self, level: float) -> float:
        """The upper bound of what nothing takes; the most that was seen, where few were."""
        _, high = bounds(self.ways_ms, level, alpha=self.alpha)
        return high if high is not None else max(self.ways_ms, default=0.0)


def bounds(ordered: Sequence[float], level: float, *, alpha: float) -> tuple[float | None, float | None]:
    """The interval of a quantile by the order statistics; None for an end that so few values do not have.

    Args:
        ordered: values, smallest first. level: 0.95 for the 95th percentile. alpha: of both sides together.

    Source: Conover, Practical Nonparametric Statistics, section 3.2, in its normal approximation. It takes values
    as independent; statements of one moment are not, so the factor of the plan has to leave room.
    """
    half = NormalDist().inv_cdf(1 - alpha / 2) * math.sqrt(len(ordered) * level * (1 - level))
    low, high = math.floor(len(ordered) * level - half) - 1, math.ceil(len(ordered) * level + half)
    return (ordered[low] if low >= 0 else None), (ordered[high] if high < len(ordered) else None)


def _rank(ordered: Sequence[float], level: float) -> float | None:
    """The smallest value that so many do not exceed."""
    return ordered[max(0, math.ceil(level * len(ordered)) - 1)] if ordered else None
