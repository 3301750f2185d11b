"""A run over several nodes: whole blocks on each, one node after the other, and volumes that cannot follow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import NODES
from node_bench import LOCAL, RUN_ID, ZONE, Bench, Followed, required
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.profile.spec import parse_volume
from volbench.core.records.run import PlannedCell
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.placement.interface import Job
from volbench.machine.placement.kubernetes.affinity import CELL, COMPONENT, HOLDER
from volbench.machine.placement.kubernetes.node_blocks import (
    blocks_by_node,
    check_blocks,
    node_of_block,
    smallest_p,
)
from volbench.machine.placement.kubernetes.options import parse_changes, parse_options
from volbench.machine.placement.kubernetes.pods import pinned_node, waiting_trouble
from volbench.machine.placement.kubernetes.target import KubernetesTarget
from volbench.machine.placement.workspace import Workspace
from volbench.machine.volume.interface import OpenVolume
from volbench.machine.volume.kinds.claim import claim_manifest, claim_name
from volbench.machine.volume.kinds.claim_facts import SELECTED_NODE
from volbench.measure.session.caveats import node_lines


class Blocks(Bench):
    """Four blocks of the volumes a and b on two nodes; node4 is in another zone."""

    def __init__(self, root: Path, *, measured: dict[int, str] | None = None, **options: str) -> None:
        super().__init__(root, nodes="2", **options)
        self.cluster.put(f"{NODES}/node4", metadata={"labels": {"topology.kubernetes.io/zone": "eu-1b"}})
        self.target = KubernetesTarget(
            Workspace(run_id=self.owner._run_id, cache=root),
            cluster=self.cluster,
            tools="tools:1",
            options=self.target._options,
            owner=self.owner,
            blocks=4,
            measured_blocks=measured,
        )

    @staticmethod
    def planned(block: int) -> PlannedCell:
        return PlannedCell(cell_id=f"{block}", volume="a", block=block, repeat=block + 1, seed=1)

    def cell(self, block: int, volume: str, claim: str = "") -> Job:
        job = self.job(f"{block + 1:02d}-{volume}", volume)
        opened = job.volume
        if claim:
            spec = parse_volume("storage-class:efs", name=volume)
            opened = OpenVolume(name=volume, spec=spec, claim=claim)
        return Job(
            kind="run",
            cell=job.cell.model_copy(update={"block": block}),
            out=job.out,
            supervisor_script=b"",
            volume=opened,
        )

    def launch(self, block: int, volume: str, claim: str = "") -> Followed:
        """Launch a cell and return which nodes its pod follows."""
        job = self.cell(block, volume, claim)
        self.target.launch(job)
        made = self.launched(job.cell.cell_id)
        self.template = made["spec"]["template"]
        return self.followed(made)

    def runs_on(self, block: int, volume: str, node: str) -> None:
        """The launched cell's pod gets this node."""
        self.cluster.put(
            f"pods/{block}{volume}",
            metadata={"labels": self.template["metadata"]["labels"]},
            spec={"nodeName": node},
            status={"containerStatuses": [{"name": "agent", "state": {"running": {}}}]},
        )
        assert self.target.find(self.cell(block, volume)).running()


def on_node(name: str) -> dict[str, Any]:
    """The node affinity of a volume that one node alone can use."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


@pytest.mark.parametrize(
    ("blocks", "nodes", "expected"),
    [
        (8, 1, [8]),
        (8, 2, [4, 4]),
        (8, 3, [4, 2, 2]),
        (5, 2, [4, 1]),
        (5, 3, [2, 2, 1]),
        (7, 7, [1] * 7),
        (9, 4, [4, 2, 2, 1]),
        (3, 2, [2, 1]),
    ],
)
def test_nodes_have_whole_pairs_of_mirrored_blocks_where_there_are_enough(
    blocks: int, nodes: int, expected: list[int]
) -> None:
    assert blocks_by_node(blocks, nodes) == expected
    numbers = [node_of_block(block, blocks=blocks, nodes=nodes) for block in range(blocks)]
    assert [numbers.count(number) for number in range(nodes)] == expected
    assert numbers == sorted(numbers), "a node is measured before the next"


@pytest.mark.parametrize("blocks", range(1, 25))
def test_every_node_has_a_block(blocks: int) -> None:
    for nodes in range(1, blocks + 1):
        counts = blocks_by_node(blocks, nodes)
        assert (len(counts), sum(counts), min(counts) > 0) == (nodes, blocks, True)


def test_the_smallest_p_of_a_plan() -> None:
    assert smallest_p(8, 2) == 2 / 4900
    assert smallest_p(5, 5) == 2 / 32


def test_all_volumes_of_a_block_are_on_its_node_and_the_next_blocks_on_another(tmp_path: Path) -> None:
    bench = Blocks(tmp_path)
    first = bench.launch(0, "a")
    assert first == Followed(), "the scheduler chooses the first node"
    bench.runs_on(0, "a", "node2")
    for block, volume in ((0, "b"), (1, "b"), (1, "a")):
        assert required(bench.launch(block, volume)) == "node2"
    assert bench.launch(2, "a").avoided == ("node2",)
    bench.runs_on(2, "a", "node3")
    for block, volume in ((2, "b"), (3, "b"), (3, "a")):
        assert required(bench.launch(block, volume)) == "node3"


def test_a_resumed_run_continues_each_block_on_its_node(tmp_path: Path) -> None:
    bench = Blocks(tmp_path, measured={0: "node2", 1: "node2", 2: "node3"})
    assert required(bench.launch(3, "b")) == "node3"
    assert required(bench.launch(0, "b")) == "node2", "an invalid cell is repeated where its block is"
    bench = Blocks(tmp_path, measured={0: "node2", 1: "node2"})
    assert bench.launch(2, "a").avoided == ("node2",)


def test_a_volume_of_one_node_is_refused_before_it_is_measured(tmp_path: Path) -> None:
    bench = Blocks(tmp_path)
    bench.cluster.bind("claim-b", "pv-b", nodeAffinity=LOCAL)
    with pytest.raises(
        MissingPrerequisite, match="volume b is bound to node node3, so its cells cannot be on 2 nodes"
    ):
        bench.launch(0, "b")
    assert not [path for path in bench.cluster.objects if "/jobs/" in path and "01-b" in path]


def test_a_volume_of_another_zone_is_refused(tmp_path: Path) -> None:
    bench = Blocks(tmp_path)
    bench.cluster.bind("claim-b", "pv-b", nodeAffinity=ZONE)
    bench.launch(0, "a")
    bench.runs_on(0, "a", "node4")
    with pytest.raises(MissingPrerequisite, match="volume b cannot be used on node node4") as refused:
        bench.launch(0, "b")
    assert "topology.kubernetes.io/zone" in refused.value.next_step


def test_a_cluster_without_a_further_node_says_so(tmp_path: Path) -> None:
    bench = Blocks(tmp_path)
    bench.launch(0, "a")
    bench.runs_on(0, "a", "node2")
    bench.launch(2, "a")
    message = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    pod = {**bench.template, "status": {"conditions": [condition]}}
    trouble = waiting_trouble(pod)
    assert trouble is not None
    assert trouble.what.startswith("no further node can run the pod")
    assert pinned_node(pod) == ""


@pytest.mark.parametrize(
    "alternative",
    ["node=n1", "parallel=3", "pin_node=false", "share_nodes=true", "a.selector=kind=fast"],
    ids=lambda text: text,
)
def test_options_that_contradict_several_nodes_are_refused(alternative: str) -> None:
    with pytest.raises(UsageError, match="contradict"):
        parse_options(["nodes=2", alternative])
    assert parse_options(["nodes=2"]) == {"nodes": "2"}
    assert parse_options(["nodes=2", "parallel=2"]) == {"nodes": "2", "parallel": "2"}
    with pytest.raises(UsageError, match="same for all cells"):
        parse_changes(["nodes=3"])


def test_a_claim_of_the_user_is_on_one_node_at_a_time() -> None:
    check_blocks(blocks=4, nodes=2, parallel=1, shared=["a"])
    check_blocks(blocks=4, nodes=2, parallel=2)
    with pytest.raises(UsageError, match="volume a is one claim, which 2 nodes cannot measure at once"):
        check_blocks(blocks=4, nodes=2, parallel=2, shared=["a"])


def test_each_node_has_claims_of_its_own_on_a_storage_class(tmp_path: Path) -> None:
    """Even volumes that one node alone can use, such as local disks: nothing has to follow."""
    bench = Blocks(tmp_path)
    for lane, node in (("node1", "node2"), ("node2", "node3")):
        spec = parse_volume("storage-class:efs", name="a")
        name = claim_name(spec, RUN_ID, lane)
        manifest = claim_manifest(spec, RUN_ID, lane=lane)
        assert manifest["metadata"]["name"] == name
        bound = {"annotations": {SELECTED_NODE: node}}
        bench.cluster.put(
            f"persistentvolumeclaims/{name}", metadata={**manifest["metadata"], **bound}, spec=manifest["spec"]
        )
        bench.cluster.bind(name, f"pv-{node}", nodeAffinity=on_node(node))
    planned = [bench.planned(block) for block in range(4)]
    assert [bench.target.lane_of(cell) for cell in planned] == ["node1", "node1", "node2", "node2"]
    assert required(bench.launch(2, "a", claim=claim_name(spec, RUN_ID, "node2"))) == "node3"
    assert required(bench.launch(0, "a", claim=claim_name(spec, RUN_ID, "node1"))) == "node2"


def test_nodes_that_measure_at_once_begin_on_nodes_of_their_own(tmp_path: Path) -> None:
    """No pod of theirs is there yet that could be avoided by name: the scheduler keeps them apart."""
    bench = Blocks(tmp_path, parallel="2")
    affinities = [bench.launch(block, "a") for block in (0, 2)]
    assert affinities == [Followed(), Followed()]
    for path, made in bench.cluster.objects.items():
        if "/jobs/" in path and "owner" not in path:
            affinity = made["spec"]["template"]["spec"]["affinity"]
            terms = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            labels = [term["labelSelector"]["matchLabels"] for term in terms]
            components = [label[COMPONENT] for label in labels if label.get("volbench.org/run") == RUN_ID]
            assert components == [CELL, HOLDER], "cells of the same run count too"
    bench.runs_on(2, "a", "node3")
    assert required(bench.launch(3, "a")) == "node3"


def test_claims_of_volumes_whose_names_differ_differ() -> None:
    """A name that Kubernetes does not allow, or that has no room, must not become that of another claim."""
    names = ["a-b", "a_b", "A-b", "x" * 41, "x" * 40 + "y", "x" * 40]
    specs = [parse_volume("storage-class:fast", name=name) for name in names]
    claims = [claim_name(spec, RUN_ID, lane) for spec in specs for lane in ("", "node1", "node10", "node100")]
    assert len({*claims}) == len(claims)
    assert all(len(claim) <= 63 and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", claim) for claim in claims)
    assert claims[0] == "volbench-abcdef-a-b"


def test_more_nodes_than_repeats_are_refused() -> None:
    check_blocks(blocks=5, nodes=5)
    with pytest.raises(UsageError, match="5 repeats cannot be spread over 6 nodes"):
        check_blocks(blocks=5, nodes=6)


@pytest.mark.parametrize(("nodes", "impossible"), [("2", False), ("5", True)])
def test_the_plan_says_what_each_node_measures_and_whether_that_can_decide(
    tmp_path: Path, nodes: str, impossible: bool
) -> None:
    made = Synthetic(volumes=(SyntheticVolume(name="a"), SyntheticVolume(name="b")), repeats=5, steps=())
    run = build_run(tmp_path, made).run
    assert list(node_lines(run)) == []
    lines = list(node_lines(run.model_copy(update={"target_options": {"nodes": nodes}})))
    assert lines[0].startswith(f"{nodes} nodes, one after the other, with {'4, 1' if nodes == '2' else '1, 1, 1'}")
    assert (len(lines) == 2) is impossible
