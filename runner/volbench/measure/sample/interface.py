"""What a sampler is: it reads counters at a tick, and turns two readings into rates.

Reading happens in the sampling process and must be cheap; rates are computed after the cell, from readings that
were kept on disk. So `rates` is pure and belongs to the class, not to an opened source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from volbench.core.records.series import SeriesRow

if TYPE_CHECKING:
    from volbench.measure.sample.config import SamplingConfig
    from volbench.measure.sample.shared import Shared

Key = tuple[str, str]
"""Name of a counter or gauge, and the device, mount or instrument it is about (empty when there is only one)."""

Values = dict[Key, float]
"""Raw counters and gauges as the source gave them; integers stay integers."""


MACHINE = "machine"
"""The lane of the machine's own files, which never wait."""


class Unavailable(Exception):
    """The source cannot be read now: its reason, in a few words. It never leaves this package."""


class Changed(Unavailable):
    """The source offers other parts than when it was probed: it is probed again, and its reason is kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Presence:
    """Whether a source is there; if not, why not."""

    present: bool
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What one tick read from one source, `t_s` seconds after the cell's zero."""

    t_s: float
    values: Mapping[Key, float]


class Sampler(ABC):
    """One source. Making one opens nothing; `probe` comes before the first `read`."""

    source: ClassVar[str]
    every_ticks: ClassVar[int] = 1
    """It is read at each tick whose number this divides."""
    lane: ClassVar[str] = MACHINE
    """Sources of one lane are read one after the other by one thread; one that may wait needs a lane of its own."""
    observed_only: ClassVar[bool] = False
    """It is read only of a server that is in use and that nothing may be changed on."""

    @classmethod
    @abstractmethod
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler of a process's configuration, with what it shares with others."""

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:  # noqa: ARG003 - most sources are always there
        """Return whether it answers from another process or starts later.

        Where absent, each tick looks for it again.
        """
        return False

    def probe(self) -> Presence:
        """Look whether the source is there, and keep open what reading needs: present when it can be read."""
        try:
            self.read()
        except Unavailable as error:
            return Presence(present=False, reason=str(error))
        return Presence(present=True)

    @abstractmethod
    def read(self) -> Values:
        """Return the counters and gauges now. Raises Unavailable, or OSError of the file or socket."""

    def close(self) -> None:  # noqa: B027 - most sources that hold nothing have nothing to do
        """Release what is open; here, nothing is."""

    @staticmethod
    @abstractmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield rows for the time between two readings; what is not known, or went backwards, has no row."""
