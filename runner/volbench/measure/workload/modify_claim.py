"""The modify step on a cluster's claim: the orchestrator changes it, the kernel's counters show what came of that.

Nobody has run it on a cloud's volumes: a fake API server stands for the cluster's controllers in the tests.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from volbench.core.records.metrics import metric
from volbench.core.records.steps.modify import BEFORE_S, ModifyStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError, VolbenchError
from volbench.machine.host.blockstats import disk_operations
from volbench.measure.workload.interface import ChangedClaim, StepContext, StepOutcome
from volbench.measure.workload.served_rates import TICK_S, ServedRate, outcome_of, watch


def check_claim(step: ModifyStep, ctx: StepContext) -> None:
    """Raise UsageError where nobody can change a claim, MissingPrerequisite where nothing counts its operations."""
    where = _where(step)
    if ctx.modify_claim is None:
        raise UsageError(
            "only a cluster has claims",
            where=where,
            evidence=f"to: {step.to}",
            next_step="choose --target kubernetes",
        )
    disks = ctx.volume_facts.physical_disks
    if len(disks) != 1 or disk_operations(disks[0]) is None:
        raise MissingPrerequisite(
            "nothing counts the operations of the claim's volume: it is no single disk of the node",
            where=where,
            evidence=f"{ctx.volume_dir} is on {', '.join(disks) or 'no disk that the node shows'}",
            next_step="use a claim on a block volume, such as an EBS volume",
        )


def run_claim(step: ModifyStep, ctx: StepContext) -> StepOutcome:
    """Have the claim changed, and watch its disk until the status says so, or the time is over.

    Raises MissingPrerequisite; what fails after the request says that it was made.
    """
    assert ctx.modify_claim is not None
    disk = ctx.volume_facts.physical_disks[0]
    rates: list[ServedRate] = []

    def operations() -> float:
        count = disk_operations(disk)
        if count is None:
            raise StepFailed("the kernel counts no operations of this disk any more", evidence=disk)
        return float(count)

    begun_s = ctx.clock.now_s()
    watch(ctx, operations, BEFORE_S, rates)
    try:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="modify-claim") as pool:
            change = pool.submit(ctx.modify_claim, step, ctx.cancelled)
            while not change.done():  # it has a limit of its own
                watch(ctx, operations, TICK_S, rates)
            changed = change.result()
        end_s = ctx.clock.now_s() - changed.ended_ago_s
        if changed.times.completed:
            watch(ctx, operations, step.watch_s, rates)
    except VolbenchError as error:
        raise MissingPrerequisite(  # no StepFailed, after which the cell would be tried again on a changed claim
            f"{error.what}, after the claim's change was asked for",
            where=_where(step),
            evidence=error.evidence,
            next_step=error.next_step or "see its state: kubectl describe pvc",
        ) from error
    requested_s, completed_s = end_s - changed.work_s, end_s if changed.times.completed else None
    load_ends_s = begun_s + step.cost(0).measured_s  # a later second may be of no load
    values, notes = outcome_of([rate for rate in rates if rate.t_s <= load_ends_s], requested_s, completed_s)
    return StepOutcome(
        window_s=(begun_s, ctx.clock.now_s()),
        metrics={name: metric(name, value) for name, value in values.items()},
        notes=(_states_note(changed, step), f"claim {changed.times.claim} stays changed: {step.to}", *notes),
        details={
            "asked_s": requested_s,
            "changed_s": completed_s,
            "states": [list(state) for state in changed.times.states],
            "operations_per_s": [rate.per_s for rate in rates],
        },
    )


def _states_note(changed: ChangedClaim, step: ModifyStep) -> str:
    reached = ", ".join(f"{state} after {t_s:.0f} s" for state, t_s in changed.times.states)
    answers = f"the claim's status, every second: {reached or 'no sign of the change'}"
    if changed.times.completed:
        return answers
    return f"{answers}; not completed within {step.wait_s_max:g} s: when the limits changed is unknown"


def _where(step: ModifyStep) -> str:
    return f"step {step.name or step.kind}"
