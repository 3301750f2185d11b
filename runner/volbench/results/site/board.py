"""The board: figures of several people's packs, by load, class of storage, instance, region and date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from volbench.core.records.pack import PACK_SUFFIX
from volbench.core.records.report import VolumeRow
from volbench.errors import UsageError, VolbenchError
from volbench.results.pack.check import CheckedPack, check_pack
from volbench.results.site.summary import MetricGroup, summarise

NOT_STATED = "not stated"
_LENGTH_OF_A_DIGEST = 8


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """One volume of one pack. `low` and `high` are the range over its valid cells, `value` their median."""

    storage_class: str
    emulated: bool
    instance: str
    region: str
    date: str
    server: str
    value: float
    low: float
    high: float
    cells: int
    pack: str
    marks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BoardTable:
    """Figures that may stand side by side: one metric of one step of suites that measure the same.

    Args:
        suite_digest: first digits of what decides the load; suites of one name and other digits are other loads.
    """

    suite: str
    suite_digest: str
    step: str
    parameters: str
    metric: str
    unit: str
    better: str
    rows: tuple[BoardRow, ...]


@dataclass(frozen=True, kw_only=True)
class RefusedPack:
    """A file that is not on the board, and why."""

    name: str
    fault: str


@dataclass(frozen=True, kw_only=True)
class Board:
    """All packs that hold, and the others by name."""

    tables: tuple[BoardTable, ...]
    packs: tuple[CheckedPack, ...]
    refused: tuple[RefusedPack, ...]


def pack_files(paths: Iterable[Path]) -> list[Path]:
    """Return packs: each file, and of a directory those with the ending of packs. Raises UsageError for none."""
    files: list[Path] = []
    for path in paths:
        packs = sorted(path.glob(f"*{PACK_SUFFIX}")) if path.is_dir() else [path]
        if not packs:
            raise UsageError(f"there is no file *{PACK_SUFFIX} in the directory", where=str(path))
        files += packs
    return files


def read_board(paths: Sequence[Path]) -> Board:
    """Return the board of packs. One that cannot be used is named on it and keeps no other away."""
    checked: list[CheckedPack] = []
    refused: list[RefusedPack] = []
    for path in paths:
        try:
            checked.append(check_pack(path))
        except VolbenchError as error:
            evidence = f" ({error.evidence})" if error.evidence else ""
            refused.append(RefusedPack(name=path.name, fault=f"{error.what}{evidence}"))
    digests: dict[str, set[str]] = {}
    for pack in checked:
        digests.setdefault(pack.record.run_id, set()).add(pack.digest)
    agreeing = [pack for pack in checked if len(digests[pack.record.run_id]) == 1]
    refused += [
        RefusedPack(
            name=pack.path.name,
            fault=f"another pack has the same run, {pack.record.run_id}, with other content: neither is shown",
        )
        for pack in checked
        if len(digests[pack.record.run_id]) > 1
    ]
    packs = tuple({pack.digest: pack for pack in agreeing}.values())  # the same file given twice is one pack
    return Board(tables=board_tables(packs), packs=packs, refused=tuple(refused))


def board_tables(packs: Iterable[CheckedPack]) -> tuple[BoardTable, ...]:
    """Return a table for each primary metric of each load, its rows best first, emulated volumes last."""
    rows: dict[tuple[str, ...], list[BoardRow]] = {}
    for pack in packs:
        summary = summarise(pack.report)
        for group in (group for group in summary.groups if group.primary):
            key = (
                summary.suite,
                pack.suite_digest,
                group.step,
                group.parameters,
                group.metric,
                group.unit,
                group.better,
            )
            rows.setdefault(key, []).append(_row(pack, group))
    return tuple(
        BoardTable(
            suite=suite,
            suite_digest=digest[:_LENGTH_OF_A_DIGEST],
            step=step,
            parameters=parameters,
            metric=metric,
            unit=unit,
            better=better,
            rows=tuple(
                sorted(
                    group, key=lambda row: (row.emulated, -row.value if better == "higher" else row.value, row.pack)
                )
            ),
        )
        for (suite, digest, step, parameters, metric, unit, better), group in sorted(rows.items())
    )


def _row(pack: CheckedPack, group: MetricGroup) -> BoardRow:
    volume = next(volume for volume in pack.report.volumes if volume.name == group.volume)
    server = pack.report.server
    return BoardRow(
        storage_class=pack.record.storage_classes.get(group.volume) or _class_by_facts(volume),
        emulated=volume.emulated,
        instance=pack.host.cloud_instance_type or NOT_STATED,
        region=pack.record.region or NOT_STATED,
        date=pack.report.started_at[:10],
        server=f"{server.flavor} {server.version}" if server else NOT_STATED,
        value=median(group.values),
        low=min(group.values),
        high=max(group.values),
        cells=len(group.values),
        pack=pack.digest[:_LENGTH_OF_A_DIGEST],
        marks=pack.marks,
    )


def _class_by_facts(volume: VolumeRow) -> str:
    return f"{volume.filesystem}, class {NOT_STATED}" if volume.filesystem else NOT_STATED
