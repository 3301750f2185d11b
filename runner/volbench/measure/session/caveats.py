"""What a reader of a plan must know before it is run: storage, space, memory, repeats and nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from volbench.core.base.text import duration, size
from volbench.core.plan.cost import buffer_pool_bytes, dataset_bytes
from volbench.core.profile.shared_storage import not_mounted_text, shared_storage
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.run import ResolvedSuite, RunRecord
from volbench.core.records.sweep import SweepSpec
from volbench.machine.placement.kubernetes.node_blocks import blocks_by_node, smallest_p
from volbench.machine.volume.emulated.status import emulated_behind
from volbench.machine.volume.facts.discovery import discover
from volbench.measure.session.load_depth import load_caveats
from volbench.measure.session.space import space_caveats
from volbench.results.stats.sequential import CELLS_MIN, FIRST_WEIGHT, NODES_LOOK_LEVEL


def caveats_of(run: RunRecord, volume_bytes: int) -> list[str]:
    """Return caveats on the plan's directories, their free space, and the server's memory.

    Args:
        run: as planned.
        volume_bytes: free space that a cell needs on its volume.
    """
    return [
        *storage_caveats(run),
        *space_caveats(run, volume_bytes),
        *_memory_caveats(run),
        *load_caveats(run),
    ]


def budget_caveats(run: RunRecord, wall_s: float, budget_s: float) -> Iterator[str]:
    """Yield that a budget ends a run before its cells can give a verdict.

    Args:
        wall_s: estimate of the time of all planned cells, one after the other.
        budget_s: seconds that the run may take.
    """
    at_once = min(int(run.target_options.get("parallel", 1)), len(run.volumes))
    block_s = wall_s / run.suite.repeats / at_once
    if budget_s < CELLS_MIN * block_s:
        yield (
            f"The budget of {duration(budget_s)} has time for {int(budget_s // block_s)} of the {CELLS_MIN} blocks"
            f" of cells that a verdict needs, at about {duration(round(block_s))} each."
        )


def volumes_share_storage(run: RunRecord) -> bool:
    """Return whether two volumes with different directories share their storage.

    A directory that is named twice is a deliberate comparison of a volume with itself.
    """
    directories = {volume.name: volume.location for volume in run.volumes}
    return any(
        len({directories[name] for name in shared.volumes}) > 1 for shared in shared_storage(_visible_facts(run))
    )


def needs_consent(run: RunRecord) -> bool:
    """Return whether a plan may be mistyped: shared storage, or a directory that is no mount, without `path:`."""
    facts = _visible_facts(run)
    guessed = [volume for volume in run.volumes if volume.kind == "path" and not volume.text.startswith("path:")]
    return volumes_share_storage(run) or any(
        volume.name not in facts or not_mounted_text(volume.name, volume.location, facts[volume.name])
        for volume in guessed
    )


def storage_caveats(run: RunRecord) -> list[str]:
    """Return caveats on the directories of a plan: missing, not a mount point, on the same storage."""
    facts = _visible_facts(run)
    directories = {volume.name: volume.location for volume in run.volumes}
    not_mounted = (not_mounted_text(name, directories[name], volume_facts) for name, volume_facts in facts.items())
    shared = (pair.text for pair in shared_storage(facts))
    return [*_missing_directories(run), *shared, *filter(None, not_mounted)]


def node_lines(run: RunRecord) -> Iterator[str]:
    """Yield how a run's repeats are spread over several nodes, and whether that many can give a verdict."""
    nodes, repeats = int(run.target_options.get("nodes", 1)), run.suite.repeats
    if nodes < 2:
        return
    counts = ", ".join(map(str, blocks_by_node(repeats, nodes)))
    parallel = int(run.target_options.get("parallel", 1))
    order = f"{parallel} at once" if parallel > 1 else "one after the other"
    yield f"{nodes} nodes, {order}, with {counts} repeats of each volume; compared within nodes"
    level = NODES_LOOK_LEVEL if run.suite.comparison.until == "decided" else 1 - run.suite.comparison.confidence
    if (smallest := smallest_p(repeats, nodes)) >= level * FIRST_WEIGHT:
        yield f"  caveat: no p can be below {smallest:.2g}, too much for a verdict: more repeats, or fewer nodes"


def too_few_repeats(suite: ResolvedSuite, sweep: SweepSpec) -> Iterator[str]:
    """Yield a warning when no test can decide anything with these repeats."""
    levels = sum(len(factor.levels) for factor in sweep.factors.values())
    if sweep.design == "one_factor" and suite.repeats < CELLS_MIN:
        yield f"{suite.repeats} repeats cannot decide between {levels} levels and the base: {CELLS_MIN} repeats can"


def _memory_caveats(run: RunRecord) -> Iterator[str]:
    """Yield a line where the load's data fit in the server's memory: its reads then say nothing about a volume."""
    loads = any(step.kind == "oltp" for step in run.suite.steps)
    if not loads or run.target == "attach" or run.suite.dataset.is_own:
        return
    data, pool = dataset_bytes(run.suite.dataset), buffer_pool_bytes(run.suite.server)
    if data <= pool:
        yield (
            f"The data ({size(data)}) fit in the buffer pool ({size(pool)}): once read, they come from memory, and"
            " only writes show the volume. Use more rows, or a smaller innodb_buffer_pool_size."
        )


def _missing_directories(run: RunRecord) -> Iterator[str]:
    for volume in run.volumes if run.target in ("local", "docker") else ():
        if volume.kind != "path" or volume.variant_of or Path(volume.location).is_dir():
            continue
        if os.path.lexists(volume.location):
            yield f"Volume {volume.name}: {volume.location} is not a directory. Name the directory of the volume."
        else:
            yield f"Volume {volume.name}: {volume.location} does not exist on this machine. Mount the volume there."


def _visible_facts(run: RunRecord) -> dict[str, VolumeFacts]:
    """Return the facts of the plan's `path:` volumes whose directories this machine has."""
    if run.target not in ("local", "docker"):
        return {}
    return {
        volume.name: facts
        for volume in run.volumes
        if volume.kind == "path" and not volume.variant_of and Path(volume.location).is_dir()
        if emulated_behind((facts := discover(Path(volume.location))).mount_point) is None
    }
