"""One thread of the sampling process: reads its sources at every tick and appends what they said."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from volbench.core.base.text import counted
from volbench.measure.sample.grid import TickGrid
from volbench.measure.sample.interface import Changed, Presence, Reading, Sampler, Unavailable, Values
from volbench.measure.sample.raw import RawWriter
from volbench.measure.sample.sources import Lane

UNREADABLE = (ArithmeticError, LookupError, TypeError, ValueError)
"""What the text of a source that is not as it should be makes of a parser."""
VALUE_MAX = 1e30
KEYS_MAX, KEY_CHARACTERS_MAX = 50_000, 2_000
REASON_CHARACTERS = 500


def checked(values: Values) -> Values:
    """Return the values of a reading. Raises Unavailable for what is no finite number, or far too many."""
    if len(values) > KEYS_MAX:
        raise Unavailable(f"it gave {counted(len(values), 'value')}, {KEYS_MAX} are the most")
    for (name, entity), value in values.items():
        if not isinstance(value, int | float) or not abs(value) <= VALUE_MAX:
            raise Unavailable(f"it gave no number for {name[:80]}")
        if len(name) + len(entity) > KEY_CHARACTERS_MAX:
            raise Unavailable(f"it gave a name of {len(name) + len(entity)} characters")
    return values


def reason_of(error: Exception) -> str:
    """Return why a source cannot be read, in a few words."""
    text = str(error)[:REASON_CHARACTERS]
    return text if isinstance(error, Unavailable | OSError) else f"what it gave cannot be read: {text}"


class LaneThread(threading.Thread):
    """Runs until `stop` is set. `begun` is set once it is known which sources are there, and these are read."""

    def __init__(self, lane: Lane, grid: TickGrid, raw: RawWriter, stop: threading.Event) -> None:
        super().__init__(name=f"sample-{lane.samplers[0].source}", daemon=True)
        self._lane = lane
        self._grid = grid
        self._raw = raw
        self._stopping = stop
        self._presences: dict[str, Presence] = {}
        self.begun = threading.Event()
        self._finished = False

    @property
    def died(self) -> bool:
        """Whether it ended by an error that was not foreseen; one that still waits for a server did not."""
        return self.ident is not None and not self._finished and not self.is_alive()

    def run(self) -> None:
        """Probe, read at once and at each tick that is due. An error that was not foreseen goes to stderr."""
        for sampler in self._lane.samplers:
            self._probe(sampler)
        sampled = self._lane.remote or any(presence.present for presence in self._presences.values())
        if sampled:  # late for the tick that passed last, so that the first interval ends at the next tick
            self._take_all(self._grid.next_tick(self._grid.now_ns()) - 1)
        self.begun.set()
        if sampled:
            self._tick_until_stopped()
        for sampler in self._lane.samplers:
            sampler.close()
        self._finished = True

    def _tick_until_stopped(self) -> None:
        grid = self._grid
        tick = grid.next_tick(grid.now_ns())
        while not self._stopping.wait((grid.due_ns(tick) - grid.now_ns()) / 1e9):
            self._take_all(tick)
            tick = grid.next_tick(max(grid.now_ns(), grid.due_ns(tick)))
        rare = [sampler for sampler in self._lane.samplers if sampler.every_ticks > 1]
        if rare:  # what happened since their last reading
            self._take(tick, rare)

    def _take_all(self, tick: int) -> None:
        self._take(tick, [sampler for sampler in self._lane.samplers if tick % sampler.every_ticks == 0])

    def _take(self, tick: int, samplers: Sequence[Sampler]) -> None:
        start_ns = self._grid.now_ns()
        read: dict[str, Reading] = {}
        failed: dict[str, str] = {}
        for sampler in samplers:
            if not self._presences[sampler.source].present:
                if not self._lane.remote:
                    continue
                if not self._probe(sampler):
                    failed[sampler.source] = self._presences[sampler.source].reason
                    continue
            try:
                values = checked(sampler.read())
            except (Unavailable, OSError, *UNREADABLE) as error:
                failed[sampler.source] = reason_of(error)
                if isinstance(error, Changed):
                    self._probe(sampler)
            else:
                read[sampler.source] = Reading(t_s=self._grid.t_s(self._grid.now_ns()), values=values)
        took_ns = self._grid.now_ns() - start_ns
        late_ns = start_ns - self._grid.due_ns(tick)
        self._raw.tick(tick, late_s=late_ns / 1e9, took_s=took_ns / 1e9, read=read, failed=failed)

    def _probe(self, sampler: Sampler) -> bool:
        """Return whether the source is there; what changed is written down."""
        try:
            presence = sampler.probe()
        except (Unavailable, OSError, *UNREADABLE) as error:
            presence = Presence(present=False, reason=reason_of(error))
        if self._presences.get(sampler.source) != presence:
            self._presences[sampler.source] = presence
            next_tick = self._grid.next_tick(self._grid.now_ns())
            self._raw.presence(sampler.source, presence, remote=self._lane.remote, next_tick=next_tick)
        return presence.present
