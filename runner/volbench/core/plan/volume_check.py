"""Checks all of a SPEC before anything is created: kind, location, options, and a profile's parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from volbench.core.base.nearest import nearest_match
from volbench.core.base.text import counted
from volbench.core.plan.variants import expand_variants, with_spec_options
from volbench.core.profile.layout import require_target
from volbench.core.profile.resolve import resolve_spec, resolve_volume
from volbench.core.profile.spec import parse_volume, require_kind
from volbench.core.records.run import TargetName, VolumeSpec
from volbench.core.suite.model import SuiteFile
from volbench.core.suite.sweep import VOLUME
from volbench.errors import UsageError


def check_volumes(texts: Sequence[str], *, target: TargetName) -> list[VolumeSpec]:
    """Return the volumes of `NAME=SPEC` texts, for a target. Reads only the files of profiles.

    Raises UsageError with every fault of every SPEC.
    """
    specs: list[VolumeSpec] = []
    faults: list[UsageError] = []
    for text in texts:
        try:
            specs.append(_checked(parse_volume(text), target))
        except UsageError as error:
            faults.append(error)
    faults += [
        UsageError(f"two volumes have the name {name!r}", where="--volume", next_step="give each its own name")
        for name, count in Counter(text.partition("=")[0] for text in texts).items()
        if count > 1
    ]
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise UsageError(
            f"the volumes have {counted(len(faults), 'fault')}",
            where="--volume",
            evidence="\n    ".join(f"{fault.where}: {_in_a_line(fault)}" for fault in faults),
            next_step="`volbench volume list` has the profiles, `volbench volume show PROFILE` the options of one",
        )
    return specs


def suite_volume_faults(suite: SuiteFile) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (key, fault) of a suite's volumes, of their factors in its sweep, and of its forecast."""
    specs: list[VolumeSpec] = []
    wrong = False
    for name, text in suite.volumes.items():
        try:
            specs.append(_checked(parse_volume(text, name=name)))
        except UsageError as error:
            wrong = True
            yield ("volumes", name), _in_a_line(error)
    yield from forecast_faults(suite)
    yield from _prediction_faults(suite)
    for factor, fault in _sweep_faults(suite, specs):
        wrong = True
        yield ("sweep", "factors", factor), fault
    if not wrong and specs:
        try:
            expand_variants(specs, suite.sweep)
        except UsageError as error:
            yield ("sweep",), _in_a_line(error)


def _prediction_faults(suite: SuiteFile) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (key, fault) of predictions for volumes that the suite does not have, or make by its sweep."""
    predictions = suite.forecast.predictions if suite.forecast is not None and suite.volumes else ()
    for number, row in enumerate(predictions):
        for key, name in (("volume", row.volume), ("against", row.against)):
            if name and name.partition(".")[0] not in suite.volumes:
                nearest = nearest_match(name, suite.volumes)
                more = f"; the nearest is {nearest!r}" if nearest else ""
                yield ("forecast", "predictions", str(number), key), f"the suite has no volume {name!r}{more}"


def forecast_faults(suite: SuiteFile) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (key, fault) of the profile of a suite's forecast, and of those that its volumes are priced as."""
    priced = suite.pricing.volumes if suite.pricing is not None else {}
    named: dict[tuple[str, ...], str] = {("pricing", "volumes", name): text for name, text in priced.items()}
    if suite.forecast is not None and suite.forecast.volume:
        named["forecast", "volume"] = suite.forecast.volume
    for key, text in named.items():
        try:
            resolve_spec(text, name=key[-1])
        except UsageError as error:
            yield key, _in_a_line(error)


def _checked(spec: VolumeSpec, target: TargetName | None = None) -> VolumeSpec:
    if target is not None:
        require_target(spec, target)
        require_kind(spec, in_cluster=target == "kubernetes")
    for component in spec.layout:
        _checked(component, target)
    if spec.kind == "emulated":
        try:
            resolve_volume(spec)
        except UsageError as error:
            raise UsageError(
                error.what,
                where=f"volume {f'{spec.name}={spec.text}'!r}",
                evidence=error.evidence or error.where,
                next_step=error.next_step,
            ) from error
    return spec


def _sweep_faults(suite: SuiteFile, specs: Sequence[VolumeSpec]) -> Iterator[tuple[str, str]]:
    """Yield values that a volume does not accept, each tried alone; `expand_variants` checks combinations."""
    for name, factor in suite.sweep.factors.items() if suite.sweep else ():
        if not name.startswith(VOLUME):
            continue
        try:
            for spec in specs:
                for value in (factor.base, *factor.levels):
                    with_spec_options(spec, {name.removeprefix(VOLUME): value})
        except UsageError as error:
            yield name, _in_a_line(error)


def _in_a_line(fault: UsageError) -> str:
    return fault.what + (f" ({fault.next_step})" if fault.next_step else "")
