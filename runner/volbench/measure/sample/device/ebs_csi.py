"""Source `ebs_csi`: an EBS volume's own counters as its CSI driver exposes them, where no log page can be read.

The metrics are those of `ebs_nvme` without quantiles. One volume is read, that of the data directory.
"""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Iterator
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.change import Change
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.device.ebs_nvme import COUNTERS, ebs_rates
from volbench.measure.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers.ebs_csi import parse_exposition
from volbench.measure.sample.shared import Shared

ANSWER_S_MAX = 2.0
_ANSWER_BYTES_MAX = 4 << 20


class EbsCsiSampler(Sampler):
    """Asks the driver's pod on this node at each tick.

    Args:
        url: of the driver's metrics, as this node answers it; empty: nobody said where.
        volume_id: such as vol-0123; empty: the data directory is on no EBS volume.
    """

    source: ClassVar[str] = "ebs_csi"
    lane: ClassVar[str] = "ebs_csi"

    def __init__(self, url: str, volume_id: str) -> None:
        self._url = url
        self._volume_id = volume_id

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(config.ebs_csi_url, config.ebs_volume_id)

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether the driver's address is known."""
        return bool(config.ebs_csi_url)

    def read(self) -> Values:
        """Return the volume's counters now."""
        if not self._url:
            raise Unavailable("no EBS CSI driver was named (--target-option ebs_csi=URL)")
        if not self._volume_id:
            raise Unavailable("no EBS volume is behind the data directory")
        try:
            with urllib.request.urlopen(self._url, timeout=ANSWER_S_MAX) as answer:  # noqa: S310 - http(s), by its option
                text = answer.read(_ANSWER_BYTES_MAX).decode()
            return parse_exposition(text, self._volume_id)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Unavailable(f"{self._url}: {error}") from error

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield rates of the volume. Counters that went backwards are those of a volume attached anew: no row."""
        change = Change(source=EbsCsiSampler.source, before=before, after=after)
        if not change.usable:
            return
        for volume in change.entities("reads"):
            if change.grown_sum(COUNTERS, volume) is not None:
                yield from change.rows(ebs_rates(change, volume), volume)
