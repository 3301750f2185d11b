"""The threads with which a load reaches its volumes: a ladder that doubles them, for two seconds at each level.

A closed loop of N threads has at most N reads in flight, so it makes at most N / latency reads a second (Little's
law). A load with too few threads compares latencies, and says nothing of a limit of the volume. How many reach it
is measured: of each volume the fewest threads with which it does nearly the most transactions that it does with
any, and of these the most, so that every cell has the same load and no volume is held back by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from volbench.core.base.text import duration
from volbench.core.plan.cost import estimate
from volbench.core.records.ladder import LadderLevel, ThreadLadder
from volbench.core.records.run import ComparisonSpec, ResolvedSuite
from volbench.core.records.steps.base import StepBase
from volbench.core.records.steps.oltp import OltpStep

WARMUP_S, WINDOW_S = 1.0, 2.0
REACHED_SHARE = 0.85
"""Of a volume's most transactions: two seconds tell no smaller differences, and more threads than reach a limit
only wait for it."""


def ladder_steps(steps: Iterable[StepBase]) -> list[OltpStep]:
    """Return the steps whose threads a ladder finds."""
    return [step for step in steps if isinstance(step, OltpStep) and step.threads_max is not None]


def levels_of(step: OltpStep) -> tuple[int, ...]:
    """Return the threads of a step's ladder: its own, doubled as often as `threads_max` allows."""
    levels = [step.threads[0]]
    while step.threads_max is not None and 2 * levels[-1] <= step.threads_max:
        levels.append(2 * levels[-1])
    return tuple(levels)


def ladder_suite(suite: ResolvedSuite) -> ResolvedSuite:
    """Return the suite of one cell on each volume that climbs the ladders of a suite's steps."""
    names = ", ".join(step.name for step in ladder_steps(suite.steps))
    return suite.model_copy(
        update={
            "name": f"{suite.name[:30]}-ladder",
            "description": f"Finds the client threads of {names}",
            "underpowered": True,
            "steps": tuple(
                step.model_copy(
                    update={
                        "name": level_name(step, threads),
                        "threads": (threads,),
                        "threads_max": None,
                        "warmup_s": WARMUP_S,
                        "duration_s": WINDOW_S,
                        "modulate": None,
                        "concurrent": (),
                    }
                )
                for step in ladder_steps(suite.steps)
                for threads in levels_of(step)
            ),
            "repeats": 1,
            "replacements": 0.0,
            "sampling": suite.sampling.model_copy(update={"summaries": False}),
            "comparison": ComparisonSpec(margin=suite.comparison.margin),
            "forecast": None,
            "pricing": None,
        }
    )


def level_name(step: OltpStep, threads: int) -> str:
    """Return the name that a level of a step's ladder has as a step of the ladder's run."""
    return f"{step.name}-{threads}"


def ladder_of(step: OltpStep, levels: Sequence[LadderLevel], run_id: str) -> ThreadLadder:
    """Return a step's ladder with the fewest threads with which every volume does nearly its most.

    Args:
        levels: of each volume, at least one.
    """
    volumes = dict.fromkeys(level.volume for level in levels)
    threads = max(_fewest_threads([level for level in levels if level.volume == volume]) for volume in volumes)
    return ThreadLadder(step=step.name, threads=threads, levels=tuple(levels), run_id=run_id)


def _fewest_threads(levels: Sequence[LadderLevel]) -> int:
    """Return with how many one volume does nearly its most."""
    most = max(level.tps for level in levels)
    return min(level.threads for level in levels if level.tps >= REACHED_SHARE * most)


def with_ladders(suite: ResolvedSuite, ladders: Sequence[ThreadLadder]) -> ResolvedSuite:
    """Return the suite with the threads of the ladders."""
    threads = {ladder.step: ladder.threads for ladder in ladders}
    return suite.model_copy(
        update={
            "steps": tuple(
                step.model_copy(update={"threads": (threads[step.name],)}) if step.name in threads else step
                for step in suite.steps
            )
        }
    )


def ladder_lines(suite: ResolvedSuite) -> Iterator[str]:
    """Yield the line of a plan on the threads that are not known yet, if there are such."""
    steps = ladder_steps(suite.steps)
    if not steps:
        return
    seconds = duration(round(estimate(ladder_suite(suite), volumes=1).wall_s))
    levels = "; ".join(f"step {step.name} with {', '.join(map(str, levels_of(step)))} threads" for step in steps)
    yield (
        f"ladder before the first cell, about {seconds} in one cell of each volume: {levels};"
        " all cells then have the same threads"
    )
