"""Which levels of a step are limits, with what other loads of its cell say of operations and bytes.

What a step shows of itself may be wrong: in twelve intervals with operations of one size, bytes are now and then
the more regular by chance, and on a busy host a meter's rate is as uneven as any. A load with operations of another
size checks it. Where that moved more of what is taken for limited, the step's other rate is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from volbench.core.base.text import number
from volbench.results.explain.evidence.device import RESOURCES, Device, Direction, Resource
from volbench.results.explain.evidence.levels_elsewhere import LevelElsewhere
from volbench.results.explain.evidence.limits import Plateau, overlap, plateau_within
from volbench.results.explain.evidence.plateau_checks import PlateauCheck
from volbench.results.explain.evidence.size_contrasts import ContrastLevel, ContrastOutcome, outcome_of
from volbench.results.stats.grid import Floats

QUEUE_TIMES = 1.5
"""Operations in flight in a contrast against those of the step, from which on the same rate is one that a longer
queue does not raise."""
Elsewhere = Callable[[Mapping[Resource, Plateau]], LevelElsewhere | None]


@dataclass(frozen=True, kw_only=True)
class StepLevels:
    """What a step shows by itself.

    Args:
        limits: levels that are limits by its own evidence.
        flat: all levels with a queue, of reads and writes together or of one direction.
        t_s: ends of the buckets, shape (buckets,).
        device: what is limited, in the step.
        base_await_ms: its waiting time without a queue.
        cpu_bound: the CPUs were saturated.
    """

    limits: tuple[Plateau, ...]
    flat: tuple[Plateau, ...]
    t_s: Floats
    device: Device
    base_await_ms: float | None
    cpu_bound: bool

    def view(self, direction: Direction | None) -> Device | None:
        """The operations that a level is about."""
        return self.device if direction is None else self.device.only(direction)

    def rival(self, level: Plateau) -> Plateau | None:
        """What the other resource is at a level's time, where it is flat as well and no check speaks against it.

        A change that is sought in all of the step may divide the one resource and not the other.
        """
        rivals = [
            plateau
            for plateau in self.flat
            if plateau.resource != level.resource
            and plateau.direction == level.direction
            and overlap(plateau, level) > 0
        ]
        rival = max(rivals, key=lambda plateau: overlap(plateau, level), default=None)
        if rival is None and level.direction is None:
            rival = plateau_within(
                self.t_s,
                self.device,
                "throughput" if level.resource == "iops" else "iops",
                (level.first, level.last),
                base_await_ms=self.base_await_ms,
                cpu_bound=self.cpu_bound,
            )
        return None if rival is None or rival.is_refuted else rival


@dataclass(frozen=True, kw_only=True)
class LimitedLevels:
    """Levels that are limits by the step, or may be by a contrast that refutes these; and those that are left.

    `contrast`: what loads with operations of other sizes say. `elsewhere`: what decides between operations and
    bytes. `is_decided_elsewhere`: the step by itself named both, none or the other one.
    """

    levels: tuple[Plateau, ...] = ()
    limits: tuple[Plateau, ...] = ()
    contrast: ContrastOutcome | None = None
    elsewhere: LevelElsewhere | None = None
    is_decided_elsewhere: bool = False


def limited_levels(step: StepLevels, contrasts: Sequence[ContrastLevel], elsewhere: Elsewhere) -> LimitedLevels:
    """Return the levels that are limits.

    Args:
        step: what it shows by itself.
        contrasts: levels of loads with operations of other sizes.
        elsewhere: asks other times of the cell about a level of operations and one of bytes.
    """
    if not step.limits:
        return _of_contrast(step, contrasts)
    now = _at_once(step.limits)
    contrast = _outcome(step, now, contrasts)
    decided = None if contrast is None else contrast.decided
    levels = step.limits
    if contrast is not None and len(now) < len(RESOURCES) and set(now) & _refuted(contrast):
        rivals = [rival for level in now.values() if (rival := step.rival(level)) is not None]
        levels = (*rivals, *levels)
    elif decided is None and len(now) == len(levels) == len(RESOURCES):
        contradicts, exceeded = (
            (False, frozenset[Resource]()) if contrast is None else (contrast.contradicts, contrast.exceeded)
        )
        decided = None if contradicts else elsewhere(now)
        decided = None if decided is not None and decided.resource in exceeded else decided
    limits = tuple(level for level in levels if decided is None or level.resource == decided.resource)
    return LimitedLevels(
        levels=levels,
        limits=limits or levels,
        contrast=contrast,
        elsewhere=decided if limits else None,
        is_decided_elsewhere={level.resource for level in limits} != {level.resource for level in step.limits},
    )


def _refuted(contrast: ContrastOutcome) -> frozenset[Resource]:
    """What cannot be limited: a load moved more of it, or the rate that stayed is the other one.

    More of both, long after the step, refutes neither: the limit was another one then.
    """
    if contrast.decided is None:
        return contrast.exceeded if contrast.level.follows or len(contrast.exceeded) == 1 else frozenset()
    return frozenset(resource for resource in RESOURCES if resource != contrast.decided.resource)


def _of_contrast(step: StepLevels, contrasts: Sequence[ContrastLevel]) -> LimitedLevels:
    """A limit that a step alone does not show: twice the queue brings no more, with operations of another size."""
    for direction in dict.fromkeys(level.direction for level in step.flat):
        now = _at_once([level for level in step.flat if level.direction == direction and not level.is_refuted])
        contrast = _outcome(step, now, contrasts)
        if contrast is None or contrast.decided is None or contrast.reason != "decided":
            continue
        level, load = now.get(contrast.decided.resource), contrast.level
        if level is None or load.in_flight < QUEUE_TIMES * level.in_flight:
            continue
        times = load.in_flight / level.in_flight
        text = f"{number(times)} times as many operations in flight bring no more"
        check = PlateauCheck(name="contrast", holds=True, value=times, text=text)
        limited = replace(level, checks=(*level.checks, check))
        if limited.is_limit:
            return LimitedLevels(
                levels=(limited,),
                limits=(limited,),
                contrast=contrast,
                elsewhere=contrast.decided,
                is_decided_elsewhere=True,
            )
    return LimitedLevels()


def _outcome(
    step: StepLevels, now: Mapping[Resource, Plateau], contrasts: Sequence[ContrastLevel]
) -> ContrastOutcome | None:
    """What contrasts say; None where the volume counts its limit itself."""
    if not now or any(level.is_counted for level in now.values()):
        return None
    device = step.view(next(iter(now.values())).direction)
    return None if device is None else outcome_of(now, device, contrasts)


def _at_once(levels: Sequence[Plateau]) -> dict[Resource, Plateau]:
    """The longest level, and the one of the other resource at that time; none where directions have their own."""
    if len({level.direction for level in levels}) != 1:
        return {}
    longest = max(levels, key=lambda level: level.last - level.first)
    rivals = [level for level in levels if level.resource != longest.resource and overlap(level, longest) > 0]
    rival = max(rivals, key=lambda level: overlap(level, longest), default=None)
    return {level.resource: level for level in (longest, rival) if level is not None}
