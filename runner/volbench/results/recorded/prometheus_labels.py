"""Which machine a counter of Prometheus is of, by its labels, so that no two machines become one.

A label of the scrape names the host; which one depends on who wrote the configuration. Where two series of one
host, counter and device contradict each other, a further label tells them apart: a cluster, a region, a tenant.
Copies of one series, as two Prometheus servers of one pair make them, are one. Source: Prometheus, jobs and
instances; PMM's and kube-prometheus' relabelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Points = tuple[NDArray[np.float64], NDArray[np.float64]]
Counter = tuple[str, Mapping[str, str], Points]
"""Name, labels, and points of one series."""
DISK = "node_disk_"
_HOSTS = ("node_name", "nodename", "instance", "node", "kubernetes_node", "hostname", "host", "server", "pod")
"""Labels that name a machine, the first that is there counts. PMM's `instance` is an agent's where it has a node's
name."""
_OF_SERIES = frozenset({"__name__", "device", "cpu", "mode"})
_COMMON_MIN = 2
_AT_MOST_TIMES = 0.9
_SCRAPES = 1.5
"""Steps by which two servers that scrape one exporter may be apart."""


def by_host(counters: Iterable[Counter]) -> dict[tuple[str, str, str], Points]:
    """Return points of each counter, by host, name and what it is of: a device, or a CPU and its mode."""
    hosts: dict[str, list[Counter]] = {}
    for counter in counters:
        hosts.setdefault(_host(counter[1]), []).append(counter)
    points: dict[tuple[str, str, str], Points] = {}
    for host, of_host in hosts.items():
        apart = _labels_apart(of_host)
        for name, labels, values in of_host:
            differing = ", ".join(f"{label} {labels[label]}" for label in apart if labels.get(label))
            named = f"{host} ({differing})" if host and differing else host or differing
            key = named, name, _entity(name, labels)
            points[key] = _joined(points[key], values) if key in points else values
    return points


def _joined(first: Points, second: Points) -> Points:
    """Points of both, as of an exporter that was started anew under another label; of one time the first's."""
    t_s, at = np.unique(np.concatenate([first[0], second[0]]), return_index=True)
    return t_s, np.concatenate([first[1], second[1]])[at]


def _host(labels: Mapping[str, str]) -> str:
    """The machine of a series, less the exporter's port: both exporters of one machine are of one host."""
    return re.sub(r":\d+$", "", next((labels[label] for label in _HOSTS if labels.get(label)), ""))


def _entity(name: str, labels: Mapping[str, str]) -> str:
    if name.startswith("node_cpu_"):
        return f"{labels.get('cpu', '')} {labels.get('mode', '')}"
    return labels.get("device", "") if name.startswith(DISK) else ""


def _labels_apart(counters: Sequence[Counter]) -> list[str]:
    """Return the labels by which series of one name and device that contradict each other differ."""
    series: dict[tuple[str, str], list[Counter]] = {}
    for counter in counters:
        series.setdefault((counter[0], _entity(counter[0], counter[1])), []).append(counter)
    return sorted({label for alike in series.values() for label in _differing(alike)})


def _differing(alike: Sequence[Counter]) -> Iterator[str]:
    for at, (_, labels, points) in enumerate(alike):
        for _, earlier_labels, earlier in alike[:at]:
            if _contradict(points, earlier):
                names = (labels.keys() | earlier_labels.keys()) - _OF_SERIES
                yield from (name for name in names if labels.get(name) != earlier_labels.get(name))


def _contradict(first: Points, second: Points) -> bool:
    """Whether two series differ at a tenth of the times that both have by more than one grows between scrapes."""
    _, at, in_second = np.intersect1d(first[0], second[0], return_indices=True)
    if len(at) < _COMMON_MIN:
        return False
    values, counterparts = first[1][at], second[1][in_second]
    growth = max(float(np.abs(np.diff(both)).max()) for both in (values, counterparts))
    return float(np.quantile(np.abs(values - counterparts), _AT_MOST_TIMES)) > _SCRAPES * growth
