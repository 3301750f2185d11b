"""All sources: which class samples which, and which of them are read by one thread.

A server that hangs on a stalled volume must not stop the clock of the device's own counters: sources that wait for
another process are read by threads of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import isabstract
from pkgutil import walk_packages

from volbench.measure.sample import cgroup, device, host, server
from volbench.measure.sample.components import component_samplers, config_of_component
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.interface import MACHINE, Sampler
from volbench.measure.sample.shared import Shared


def _samplers() -> Iterator[type[Sampler]]:
    """Yield each sampler that a module of these packages defines."""
    for package in (cgroup, device, host, server):
        for entry in walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(import_module(entry.name)).values():
                if isinstance(value, type) and issubclass(value, Sampler) and not isabstract(value):
                    yield value


OBSERVED: Mapping[str, type[Sampler]] = {sampler.source: sampler for sampler in _samplers()}
"""By source, with those that are read only of a server that is in use."""
SAMPLERS: Mapping[str, type[Sampler]] = {
    source: sampler for source, sampler in OBSERVED.items() if not sampler.observed_only
}
"""By source."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """Sources that one thread reads, one after the other.

    Args:
        remote: they answer from another process; one that is absent is looked for again at every tick.
    """

    samplers: tuple[Sampler, ...]
    remote: bool


def lanes_of(config: SamplingConfig) -> list[Lane]:
    """Return the lanes with the wanted sources, that of the machine first."""
    shared = Shared(config)
    classes: dict[str, list[type[Sampler]]] = {MACHINE: []}
    samplers = OBSERVED if config.read_only else SAMPLERS
    # Rare ones last: they subtract the own statements that the others of their lane account.
    for sampler in sorted(samplers.values(), key=lambda sampler: sampler.every_ticks):
        if config.sources is None or sampler.source in config.sources:
            classes.setdefault(sampler.lane, []).append(sampler)
    lanes = [_lane(lane, config, shared) for lane in classes.values() if lane]
    for component in config.components:
        of_component = config_of_component(config, component)
        lanes += [
            _lane([sampler], of_component, shared) for sampler in component_samplers(config, component, samplers)
        ]
    return lanes


def _lane(lane: Sequence[type[Sampler]], config: SamplingConfig, shared: Shared) -> Lane:
    return Lane(
        samplers=tuple(sampler.from_config(config, shared) for sampler in lane),
        remote=any(sampler.is_remote(config) for sampler in lane),
    )


def not_requested(config: SamplingConfig) -> list[str]:
    """Return sources that there could be, and that the suite does not want."""
    return [] if config.sources is None else [source for source in SAMPLERS if source not in config.sources]
