"""Observes a server: starts the sampling process, follows its readings, and keeps what triggers ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from volbench import __version__
from volbench.core.base import safe_files
from volbench.core.base.ownership import refuse_planted
from volbench.core.records.cell import AttachSpec
from volbench.core.records.facts import ServerFacts
from volbench.errors import MissingPrerequisite, Refused, StepFailed, UsageError
from volbench.machine.engine.attached import AttachedServer
from volbench.machine.volume.facts.ebs_csi import driver_url, ebs_volume_id, nvme_devices
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.controller import SamplingProcess
from volbench.measure.sample.interface import Reading
from volbench.measure.sample.raw import RawTick, SourcePresence
from volbench.observe.cases import case_of, is_quiet, suspicion
from volbench.observe.model import INCIDENT_FILE, INCIDENTS, OBSERVATION_FILE, Incident, Observation
from volbench.observe.place import ObservedHost, find_place
from volbench.observe.process import LIMITS_FILE
from volbench.observe.recent import Readings, RecentSeries, StallClock, StandClock, trigger_values
from volbench.observe.ring import (
    RING,
    SIZE_MIN_BYTES,
    KeptIncidents,
    RingLimits,
    RingTail,
    now_since,
    one_line,
    segments_in,
    write_whole,
)
from volbench.observe.server import ObservedServer, look_at_server
from volbench.observe.triggers import METRICS, STALLED, STANDSTILL, Fired, Trigger, TriggerState

MODULE = "volbench.observe.process"
EXPLAIN_EVERY_S = 30.0
"""It takes about 50 ms of CPU: the observation shall cost less than a hundredth of a core."""
RECENT_S = 60.0
UNSEEN_S = 30.0
"""After that it is said that a trigger's metric was never read."""
QUANTILE_METRICS = frozenset({"p50", "p95", "p99"})
BEFORE_S_MIN = 60.0
BEFORE_TIMES = 2.0
COOLDOWN_S = 10.0
_FILES_BYTES = 1 << 20
"""What the observation's other files may take: its record, logs, incidents' records."""
_VOLUME_ORDER = ("diskstats", "mountstats", "ebs_nvme", "ebs_csi", "emulator")


@dataclass(frozen=True, kw_only=True)
class ObserveOptions:
    """What is asked for. `for_s` None: until it is stopped; `explains`: the last minute, as it goes."""

    attach: AttachSpec
    directory: Path
    volume: str = "auto"
    for_s: float | None = None
    triggers: tuple[Trigger, ...] = ()
    keep_s: float = 7200.0
    bytes_max: int = 500_000_000
    interval_s: float = 1.0
    explains: bool = True
    allow_privileged: bool = False


@dataclass(kw_only=True)
class Now:
    """What is known at this moment, for the live view. Metrics are those of triggers, by name."""

    t_s: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    seen_s: dict[str, float] = field(default_factory=dict)
    suspicion: str = ""
    incidents: int = 0
    in_incident: str = ""
    messages: list[str] = field(default_factory=list)

    def value(self, name: str, age_s_max: float = 5.0) -> float | None:
        """A metric that was read a moment ago; None for one that is old or unknown."""
        last_seen_s = self.seen_s.get(name)
        return self.metrics[name] if last_seen_s is not None and self.t_s - last_seen_s <= age_s_max else None


class Observer:
    """One observation. `run` ends at its time, or when the caller's `stop` says so."""

    def __init__(self, options: ObserveOptions, observation: Observation) -> None:
        self.options = options
        self.observation = observation
        self.directory = options.directory
        self._readings = Readings()
        self._recent = RecentSeries(length_s=RECENT_S)
        self._states = [TriggerState(trigger=trigger, cooldown_s=COOLDOWN_S) for trigger in options.triggers]
        self._kept = KeptIncidents(self.directory / INCIDENTS, options.bytes_max // 2 - _FILES_BYTES)
        self._names: dict[tuple[str, float], str] = {}
        self._volume_source = len(_VOLUME_ORDER)
        self._explained_s = 0.0
        self._said_unseen = False
        self._stall_clock = StallClock()
        self._stand_clock = StandClock(width_s=options.interval_s)
        self._presences: dict[str, str] = {}
        self.now = Now()

    def latest(self) -> Mapping[str, Reading]:
        """The last reading of each source."""
        return self._readings.latest

    def run(self, process: SamplingProcess, stop: Callable[[], bool], show: Callable[[Now], None]) -> None:
        """Follow the ring until the end. Raises StepFailed when the sampling process has died."""
        tail = RingTail(self.directory / RING)
        clock = now_since(self.observation.zero_monotonic_ns)
        ends_s = None if self.options.for_s is None else clock() + self.options.for_s
        while not stop() and (ends_s is None or clock() < ends_s):
            if not process.alive():
                if stop():  # Ctrl-C reaches both
                    break
                raise StepFailed(
                    "the sampling process has ended",
                    where="observe",
                    evidence=safe_files.read_end(process.log_file, bytes_max=2000).decode("utf-8", "replace"),
                    next_step=f"what was read until then is kept: volbench observe report {self.directory}",
                )
            self._take(tail)
            self.now.t_s = clock()
            self._say_unseen()
            if self.options.explains and self.now.t_s - self._explained_s >= EXPLAIN_EVERY_S:
                self._explained_s = self.now.t_s
                self._explain()
            show(self.now)
            time.sleep(min(1.0, self.options.interval_s))  # the pace of the readings
        process.end()
        self._take(tail)
        for state in self._states:
            self._keep(state.stop())

    def _take(self, tail: RingTail) -> None:
        for record in tail.new_records():
            if isinstance(record, SourcePresence):
                self._say_presence(record)
            elif isinstance(record, RawTick):
                for source, begin_s, rows in self._readings.rows_of(record):
                    if self.options.explains:
                        self._recent.add(rows)
                    values = trigger_values(rows, self._disk())
                    if source in _VOLUME_ORDER:
                        values = self._of_best_source(source, values)
                    end_s = record.read[source].t_s
                    stalled_ms = self._stall_clock.see(values, end_s - begin_s)
                    if stalled_ms is not None:
                        values[STALLED] = stalled_ms
                    stood_ms = self._stand_clock.see(rows)
                    if stood_ms is not None:
                        values[STANDSTILL] = stood_ms
                    self._see(source, values, begin_s, end_s)

    def _of_best_source(self, source: str, values: dict[str, float]) -> dict[str, float]:
        """Of several sources that see the volume, the first counts; credits are taken from any."""
        rank = _VOLUME_ORDER.index(source)
        if "iops" in values and rank < self._volume_source:
            self._volume_source = rank
        return values if rank == self._volume_source else {n: v for n, v in values.items() if n == "credits"}

    def _disk(self) -> str | None:
        return None if self.observation.volume is None else self.observation.volume.disk

    def _say_presence(self, record: SourcePresence) -> None:
        """The server's sources come and go with the server; the machine's own are there or not from the start."""
        reason = "" if record.presence.present else record.presence.reason
        before = self._presences.get(record.source)
        self._presences[record.source] = reason
        if record.source == "innodb" and before is not None and before != reason:
            self._say(f"the server does not answer: {reason}" if reason else "the server answers again")

    def _see(self, source: str, values: dict[str, float], begin_s: float, end_s: float) -> None:
        self.now.metrics |= values
        self.now.seen_s |= dict.fromkeys(values, end_s)
        for state in self._states:
            name = state.trigger.metric
            if name in values:
                self._keep(state.see(values[name], begin_s, end_s))
            elif source == self._source_of(name):
                self._keep(state.see(None, begin_s, end_s))

    def _source_of(self, metric: str) -> str | None:
        """Which source would have told a metric, had there been anything to tell; None while that is not known."""
        if metric not in _SOURCE_OF and metric != "credits" and self._volume_source < len(_VOLUME_ORDER):
            return _VOLUME_ORDER[self._volume_source]
        return _SOURCE_OF.get(metric)

    def _keep(self, fired: Fired | None) -> None:
        """Keep the readings around an incident; called again and again while it goes on."""
        if fired is None:
            return
        key = (fired.trigger.text, fired.onset_s)
        if key not in self._names:
            self._names[key] = f"{len(self._names) + 1:03d}"
            self.now.incidents += 1
            self._say(f"incident {self._names[key]}: {fired.trigger.text}, since {self._clock(fired.onset_s)}")
        name = self._names[key]
        until_s = fired.end_s if fired.end_s is not None else self.now.t_s
        before_s = max(BEFORE_S_MIN, BEFORE_TIMES * (until_s - fired.onset_s))
        window = (max(0.0, fired.onset_s - before_s), until_s + COOLDOWN_S)
        is_complete = self._kept.keep(
            name, [segment for segment in segments_in(self.directory / RING) if segment.overlaps(window)]
        )
        metric = METRICS[fired.trigger.metric]
        incident = Incident(
            name=name,
            trigger=fired.trigger.text,
            metric=fired.trigger.metric,
            unit=metric.unit,
            limit=fired.trigger.limit,
            worst=fired.worst,
            onset_s=fired.onset_s,
            end_s=fired.end_s,
            window_s=window,
            is_complete=is_complete,
        )
        write_whole(
            self.directory / INCIDENTS / name / INCIDENT_FILE,
            incident.model_dump_json(indent=1, by_alias=True) + "\n",
        )
        self.now.in_incident = name if fired.end_s is None else ""
        if fired.end_s is not None:
            self._say(f"incident {name} is over after {fired.end_s - fired.onset_s:.0f} s")

    def _say_unseen(self) -> None:
        """Once: which triggers cannot fire, since nobody has told their metric so far."""
        if self._said_unseen or self.now.t_s < UNSEEN_S:
            return
        self._said_unseen = True
        for trigger in self.options.triggers:
            if trigger.metric not in self.now.seen_s:
                self._say(f"{trigger.metric} was not known so far: {trigger.text!r} cannot fire without it")

    def _explain(self) -> None:
        case = case_of(self._recent.series(), self.observation)
        self.now.suspicion = "the server has nothing to do" if is_quiet(case) else suspicion(case)

    def _clock(self, t_s: float) -> str:
        return datetime.fromtimestamp(self.observation.zero_epoch_s + t_s, tz=UTC).strftime("%H:%M:%S UTC")

    def _say(self, text: str) -> None:
        self.now.messages.append(text)


_SOURCE_OF = {
    **dict.fromkeys(("p50", "p95", "p99", "statement_time", "statements", "errors"), "performance_schema"),
    **dict.fromkeys(("threads_running", "row_lock_waits", "history_list", "checkpoint_age", "dirty"), "innodb"),
    **dict.fromkeys(("cpu", "iowait"), "cpu"),
}


def refuse_unknowable(triggers: Iterable[Trigger], server: ServerFacts, *, host_seen: bool) -> None:
    """Raise MissingPrerequisite for a trigger on what this server or its host cannot tell: it would never fire."""
    for trigger in triggers:
        source = _SOURCE_OF.get(trigger.metric)
        absent = ""
        if source == "performance_schema":
            absent = server.absent.get("performance_schema", "")
            if trigger.metric in QUANTILE_METRICS:
                absent = absent or server.absent.get("statement_histograms", "")
        elif source != "innodb" and not host_seen:
            absent = "the server's host is not seen from here"
        if absent:
            raise MissingPrerequisite(
                f"{trigger.metric} is not known here, so that this trigger would never fire",
                where=f"--on {trigger.text!r}",
                evidence=absent,
                next_step="use statement_time" if trigger.metric in QUANTILE_METRICS else "use another metric",
            )


@contextmanager
def observing(options: ObserveOptions) -> Iterator[tuple[Observer, SamplingProcess]]:
    """Look at the server and its host, make the directory, and start sampling; it is stopped with the block.

    Raises UsageError, MissingPrerequisite, Refused before anything is made.
    """
    if options.bytes_max < SIZE_MIN_BYTES:
        raise UsageError(f"a ring needs at least {SIZE_MIN_BYTES >> 20} MiB", where="--max-size")
    if options.directory.exists():
        raise Refused(
            "the directory is there already", where=f"--out {options.directory}", next_step="name one that is not"
        )
    with AttachedServer(options.attach) as server:
        try:
            observed_server = look_at_server(server, options.attach, allow_privileged=options.allow_privileged)
        except StepFailed as error:
            raise MissingPrerequisite(
                "the server cannot be asked", where="observe", evidence=error.evidence
            ) from error
        location = find_place(observed_server, options.volume)
        refuse_unknowable(options.triggers, observed_server.facts, host_seen=location.host is not None)
        observation = _observation(options, observed_server, location)
        process = SamplingProcess(_sampling(options, observation, location, server), module=MODULE)
        _make_directory(options, observation)
        process.start()
        try:
            yield Observer(options, observation), process
        finally:
            process.end()


def _observation(options: ObserveOptions, server: ObservedServer, location: ObservedHost) -> Observation:
    now_s, now_ns = time.time(), time.monotonic_ns()
    return Observation(
        volbench_version=__version__,
        started_at=datetime.fromtimestamp(now_s, tz=UTC).isoformat(timespec="milliseconds"),
        zero_epoch_s=now_s,
        zero_monotonic_ns=now_ns,
        interval_s=options.interval_s,
        server_address=server.address,
        server=server.facts,
        hostname=server.hostname,
        host=location.host,
        volume=location.volume,
        server_pid=location.pid,
        triggers=tuple(trigger.text for trigger in options.triggers),
        keep_s=options.keep_s,
        bytes_max=options.bytes_max,
        notes=(*server.notes, *location.notes),
    )


def _sampling(
    options: ObserveOptions, observation: Observation, location: ObservedHost, server: AttachedServer
) -> SamplingConfig:
    facts = location.volume
    physical = facts.physical_disks if facts is not None else ()
    server_only = ("performance_schema", "innodb", "digests", "progress")
    return SamplingConfig(
        raw_file=str(options.directory / "samples"),
        zero_monotonic_ns=observation.zero_monotonic_ns,
        interval_s=options.interval_s,
        sources=server_only if location.host is None else None,
        disks=facts.counted_disks if facts is not None else (),
        nvme_devices=nvme_devices(physical),
        ebs_csi_url=driver_url(),
        ebs_volume_id=ebs_volume_id(physical[0] if len(physical) == 1 else None),
        mount_point=facts.mount_point or "" if facts is not None and facts.nfs_server else "",
        cgroup_dir=location.cgroup_dir,
        server_cpu_files=location.cpu_files,
        option_file=str(server.option_file),
        emulator_socket=location.emulator_socket,
        server_pids=(location.pid,) if location.pid is not None else (),
        read_only=True,
    )


def _make_directory(options: ObserveOptions, observation: Observation) -> None:
    refuse_planted(options.directory)
    try:
        options.directory.mkdir(parents=True)
        (options.directory / INCIDENTS).mkdir()
    except OSError as error:
        raise MissingPrerequisite(
            "the directory cannot be made", where=f"--out {options.directory}", evidence=str(error)
        ) from error
    limits = RingLimits(bytes_max=options.bytes_max // 2, keep_s=options.keep_s)
    write_whole(
        options.directory / LIMITS_FILE,
        one_line({"bytes_max": limits.bytes_max, "keep_s": limits.keep_s, "segment_s": limits.segment_s}) + "\n",
    )
    write_whole(options.directory / OBSERVATION_FILE, observation.model_dump_json(indent=1, by_alias=True) + "\n")
