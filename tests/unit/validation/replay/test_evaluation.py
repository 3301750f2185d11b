"""What a replay may conclude: slower only beyond doubt, and nothing where the client itself was late."""

from __future__ import annotations

import random

import pytest

from volbench.core.records.goals.gate import Decision
from volbench.core.records.validation.plan import ReplayPlan
from volbench.core.records.validation.result import CheckRow, Replayed
from volbench.machine.host.task_account import CpuShare, TaskTimes
from volbench.measure.workload.replay.schedule import Schedule, ScheduledStatement
from volbench.measure.workload.replay.sending import NOT_SENT, ExecutedStatement, Machine, WorkerResult
from volbench.validation.replay.evaluation import replay_check, summarise
from volbench.validation.replay.slowdown import bounds

PLAN = ReplayPlan(slow_log="slow.log")


def outcome(
    *,
    count: int = 400,
    ratio: float = 1.0,
    late_s: float = 0.0,
    queued_s: float = 0.0,
    error: int = 0,
    errors: int = 0,
    busy: float = 0.1,
    added_s: float = 0.0,
    ways_s: tuple[float, ...] = (),
    held_s: float = 0.0,
    machine: Machine | None = None,
    plan: ReplayPlan = PLAN,
    log_ratios: tuple[float, ...] = (1.0,),
) -> tuple[Replayed, CheckRow]:
    """One class of statements of about 10 ms that take `ratio` times as long, some with an error."""
    draw = random.Random(7)
    answers = []
    for number in range(count):
        logged_s = 0.01 * draw.lognormvariate(0, 0.3) * log_ratios[number % len(log_ratios)]
        due = ScheduledStatement(
            at_s=number * 0.1, connection=1, schema="shop", sql="SELECT 1", class_index=0, logged_s=logged_s
        )
        began = due.at_s + late_s + queued_s
        took = 0.01 * draw.lognormvariate(0, 0.3) * ratio + added_s
        answers.append(
            ExecutedStatement(
                statement=due,
                free_s=due.at_s + queued_s,
                started_s=began,
                ended_s=began + took,
                error=error if number < errors else 0,
                cpu_wait_s=held_s,
            )
        )
    schedule = Schedule(
        connections=(tuple(answer.statement for answer in answers),),
        fingerprints=("select ?",),
        skipped={},
        log_s=1.0,
        shared_connections=0,
        whole_seconds=False,
    )
    share = WorkerResult(executions=answers, error_messages={error: "in words"}, cpu_share=busy, rtt_s=ways_s)
    result = summarise(schedule, [share], plan, writes=False, machine=machine)
    return result, replay_check(result, plan)


@pytest.mark.parametrize(("ratio", "decision"), [(0.3, "go"), (1.0, "go"), (1.3, "go"), (2.5, "no-go")])
def test_a_class_is_slower_only_beyond_the_factor_and_beyond_doubt(ratio: float, decision: Decision) -> None:
    assert outcome(ratio=ratio)[1].decision == decision


def test_too_few_statements_decide_nothing() -> None:
    assert outcome(count=15, ratio=9.0)[1].decision == "undecided"


def test_few_statements_are_judged_by_their_median() -> None:
    check = outcome(count=60, ratio=3.0)[1]
    assert (check.decision, "p50" in check.details[0]) == ("no-go", True)
    assert outcome(count=60, ratio=1.2)[1].decision == "go"


def test_a_median_beyond_the_limit_is_never_a_go() -> None:
    """A log two fifths of which are of a busier time has a median with wide bounds, and 1.9 times was a go."""
    result, check = outcome(ratio=2.6, log_ratios=(1.0, 1.0, 1.0, 4.0, 4.0))
    assert result.classes[0].slower == ""
    assert check.decision == "undecided", check
    assert "1 class may be slower than the log" in check.text
    assert "p50 13.4 ms in the log became 25.8 ms, 1.93 times" in check.details[1]


def test_a_go_says_for_how_many_classes_it_is_proven() -> None:
    assert outcome(ratio=1.0)[1].text.endswith("; no median is 1.5 times the log's")
    few = outcome(count=25, ratio=1.2)[1]
    assert few.decision == "go"
    assert "no median is 1.5 times the log's, which is proven for none of them" in few.text


def test_what_the_way_to_the_server_takes_makes_no_class_slower() -> None:
    """Behind a network of 15 ms a query of 10 ms takes 25 ms, which says nothing about the server."""
    assert outcome(added_s=0.015)[1].decision == "no-go"
    result, check = outcome(added_s=0.015, ways_s=(0.015,) * 300)
    assert result.round_trip_ms_p95 == 15
    assert check.decision == "go"
    assert "network round trip: 15.0 ms" in "\n".join(check.details)
    assert outcome(added_s=0.015, ratio=3.0, ways_s=(0.015,) * 300)[1].decision == "no-go"


def test_a_client_that_was_late_or_busy_decides_nothing_about_times() -> None:
    result, check = outcome(late_s=0.02, ratio=3.0)
    assert (result.late, result.late_share) == (400, 1.0)
    assert (check.decision, "client's own fault" in check.text) == ("undecided", True)
    assert outcome(busy=0.95, ratio=3.0)[1].decision == "undecided"


def test_errors_are_no_fault_of_a_late_client() -> None:
    check = outcome(late_s=0.02, error=1146, errors=5)[1]
    assert (check.decision, check.details[0]) == ("no-go", "5 errors 1146 in words")


def test_errors_that_are_expected_count_for_nothing() -> None:
    plan = PLAN.model_copy(update={"ignore_errors": (1062,)})
    assert outcome(error=1062, errors=50, plan=plan)[1].decision == "go"


def test_statements_that_were_not_sent_are_never_a_go() -> None:
    result, check = outcome(error=NOT_SENT, errors=300)
    assert (result.sent, check.decision) == (100, "no-go")


def test_waiting_for_a_busy_connection_counts_from_when_a_statement_was_due() -> None:
    """Nothing is late by the client's fault here, and the service time is the log's; yet a user waited."""
    result, check = outcome(queued_s=0.5)
    assert result.late == 0
    assert check.decision == "no-go"
    assert "from when they were due" in check.details[0]


def test_the_bounds_of_a_quantile_hold_it_as_often_as_they_say() -> None:
    draw = random.Random(3)
    retained = 0
    for _ in range(400):
        low, high = bounds(sorted(draw.random() for _ in range(300)), 0.95, alpha=0.05)
        retained += low is not None and high is not None and low <= 0.95 <= high
    assert retained / 400 == pytest.approx(0.95, abs=0.035)


def machine(*, foreign: float = 0.0, server: TaskTimes | None = None, local: bool = True) -> Machine:
    """Two CPUs, of which others use so many; the candidate's server on them or elsewhere."""
    share = CpuShare(cpus=2, foreign_cpus=foreign, own=TaskTimes(cpu_s=0.1), server=server)
    return Machine(cpu=share, has_server=local)


def test_what_our_own_threads_waited_for_a_cpu_makes_no_class_slower() -> None:
    """A query of 10 ms takes 25 ms, of which the client waited 15 ms for a CPU: nothing is known to be slower."""
    result, check = outcome(added_s=0.015, held_s=0.015, machine=machine(foreign=1.5, local=False))
    assert (result.classes[0].slower, check.decision) == ("", "undecided")
    assert "too busy to judge 1 class: other work used 75 % of its CPUs" in check.text
    assert outcome(added_s=0.015, held_s=0.001, machine=machine(foreign=1.5, local=False))[1].decision == "no-go"


def test_a_candidate_on_a_busy_machine_is_slower_only_beyond_what_the_machine_did_to_it() -> None:
    """Its tasks waited as long as they ran: three times as slow may be that, ten times is not."""
    stretched = machine(foreign=1.0, server=TaskTimes(cpu_s=0.4, delay_s=0.4))
    result, check = outcome(ratio=3.0, machine=stretched)
    assert (result.server_stretch, result.classes[0].slower) == (2.0, "")
    assert check.decision == "undecided"
    assert "the candidate's tasks took 2.0 times as long" in "\n".join(check.details)
    assert outcome(ratio=10.0, machine=stretched)[1].decision == "no-go"
    assert outcome(ratio=1.0, machine=stretched)[1].decision == "go"


def test_a_candidate_that_waits_for_itself_is_slow_by_its_own_fault() -> None:
    """Nobody else used the machine: its threads waited for each other."""
    alone = machine(foreign=0.05, server=TaskTimes(cpu_s=1.9, delay_s=6.0))
    assert outcome(ratio=3.0, machine=alone)[1].decision == "no-go"


def test_a_candidate_on_a_busy_machine_whose_tasks_cannot_be_seen_is_undecided() -> None:
    assert outcome(ratio=10.0, machine=machine(foreign=1.0))[1].decision == "undecided"
    assert outcome(ratio=10.0, machine=machine(foreign=1.0, local=False))[1].decision == "no-go"
