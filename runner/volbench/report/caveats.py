"""What a reader must know before believing a report: each caveat is one sentence about this run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from volbench.analysis.comparison import PairSummary
from volbench.records.cell import Disturbance
from volbench.records.facts import VolumeFacts
from volbench.records.report import CellRow, EngineRow, VolumeRow
from volbench.records.run import JournalEvent, RunRecord
from volbench.volume.shared_storage import not_mounted_text, shared_storage

_DURABLE = {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1", "innodb_doublewrite": "ON"}
_DISTURBANCES = {
    "foreign_cpu": "other work used of the CPUs",
    "cpu_steal": "the hypervisor took of the CPUs",
    "emulator_late": "emulated operations that came late",
    "foreign_io": "others used the volume's device",
    "swapping": "the host swapped",
}
_WARMER = {
    "lukewarm": "read lukewarm: a cache above the volume could have served part of it",
    "file-cold": "read file-cold: its data came from the device, but names and inodes may have been cached",
    "client-cold": "read client-cold: only this host's caches were empty, the storage server's were not",
}


def caveats(
    run: RunRecord,
    volumes: Sequence[VolumeRow],
    cells: Sequence[CellRow],
    engine: EngineRow | None,
    pairs: Sequence[PairSummary],
    *,
    with_result: int,
    replaced: int = 0,
    first: Sequence[str] = (),
) -> tuple[str, ...]:
    """All that apply, the gravest first.

    Args:
        first: caveats of volumes that could not be used, and of the nodes of the cells.
    """
    found = [
        *first,
        *_of_losses(cells),
        *_of_volumes(volumes),
        *_of_places(run, volumes),
        *_of_the_run(run, with_result),
        *_of_replacements(replaced),
        *_of_validity(cells),
        *_of_durability(engine),
        *_of_coldness(cells),
        *_of_power(run, pairs),
    ]
    return tuple(dict.fromkeys(found))


def unavailable_volumes(events: Iterable[JournalEvent], volume_of: Mapping[str, str]) -> dict[str, str]:
    """Return volume -> the caveat that it could not be used; without volumes that a later cell ran on.

    Args:
        events: the journal.
        volume_of: the volume of each cell id.
    """
    volumes: dict[str, str] = {}
    for event in events:
        if event.event == "volume_unavailable":
            name, details = str(event.details.get("volume")), event.details
            evidence = next(iter(str(details.get("evidence", "")).splitlines()), "")
            why = f"{details.get('what')} ({evidence})"
            volumes[name] = f"Volume {name} could not be used, and its other cells did not run: {why}."
        elif event.event == "cell_started":
            volumes.pop(volume_of.get(event.cell_id, ""), None)
    return volumes


def _of_volumes(volumes: Iterable[VolumeRow]) -> Iterator[str]:
    for volume in volumes:
        if volume.emulated:
            yield (
                f"Volume {volume.name} is emulated ({volume.profile or volume.spec}): it stands for that kind of "
                "storage and is not a measurement of it."
            )
            scale = volume.facts.get("emulated_parameters", {}).get("time_scale", 1)
            if scale != 1:
                yield (
                    f"Volume {volume.name} has credit buckets {scale:g} times smaller than the real ones "
                    "(time_scale): its bursts end so much sooner."
                )
        if volume.facts.get("memory_backed"):
            yield f"Volume {volume.name} is memory ({volume.filesystem}), not durable storage."
        if volume.facts.get("overlay"):
            yield f"Volume {volume.name} is on an overlay filesystem: a container's layer, not a volume."
        if volume.facts.get("nfs_server") and not volume.emulated:
            yield (
                f"Volume {volume.name} is NFS: whether a commit survives a crash of the server is decided by its "
                "export (sync, or async, which loses acknowledged commits), which a client cannot see. The option "
                "async of the mount loses nothing that was synced."
            )


def _of_places(run: RunRecord, volumes: Sequence[VolumeRow]) -> Iterator[str]:
    """Two volumes on one piece of storage, and directories on which nothing is mounted."""
    facts = {volume.name: VolumeFacts.model_validate(volume.facts) for volume in volumes if volume.facts}
    yield from (shared.text for shared in shared_storage(facts))
    for spec in run.volumes:
        if spec.kind == "path" and spec.name in facts and facts[spec.name].emulated_profile is None:
            text = not_mounted_text(spec.name, spec.place, facts[spec.name])
            yield from [text] if text else []


def _of_losses(cells: Iterable[CellRow]) -> Iterator[str]:
    """Per volume and crash step, all cells together: what a cut cost."""
    sums: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        if "lost_commits" in cell.metrics:
            names = ("lost_commits", "acknowledged_commits", "failed_recoveries", "torn_commits", "damaged_rows",
                     "damaged_tables")  # fmt: skip
            values = [cell.metrics[name].value if name in cell.metrics else 0.0 for name in names]
            before = sums.get((cell.volume, cell.step), [0.0] * len(names))
            sums[cell.volume, cell.step] = [a + b for a, b in zip(before, values, strict=True)]
    for (volume, step), (lost, acknowledged, failed, *broken) in sums.items():
        if failed:
            yield (
                f"Volume {volume}: the server did not come back after {failed:,.0f} of the cuts ({step}); a backup "
                "would have to be restored."
            )
        if lost:
            yield (
                f"Volume {volume} lost {lost:,.0f} of {acknowledged:,.0f} acknowledged commits in the crash test "
                f"({step}): a server with these settings on it is not durable."
            )
        if any(broken):
            yield f"Volume {volume} left data torn or damaged after a crash ({step})."


def _of_the_run(run: RunRecord, with_result: int) -> Iterator[str]:
    if with_result < len(run.cells):
        yield f"The run is not complete: {with_result} of {len(run.cells)} planned cells are done."
    if run.suite.scale != "full":
        yield f"Suite {run.suite.name} was run at scale {run.suite.scale}: smaller or shorter than the full suite."


def _sizes(kind: str, found: Sequence[Disturbance]) -> str:
    """Smallest and largest; the texts of the cells have those that are no shares."""
    if kind in ("foreign_io", "swapping"):
        return ""
    low, high = (end(one.size for one in found) for end in (min, max))
    return f" {low:.1%} to {high:.1%} (limit {found[0].limit:.0%})"


def _of_replacements(replaced: int) -> Iterator[str]:
    if replaced:
        cells = "cells were" if replaced > 1 else "cell was"
        yield (
            f"{replaced} {cells} run anew because something outside had made the first attempt invalid; "
            "the files of each attempt are kept (cells/*.attempt-*)."
        )


def _of_validity(cells: Sequence[CellRow]) -> Iterator[str]:
    yield from _of_disturbances(cells)
    invalid = [cell for cell in cells if not cell.valid and not cell.used_within_bounds]
    if invalid:
        reasons = list(dict.fromkeys(reason for cell in invalid for reason in cell.invalid_reasons))
        more = f" and {len(reasons) - 2} more reasons" if len(reasons) > 2 else ""
        yield (
            f"{len(invalid)} of {len(cells)} step results are invalid and left out of every comparison: "
            f"{'; '.join(reasons[:2])}{more}."
        )


def _of_disturbances(cells: Iterable[CellRow]) -> Iterator[str]:
    """Which disturbance, how large, and what it can have done, for cells that are compared within bounds."""
    used = [cell for cell in cells if cell.used_within_bounds]
    if not used:
        return
    kinds: dict[str, list[Disturbance]] = {}
    for cell in used:
        for one in cell.disturbances:
            if one.beyond:
                kinds.setdefault(one.kind, []).append(one)
    seen = "; ".join(f"{_DISTURBANCES[kind]}{_sizes(kind, found)} in {len(found)}" for kind, found in kinds.items())
    low, high = (end(cell.held_share or 0.0 for cell in used) for end in (min, max))
    yield (
        f"{len(used)} step results were disturbed from outside: {seen}. It held them back for at most {low:.0%} to "
        f"{high:.0%} of their time; their figures are compared within the bounds that follow from it, and a "
        "verdict is given only where it holds for every value inside."
    )


def _of_durability(engine: EngineRow | None) -> Iterator[str]:
    variables: Mapping[str, str] = engine.variables if engine else {}
    relaxed = [
        f"{name}={variables[name]}"
        for name, safe in _DURABLE.items()
        if name in variables and variables[name].upper() not in (safe, "ON" if safe == "1" else "1", "TRUE")
    ]
    if relaxed:
        yield f"The server was not set to be durable ({', '.join(relaxed)}): it waits less for the volume."


def _of_coldness(cells: Iterable[CellRow]) -> Iterator[str]:
    warmer: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for note in cell.notes:
            for word in _WARMER:
                if word in note:
                    volumes = warmer.setdefault((cell.step, word), [])
                    if cell.volume not in volumes:
                        volumes.append(cell.volume)
    for (step, word), volumes in warmer.items():
        yield f"Step {step} on {', '.join(volumes)} was {_WARMER[word]}."


def _of_power(run: RunRecord, pairs: Iterable[PairSummary]) -> Iterator[str]:
    if run.suite.low_power:
        yield f"Suite {run.suite.name} has few or short cells on purpose (low power): small differences stay open."
    elif any(pair.low_power for pair in pairs):
        yield "There are too few valid cells for a verdict on some metrics, whatever their values (low power)."
