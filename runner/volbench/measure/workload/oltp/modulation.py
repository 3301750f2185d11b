"""Makes an emulated volume slower and faster by a known signal while a load runs, so that its response shows.

Reads, and writes with flushes, are slowed apart: of every four slots one slows nothing, one reads, one writes, one
both, in an order drawn from the cell's seed. So the two signals have nothing in common, and each is slow half of
the time. Every change says how long it lasts: after the death of this process the volume goes back by itself.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from volbench.core.records.modulation import DETAIL, Modulation, SignalKind, Slot
from volbench.core.records.steps.oltp import MODULATION_SLOT_S, OltpStep
from volbench.errors import StepFailed, UsageError
from volbench.machine.volume.emulated.control import ask_socket
from volbench.measure.workload.interface import Clock, StepContext
from volbench.measure.workload.latency_model import OPERATIONS, latency_components, slowed

LASTS_SLOTS = 2
"""A change lasts for so many slots unless the next one comes: the daemon's answer may take up to one."""
_STATES: tuple[tuple[SignalKind, ...], ...] = ((), ("read",), ("write",), ("read", "write"))


def check_modulation(step: OltpStep, ctx: StepContext) -> None:
    """Raise UsageError for a volume whose latencies nobody can change; a step without modulation needs none."""
    if step.modulate is None:
        return
    where = f"step {step.name}"
    if ctx.emulator_socket is None:
        raise UsageError(
            "`modulate` needs an emulated volume: volbench cannot change the latency of this one",
            where=where,
            evidence=f"the data directory is on {ctx.volume_dir}, which is not emulated",
            next_step="measure it without `modulate`, and a second volume with it: what two volumes differ by shows"
            " the response, too",
        )
    parameters = ask_socket(ctx.emulator_socket, {"do": "parameters"})["parameters"]
    if not any(latency_components(parameters, name) for kind in OPERATIONS for name in OPERATIONS[kind]):
        raise UsageError(
            "`modulate` needs a volume whose profile has latencies of reads or writes",
            where=where,
            next_step="choose another profile: volbench volume list",
        )


@contextmanager
def modulating(step: OltpStep, ctx: StepContext) -> Iterator[dict[str, Any]]:
    """Modulate the volume within the block; yield what belongs into the step's details, complete after the block.

    The volume has its own latencies again after the block. Raises StepFailed if the daemon refused a change: the
    figures then are of a volume that nobody knows.
    """
    details: dict[str, Any] = {}
    if step.modulate is None or ctx.emulator_socket is None:
        yield details
        return
    modulator = _Modulator(ctx.emulator_socket, ctx.clock, factor=step.modulate, seed=ctx.seed)
    modulator.start()
    try:
        yield details
    finally:
        modulator.stop()
    if modulator.failure is not None:
        raise modulator.failure
    details[DETAIL] = modulator.modulation().model_dump(mode="json")


class _Modulator(threading.Thread):
    """Changes the volume at every slot's begin, until it is stopped."""

    def __init__(self, socket: Path, clock: Clock, *, factor: float, seed: int) -> None:
        super().__init__(name="modulation", daemon=True)
        self.failure: StepFailed | None = None
        self._socket = socket
        self._clock = clock
        self._factor = factor
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._own: dict[str, Any] = {}
        self._slots: list[Slot] = []

    def run(self) -> None:
        """Change the volume slot by slot."""
        try:
            self._own = ask_socket(self._socket, {"do": "parameters"})["parameters"]
            while not self._ended.is_set():
                for slow in self._random.sample(_STATES, len(_STATES)):
                    if not self._ended.is_set():
                        self._slot(slow)
        except StepFailed as failure:
            self.failure = failure

    def _slot(self, slow: tuple[SignalKind, ...]) -> None:
        request = {"do": "modify", "parameters": slowed(self._own, slow, self._factor)}
        ask_socket(self._socket, {**request, "lasts_s": LASTS_SLOTS * MODULATION_SLOT_S})
        begin_s = self._clock.now_s()
        self._ended.wait(MODULATION_SLOT_S)
        self._slots.append(Slot(t0_s=begin_s, t1_s=self._clock.now_s(), slow=slow))

    def stop(self) -> None:
        """End the modulation and take it back. A daemon that does not answer goes back by itself."""
        self._ended.set()
        self.join()
        if self._own:
            with suppress(StepFailed):
                ask_socket(self._socket, {"do": "modify", "parameters": self._own})

    def modulation(self) -> Modulation:
        """Return what was done."""
        return Modulation(means="emulator", factor=self._factor, slots=tuple(self._slots))
