"""Sources of series: what each is about, and every metric that it has.

Each module with a `SOURCE` below this package adds a source. The samplers, the charts, the explanation, the burst
forecast and the documentation read the descriptors, so a new source needs no other list.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages

from volbench.core.records.sources.info import Harm, SampledMetric, SourceInfo, View


def _sources() -> Mapping[str, SourceInfo]:
    modules = (import_module(module.name) for module in walk_packages(__path__, f"{__name__}."))
    sources = (getattr(module, "SOURCE", None) for module in modules)
    return {source.name: source for source in sources if isinstance(source, SourceInfo)}


SOURCES: Mapping[str, SourceInfo] = _sources()
"""Every source by its name."""
SAMPLED: Mapping[str, Mapping[str, SampledMetric]] = {
    name: source.metrics for name, source in SOURCES.items() if source.sampled
}
"""By source that volbench samples itself, then by metric."""


def unit_of(source: str, metric: str) -> str:
    """Return the unit of a sampled metric; empty for one that only another version or a plug-in has."""
    described = SAMPLED.get(source, {}).get(metric)
    return "" if described is None else described.unit


def harm_of(source: str, metric: str) -> Harm:
    """Return which change of a metric can raise a latency.

    Of one that only another version, a plug-in or a recording has, that of a rate is more of it; others may either
    way.
    """
    described = SOURCES[source].metrics.get(metric) if source in SOURCES else None
    if described is None:
        return "more" if is_rate(metric) else "either"
    return described.harm


def is_rate(metric: str) -> bool:
    """Return whether a metric counts what is done in a second, by its name."""
    return metric.endswith(("per_s", "iops"))


def device_sources(*views: View) -> tuple[str, ...]:
    """Return the sources of the volume's counters with these views, in the order of the views."""
    return tuple(name for view in views for name, source in SOURCES.items() if source.view == view)


def sources_with(metric: str, *views: View) -> tuple[str, ...]:
    """Return those of `device_sources` that have a metric."""
    return tuple(name for name in device_sources(*views) if metric in SOURCES[name].metrics)
