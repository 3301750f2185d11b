"""Which nodes the cells of each volume ran on, and whether node and volume changed together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from volbench.core.records.cell import CellResult
from volbench.core.records.facts import HostFacts
from volbench.core.records.run import RunRecord
from volbench.results.compare.comparison import CHANGED_TOGETHER, Comparison
from volbench.results.stats.ranks.blocks import shared_nodes

HOST_FACTS = (
    "hostname",
    "cloud_instance_type",
    "zone",
    "cpu_model",
    "kernel",
    "kubelet",
    "container_runtime",
)
OVERLAP_MIN = 0.5
"""A verdict needs at least this share of either volume's cells on nodes that the other volume used alike."""
_LABELS = {
    "cloud_instance_type": "",
    "zone": "",
    "cpu_model": "",
    "kernel": "kernel ",
    "kubelet": "kubelet ",
    "container_runtime": "",
}
_CONTAINER_ID = re.compile("[0-9a-f]{12}(?:[0-9a-f]{52})?")
Hosts = Mapping[str, Sequence[HostFacts]]
Placements = Mapping[str, str]
_PLACING = frozenset({"node", "selector", "tolerations", "runtime_class", "labels"})
"""Target options that decide which nodes, or which Fargate profile, a volume's cells get."""


def host_name(host: HostFacts) -> str | None:
    """Return the host's name; None where it names the agent's container, a new one for each cell."""
    if host.container and _CONTAINER_ID.fullmatch(host.hostname or ""):
        return None
    return host.hostname


def hosts_by_volume(results: Iterable[CellResult], volume_of: Mapping[str, str]) -> dict[str, list[HostFacts]]:
    """Return volume -> the host of each of its cells that is done."""
    hosts: dict[str, list[HostFacts]] = {}
    for result in results:
        if result.status == "done":
            hosts.setdefault(volume_of[result.cell_id], []).append(result.host)
    return hosts


def nodes_of_all(hosts: Hosts, volumes: Iterable[str]) -> set[str | None]:
    """Return the names of the nodes that all of these volumes have cells on."""
    return set.intersection(*({host_name(host) for host in hosts.get(name, ())} for name in volumes))


def declared_placements(run: RunRecord) -> dict[str, str]:
    """Return volume -> where its cells were told to run, for volumes with target options `VOLUME.KEY=VALUE`."""
    texts: dict[str, list[str]] = {}
    for name, value in run.target_options.items():
        volume, _, key = name.rpartition(".")
        if volume and key in _PLACING:
            texts.setdefault(volume, []).append(f"{key}={value}")
    return {volume: ", ".join(sorted(options)) for volume, options in texts.items()}


def without_verdict_across_nodes(
    comparisons: Iterable[Comparison], hosts: Hosts, placements: Placements = MappingProxyType({})
) -> list[Comparison]:
    """Return the comparisons; those of volumes whose nodes differ as the volumes do are inconclusive.

    Ratios and intervals stay: they are of volume and node together. So does the verdict where the user placed the
    volumes apart: the comparison is then of volume with node.

    Args:
        placements: volume -> where its cells were told to run.
    """
    return [
        comparison
        if placed_apart(comparison.baseline, comparison.candidate, placements)
        else _without_verdict(comparison, hosts)
        for comparison in comparisons
    ]


def placed_apart(baseline: str, candidate: str, placements: Placements) -> bool:
    """Return whether the user placed the two volumes' cells on different nodes."""
    return placements.get(baseline, "") != placements.get(candidate, "")


def node_caveats(hosts: Hosts, placements: Placements = MappingProxyType({})) -> Iterator[str]:
    """Return what a reader must know of the nodes: first pairs that differ in them, then nodes that differ."""
    if len({host_name(host) for cells in hosts.values() for host in cells}) < 2:
        return
    names = list(hosts)
    pairs = [
        (names[0], candidate_name)
        for candidate_name in names[1:]
        if changed_together(hosts[names[0]], hosts[candidate_name])
    ]
    for baseline, candidate in pairs:
        if placed_apart(baseline, candidate, placements):
            reasons = "; ".join(
                f"{name} by {placements[name]}" for name in (baseline, candidate) if placements.get(name)
            )
            yield (
                f"{baseline} and {candidate} were placed on different nodes ({reasons}): each verdict is of volume "
                "and node together, and other nodes of these kinds may differ from those that were measured."
            )
            continue
        yield (
            f"Node and volume changed together: {baseline} and {candidate} ran on different nodes, so a difference "
            "may be that of the nodes, and no verdict is given."
        )
    yield f"Cells ran on several nodes: {'; '.join(_of_volume(name, hosts) for name in names)}.{_in_blocks(hosts)}"


def changed_together(baseline: Sequence[HostFacts], candidate: Sequence[HostFacts]) -> bool:
    """Return whether a difference between two groups of cells may be that of their nodes.

    It may not where each cell of both groups had a node of its own and all nodes are of one kind: then nodes vary
    within the groups, and the test accounts for that.
    """
    if _overlap(baseline, candidate, _kind) < OVERLAP_MIN:
        return True
    each_its_own = all(
        len({host_name(host) for host in cells}) == len(cells) > 1 for cells in (baseline, candidate)
    )
    return not each_its_own and _overlap(baseline, candidate, host_name) < OVERLAP_MIN


def _without_verdict(comparison: Comparison, hosts: Hosts) -> Comparison:
    baseline, candidate = comparison.baseline, comparison.candidate
    if not changed_together(hosts.get(baseline, ()), hosts.get(candidate, ())):
        return comparison
    reason = f"{CHANGED_TOGETHER} ({_nodes(baseline, hosts)}, {_nodes(candidate, hosts)})"
    return replace(comparison, verdict="inconclusive", reason=reason, runs_needed=None)


def _overlap(
    baseline: Sequence[HostFacts], candidate: Sequence[HostFacts], key: Callable[[HostFacts], Hashable]
) -> float:
    """Return the common part of two distributions over nodes, 0 to 1; 1 where a group has no cell."""
    if not baseline or not candidate:
        return 1.0
    first, second = Counter(map(key, baseline)), Counter(map(key, candidate))
    return sum(min(first[node] / len(baseline), second[node] / len(candidate)) for node in first)


def _in_blocks(hosts: Hosts) -> str:
    """Return that cells are compared within nodes, where that is so for any pair of volumes."""
    baseline, *candidates = ([host_name(host) or "" for host in cells] for cells in hosts.values())
    shared = max((len(shared_nodes(baseline, candidate)) for candidate in candidates), default=0)
    return f" Volumes are compared within each of {shared} nodes, in one test." if shared > 1 else ""


def _kind(host: HostFacts) -> Hashable:
    return host.cloud_instance_type, host.cpu_model, host.cpus


def _nodes(volume: str, hosts: Hosts) -> str:
    counts = Counter(host_name(host) or "an unknown node" for host in hosts[volume])
    return f"{volume} on {', '.join(counts)}"


def _of_volume(volume: str, hosts: Hosts) -> str:
    """`a on node2 (m5.large, kernel 6.1; 5 cells)`, with the facts that differ between any two cells of the run."""
    every = [host for cells in hosts.values() for host in cells]
    differing = [name for name in _LABELS if len({getattr(host, name) for host in every}) > 1]
    counts = Counter(host_name(host) or "an unknown node" for host in hosts[volume])
    texts = []
    for name, count in counts.items():
        host = next(host for host in hosts[volume] if (host_name(host) or "an unknown node") == name)
        facts = [f"{_LABELS[fact]}{getattr(host, fact)}" for fact in differing if getattr(host, fact)]
        texts.append(f"{name} ({', '.join([*facts, f'{count} cells' if count > 1 else '1 cell'])})")
    return f"{volume} on {', '.join(texts)}"
