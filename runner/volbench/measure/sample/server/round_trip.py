"""Source `round_trip`: how long an empty statement takes from client to server and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.connection import account_from, read_option_file
from volbench.machine.engine.round_trips import RoundTrips
from volbench.measure.sample.change import Change, ratio
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.connection import NOT_INSTRUMENTED
from volbench.measure.sample.interface import Presence, Reading, Sampler, Unavailable, Values
from volbench.measure.sample.shared import Shared

_S_TO_MS = 1000


class RoundTripSampler(Sampler):
    """Counts round trips that a thread makes all the time: between two ticks the network may stand still.

    Args:
        option_file: its [client] section says where the server is; None: the server is not reached over TCP.
    """

    source: ClassVar[str] = "round_trip"
    lane: ClassVar[str] = "round_trip"

    def __init__(self, option_file: Path | None) -> None:
        self._option_file = option_file
        self._trips: RoundTrips | None = None
        self._seen = 0
        self._count, self._total_s = 0, 0.0

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(Path(config.option_file) if config.over_tcp else None)

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether there is a network between this process and the server."""
        return config.over_tcp

    def probe(self) -> Presence:
        """Start the round trips. A server that does not answer yet is asked again at the next tick."""
        if self._option_file is None:
            return Presence(present=False, reason="the server is not reached over TCP")
        self._open()
        return Presence(present=True)

    def read(self) -> Values:
        """Count and sum of all round trips, shortest and longest since the last reading. Raises Unavailable."""
        trips = self._trips
        if trips is None or not trips.is_running:
            self._open()
            raise Unavailable("the connection was lost")
        new_s = trips.round_trips_s[self._seen :]
        self._seen += len(new_s)
        self._count, self._total_s = self._count + len(new_s), self._total_s + sum(new_s)
        values: Values = {("count", ""): self._count, ("total_s", ""): self._total_s}
        return {**values, ("least_s", ""): min(new_s), ("most_s", ""): max(new_s)} if new_s else values

    def close(self) -> None:
        """End the round trips."""
        if self._trips is not None:
            self._trips.stop()

    def _open(self) -> None:
        if self._option_file is None:
            return
        try:
            account = account_from(read_option_file(self._option_file))
        except MissingPrerequisite as error:
            raise Unavailable(error.what) from error
        self._trips, self._seen = RoundTrips(account, (NOT_INSTRUMENTED,)), 0
        self._trips.start()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield mean, shortest and longest; an interval in which none ended has only their number."""
        change = Change(source=RoundTripSampler.source, before=before, after=after)
        if not change.usable:
            return
        count, least_s, most_s = change.grown("count"), change.gauge("least_s"), change.gauge("most_s")
        yield from change.rows(
            (
                ("round_trips_per_s", change.per_s("count")),
                ("round_trip_ms", ratio(change.grown("total_s"), count, scale=_S_TO_MS)),
                ("round_trip_ms_min", None if least_s is None else _S_TO_MS * least_s),
                ("round_trip_ms_max", None if most_s is None else _S_TO_MS * most_s),
            )
        )
