"""A directory of what other tools recorded, explained as one step: which files there are, and what they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from volbench.analysis.explain.align import align, interval_s
from volbench.analysis.explain.case import Case
from volbench.analysis.explain.device import device_of
from volbench.analysis.explain.findings import explain_case, finding_rows
from volbench.analysis.recorded.cloudwatch import looks_like_cloudwatch, parse_cloudwatch
from volbench.analysis.recorded.iostat import looks_like_iostat, parse_iostat
from volbench.analysis.recorded.parsed import Recorded, merged
from volbench.analysis.recorded.pt_diskstats import looks_like_pt_diskstats, parse_pt_diskstats
from volbench.analysis.recorded.pt_stalk import READ, Collection, kind_of, parse_collection
from volbench.analysis.recorded.sar import looks_like_sar, parse_sar, with_one_device
from volbench.analysis.recorded.sysbench import looks_like_sysbench, parse_sysbench
from volbench.errors import UsageError
from volbench.records.report import FindingRow

FILES_MAX = 200
FILE_BYTES_MAX = 64 << 20
STEP = "recorded"
_KINDS: dict[str, tuple[Callable[[str], bool], Callable[[str], Recorded]]] = {
    "pt-diskstats": (looks_like_pt_diskstats, parse_pt_diskstats),
    "cloudwatch": (looks_like_cloudwatch, parse_cloudwatch),
    "iostat": (looks_like_iostat, parse_iostat),
    "sysbench": (looks_like_sysbench, parse_sysbench),
    "sar": (looks_like_sar, parse_sar),
}


@dataclass(frozen=True, kw_only=True)
class RecordedExplanation:
    """Findings of a directory; `files` says as what each was read, `notes` what is missing or to be known."""

    findings: tuple[FindingRow, ...]
    files: dict[str, str]
    notes: tuple[str, ...]


def explain_recorded(place: Path) -> RecordedExplanation:
    """Findings from a directory of recordings, or from one file.

    Files with a time of day share a clock; one without (a sysbench log) is used only when no other has one.
    Raises UsageError when nothing in it is known.
    """
    collections = list(_collections(place))
    collected = {f"{prefix}-{kind}" for prefix, one in collections for kind in one.used}
    read = {name: one for name, one in _read(place) if name not in collected and not _needless(name)}
    read |= {prefix: ("pt-stalk", one.recorded) for prefix, one in collections}
    found = {name: one for name, (_, one) in read.items() if one.series}
    if not found:
        raise UsageError(
            "nothing here that can be read",
            where=str(place),
            next_step="give a directory with text of sar -d, sar -b, iostat -x, sysbench, pt-stalk or"
            " pt-diskstats, or JSON of CloudWatch",
        )
    clocked = any(one.clocked for one in found.values())
    used = {name: one for name, one in found.items() if one.clocked == clocked}
    notes = [note for one in used.values() for note in one.notes]
    notes += [f"{name} is left out: it has no time of day, other files have" for name in found.keys() - used.keys()]
    case = _case(list(used.values()), clocked=clocked, collection=collections[0][1] if collections else None)
    explained = explain_case(case)
    device = device_of(case.grid, case.disk)
    volume = device.entity if device is not None and device.entity else place.name
    return RecordedExplanation(
        findings=finding_rows(volume, STEP, {place.name: explained}),
        files={**{name: kind for name, (kind, _) in read.items()}, **dict.fromkeys(sorted(collected), "pt-stalk")},
        notes=tuple(dict.fromkeys([*notes, *explained.notes, *_not_recorded(case)])),
    )


def _not_recorded(case: Case) -> Iterator[str]:
    """What no file tells, and what is not known for that."""
    if case.grid.column("client", "tps") is None:
        yield "no log of the client: what users waited for is not known"
    if case.budget is None:
        yield "no statement times of the server: shares of latency are not known"
    if case.cpu_busy is None:
        yield "no CPU times: whether the CPUs were saturated is not known"


def _case(used: list[Recorded], *, clocked: bool, collection: Collection | None) -> Case:
    series = with_one_device(merged(used))
    # The coarsest clock of the volume's source rules: a finer one would only repeat its samples.
    disks = [interval_s(one.t_s) for key, one in series.items() if key.source in ("diskstats", "cloudwatch")]
    width = max((one for one in disks if one is not None), default=None)
    grid = align(series, width_s=width)
    threads = grid.column("client", "threads_running")
    zero_s = 86_400.0 if clocked else 0.0  # a whole day: shows as the time of day
    return Case(
        name=STEP,
        grid=grid,
        whole=grid,
        kind="oltp" if grid.column("client", "tps") is not None else STEP,
        disk=None if collection is None else collection.disk,
        variables={} if collection is None else collection.variables,
        threads=None if threads is None else int(threads[0]),
        clock_zero_s=zero_s,
    )


def _collections(place: Path) -> Iterator[tuple[str, Collection]]:
    """What pt-stalk collected, by prefix; of several only the first, which has a day of its own."""
    files: dict[str, dict[str, Path]] = {}
    for path in sorted(place.iterdir())[:FILES_MAX] if place.is_dir() else ():
        named = kind_of(path.name)
        if named is not None and named[1] in READ and path.is_file():
            files.setdefault(named[0], {})[named[1]] = path
    for prefix, found in files.items():
        if "diskstats" in found:
            yield prefix, parse_collection(prefix, {kind: _text(path) for kind, path in found.items()})
            return


def _needless(name: str) -> bool:
    """Of a collection, and either read with it or not needed."""
    return kind_of(name) is not None


def _read(place: Path) -> Iterator[tuple[str, tuple[str, Recorded]]]:
    """Each file that is known, with its kind."""
    if not place.exists():
        raise UsageError("there is no such file or directory", where=str(place))
    files = [place] if place.is_file() else sorted(path for path in place.iterdir() if path.is_file())
    for path in files[:FILES_MAX]:
        text = _text(path)
        for kind, (looks_like, parse) in _KINDS.items():
            if looks_like(text):
                try:
                    yield path.name, (kind, parse(text))
                except (ValueError, KeyError, StopIteration) as error:
                    raise UsageError(
                        f"looks like {kind}, but cannot be read", where=str(path), evidence=str(error)
                    ) from error
                break


def _text(path: Path) -> str:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise UsageError(f"larger than {FILE_BYTES_MAX >> 20} MiB", where=str(path), next_step="give a part of it")
    return path.read_text(encoding="utf-8", errors="replace")
