"""A limit at what the instance's type gives all its volumes: the instance's or the volume's, which look alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from volbench.results.explain.calibration import ONE_OF_TWO_MAX, SECOND_MAX
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.device import RESOURCES, Resource
from volbench.results.explain.evidence.instance_figures import near_figure
from volbench.results.explain.wording import amount, row

NAME = "instance.storage_limit"
ADVICE = (
    "Learn first whose limit it is. The instance's: a larger type, since neither a larger volume nor more"
    " provisioned IOPS would help. The volume's: give it more of what it lacks."
)
DECIDE = row(
    "decide",
    None,
    "1",
    "this decides: CloudWatch's EBSIOBalance% and EBSByteBalance% of the instance (0: spent), its"
    " InstanceEBSIOPSExceededCheck and InstanceEBSThroughputExceededCheck, or a second volume loaded at the same"
    " time: the instance's limit is of both together",
)


def beside_instance(case: Case, causes: Sequence[Cause]) -> list[Cause]:
    """Limits of the volume, after the instance's where one lies at what its type gives: either looks the same.

    A limit that the volume itself counts is its own.
    """
    candidate = next(
        (of_instance for cause in causes if (of_instance := _at_figure(case, cause)) is not None), None
    )
    if candidate is None:
        return [*causes]
    return [candidate, *(replace(cause, one_of_two=True, confidence_max=SECOND_MAX) for cause in causes)]


def _at_figure(case: Case, cause: Cause) -> Cause | None:
    if cause.decided_by == "counted":
        return None
    for resource, level in _levels(cause):
        figure = near_figure(case.instance, resource, level)
        if figure is not None:
            text = (
                f"{amount(level, resource)} is what {case.instance} gives all its volumes together: its"
                f" {figure.text}; it is one of the two"
            )
            return replace(
                cause,
                cause=NAME,
                one_of_two=True,
                confidence_max=ONE_OF_TWO_MAX,
                evidence=(row("instance_figure", figure.value, "", text), DECIDE, *cause.evidence),
                advice=ADVICE,
            )
    return None


def _levels(cause: Cause) -> Iterator[tuple[Resource, float]]:
    """The levels that a finding states."""
    for item in cause.evidence:
        resource: Resource | None = next((name for name in RESOURCES if name == item.metric), None)
        if item.metric == "baseline":  # of a burst
            resource = "iops" if item.unit == "1/s" else "throughput"
        if resource is not None and isinstance(item.value, int | float):
            yield resource, float(item.value)
