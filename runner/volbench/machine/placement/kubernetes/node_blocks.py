"""Blocks of cells on several nodes: which block is on which node, and volumes that cannot be on several.

Each node measures whole blocks: every volume once in each block. So all volumes have cells on each node, and the
statistics compare them within nodes. Each node is a lane of the run and has claims of its own on storage classes; a
claim of the user is one volume, so nodes that share one are measured one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.volume.kinds.claim_facts import excludes_node, only_nodes

Object = dict[str, Any]
_NEXT_STEP = "choose a storage class whose volumes each of the nodes can use, or leave `nodes` out"


def blocks_by_node(blocks: int, nodes: int) -> list[int]:
    """Return how many blocks each node has: whole pairs of mirrored blocks where there are enough."""
    size = 2 if blocks >= 2 * nodes else 1
    units, left = divmod(math.ceil(blocks / size), nodes)
    counts = [size * (units + (number < left)) for number in range(nodes)]
    counts[-1] -= sum(counts) - blocks
    return counts


def node_of_block(block: int, *, blocks: int, nodes: int) -> int:
    """Return the number of the node, from 0, that a block of cells is on."""
    last = 0
    for number, count in enumerate(blocks_by_node(blocks, nodes)):
        last += count
        if block < last:
            return number
    return nodes - 1


def lane_of_block(block: int, *, blocks: int, nodes: int) -> str:
    """Return the lane of a block's cells, one for each node; empty for a run on one node."""
    return f"node{node_of_block(block, blocks=blocks, nodes=nodes) + 1}" if nodes > 1 else ""


def measured_by_number(measured: Mapping[int, str], *, blocks: int, nodes: int) -> dict[int, str]:
    """Return number of a node -> its name, from the names of the nodes that blocks were measured on."""
    return {node_of_block(block, blocks=blocks, nodes=nodes): name for block, name in measured.items()}


def smallest_p(blocks: int, nodes: int) -> float:
    """Return the smallest p-value that cells of two volumes in so many blocks on so many nodes can have."""
    return 2 / math.prod(math.comb(2 * count, count) for count in blocks_by_node(blocks, nodes))


def check_blocks(*, blocks: int, nodes: int, parallel: int = 1, shared: Sequence[str] = ()) -> None:
    """Raise UsageError for nodes that would have no block, or that would use one volume at once.

    Args:
        shared: names of volumes that all nodes share.
    """
    if nodes > 1 and parallel > 1 and shared:
        raise UsageError(
            f"volume {shared[0]} is one claim, which {parallel} nodes cannot measure at once",
            where="--target-option parallel",
            next_step="leave `parallel` out, or use a storage class: each node then has a claim of its own",
        )
    if nodes > blocks:
        raise UsageError(
            f"{blocks} repeats cannot be spread over {nodes} nodes: each node measures whole repeats",
            where="--target-option nodes",
            next_step=f"at most nodes={blocks}; for a verdict each node needs at least 2 repeats, or 7 nodes 1",
        )


def refuse_bound_volume(
    volume: str, claim: Object, persistent_volume: Object | None, *, node: Object | None, nodes: int
) -> None:
    """Raise MissingPrerequisite for a volume that cannot be used on all nodes of the run.

    Args:
        persistent_volume: of the claim; None: not bound yet, or unknown.
        node: the node of the cell's block; None: not chosen yet, or unknown.
    """
    if persistent_volume is None:
        return
    name = persistent_volume["metadata"]["name"]
    bound = only_nodes(persistent_volume)
    if len(bound) == 1:
        raise MissingPrerequisite(
            f"volume {volume} is bound to node {bound[0]}, so its cells cannot be on {nodes} nodes",
            where="--target-option nodes",
            next_step=_NEXT_STEP,
            cause="unschedulable",
            evidence=f"node affinity of PersistentVolume {name} of claim {claim['metadata']['name']}",
        )
    if node is not None and excludes_node(persistent_volume, node):
        raise MissingPrerequisite(
            f"volume {volume} cannot be used on node {node['metadata']['name']}, where this block is measured",
            where="--target-option nodes",
            evidence=f"node affinity of PersistentVolume {name} (mostly its zone)",
            next_step="volumes and nodes of one zone: selector=topology.kubernetes.io/zone=ZONE;"
            f" otherwise {_NEXT_STEP}",
            cause="unschedulable",
        )
