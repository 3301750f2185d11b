"""The rule that names the hypervisor, which gave CPU time of this machine to others."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.records.named_metrics import CPU
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.rule import Rule
from volbench.results.explain.rules.host.cpu_evidence import cpu_rows
from volbench.results.explain.rules.host.processors import load_cpu_share
from volbench.results.explain.wording import percent, row
from volbench.results.stats.grid import mean

STEAL = "cpu.steal"
CAUSES = (
    CauseInfo(
        name="cpu.steal",
        uses_up_cpus=True,
        share_of="clients where waits for CPUs are counted",
        group="the server or the client",
        title="The hypervisor took CPU time away",
        panels=("cpu",),
        accounts_for=frozenset({"CPUs"}),
        meaning="The hypervisor gave CPU time to other machines.",
        signs=(
            "At least 5 % of CPU time is stolen. Its part of the CPU time that the machine wanted, times the"
            " share of the clients' time that the load runs or waits for a CPU, is at least 15 %. (Less makes a"
            " cell invalid, but is not why a load is slow.)"
        ),
        advice="Choose another host or an instance type that is not burstable.",
        waits="queue for CPUs",
        wait_time="CPUs",
    ),
)


def steal_findings(case: Case) -> Iterator[Cause]:
    """The hypervisor's part of the time that this load runs or waits for a CPU.

    Of CPU time that the machine wanted, B + S a second, it had B and the hypervisor took S. With all of it, work on
    CPUs and the queue before them would be shorter by S / (B + S): that part of the load's time on and before CPUs.
    """
    stolen, busy = mean(case.at(CPU.steal_ratio)), case.cpu_busy
    if stolen is None or stolen < limit.STEAL_MIN:
        return
    of_wanted = 1.0 if busy is None else stolen / (stolen + busy)
    cpu_share = load_cpu_share(case, throttled=False)
    share = None if cpu_share is None else cpu_share * of_wanted
    if (of_wanted if share is None else share) < limit.SHARE_MIN:
        return
    text = (
        f"the hypervisor took {percent(stolen)} of the CPU time, {percent(of_wanted)} of what this machine wanted"
    )
    yield Cause(
        cause=STEAL,
        decided_by="counted",
        window_s=case.window_s,
        share=share,
        checks=(True, stolen >= 2 * limit.STEAL_MIN),
        evidence=(row("steal_ratio", stolen, "1", text), *cpu_rows(case, cpu_share)),
        advice="Another host or instance type (no burstable one), or fewer neighbours.",
    )


RULES = (Rule(name="stolen CPU time", causes=frozenset({"cpu.steal"}), find=steal_findings),)
