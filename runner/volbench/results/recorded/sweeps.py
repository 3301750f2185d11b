"""Which recordings are a sweep: of one host, with names that differ in one part, such as the number of threads.

`iostat.rw.16.res` to `iostat.rw.512.res`, `16/iostat.txt` to `512/iostat.txt`: a name is divided into words and
numbers, and recordings whose names are the same but for one of these are put in order of it. The client's logs of
the same runs tell the number of threads; else a word in the name does (`threads-64`, `64thr`), else it is a number
whose meaning is not known, or none at all. Then the recordings must name their host: `node1` to `node3` may be
three.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePosixPath
from typing import Literal

from volbench.results.recorded.clocks import HOST_SOURCES
from volbench.results.recorded.parsed import Recorded
from volbench.results.recorded.timelines import same_host
from volbench.results.stats.grid import median
from volbench.results.store.series import SeriesKey

Axis = Literal["threads", "number", "none"]
"""What orders the recordings of a sweep: clients, a number in their names, or nothing that a name tells."""
MEMBERS_MIN = 3
_OPERATIONS = frozenset({"reads_per_s", "writes_per_s", "operations_per_s"})
_THREADS = SeriesKey(source="client", metric="threads_running")
_TPS = SeriesKey(source="client", metric="tps")
_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_THREAD_WORDS = frozenset(
    {"thread", "threads", "thr", "thrs", "thd", "thds", "th", "t", "client", "clients", "connection", "connections"}
    | {
        "conn",
        "conns",
        "con",
        "c",
        "user",
        "users",
        "vu",
        "vus",
        "job",
        "jobs",
        "numjobs",
        "iodepth",
        "qd",
        "depth",
    }
    | {"concurrency", "workers", "sessions", "streams"}
)
_NEIGHBOURS = (-1, 1)


@dataclass(frozen=True, kw_only=True)
class Member:
    """One recording of a sweep. `load`: its place on the axis; `log`: of the client in the same run."""

    name: str
    recorded: Recorded
    load: float | None = None
    log: Recorded | None = None

    @property
    def tps(self) -> float | None:
        """Transactions/s by the client's log."""
        return _middle(self.log, _TPS)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Recordings that differ in one part of their names, in order of the load where that is known.

    `pattern` is the name with `*` for that part.
    """

    pattern: str
    axis: Axis
    members: tuple[Member, ...]
    host: str = ""


@dataclass(frozen=True, kw_only=True)
class _Name:
    """A name divided: its words and numbers, and the text with each of them left out in turn."""

    text: str
    tokens: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    def without(self, position: int) -> str:
        """The text with `*` for one token."""
        first, end = self.spans[position]
        return f"{self.text[:first]}*{self.text[end:]}"

    @property
    def numbers(self) -> tuple[str, ...]:
        """Its numbers, in order."""
        return tuple(token for token in self.tokens if token.isdecimal())

    @property
    def name_words(self) -> frozenset[str]:
        """Its words, in small letters."""
        return frozenset(token.lower() for token in self.tokens if not token.isdecimal())


def sweeps_of(recordings: Mapping[str, Recorded]) -> tuple[Sweep, ...]:
    """Return the sweeps among recordings, none of which is in two of them.

    Args:
        recordings: by the names of their files.
    """
    clients = {name: recording for name, recording in recordings.items() if _THREADS in recording.series}
    devices = {name: recording for name, recording in recordings.items() if _has_operations(recording)}
    logs = {name: log for name in devices if (log := _log_of(name, devices, clients)) is not None}
    candidates = sorted(_candidates(devices, logs), key=_rank)
    sweeps: list[Sweep] = []
    used: set[str] = set()
    for sweep in candidates:
        names = {member.name for member in sweep.members}
        if used.isdisjoint(names) and not _are_at_once(member.recorded for member in sweep.members):
            sweeps.append(sweep)
            used |= names
    return tuple(sorted(sweeps, key=lambda sweep: sweep.pattern))


def _has_operations(recorded: Recorded) -> bool:
    """Whether a host's device has operations: what a vendor counts of a volume names no host."""
    return any(key.metric in _OPERATIONS and key.source in HOST_SOURCES for key in recorded.series)


def _divided(name: str) -> _Name:
    tokens = list(_TOKEN.finditer(name))
    return _Name(
        text=name,
        tokens=tuple(token[0] for token in tokens),
        spans=tuple((token.start(), token.end()) for token in tokens),
    )


def _candidates(devices: Mapping[str, Recorded], logs: Mapping[str, Recorded]) -> Iterator[Sweep]:
    groups: dict[tuple[int, str], list[_Name]] = {}
    for name in devices:
        divided = _divided(name)
        for position in range(len(divided.tokens)):
            groups.setdefault((position, divided.without(position)), []).append(divided)
    for (position, pattern), names in groups.items():
        numeric = [divided.tokens[position].isdecimal() for divided in names]
        if len(names) < MEMBERS_MIN or (any(numeric) and not all(numeric)):
            continue
        for host, of_host in _by_host({divided: devices[divided.text] for divided in names}):
            if len(of_host) >= MEMBERS_MIN:
                sweep = _sweep(pattern, position, host, of_host, logs)
                if host or sweep.axis == "threads":
                    yield sweep


def _by_host(recordings: Mapping[_Name, Recorded]) -> Iterator[tuple[str, dict[_Name, Recorded]]]:
    """Yield the recordings of each host that they name."""
    hosts: list[str] = []
    for recording in recordings.values():
        if not any(host == recording.host or same_host(host, recording.host) for host in hosts):
            hosts.append(recording.host)
    for host in hosts:
        yield (
            host,
            {
                divided: recording
                for divided, recording in recordings.items()
                if recording.host == host or same_host(recording.host, host)
            },
        )


def _sweep(
    pattern: str, position: int, host: str, recordings: Mapping[_Name, Recorded], logs: Mapping[str, Recorded]
) -> Sweep:
    of_logs = {divided: _middle(logs.get(divided.text), _THREADS) for divided in recordings}
    numbers = {
        divided: float(divided.tokens[position]) if divided.tokens[position].isdecimal() else None
        for divided in recordings
    }
    axis: Axis = "none"
    loads: Mapping[_Name, float | None] = of_logs
    if len({load for load in of_logs.values() if load is not None}) == len(recordings):
        axis = "threads"
    elif None not in numbers.values():
        loads = numbers
        axis = "threads" if all(_names_threads(divided, position) for divided in recordings) else "number"
    else:
        loads = {}
    members = [
        Member(
            name=divided.text,
            recorded=recording,
            load=loads.get(divided),
            log=logs.get(divided.text),
        )
        for divided, recording in recordings.items()
    ]
    ordered = sorted(members, key=lambda member: (member.load or 0.0, member.name))
    return Sweep(pattern=pattern, axis=axis, members=tuple(ordered), host=host)


def _names_threads(divided: _Name, position: int) -> bool:
    """Whether a word beside a number says that it counts clients."""
    neighbours = (position + step for step in _NEIGHBOURS)
    return any(
        divided.tokens[neighbour].lower() in _THREAD_WORDS
        for neighbour in neighbours
        if 0 <= neighbour < len(divided.tokens)
    )


def _middle(recorded: Recorded | None, key: SeriesKey) -> float | None:
    return None if recorded is None or key not in recorded.series else median(recorded.series[key].value)


def _rank(sweep: Sweep) -> tuple[int, float, int, str]:
    """Order of candidates that share recordings: threads, numbers that go up the most, and the longest first."""
    loads = [member.load for member in sweep.members if member.load]
    rise = max(loads) / min(loads) if loads else 0.0
    return ("threads", "number", "none").index(sweep.axis), -rise, -len(sweep.members), sweep.pattern


def _log_of(name: str, devices: Mapping[str, Recorded], clients: Mapping[str, Recorded]) -> Recorded | None:
    """The client's log of the run that a recording is of; None where none, or more than one, can be it.

    It is the recording itself, or it is in the same directory, its name has the same numbers, and no other such
    log's name has as many of the words.
    """
    if name in clients:
        return clients[name]
    own, directory = _divided(name), PurePosixPath(name).parent
    in_same_directory = [name for name in clients if PurePosixPath(name).parent == directory]
    scored = sorted(
        (len(own.name_words & divided.name_words), name)
        for name in in_same_directory
        if (divided := _divided(name)).numbers == own.numbers
    )
    if not scored or (len(scored) > 1 and scored[-1][0] == scored[-2][0]):
        return None
    in_directory = [name for name in devices if PurePosixPath(name).parent == directory]
    only = len(in_same_directory) == len(in_directory) == 1
    score, best = scored[-1]
    of_name = own.name_words & _divided(PurePosixPath(best).stem).name_words - _divided(str(directory)).name_words
    return clients[best] if only or _divided(PurePosixPath(name).name).numbers or (score and of_name) else None


def _are_at_once(recordings: Iterable[Recorded]) -> bool:
    """Whether two recordings with times of day are of one time: then they are no steps of one load."""
    spans = sorted(
        (
            min(float(samples.t_s[0]) for samples in recorded.series.values()),
            max(float(samples.t_s[-1]) for samples in recorded.series.values()),
            recorded.dates[:1],
        )
        for recorded in recordings
        if recorded.clocked
    )
    return any(
        first[2] == second[2] and min(first[1], second[1]) - max(first[0], second[0]) > _COMMON_S
        for first, second in combinations(spans, 2)
    )


_COMMON_S = 2.0
"""Seconds that recordings which follow each other may have in common: one more report of the tool before."""
