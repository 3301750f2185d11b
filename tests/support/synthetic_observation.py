"""Directories as `volbench observe` leaves them, from raw readings that are made up: one second each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from volbench.core.records.facts import HostFacts, ServerFacts, VolumeFacts
from volbench.measure.sample.interface import Presence, Reading, Values
from volbench.measure.sample.server.digests import TEXT
from volbench.observe.model import INCIDENT_FILE, INCIDENTS, OBSERVATION_FILE, Incident, Observation
from volbench.observe.ring import RING, RingLimits, RingWriter

DISK = "vda"
ZERO_EPOCH_S = 1_760_000_000.0
Digests = Mapping[str, tuple[str, Mapping[str, int]]]
"""Digest -> its text, and by how much its counters grew since the reading before."""
Load = Callable[[int], tuple[float, float, float]]
"""Of a second: writes of the volume, milliseconds that each took, requests in flight at its end."""


def observation(**changes: object) -> Observation:
    output: dict[str, object] = {
        "volbench_version": "0",
        "started_at": "2025-10-09T08:53:20.000+00:00",
        "zero_epoch_s": ZERO_EPOCH_S,
        "zero_monotonic_ns": 0,
        "interval_s": 1.0,
        "server_address": "unix:/run/s",
        "hostname": "db1",
        "server": ServerFacts(flavor="mysql", version="8.4.0"),
        "keep_s": 7200.0,
        "bytes_max": 500_000_000,
        "host": HostFacts(kernel="6.1", cpus=4, memory_bytes=1 << 33),
        "volume": VolumeFacts(path="/var/lib/mysql", disk=DISK, filesystem="xfs", mount_point="/var/lib/mysql"),
    }
    return Observation.model_validate({**output, **changes})


def build(
    directory: Path,
    seconds: int,
    load: Load,
    *,
    statements_per_write: float = 10.0,
    histogram: bool = True,
    programs: Callable[[int], dict[str, int]] = lambda _: {},
    digests: Callable[[int], Digests] = lambda _: {},
) -> Path:
    """An observation of a load that writes: each statement takes 0.1 ms and waits for its share of the writes.

    Args:
        digests: of a tick, as the source gives them; those of ticks without any are not read.
    """
    directory.mkdir()
    (directory / OBSERVATION_FILE).write_text(observation().model_dump_json(by_alias=True))
    now = [0.0]
    ring = RingWriter(directory / RING, RingLimits(bytes_max=1 << 28, keep_s=1e9), lambda: now[0])
    ring.header(interval_s=1.0, zero_monotonic_ns=0)
    for source in ("diskstats", "performance_schema", "innodb", "digests"):
        ring.presence(source, Presence(present=True), remote=source != "diskstats", next_tick=1)
    totals = dict.fromkeys(("writes", "ms", "statements", "ps"), 0.0)
    for tick in range(1, seconds + 1):
        now[0] = float(tick)
        writes, each_ms, waiting = load(tick)
        totals["writes"] += writes
        totals["ms"] += writes * each_ms
        totals["statements"] += writes * statements_per_write
        totals["ps"] += (writes * each_ms + writes * statements_per_write * 0.1) * 1e9
        read = _values(totals, waiting, programs(tick), histogram=histogram)
        if grown := digests(tick):
            read["digests"] = _digests(grown)
        ring.tick(
            tick,
            late_s=0,
            took_s=0,
            failed={},
            read={source: Reading(t_s=float(tick), values=values) for source, values in read.items()},
        )
    ring.end(float(seconds))
    ring.close()
    return directory


def _values(
    totals: dict[str, float], waiting: float, programs: dict[str, int], *, histogram: bool
) -> dict[str, Values]:
    count = int(totals["statements"])
    disk = {
        "reads": 0,
        "reads_merged": 0,
        "read_sectors": 0,
        "read_ms": 0,
        "writes": int(totals["writes"]),
        "writes_merged": 0,
        "write_sectors": int(totals["writes"]) * 32,
        "write_ms": int(totals["ms"]),
        "in_flight": waiting,
        "busy_ms": int(totals["ms"]),
        "weighted_ms": int(totals["ms"]),
    }
    schema: Values = {
        ("connection", ""): 1,
        ("statement_bucket", "51"): count,
        ("statements", ""): count,
        ("statement_ps", ""): int(totals["ps"]),
        ("statement_lock_ps", ""): 0,
        ("statement_errors", ""): 0,
    }
    schema |= {("program", name): connected for name, connected in programs.items()}
    if not histogram:
        del schema["statement_bucket", "51"]
    innodb: Values = {("connection", ""): 1, ("com_commit", ""): count // 10, ("threads_running", ""): 2 + waiting}
    return {
        "diskstats": {(name, DISK): value for name, value in disk.items()},
        "performance_schema": schema,
        "innodb": innodb,
    }


def _digests(grown: Digests) -> Values:
    texts: Values = {(TEXT, f"{digest} {text}"): 1 for digest, (text, _) in grown.items()}
    return texts | {(name, digest): value for digest, (_, sums) in grown.items() for name, value in sums.items()}


def add_incident(directory: Path, onset_s: float, end_s: float | None, **changes: object) -> Incident:
    output: dict[str, object] = {
        "name": "001",
        "trigger": "stalled > 1s",
        "metric": "stalled",
        "unit": "ms",
        "limit": 1000.0,
        "worst": 3000.0,
        "onset_s": onset_s,
        "end_s": end_s,
        "window_s": (max(0.0, onset_s - 60), (end_s or onset_s) + 10),
    }
    made = Incident.model_validate({**output, **changes})
    result = directory / INCIDENTS / made.name
    result.mkdir(parents=True)
    (result / INCIDENT_FILE).write_text(made.model_dump_json(by_alias=True))
    return made
