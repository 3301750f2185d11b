"""Samplers of a layout's other volumes: those of the device, under names such as `diskstats@log`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from volbench.core.records.layout import source_of_component
from volbench.core.records.sources import SOURCES
from volbench.measure.sample.config import ComponentConfig, SamplingConfig
from volbench.measure.sample.interface import Sampler

_OF_DATA = ("cgroup_io", "ebs_csi")
"""Sources that tell no volumes apart: the server's group, and an exporter that is asked for one volume."""


def config_of_component(config: SamplingConfig, component: ComponentConfig) -> SamplingConfig:
    """Return the configuration with the devices of a component in place of the data's."""
    return replace(
        config,
        disks=component.disks,
        nvme_devices=component.nvme_devices,
        mount_point=component.mount_point,
        emulator_socket=component.emulator_socket,
        components=(),
    )


def component_samplers(
    config: SamplingConfig, component: ComponentConfig, samplers: Mapping[str, type[Sampler]]
) -> Iterator[type[Sampler]]:
    """Yield a class for each source of a component's volume: the source's own, with the component in its name.

    Its rates have the source's plain name: `rows` adds the component.
    """
    for name, sampler in samplers.items():
        requested = config.sources is None or name in config.sources
        if requested and name in SOURCES and SOURCES[name].role == "device" and name not in _OF_DATA:
            yield type(sampler.__name__, (sampler,), {"source": source_of_component(name, component.component)})
