"""`--modulate`: which steps of a suite are modulated, and refusals of what cannot be, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from volbench.core.base.text import ignore_messages
from volbench.core.records.base import Record
from volbench.core.records.run import VolumeSpec
from volbench.core.records.steps.oltp import MODULATION_S_MIN, OltpStep
from volbench.core.suite.load import load_suite
from volbench.errors import UsageError

EMULATED = "emulated"
OTHER_MEANS = (
    "measure it without modulation, and a second volume with the same load: what two volumes differ by shows the"
    " response, too"
)


def modulate_settings(
    path: Path,
    factor: float | None,
    settings: Sequence[str],
    *,
    say: Callable[[str], None] = ignore_messages,
) -> list[str]:
    """Return the values of the suite that `--modulate` stands for; those that `--set` gives come after and win.

    Every closed loop without concurrent steps is modulated. A shorter one is measured as long as the signal takes.

    Args:
        path: of the suite.
        factor: by how much latencies are longer in half of the signal; None: nothing is modulated.
        settings: of `--set`.
        say: is called with what is left as it is.

    Raises UsageError for a suite without a step that can be modulated, with the reason for each.
    """
    if factor is None:
        return list(settings)
    suite, _ = load_suite(path, settings=settings)
    values, reasons = [], []
    for step in suite.steps:
        reason = _why_not(step)
        if reason or not isinstance(step, OltpStep):
            reasons.append(f"{step.name}: {reason}")
            continue
        values.append(f"steps.{step.name}.modulate={factor:g}")
        if step.duration_s < MODULATION_S_MIN:
            values.append(f"steps.{step.name}.duration={MODULATION_S_MIN:g}s")
            say(f"step {step.name} is measured for {MODULATION_S_MIN:g} s, which the signal of --modulate takes")
    if not values:
        raise UsageError(
            "the suite has no step that `--modulate` could modulate",
            where="--modulate",
            evidence="; ".join(reasons),
            next_step="choose another suite, such as suites/response.yaml",
        )
    for reason in reasons:
        say(f"not modulated: {reason}")
    return [*values, *settings]


def check_modulated(steps: Iterable[Record], volumes: Sequence[VolumeSpec]) -> None:
    """Raise UsageError for modulated steps on a volume whose latency volbench cannot change.

    Args:
        steps: of the suite.
        volumes: of the run, or what stands for servers that it attaches to.
    """
    modulated = [step.name for step in steps if isinstance(step, OltpStep) and step.modulate is not None]
    unmodulated = [volume for volume in volumes if volume.kind != EMULATED]
    if not modulated or not unmodulated:
        return
    names = ", ".join(f"{volume.name}={volume.text}" for volume in unmodulated)
    raise UsageError(
        "`modulate` needs emulated volumes: volbench cannot change the latency of others",
        where=f"step {modulated[0]}",
        evidence=f"not emulated: {names}",
        next_step=OTHER_MEANS,
    )


def _why_not(step: Record) -> str:
    """Return why a step cannot be modulated; empty for one that can."""
    if not isinstance(step, OltpStep):
        return "no OLTP load, so no latency of transactions follows the volume"
    if step.rate is not None:
        return "a load at a rate, whose transactions also wait for a free client thread"
    return "a load with concurrent steps, whose effect cannot be separated" if step.concurrent else ""
