"""The table of several servers on one volume, as texts for every format."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.base.text import number, percent, quantity
from volbench.core.records.report.sharing import SharingRow

HEADS = (
    "volume",
    "step",
    "servers",
    "transactions/s of all",
    "least share retained",
    "mean share retained",
    "by computation",
    "Jain's index",
    "largest slowdown",
    "slowest p95",
    "fits",
)
_FITS = {True: "yes", False: "no", None: "in some cells"}


def sharing_lines(row: SharingRow) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each line of a row, under `HEADS`: one server alone, then each number."""
    alone_fits = "no" if row.fit == 0 else "yes"
    yield (
        row.volume,
        row.step,
        "1",
        number(row.tps_alone),
        *(number(None),) * 3,
        number(None),
        number(None),
        quantity(row.latency_ms_p95_alone, "ms"),
        alone_fits,
    )
    for level in row.levels:
        yield (
            row.volume,
            row.step,
            str(level.instances),
            number(level.tps_of_all),
            _share(level.retained_share_min),
            _share(level.retained_share_mean),
            _share(level.predicted_share),
            number(level.fairness_index),
            number(level.slowdown_max),
            quantity(level.latency_ms_p95_slowest, "ms"),
            _FITS[level.fits],
        )


def _share(share: float | None) -> str:
    return number(None) if share is None else percent(share)
